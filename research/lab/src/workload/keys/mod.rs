//! Key sets: integers and byte strings of the shapes that the papers measure with.

mod digits;
mod email;
mod file;
mod integers;
mod ipv4;
mod language;
mod set;
#[cfg(test)]
mod shape;
mod spec;
mod uniqueness;
mod words;

pub(crate) use file::{each_line, opened};
pub use set::KeySet;
pub use spec::{KeySetSpec, Progress};
