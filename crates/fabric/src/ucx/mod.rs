//! Memory nodes over UCX.

mod endpoint;
mod error;
mod guess;
#[expect(unsafe_code, reason = "a library is loaded")]
mod library;
mod message;
mod node;
mod post;
#[expect(unsafe_code, reason = "functions of C are found by name")]
mod sys;
#[expect(unsafe_code, reason = "functions of C are called")]
mod worker;

pub use endpoint::UcxEndpoint;
pub use error::UcxError;
pub use node::UcxNode;
