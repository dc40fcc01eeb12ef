//! The hotness of keys: an estimate of their recent frequency in a fixed budget of memory.
//!
//! An index uses [`FrequencySketch`] to choose the keys that are worth a shortcut, [`Hotspots`] to
//! guess the slot of a hot key in a remote node, and [`Gate`] to decide whether such guesses pay.

#![forbid(unsafe_code)]

mod gate;
mod hotspots;
mod sketch;

pub use gate::{Access, Gate};
pub use hotspots::Hotspots;
pub use sketch::FrequencySketch;
