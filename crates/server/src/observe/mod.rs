//! Counters, histories and the slow log of commands, for people and programs that observe the
//! server.

pub mod batches;
pub mod latency;
pub mod slowlog;
pub mod statistics;

pub use batches::Batches;
pub use latency::LatencyMonitor;
pub use slowlog::SlowLog;
pub use statistics::Statistics;
