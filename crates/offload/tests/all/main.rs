//! Tests of traversal programs by public names only.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod bytes;
mod c_corpus;
mod c_programs;
mod conformance;
mod differential;
mod examples;
mod executors;
mod instructions;
mod modelled;
mod network;
mod programs;
mod rack;
mod random_program;
mod structures;
mod text;
