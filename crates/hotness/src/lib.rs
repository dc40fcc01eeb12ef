//! How hot a key is: an estimate of its recent frequency in a fixed budget of memory.
//!
//! An index asks it which keys are worth a shortcut ([`FrequencySketch`]), and in which slot of a
//! remote node a hot key was found last ([`Hotspots`]), and whether it pays to go by that
//! ([`Gate`]).

#![forbid(unsafe_code)]

mod gate;
mod hotspots;
mod sketch;

pub use gate::{Access, Gate};
pub use hotspots::Hotspots;
pub use sketch::FrequencySketch;
