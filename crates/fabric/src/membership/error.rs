//! Errors of finding and registering nodes.

use crate::address::NodeId;
use std::time::Duration;

/// The reason why nodes are unknown, or a node is not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The text is not an address of a memory node.
    #[error("{text:?} is not an address of a memory node: {problem}")]
    Address {
        /// The input, shortened.
        text: String,
        /// The fault in it.
        problem: &'static str,
    },
    /// The text is not a name of a memory node.
    #[error("{name:?} is not a name of a memory node: use 1 to 200 of A-Z, a-z, 0-9, ., - and _")]
    Name {
        /// The input, shortened.
        name: String,
    },
    /// The text is not an entry of a list of nodes.
    #[error("{text:?} is not an entry of a list of nodes: {problem}")]
    Entry {
        /// The input, shortened.
        text: String,
        /// The fault in it.
        problem: &'static str,
    },
    /// The text is not a URL of a member of etcd.
    #[error("{text:?} is not a URL of etcd: {problem}")]
    Url {
        /// The input, shortened.
        text: String,
        /// The fault in it.
        problem: &'static str,
    },
    /// Two nodes have the same number.
    #[error("{node} is {name:?} and cannot be {other:?} too")]
    NumberTaken {
        /// The number.
        node: NodeId,
        /// The node that has it.
        name: String,
        /// The node that wants it.
        other: String,
    },
    /// Two nodes have the same name.
    #[error("the name {name:?} is in use by the memory node at {address}")]
    NameTaken {
        /// The name.
        name: String,
        /// The address of the node with this name.
        address: String,
    },
    /// The node has been registered with another number.
    #[error("memory node {name:?} is {recorded} and cannot become {wanted}")]
    OtherNumber {
        /// The node's name.
        name: String,
        /// The number that it has.
        recorded: NodeId,
        /// The requested number.
        wanted: NodeId,
    },
    /// All 65,536 numbers are taken.
    #[error("no number is left for memory node {name:?}")]
    NoNumberLeft {
        /// The node's name.
        name: String,
    },
    /// Each change of the node's entries in etcd came too late, because they had changed before.
    #[error("the entries of memory node {name:?} in etcd change before each try to change them")]
    Contended {
        /// The node's name.
        name: String,
    },
    /// The lease is too short or too long: at least two seconds, the minimum of etcd, and at most
    /// an hour.
    #[error("a lease of {lease:?} is not between 2 and 3600 seconds")]
    Lease {
        /// The requested lease.
        lease: Duration,
    },
    /// Another version of this library has registered the node.
    #[error(
        "memory node {name:?} is registered in version {found}, and this program uses version \
         {known}"
    )]
    Version {
        /// The node's name.
        name: String,
        /// The version of the registration.
        found: u64,
        /// The version that can be read.
        known: u64,
    },
    /// The value in etcd is not a registration.
    #[error("the value in etcd at {key:?} is not a registration of a memory node: {problem}")]
    Foreign {
        /// The key.
        key: String,
        /// The fault in the value.
        problem: String,
    },
    /// No member of etcd has responded in time.
    #[error("etcd is unreachable: {tried}")]
    Unreachable {
        /// Each member and the result of its last attempt.
        tried: String,
    },
    /// The server is not etcd, or its version lacks a needed feature.
    #[error("{endpoint} is not etcd 3.4 or later: {problem}")]
    NotEtcd {
        /// The URL.
        endpoint: String,
        /// The fault in the server's response.
        problem: String,
    },
    /// The system has no thread left.
    #[error("cannot start a thread: {problem}")]
    Thread {
        /// The system's message.
        problem: String,
    },
    /// etcd refuses the request.
    #[error("etcd refuses {request}: {message}")]
    Refused {
        /// The request.
        request: &'static str,
        /// The status, by the numbers of gRPC.
        code: u64,
        /// etcd's message.
        message: String,
    },
}

/// Largest length of a quoted wrong input, in characters.
const QUOTED: usize = 60;

impl MembershipError {
    /// Returns the beginning of an input, short enough for a message.
    pub(crate) fn shortened(text: &str) -> String {
        match text.char_indices().nth(QUOTED) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text.to_owned(),
        }
    }
}
