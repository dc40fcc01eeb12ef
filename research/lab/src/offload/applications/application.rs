//! The interface of an application.

use super::deployment::{Deployment, DeploymentError};
use super::native::NativeCode;
use super::sealer::Sealer;
use nearfield_offload::traversal::TraversalQuery;
use std::fmt::Debug;

/// An application with its data in the memory of a memory node.
pub(super) trait RemoteApplication: Sync {
    /// A request of a user.
    type Request: Clone + Debug + Send;
    /// The reply to a user.
    type Reply: Debug;

    /// Returns its name in rows.
    fn name(&self) -> String;

    /// Returns the endless requests of a stream. Each stream has others.
    fn requests(&self, stream: usize) -> impl Iterator<Item = Self::Request> + Send;

    /// Returns the traversal of a request; `None` for a request that changes data.
    fn query(&self, request: &Self::Request) -> Option<TraversalQuery>;

    /// Serves a request.
    fn serve(
        &self,
        request: &Self::Request,
        deployment: &mut dyn Deployment,
        sealer: &mut Sealer,
    ) -> Result<Self::Reply, DeploymentError>;

    /// Returns true if the reply may be right, while other callers change data.
    fn is_right(&self, request: &Self::Request, reply: &Self::Reply) -> bool;

    /// Adds native code for its programs.
    fn with_native<'m>(&self, native: NativeCode<'m>) -> NativeCode<'m>;
}
