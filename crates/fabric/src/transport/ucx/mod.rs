//! Memory nodes over [UCX](https://openucx.org): RDMA if both machines have adapters, otherwise
//! TCP. The library (Debian's libucx0, 1.13 or newer) is loaded when it is first needed; the build
//! needs no part of it.
//!
//! A process has a [`UcxNode`] and serves it; other processes have a [`UcxEndpoint`]. If the node
//! has an adapter that accesses memory by itself, reads are UCX's gets, writes its puts, swaps and
//! additions its atomics of 64 bits. Otherwise each post is an active message to the node's
//! process, as are connecting, allocating and freeing. UCX's own variables choose its transports
//! (`UCX_TLS`, `UCX_NET_DEVICES`). If none is set, UCX uses all except shared memory, because a
//! process that is killed during its start leaves megabytes in `/dev/shm`.
//!
//! Tested with 1.13.1, and with 1.22.0 of PyPI's libucx-cu12.
//!
//! # Execution of verbs
//!
//! The node's RDMA adapter executes verbs, if there is one. Otherwise the thread in
//! [`UcxNode::serve`] does, one post after the other, each as one message with one reply. The node
//! finds out which case holds by its memory's key, and informs its clients. On one machine,
//! [`shm`](crate::transport::shm) does not need the node's process, and is many times as fast.
//!
//! Without an adapter UCX would execute verbs by messages of its own. But UCX 1.13 ends the process
//! that must reply to a second read of a client whose connection has broken at the first, so any
//! client that dies could end the node. (The variable `NEARFIELD_UCX_ONE_SIDED` makes tests of the
//! requests for adapters use these messages. A client without an adapter still uses them with a
//! node that has one: give all of them one, or set `UCX_TLS` for the node.)
//!
//! If UCX can map the node's memory into another process (by the kernel module xpmem), clients
//! would copy with their own processors, and tear words. The endpoint refuses such a connection
//! ([`UcxError::Mapped`]).
//!
//! # Guarantees and their limits
//!
//! - Lines of 64 bytes are atomic ([`Endpoint::atomic_bytes`](crate::Endpoint::atomic_bytes)): an
//!   adapter's accesses are, as the [crate] assumes, and the node's thread executes one post after
//!   the other.
//! - All clients of a node must reach it in the same way, because an adapter's atomics and those of
//!   the node's processor do not exclude each other.
//! - There is no protection. UCX makes a node's process read and write any address that a message
//!   of its own names. A client that reaches one of the node's ports (UCX opens others besides the
//!   configured one) controls the whole process.
//!
//! # Order
//!
//! If the node's thread executes verbs, posts and unsignalled writes take effect in the order in
//! which they are issued, each as a whole.
//!
//! If an adapter does, each verb of one post is done as a whole before the next of the same node:
//!
//! - `ucp_worker_fence` stands between any two. It promises that earlier requests are complete
//!   before later ones. Adapters keep to that.
//! - If a processor serves a get, it copies the bytes when it can send them, possibly after it has
//!   executed later messages. (The fence of UCX 1.13 does nothing then.) So a verb that changes
//!   memory is issued only when the earlier reads of the post have ended: a post that writes after
//!   a read takes two round trips. Reads and writes are divided at pages of 4096 bytes, which are
//!   one message.
//! - UCX has no masked swap. The endpoint uses compare-and-swaps that expect the last word seen
//!   there, and repeats them if another word fits the mask, one round trip each. The reads after it
//!   are issued with it, and are repeated with it; changes wait.
//! - A completed put was accepted, but may not have arrived. A post that ends with writes ends with
//!   a flush (`ucp_ep_flush_nbx`). Other posts end when the last response has arrived, which
//!   followed the writes.
//!
//! Between posts of one client the order is that of the crate if a post begins when another has
//! ended, and for unsignalled writes before and after posts. Of two posts that are *in flight at
//! once*, the later may overtake verbs that the earlier has not issued yet, and its unfinished
//! reads. To wait there, too, would limit every client to one round trip at a time.
//!
//! # Waiting
//!
//! Any executor works. A future that waits polls for events when it is polled (one of many polls
//! for all), and asks to be polled again. If no event arrives for 50 us it lets its thread sleep,
//! for 200 us at most. An endpoint and its clones stay with their thread; each thread connects by
//! itself.
//!
//! While a node or an endpoint begins or ends, or a connection of one does, all others of the same
//! process wait: UCX 1.13 confuses the sockets of two threads that open and close some at the same
//! time.
//!
//! # Deaths
//!
//! When a node's process ends, the system notifies its clients. All operations in flight end with
//! [`NodeLost`](crate::FabricError::NodeLost), as do all later ones. A node that does not respond
//! for 5 s, for example a stopped or isolated one, is lost from then on: connect again. So is one
//! that leaves a request without a reply for 60 s, even if it replies to others. The unsignalled
//! writes of a client that ends properly reach the nodes, unless these do not accept them within a
//! second.
//!
//! A client that dies leaves its whole posts, or, with an adapter, its whole verbs or pieces of
//! them. The node frees memory that it allocated for the client and the client has not taken; other
//! allocations stay. The node closes its connection when the system reports it as broken: at once
//! if only the process has died; if its machine was cut off, after 16 s (`UCX_TCP_KEEPIDLE` and so
//! on), or when Linux stops sending responses, after a quarter of an hour
//! (`net.ipv4.tcp_retries2`). That delays no other client, nor does a client that dies while it
//! connects: the node does not wait for it (`UCX_TCP_CONN_NB`, y unless it is set). Shared memory
//! is different. UCX uses it only with `UCX_MM_ERROR_HANDLING=y`: a client that dies while it
//! writes a message there blocks all later messages, and the node is lost to its clients.
//!
//! ```no_run
//! use nearfield_fabric::transport::ucx::{UcxEndpoint, UcxNode};
//! use nearfield_fabric::{Endpoint, NodeId};
//! use std::sync::atomic::AtomicBool;
//!
//! // In one process:
//! let node = UcxNode::listen("192.0.2.7:7000", NodeId(0), 1 << 30)?;
//! node.serve(&AtomicBool::new(false));
//!
//! // In others:
//! let endpoint = UcxEndpoint::connect(["192.0.2.7:7000"])?;
//! futures_executor::block_on(async {
//!     let chunk = endpoint.allocate(NodeId(0), 4096).await?;
//!     endpoint.write(chunk, b"hello").await?;
//!     endpoint.free(chunk, 4096).await
//! })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod asked;
mod batch;
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
mod turns;
#[expect(unsafe_code, reason = "functions of C are called")]
mod worker;

pub use endpoint::UcxEndpoint;
pub use error::UcxError;
pub use node::UcxNode;
