//! Ordered indexes in memory modules with processors of their own.
//!
//! Pointers are followed where the data are stored: a host sends operations to *modules* and takes
//! back the results. A module is a processor with a bank of memory that no other processor reaches.
//!
//! - [`device`]: modules, as worker threads in real time, or as a model of hardware in virtual time
//!   (cargo feature `model`).
//! - [`structures`]: the ordered structures that a module keeps in its bank.
//! - [`dispatch`]: turns a batch into tasks of modules, and their results into outcomes.
//! - [`radar`]: the index of words; [`strings`]: the index of byte strings.
//! - [`call_batcher`]: single operations of several callers, executed as one batch.

#![forbid(unsafe_code)]

pub mod call_batcher;
pub mod device;
pub mod dispatch;
mod form;
pub mod radar;
pub mod strings;
pub mod structures;
#[cfg(feature = "testing")]
pub mod testing;

pub use form::PimForm;
