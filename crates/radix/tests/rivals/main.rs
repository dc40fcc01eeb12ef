//! Tests of the rivals: each is a placement as others are, and reports what it reads and writes.
#![cfg(not(loom))]

mod art;
mod defects;
mod events;
mod placement;
