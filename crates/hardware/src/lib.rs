//! Models of hardware that is not at hand, from published parameters, each named with its source.
//!
//! A model answers when something would be done on that hardware. Its time is *virtual*: nothing
//! here measures anything, and what comes out is labelled as modelled wherever it is shown.
//!
//! ```
//! use nearfield_hardware::network::{Access, Port, Preset};
//! use nearfield_hardware::Time;
//!
//! let mut port = Port::new(Preset::ConnectX6.parameters());
//! let done = port.serve(Time::ZERO, Access::Read, 8);
//! assert!((2.0..2.5).contains(&(done.as_nanoseconds() / 1000.0)));
//! ```

#![forbid(unsafe_code)]

pub mod modules;
pub mod network;
mod time;

pub use time::Time;
