//! Memory of a memory node in this process.

use super::OffloadError;
use nearfield_fabric::transport::shm::{ShmEndpoint, ShmNode};
use nearfield_fabric::{Endpoint, NodeId};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Timeout for moving the node's memory into large pages.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time without a new large page after which none is expected. Tests need none.
const QUIET: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 500 });

/// The memory of a node in shared memory, completely allocated.
pub struct BenchMemory {
    node: ShmNode,
}

impl BenchMemory {
    /// Creates a node with memory in large pages, as far as the system grants them.
    pub fn new(bytes: u64) -> Result<BenchMemory, OffloadError> {
        static NODES: AtomicU32 = AtomicU32::new(0);
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-offload-{}-{number}", std::process::id());
        let memory = |error: &dyn std::fmt::Display| OffloadError::Memory(error.to_string());
        // The node reserves the first page for itself.
        let node = ShmNode::create(&name, NodeId(0), bytes + 4096).map_err(|e| memory(&e))?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| node.serve(&stop));
            let allocated = (|| {
                let endpoint = ShmEndpoint::attach([&name]).map_err(|e| memory(&e))?;
                let allocate = endpoint.allocate(NodeId(0), bytes);
                futures_executor::block_on(allocate).map_err(|e| memory(&e))
            })();
            // A large page takes a millisecond. The loop ends if no new one comes, because there
            // may be none at all.
            let (start, mut last, mut since) = (Instant::now(), 0, Instant::now());
            while allocated.is_ok() && start.elapsed() < PATIENCE && since.elapsed() < QUIET {
                if node.large_page_bytes() != last {
                    (last, since) = (node.large_page_bytes(), Instant::now());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Relaxed);
            allocated.map(drop)
        })?;
        Ok(BenchMemory { node })
    }

    pub fn words(&self) -> &[AtomicU64] {
        self.node.words()
    }

    pub fn huge_page_bytes(&self) -> u64 {
        self.node.large_page_bytes()
    }
}
