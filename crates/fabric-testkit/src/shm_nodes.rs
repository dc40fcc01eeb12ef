//! Memory nodes in shared memory for tests of the layers above them.

use nearfield_fabric::NodeId;
use nearfield_fabric::transport::shm::{ShmError, ShmNode};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// Memory nodes that threads of this process serve until this is dropped.
#[derive(Debug)]
pub struct ShmNodes {
    names: Vec<String>,
    nodes: Vec<Arc<ShmNode>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl ShmNodes {
    /// Serves `nodes` nodes of `bytes`, with names of their own.
    ///
    /// # Errors
    /// There is no room, or no shared memory.
    pub fn serve(nodes: u16, bytes: u64) -> Result<ShmNodes, ShmError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut served = ShmNodes {
            names: Vec::new(),
            nodes: Vec::new(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..nodes {
            // Tests of many processes run at the same time, and names belong to the machine.
            let name = format!("testkit-{}-{count}-{number}", process::id());
            let node = Arc::new(ShmNode::create(&name, NodeId(number), bytes)?);
            let stop = Arc::clone(&served.stop);
            served.names.push(name);
            served.nodes.push(Arc::clone(&node));
            served
                .threads
                .push(thread::spawn(move || node.serve(&stop)));
        }
        Ok(served)
    }

    /// Returns the names to attach to, in the order of the nodes' numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of allocated bytes of all nodes.
    pub fn allocated_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.allocated_bytes()).sum()
    }

    /// Returns the memory of the nodes, in this order.
    pub fn words(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.nodes.iter().map(|node| node.words())
    }
}

impl Drop for ShmNodes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic during another one would end the process before the first is reported.
            assert!(
                thread.join().is_ok() || thread::panicking(),
                "a memory node has panicked"
            );
        }
    }
}
