//! Models of unavailable hardware, from published parameters, each with its source.
//!
//! A model computes when that hardware would finish an access. Its time is *virtual*: nothing here
//! measures, and each report labels these figures as modelled.
//!
//! ```
//! use nearfield_hardware::network::{NetworkPreset, Port, PortAccess};
//! use nearfield_hardware::VirtualTime;
//!
//! let mut port = Port::new(NetworkPreset::ConnectX6.parameters());
//! let done = port.serve(VirtualTime::ZERO, PortAccess::Read, 8);
//! assert!((2.0..2.5).contains(&(done.as_nanoseconds() / 1000.0)));
//! ```

#![forbid(unsafe_code)]

pub mod accelerator;
pub mod cache;
pub mod dram;
pub mod modules;
pub mod network;
pub mod objects;

pub use nearfield_core::VirtualTime;
