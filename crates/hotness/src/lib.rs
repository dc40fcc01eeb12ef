//! How hot a key is: an estimate of its recent frequency in a fixed budget of memory.
//!
//! An index asks it which keys are worth a shortcut. See [`FrequencySketch`].

#![forbid(unsafe_code)]

mod sketch;

pub use sketch::FrequencySketch;
