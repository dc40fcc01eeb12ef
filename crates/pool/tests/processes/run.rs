//! The shared parameters of all processes of a run, and their start.

use crate::journal::{self, ProcessHistory};
use crate::nodes::{AllNodesEndpoint, RunMemoryNodes};
use crate::yielding::YieldingEndpoint;
use nearfield_fabric::mirror::{MirroredEndpoint, NodePair};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, NodeId};
use nearfield_pool::PoolError;
use nearfield_pool::chime::{ChimeComputeNode, ChimeLockKind, ChimeOptions, ChimeTree};
use nearfield_pool::layout::PoolIndexShape;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const NODE: NodeId = NodeId(0);
const ROOT: GlobalAddress = GlobalAddress::new(NODE, 64);
/// Names of the environment variables for a role and the other parameters of a run's processes.
const ROLE: &str = "NEARFIELD_TEST_ROLE";
const NAME: &str = "NEARFIELD_TEST_NAME";
const FOLDER: &str = "NEARFIELD_TEST_FOLDER";
const SMALL: &str = "NEARFIELD_TEST_SMALL";
const MIRRORED: &str = "NEARFIELD_TEST_MIRRORED";
const NODES: &str = "NEARFIELD_TEST_NODES";
const LEASE_MS: &str = "NEARFIELD_LEASE_MS";

/// The shared parameters of all processes of a run.
#[derive(Clone, Debug)]
pub struct ProcessRunParameters {
    pub name: String,
    /// The folder of the journals.
    pub folder: PathBuf,
    pub nodes: RunMemoryNodes,
    /// True for small leaves and nodes, so that they are divided and merged often.
    pub is_small: bool,
    /// True if the two nodes have the same content, so that one may be lost.
    pub is_mirrored: bool,
    pub lease: Duration,
}

