//! Tests of the rivals: each is a placement like others, and reports its reads and writes.
#![cfg(not(loom))]

mod art;
mod defects;
mod events;
mod placement;
