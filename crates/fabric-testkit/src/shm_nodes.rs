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
    /// The size of each node.
    bytes: u64,
    /// The nodes; `None` while one is not served.
    nodes: Vec<Option<ServedShmNode>>,
}

/// A memory node and the thread that serves it.
#[derive(Debug)]
struct ServedShmNode {
    node: Arc<ShmNode>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ServedShmNode {
    fn start(name: &str, number: u16, bytes: u64) -> Result<ServedShmNode, ShmError> {
        let node = Arc::new(ShmNode::create(name, NodeId(number), bytes)?);
        let stop = Arc::new(AtomicBool::new(false));
        let (served, stopped) = (Arc::clone(&node), Arc::clone(&stop));
        let thread = thread::spawn(move || served.serve(&stopped));
        Ok(ServedShmNode {
            node,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for ServedShmNode {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic during another one would end the process before the first is reported.
            assert!(
                thread.join().is_ok() || thread::panicking(),
                "a memory node has panicked"
            );
        }
    }
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
            bytes,
            nodes: Vec::new(),
        };
        for number in 0..nodes {
            // Tests of many processes run at the same time, and names belong to the machine.
            let name = format!("testkit-{}-{count}-{number}", process::id());
            let node = ServedShmNode::start(&name, number, bytes)?;
            served.names.push(name);
            served.nodes.push(Some(node));
        }
        Ok(served)
    }

    /// Ends a node, whose memory is lost.
    pub fn end(&mut self, number: u16) {
        self.nodes[usize::from(number)] = None;
    }

    /// Serves a node again that has ended, with its name and number, and empty memory.
    ///
    /// # Errors
    /// There is no room, or the node is served.
    pub fn serve_again(&mut self, number: u16) -> Result<(), ShmError> {
        let at = usize::from(number);
        let node = ServedShmNode::start(&self.names[at], number, self.bytes)?;
        self.nodes[at] = Some(node);
        Ok(())
    }

    /// Returns the names to attach to, in the order of the nodes' numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of allocated bytes of all nodes.
    pub fn allocated_bytes(&self) -> u64 {
        let nodes = self.nodes.iter().flatten();
        nodes.map(|served| served.node.allocated_bytes()).sum()
    }

    /// Returns the memory of the nodes, in this order.
    pub fn words(&self) -> impl Iterator<Item = &[AtomicU64]> {
        let nodes = self.nodes.iter().flatten();
        nodes.map(|served| served.node.words())
    }
}

impl Drop for ShmNodes {
    fn drop(&mut self) {
        // All of them first: each thread takes up to 50 ms to end.
        for served in self.nodes.iter().flatten() {
            served.stop.store(true, Ordering::Relaxed);
        }
    }
}
