//! Tests of the learned models.
//!
//! One program has all modules, so that generic code is compiled once.

mod gru;
mod index;
