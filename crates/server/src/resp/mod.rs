//! The Redis protocol between bytes and commands, without I/O: [`request`] from clients, and
//! [`reply`] to them in either version, RESP2 and RESP3.

pub mod encode;
pub mod repeated;
pub mod reply;
pub mod request;

pub use encode::Words;
pub use reply::{Protocol, RespReply};
pub use request::{Parser, ProtocolError, RequestLimits};
