//! Callers, a switch and memory nodes: over a simulated network with faults, and over UDP.

mod deaths;
mod floods;
mod hostile;
mod objects;
mod once;
mod translations;
mod udp;
mod workers;
pub mod world;
