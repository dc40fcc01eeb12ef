//! Ordered indexes in memory modules with processors of their own.
//!
//! Pointers are chased where the data lie: a host sends operations to *modules*, each a processor with a bank
//! of memory that only it can reach, and takes back what they found. There are two kinds of such devices
//! ([`device`]): a model of modules that can be bought, in virtual time, and worker threads that own their
//! memory, in real time.

#![forbid(unsafe_code)]

mod batch;
pub mod blocks;
pub mod device;
mod form;
pub mod gather;
mod hash;
pub mod jump_push;
mod kernel;
pub mod list;
mod ordered;
pub mod partition;
pub mod pim_tree;
pub mod radar;
pub mod range_partition;
mod ranges;
mod requests;
pub mod strings;
mod table;
mod tabled;
pub mod task;
pub mod towers;
mod wire;

pub use form::PimForm;