pub fn number_of(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

/// Returns the length of a run.
pub fn time() -> Duration {
    Duration::from_secs(number_of("NEARFIELD_SECONDS", 5))
}

impl ProcessRunParameters {
    /// Creates the run of a test. The nodes get the name of the run; leases have this many
    /// milliseconds unless the environment sets another number.
    pub fn new(
        test: &str,
        nodes: impl FnOnce(&str) -> RunMemoryNodes,
        is_small: bool,
        lease: u64,
    ) -> ProcessRunParameters {
        let name = format!("test-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(format!("nearfield-{name}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        ProcessRunParameters {
            nodes: nodes(&name),
            name,
            folder,
            is_small,
            is_mirrored: false,
            lease: Duration::from_millis(number_of(LEASE_MS, lease)),
        }
    }

    /// Returns the role of this process, if it has one, and its run.
    pub fn of_this_process() -> Option<(String, ProcessRunParameters)> {
        let role = std::env::var(ROLE).ok()?;
        let run = ProcessRunParameters {
            name: std::env::var(NAME).expect("a name"),
            folder: std::env::var_os(FOLDER).expect("a folder").into(),
            nodes: std::env::var(NODES).expect("nodes").as_str().into(),
            is_small: number_of(SMALL, 0) != 0,
            is_mirrored: number_of(MIRRORED, 0) != 0,
            lease: Duration::from_millis(number_of(LEASE_MS, 0)),
        };
        Some((role, run))
    }

    /// Starts this program in a role, through other programs if there are words before.
    pub fn start(&self, others: &[&str], role: &str) -> PoolTestProcess {
        let program = std::env::current_exe().expect("this program");
        let mut words = others.iter().map(Into::into).chain([program.into()]);
        let first: std::ffi::OsString = words.next().expect("one");
        let child = Command::new(first)
            .args(words)
            .args(["--exact", "process_in_a_role", "--nocapture"])
            .env(ROLE, role)
            .env(NAME, &self.name)
            .env(FOLDER, &self.folder)
            .env(NODES, self.nodes.to_string())
            .env(SMALL, u64::from(self.is_small).to_string())
            .env(MIRRORED, u64::from(self.is_mirrored).to_string())
            .env(LEASE_MS, self.lease.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        PoolTestProcess(child.expect("this program runs"))
    }

    fn options(&self) -> ChimeOptions {
        let of_small = |shape| PoolIndexShape {
            leaf_span: 16,
            internal_span: 8,
            ..shape
        };
        let shape = PoolIndexShape {
            value_bytes: 16,
            ..PoolIndexShape::default()
        };
        ChimeOptions {
            shape: if self.is_small {
                of_small(shape)
            } else {
                shape
            },
            cache_bytes: 1 << 20,
            hotspot_bytes: 1 << 16,
            locks: ChimeLockKind::Leased(self.lease),
            ..ChimeOptions::nearfield()
        }
    }

    /// Returns an endpoint of the pair of nodes, which connects again to one that was taken in.
    pub fn mirrored(
        &self,
        endpoint: YieldingEndpoint<ShmEndpoint>,
    ) -> MirroredEndpoint<YieldingEndpoint<ShmEndpoint>> {
        let pair = NodePair {
            number: NODE,
            primary: NODE,
            backup: NodeId(1),
        };
        let nodes = self.nodes.clone();
        let reconnect = move || match nodes.connect_to_rest().way {
            AllNodesEndpoint::Shm(endpoint) => Some(endpoint),
            AllNodesEndpoint::Ucx(_) => None,
        };
        MirroredEndpoint::new(endpoint, &[pair], self.lease).with_reconnection(reconnect)
    }

    /// Returns true for the error of a change whose outcome is unknown although its node serves. On
    /// a pair of nodes a client gets it if one of them is lost, or if the scheduler interrupts the
    /// client for long in the middle of a change.
    pub fn is_unknown(&self, error: &PoolError) -> bool {
        let is_lost = |error: &FabricError| matches!(error, FabricError::NodeLost { .. });
        self.is_mirrored
            && match error {
                PoolError::Fabric(error) | PoolError::Undetermined(error) => is_lost(error),
                _ => false,
            }
    }

    fn compute_node(&self) -> Arc<ChimeComputeNode> {
        Arc::new(ChimeComputeNode::new(self.options()).expect("sizes"))
    }

    pub async fn create<E: Endpoint>(&self, endpoint: E) -> Result<ChimeTree<E>, PoolError> {
        let nodes = endpoint.nodes();
        ChimeTree::create(endpoint, &nodes, ROOT, self.compute_node()).await
    }

    pub async fn open<E: Endpoint>(&self, endpoint: E) -> Result<ChimeTree<E>, PoolError> {
        let nodes = endpoint.nodes();
        ChimeTree::open(endpoint, &nodes, ROOT, self.compute_node()).await
    }

    pub fn journal(&self, process: u64, incarnation: u64) -> PathBuf {
        self.folder.join(format!("{process}-{incarnation}"))
    }

    /// Returns the file that exists once the processes must end.
    pub fn stop(&self) -> PathBuf {
        self.folder.join("stop")
    }

    /// Reads the writes of a process's former incarnations.
    pub fn history(&self, process: u64, incarnations: u64) -> ProcessHistory {
        let mut history = ProcessHistory::default();
        for incarnation in 1..incarnations {
            let entries = journal::read(&self.journal(process, incarnation));
            history.take(&entries);
        }
        history
    }
}

/// A process, which is killed if it is not waited for.
#[derive(Debug)]
pub struct PoolTestProcess(Child);

impl PoolTestProcess {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a process")
    }

    /// Kills the process like kill -9.
    pub fn kill(&mut self) {
        self.0.kill().expect("it lives");
        self.0.wait().expect("it ends");
    }

    /// Waits until it ends; it must end without a failure before `end`.
    pub fn succeeds_until(&mut self, end: Instant, what: &str) {
        loop {
            if let Some(ended) = self.ended() {
                assert!(ended.success(), "{what}: {ended:?}, as its output says");
                return;
            }
            assert!(Instant::now() < end, "{what} hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for PoolTestProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
