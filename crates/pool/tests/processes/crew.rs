//! The compute processes of a run, which are killed and started again.

use crate::keys::PROCESSES;
use crate::run::{PoolTestProcess, ProcessRunParameters, number_of};
use nearfield_testkit::machines::Machines;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time after which a process hangs, with some leases, once it was notified to stop.
const SLACK: Duration = Duration::from_secs(120);
const LEASES_TO_END: u32 = 10;
/// Time in which a tree is filled or checked, however busy the machine is.
pub const LONG: Duration = Duration::from_secs(300);

/// The processes of a run.
pub struct PoolProcessGroup<'r> {
    run: &'r ProcessRunParameters,
    machines: Option<&'r Machines>,
    pub nodes: Vec<PoolTestProcess>,
    processes: Vec<PoolTestProcess>,
    /// Number of incarnations of each process.
    incarnations: Vec<u64>,
    random: SmallRng,
}

impl<'r> PoolProcessGroup<'r> {
    /// Starts the nodes, and then processes, once the tree is filled. If there are machines, the
    /// node is on the first, and each process on one of the next.
    pub fn start(
        run: &'r ProcessRunParameters,
        machines: Option<&'r Machines>,
    ) -> PoolProcessGroup<'r> {
        let mut crew = PoolProcessGroup {
            run,
            machines,
            nodes: Vec::new(),
            processes: Vec::new(),
            incarnations: vec![1; PROCESSES as usize],
            random: SmallRng::seed_from_u64(number_of("NEARFIELD_SEED", 1)),
        };
        for number in 0..run.nodes.count() {
            let node = crew.start_on(0, &format!("node {number}"));
            crew.nodes.push(node);
        }
        crew.once("fill");
        for process in 0..PROCESSES as usize {
            let process = crew.start_process(process);
            crew.processes.push(process);
        }
        crew
    }

    fn start_on(&self, machine: usize, role: &str) -> PoolTestProcess {
        match self.machines {
            Some(machines) => self.run.start(&machines.on(machine), role),
            None => self.run.start(&[], role),
        }
    }

    fn start_process(&self, process: usize) -> PoolTestProcess {
        let role = format!("process {process} {}", self.incarnations[process]);
        self.start_on(process + 1, &role)
    }

    /// Kills one of two memory nodes.
    pub fn kill_node(&mut self, number: usize) {
        self.nodes.remove(number).kill();
    }

    /// Starts a memory node again that was killed, and makes the other one of its pair take it in.
    pub fn rejoin(&mut self, number: usize) {
        let node = self.start_on(0, &format!("node {number}"));
        self.nodes.insert(number, node);
        self.once(&format!("rejoin {number}"));
    }

    /// Runs a process in a role until it ends.
    fn once(&self, role: &str) {
        let mut process = self.start_on(1, role);
        process.succeeds_until(Instant::now() + LONG, role);
    }

    /// Runs for half a second to one and a half, in which no process may fail.
    pub fn go_on(&mut self) {
        let time = self.random.random_range(500..1500);
        std::thread::sleep(Duration::from_millis(time));
        for process in self.processes.iter_mut().chain(&mut self.nodes) {
            let ended = process.ended();
            assert!(ended.is_none(), "{ended:?}, as its output says");
        }
    }

    /// Kills a process at any time of its work, and starts it again; returns its number.
    pub fn kill_one(&mut self) -> usize {
        let victim = self.random.random_range(0..self.processes.len());
        self.processes[victim].kill();
        self.incarnations[victim] += 1;
        self.processes[victim] = self.start_process(victim);
        victim
    }

    /// Returns the file in which a process records its writes, once it has found the nodes.
    pub fn journal(&self, process: usize) -> PathBuf {
        self.run.journal(process as u64, self.incarnations[process])
    }

    /// Returns the length of each process's journal.
    pub fn noted(&self) -> Vec<u64> {
        let length = |process| {
            let file = std::fs::metadata(self.journal(process));
            file.map_or(0, |file| file.len())
        };
        (0..self.processes.len()).map(length).collect()
    }

    /// Ends all processes, and checks everything.
    pub fn end(&mut self) {
        std::fs::write(self.run.stop(), []).expect("a file");
        let end = Instant::now() + self.run.lease * LEASES_TO_END + SLACK;
        for (number, process) in self.processes.iter_mut().enumerate() {
            process.succeeds_until(end, &format!("process {number}"));
        }
        let incarnations = self.incarnations.iter().map(u64::to_string);
        self.once(&format!(
            "check {}",
            incarnations.collect::<Vec<_>>().join(" ")
        ));
    }
}
