//! The figures of papers, from models: indexes of the pool over a simulated fabric, in virtual time.
//!
//! A *job* loads an index once, warms the caches of its compute nodes, and lets clients work on it
//! in *phases*, each of which is a point of a figure or several. Loading and warming take no virtual
//! time. Jobs are independent of each other and of the machine: the same scale and seed give the
//! same rows, whatever runs beside.
//!
//! What a compute node itself takes is not modelled, nor what its own network interface does: only
//! the way to the memory nodes, and their ports (`nearfield_hardware::network`).

mod beside;
mod chime;
mod claims;
mod contender;
mod indexes;
mod job;
mod keys;
mod meter;
mod page;
mod row;
mod scale;
mod session;
mod show;
mod simulate;
mod system;
#[cfg(test)]
mod tests;

pub use row::{Claim, FigureReport, Network, Omitted, Quantity, Row};
pub use scale::Scale;
pub use session::{FigureSession, Request};
pub use simulate::PointError;
