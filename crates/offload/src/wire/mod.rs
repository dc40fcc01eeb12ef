//! The messages between callers, switches and memory nodes.

mod announcement;
mod key;
mod message;
mod place;

pub use announcement::{ANNOUNCED_MAX, Announcement};
pub use key::{Key, KeyError};
pub(crate) use message::count_hop;
pub use message::{DATAGRAM_BYTES_MAX, Fields, HEADER_BYTES, Kind, Message, MessageError};
pub use place::Place;
