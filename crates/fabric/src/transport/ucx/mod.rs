//! Memory nodes over [UCX](https://openucx.org): RDMA where both machines have adapters, TCP where
//! they have not. The library (Debian's libucx0, 1.13 or newer) is found when it is first needed;
//! nothing of it is needed to build.
//!
//! A process has a [`UcxNode`] and serves it; others have a [`UcxEndpoint`]. Where the node has an
//! adapter that accesses memory by itself, reads are UCX's gets, writes its puts, swaps and
//! additions its atomics of 64 bits. Else each post is an active message to the node's process, as
//! are connecting, allocating and freeing. Which transports UCX takes, its own variables say
//! (`UCX_TLS`, `UCX_NET_DEVICES`); if none does, all but shared memory, of which a process that is
//! killed while it starts leaves megabytes in `/dev/shm`.
//!
//! Tested with 1.13.1, and with 1.22.0 as PyPI's libucx-cu12 has it.
//!
//! # Who does the verbs
//!
//! With RDMA adapters, the node's does. Without, the thread in [`UcxNode::serve`] does, one post
//! after the other, each in one message and answered by one. The node sees by its memory's key
//! which it is, and tells its clients. On one machine, [`shm`](crate::transport::shm) does not need
//! the node's process, and is many times as fast.
//!
//! UCX would do verbs by messages of its own where there is no adapter. But UCX 1.13 ends the
//! process that has to answer a second read of a client whose connection has broken at the first,
//! and so any client that dies may take the node with it. (Tests of what adapters are asked have it
//! do so, by the variable `NEARFIELD_UCX_ONE_SIDED`. A client without an adapter still does so to a
//! node with one: give all of them one, or set `UCX_TLS` for the node.)
//!
//! Where UCX can map the node's memory elsewhere (the kernel module xpmem), clients would copy by
//! their own processors, and tear words; such a connection is refused ([`UcxError::Mapped`]).
//!
//! # What is promised, and what is not
//!
//! - Lines of 64 bytes are read and written as one
//!   ([`Endpoint::atomic_bytes`](crate::Endpoint::atomic_bytes)): an adapter's accesses are, as of
//!   the [crate]; and the node's thread does one post after the other.
//! - All clients of a node have to reach it in the same way: an adapter's atomics and those of the
//!   node's processor do not exclude each other.
//! - There is no protection. UCX has a node's process read and write whatever address a message of
//!   its own names. Whoever reaches one of the node's ports (UCX opens others beside the one that
//!   is named) has all of the process.
//!
//! # Order
//!
//! Where the node's thread does the verbs, posts and unsignalled writes are done in the order in
//! which they are issued, each as a whole.
//!
//! Where an adapter does, each verb of one post is done as a whole before the next of the same
//! node:
//!
//! - `ucp_worker_fence` stands between any two. It promises that what was issued before is complete
//!   before anything that follows. Adapters keep to that.
//! - The answer to a get is copied when it can be sent, which may be after later messages have been
//!   done, if a processor does it all the same. (The fence of UCX 1.13 does nothing then.) So
//!   nothing that changes memory is issued before the earlier reads of the post have ended: a post
//!   that writes behind a read takes two round trips. Reads and writes are cut at pages of 4096
//!   bytes, which are one message.
//! - UCX has no masked swap. It is made of compare-and-swaps that expect the word that was last
//!   seen there and repeat when another was found that would do, one round trip each. Reads behind
//!   it go with it, and are repeated with it; changes wait.
//! - A put that is complete was taken, and may not be there. A post that ends with writes ends with
//!   a flush (`ucp_ep_flush_nbx`); others end when the last answer has come, which was behind them.
//!
//! Between posts of one client the order is then that of the crate for a post that begins when
//! another has ended, and for unsignalled writes before and after posts. Of two posts that are
//! *under way at once*, the later may overtake what the earlier has not issued yet, as said above,
//! and reads of the earlier that have not ended. To wait there, too, would give every client one
//! round trip at a time.
//!
//! # Waiting
//!
//! Any executor will do. A future that waits looks for what has come when it is polled, one of many
//! on behalf of all, and asks to be polled again. When nothing comes for 50 us it lets its thread
//! sleep, 200 us at most, until something does. An endpoint and its clones stay with their thread;
//! each thread connects by itself.
//!
//! # Who may die
//!
//! When a node's process ends, its clients are told by the system and all that is under way ends
//! with [`NodeLost`](crate::FabricError::NodeLost), as does all that is asked later. A node that
//! does not answer anything for 5 s, as when it is stopped or cut off, is lost from then on:
//! connect again. What a client had written unsignalled when it ends in order gets to the nodes,
//! unless they do not take it within a second.
//!
//! A client that dies leaves behind what it had written, at whole posts, or where an adapter does
//! them at whole verbs or pieces of them. What was allocated for it and not taken is taken back;
//! what it had taken stays allocated. The node closes its connection when the system says that it
//! is broken: at once if only the process has died; if its machine was cut off, after 16 s
//! (`UCX_TCP_KEEPIDLE` and so on), or when Linux gives up to send what was answered, after a
//! quarter of an hour (`net.ipv4.tcp_retries2`). That holds up nobody else, nor does a client that
//! dies while it connects: the node does not wait for it (`UCX_TCP_CONN_NB`, y unless it is set).
//! Not so in shared memory, which UCX takes only with `UCX_MM_ERROR_HANDLING=y`: who dies while he
//! puts a message there is in the way of all that come behind it, and the node is lost to its
//! clients.
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
#[expect(unsafe_code, reason = "functions of C are called")]
mod worker;

pub use endpoint::UcxEndpoint;
pub use error::UcxError;
pub use node::UcxNode;
