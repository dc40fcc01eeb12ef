//! The deployments: traversal programs, and the rivals of the paper.

mod afar;
mod cached;
mod paging;
mod programs;
mod rpc;

pub(super) use afar::Reserve;
pub(super) use cached::{CachedRpcDeployment, ObjectCache};
pub(super) use paging::{PageCache, PagingDeployment};
pub(super) use programs::ProgramDeployment;
pub(super) use rpc::Rpc;
