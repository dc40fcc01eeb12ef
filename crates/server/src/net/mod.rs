//! The threads that serve connections.
//!
//! Each thread has its own connections and waits for all of them at once; it sleeps when there is
//! nothing to do. In each *round* it reads the data that has arrived, and collects consecutive
//! reads and writes of strings, of all its connections, into one batch on the index. It executes
//! other commands in between, and sends the replies.

mod accept;
mod ahead;
mod connections;
mod expiry;
mod handover;
mod held;
mod idle;
mod limits;
mod listener;
mod mail;
mod migrate;
mod parked;
mod reads;
mod receive;
mod relief;
mod requests;
mod round;
mod serve;
mod state;
mod thread;
mod turns;
mod waits;

pub use serve::{ServeError, serve};
