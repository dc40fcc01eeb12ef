//! The deployments: traversal programs, and the rivals of the paper.

mod afar;
mod cached;
mod paging;
mod programs;
mod rpc;

pub(super) use afar::Reserve;
pub(super) use cached::{Cached, Kept};
pub(super) use paging::{PageCache, Paging};
pub(super) use programs::Programs;
pub(super) use rpc::Rpc;
