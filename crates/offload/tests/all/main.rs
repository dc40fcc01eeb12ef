//! Tests of traversal programs by public names only.

mod bytes;
mod conformance;
mod executors;
mod instructions;
mod text;
