//! What can go wrong when nodes are looked for or registered.

use crate::address::NodeId;
use std::time::Duration;

/// Why nodes are not known, or a node is not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// This is no address of a memory node.
    #[error("{text:?} is no address of a memory node: {problem}")]
    Address {
        /// What was given, shortened.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// This is no name of a memory node.
    #[error("{name:?} is no name of a memory node: use 1 to 200 of A-Z, a-z, 0-9, ., - and _")]
    Name {
        /// What was given, shortened.
        name: String,
    },
    /// This is no entry of a list of nodes.
    #[error("{text:?} is no entry of a list of nodes: {problem}")]
    Entry {
        /// What was given, shortened.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// This is no URL of a member of etcd.
    #[error("{text:?} is no URL of etcd: {problem}")]
    Url {
        /// What was given, shortened.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two nodes have the same number.
    #[error("{node} is {name:?} and cannot be {other:?} too")]
    NumberTaken {
        /// The number.
        node: NodeId,
        /// Who has it.
        name: String,
        /// Who wants it.
        other: String,
    },
    /// Two nodes have the same name.
    #[error("the name {name:?} is in use by the memory node at {address}")]
    NameTaken {
        /// The name.
        name: String,
        /// Where the node is that has it.
        address: String,
    },
    /// The node has been registered with another number.
    #[error("memory node {name:?} is {recorded} and cannot become {wanted}")]
    OtherNumber {
        /// The node's name.
        name: String,
        /// The number that it has.
        recorded: NodeId,
        /// The number that was asked for.
        wanted: NodeId,
    },
    /// All 65,536 numbers are taken.
    #[error("no number is left for memory node {name:?}")]
    NoNumberLeft {
        /// The node's name.
        name: String,
    },
    /// Leases are between two seconds, which etcd does not undercut, and an hour.
    #[error("a lease of {lease:?} is not between 2 and 3600 seconds")]
    Lease {
        /// What was asked for.
        lease: Duration,
    },
    /// Another version of this library has registered the node.
    #[error("memory node {name:?} is registered in version {found}, which is not {known}")]
    Version {
        /// The node's name.
        name: String,
        /// The version of the registration.
        found: u64,
        /// The version that can be read.
        known: u64,
    },
    /// What etcd holds is no registration.
    #[error("what etcd holds at {key:?} is no registration of a memory node: {problem}")]
    Foreign {
        /// The key.
        key: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// No member of etcd has answered in time.
    #[error("etcd is out of reach: {tried}")]
    Unreachable {
        /// Each member and what became of the last attempt.
        tried: String,
    },
    /// Something answers that is not etcd, or one of a version without what is needed.
    #[error("{endpoint} is not etcd 3.4 or later: {problem}")]
    NotEtcd {
        /// The URL.
        endpoint: String,
        /// What it has answered.
        problem: String,
    },
    /// The system has no thread left.
    #[error("cannot start a thread: {problem}")]
    Thread {
        /// What it says.
        problem: String,
    },
    /// etcd refuses.
    #[error("etcd refuses {request}: {message}")]
    Refused {
        /// What was asked for.
        request: &'static str,
        /// The status, by the numbers of gRPC.
        code: u64,
        /// What etcd says.
        message: String,
    },
}

/// What is quoted of a wrong input, in characters.
const QUOTED: usize = 60;

impl MembershipError {
    /// As much of an input as is worth quoting.
    pub(crate) fn shortened(text: &str) -> String {
        match text.char_indices().nth(QUOTED) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text.to_owned(),
        }
    }
}
