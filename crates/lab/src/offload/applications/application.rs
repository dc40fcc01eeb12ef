//! What an application is.

use super::deployment::{Deployment, DeploymentError};
use super::native::NativeCode;
use super::sealer::Sealer;
use nearfield_offload::traversal::Query;
use std::fmt::Debug;

/// An application with its data in the memory of a memory node.
pub(super) trait Application: Sync {
    /// What a user asks for.
    type Request: Clone + Debug + Send;
    /// What a user gets.
    type Answer: Debug;

    /// Its name in rows.
    fn name(&self) -> String;

    /// The requests of a stream, without an end. Each stream has others.
    fn requests(&self, stream: usize) -> impl Iterator<Item = Self::Request> + Send;

    /// The traversal of a request, if it is none that changes something.
    fn query(&self, request: &Self::Request) -> Option<Query>;

    /// Does what is asked for.
    fn serve(
        &self,
        request: &Self::Request,
        deployment: &mut dyn Deployment,
        sealer: &mut Sealer,
    ) -> Result<Self::Answer, DeploymentError>;

    /// Whether an answer can be right, while other callers change data.
    fn is_right(&self, request: &Self::Request, answer: &Self::Answer) -> bool;

    /// Native code for its programs.
    fn with_native<'m>(&self, native: NativeCode<'m>) -> NativeCode<'m>;
}
