//! What callers, switches and memory nodes send each other.

mod message;

pub use message::{DATAGRAM_BYTES_MAX, Fields, HEADER_BYTES, Key, Kind, Message, MessageError};
