//! The messages between callers, switches and memory nodes.

mod announcement;
mod fragment;
mod key;
mod message;
mod place;

pub use announcement::{ANNOUNCED_MAX, Announcement};
pub use fragment::{MessageFragment, OBJECT_BYTES_MAX, RequestObject};
pub(crate) use fragment::{MessageParts, PartsProgress};
pub use key::{AuthenticationKey, KeyError};
pub(crate) use message::count_hop;
#[cfg(feature = "model")]
pub(crate) use message::length_without_zeros;
pub use message::{
    DATAGRAM_BYTES_MAX, DatagramFields, HEADER_BYTES, MessageError, OffloadMessage,
    OffloadMessageKind,
};
pub use place::ProcessAddress;
