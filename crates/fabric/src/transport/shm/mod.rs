//! Memory nodes in shared memory: an object in `/dev/shm` that any number of processes of this
//! machine attach to, as they would to a pool of memory on a switch (CXL).
//!
//! One process creates a [`ShmNode`] and serves it; others have a [`ShmEndpoint`], which does the
//! verbs by itself and at once: their futures are ready when they are first polled. Only calls to
//! the node's processor, which allocate and free, go to the process of the node.
//!
//! # What is promised beyond the [crate]'s promise, and what is not
//!
//! - Words of 8 bytes are read and written as one
//!   ([`Endpoint::atomic_bytes`](crate::Endpoint::atomic_bytes) says 8), and nothing more: a line
//!   may be seen half written. A processor has no access of 64 bytes that others see as one.
//! - A WRITE of part of a word exchanges that part and leaves the others as they are at that
//!   moment, so that writes of neighbouring bytes do not undo each other.
//! - The order of a client's verbs holds over all nodes that it is attached to: a *release* fence
//!   stands before what is written and an *acquire* fence behind what is read, so that who reads a
//!   flag reads what was written before it; and a full fence stands between what is changed and
//!   what is read after it, so that of two clients that each write a word and then read the
//!   other's, one sees the other's. Verbs that one client posts from several threads have no order.
//! - Swaps and additions exclude each other and writes of the same word.
//!
//! - What is posted by a deadline has either taken effect or never will when another has
//!   [settled](crate::Endpoint::settle), however long the processor was taken from whom: a place in
//!   the node's header says that it is under way. A process that is *stopped* just then is waited
//!   for.
//!
//! # Pages
//!
//! The process of a node puts what is allocated into pages of 2 MiB, if the kernel is able to
//! (Linux 6.1), and all map it so that it can be found by these. [`ShmNode::large_page_bytes`] says
//! how much of it is.
//!
//! # Who may die
//!
//! A client that dies leaves behind what it had written, at words. A slot that it held for a call
//! is freed within 200 ms, and what was allocated for it and not taken is taken back. What it had
//! allocated and taken stays allocated.
//!
//! When the process of a node dies, clients know after 100 ms at the latest that they look, and all
//! verbs and calls end with [`NodeLost`](crate::FabricError::NodeLost), also those of a later time
//! when a node of the same name was created anew: attach again. A node that lives and does not
//! answer, as when it is stopped, counts as lost for a call that waits for 5 s.
//!
//! Client and node have to see each other's process numbers, so containers have to share them.
//! Who truncates the object from outside ends all processes that access it, by SIGBUS.
//!
//! ```
//! use nearfield_fabric::transport::shm::{ShmEndpoint, ShmNode};
//! use nearfield_fabric::{GlobalAddress, NodeId, Endpoint};
//! use std::sync::atomic::{AtomicBool, Ordering};
//! # fn block_on<T>(future: impl Future<Output = T>) -> T {
//! #     let mut future = std::pin::pin!(future);
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     loop {
//! #         if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
//! #             return value;
//! #         }
//! #     }
//! # }
//!
//! # let name = &format!("example-{}", std::process::id());
//! let node = ShmNode::create(name, NodeId(0), 1 << 20)?;
//! let stop = AtomicBool::new(false);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| node.serve(&stop));
//!     // This may be in any other process, too.
//!     let endpoint = ShmEndpoint::attach([name])?;
//!     block_on(async {
//!         let chunk = endpoint.allocate(NodeId(0), 4096).await?;
//!         endpoint.write(chunk, b"hello").await?;
//!         endpoint.add(chunk.plus(8), 5).await?;
//!         endpoint.free(chunk, 4096).await
//!     })?;
//!     stop.store(true, Ordering::Relaxed);
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })?;
//! assert_eq!(node.allocated_bytes(), 0);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod call;
mod copy;
mod endpoint;
mod error;
#[expect(unsafe_code, reason = "the memory of an object is raw")]
mod mapping;
mod node;
mod object;
mod pages;
mod place;
mod process;

pub use endpoint::ShmEndpoint;
pub use error::ShmError;
pub use node::ShmNode;
