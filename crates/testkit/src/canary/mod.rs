//! Indexes that break one rule each, and the proof that the tests of this crate notice.

mod racy;
mod sequential;
