//! Indexes that break one rule each, and tests that the suites of this crate notice.

mod racy;
mod sequential;
