//! Sockets: threads that serve connections, and what they tell each other.
//!
//! Each thread has connections of its own and waits for all of them at once; it sleeps when there
//! is nothing to do. In each *round* it reads what has come, collects the reads and writes of
//! strings that follow each other, of all its connections, into one batch on the index, executes
//! other commands in between, and sends the replies.

pub mod balance;
mod connection;
mod expiry;
mod handover;
mod limits;
mod listener;
mod mailbox;
mod round;
mod thread;
pub mod tls;
mod transport;

pub use mailbox::{Mailbox, Message};
pub use thread::{ServeError, serve};
