//! The deployments: traversal programs, and the rivals of the paper.

mod cached;
mod paging;
mod programs;
mod remote_heap;
mod rpc;

pub(super) use cached::{CachedRpcDeployment, ObjectCache};
pub(super) use paging::{PageCache, PagingDeployment};
pub(super) use programs::ProgramDeployment;
pub(super) use remote_heap::Reserve;
pub(super) use rpc::Rpc;
