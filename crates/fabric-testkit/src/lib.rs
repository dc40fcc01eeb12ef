//! Runs indexes in remote memory over a simulated fabric, whose verbs are torn and whose clients
//! die, and checks that what the clients have met is linearizable.
//!
//! An index brings [`RemoteIndex`] and a way to make and to open it; [`check`] runs it with many
//! seeds, each of which is a run of its own: which keys, which operations, what is torn, who dies
//! when. A failure prints its seed, and the command that replays it. [`Faulty`] is a way to the
//! nodes on which something is wrong, for tests of the tests.
//!
//! `ShmNodes` are memory nodes in shared memory, for tests under real threads.

#![forbid(unsafe_code)]

mod faulty;
mod history;
mod index;
mod plan;
mod run;
#[cfg(target_os = "linux")]
mod shm_nodes;

pub use faulty::{Fault, Faulty, Interference, Planted};
pub use index::{RemoteIndex, System};
pub use plan::Plan;
pub use run::{Failure, Report, check, each_seed, run};
#[cfg(target_os = "linux")]
pub use shm_nodes::ShmNodes;
