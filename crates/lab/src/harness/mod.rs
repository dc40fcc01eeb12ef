//! What every experiment uses to run: it stops early, times, sums up, and says where it ran.
//!
//! It lies below reports and experiments, and knows no map, no server and no figure.

mod counts;
mod interrupt;
mod latency;
mod machine;
mod sample;
mod team;
mod turns;

pub use counts::Counts;
pub use interrupt::{Completion, Interrupt};
pub(crate) use latency::Durations;
pub use latency::Latency;
pub use machine::{Machine, commit};
pub use sample::Sample;
pub(crate) use team::{cores, together};
pub(crate) use turns::in_turns;
