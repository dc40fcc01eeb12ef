//! The hotness of keys: an estimate of their recent frequency in a fixed budget of memory.
//!
//! An index uses [`FrequencySketch`] to choose the keys that are worth a shortcut, [`Hotspots`] to
//! guess the slot of a hot key in a remote node, and [`SpeculationGate`] or [`LinkGate`] to decide
//! if such guesses pay. A store with tiers of memory keeps the [`HotnessTable`] of all its keys, to
//! know which of them belong in the fastest tier.

#![forbid(unsafe_code)]

mod gate;
mod heat;
mod hotspots;
mod link_gate;
mod sketch;

pub use gate::{SpeculationAccess, SpeculationGate};
pub use heat::HotnessTable;
pub use hotspots::Hotspots;
pub use link_gate::LinkGate;
pub use sketch::FrequencySketch;
