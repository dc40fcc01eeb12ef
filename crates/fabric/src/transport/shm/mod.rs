//! Memory nodes in shared memory: an object in `/dev/shm` to which any number of processes of this
//! machine attach, as to a pool of memory on a switch (CXL).
//!
//! One process creates a [`ShmNode`] and serves it. Other processes have a [`ShmEndpoint`], which
//! executes verbs itself and at once: their futures are ready at the first poll. Only calls to the
//! node's processor, which allocate and free, go to the process of the node.
//!
//! # Guarantees beyond the [crate]'s, and their limits
//!
//! - Only words of 8 bytes are atomic ([`Endpoint::atomic_bytes`](crate::Endpoint::atomic_bytes)
//!   returns 8): a reader may see a line half written. A processor has no access of 64 bytes that
//!   is atomic for other processors.
//! - A WRITE of part of a word exchanges that part and leaves the other bytes as they are at that
//!   moment, so that writes of neighbouring bytes do not undo each other.
//! - The order of a client's verbs holds over all nodes that it is attached to. A *release* fence
//!   stands before writes and an *acquire* fence after reads, so that a client that reads a flag
//!   also reads the bytes written before the flag. A full fence stands between a change and a later
//!   read, so that of two clients that each write a word and then read the other's, one sees the
//!   other's. Verbs that one client posts from several threads have no order.
//! - Swaps and additions exclude each other and writes of the same word.
//! - When another client has [settled](crate::Endpoint::settle), a post by a deadline has either
//!   taken effect or never will, no matter how long its process was interrupted: a place in the
//!   node's header marks it as in flight. `settle` waits for a process that is *stopped* at that
//!   moment.
//!
//! # Pages
//!
//! The process of a node puts allocated memory into pages of 2 MiB, if the kernel can (Linux 6.1),
//! and all processes map it with the alignment that these need. [`ShmNode::large_page_bytes`]
//! returns the number of bytes in such pages.
//!
//! # Deaths
//!
//! A client that dies leaves the words that it had written. The node frees the slot of its call
//! within 200 ms, and the memory that it allocated for the call, if the client has not taken it.
//! Other allocations of the client stay.
//!
//! When the process of a node dies, clients notice within 100 ms at their next access, and all
//! verbs and calls end with [`NodeLost`](crate::FabricError::NodeLost), even if a node of the same
//! name was created again later: attach again. A call that waits for 5 s considers a node lost that
//! lives and does not respond, for example a stopped one.
//!
//! Client and node must see each other's process numbers, so containers must share them. If another
//! process truncates the object, SIGBUS ends all processes that access it.
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
