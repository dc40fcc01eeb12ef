//! Calls of procedures at the memory node by UDP: those of the rivals, and reads and writes of
//! bytes, which all deployments need.
//!
//! A call is one datagram, its answer another. All calls may be repeated: a caller that hears
//! nothing sends again.

mod client;
mod format;
mod service;

pub(super) use client::{CallError, Client};
pub(super) use format::{Call, Follow};
pub(super) use service::serve;
