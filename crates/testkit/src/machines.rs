//! Machines that are network namespaces of this one, each on a cable to the same switch: processes
//! in them reach each other by the network alone, and cables can be cut.
//!
//! Needs root and `ip` (Debian's iproute2).

use std::net::{IpAddr, Ipv4Addr};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The end of the cable in each machine, by which processes in it may cut it (`ip link set cable
/// down`).
pub const CABLE: &str = "cable";
const SWITCH: &str = "switch";
/// Nothing here takes so long unless it hangs.
const LONG: Duration = Duration::from_secs(10);

/// Machines. They end when this is dropped; their processes should have ended before.
#[derive(Debug)]
pub struct Machines {
    namespaces: Vec<String>,
    switch: String,
}

impl Machines {
    /// Creates `count` machines (253 at most).
    ///
    /// # Errors
    /// The reason why there can be none, as a text: no `ip`, or no permission.
    pub fn new(count: u8) -> Result<Machines, String> {
        static NETWORKS: AtomicU32 = AtomicU32::new(0);
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("nearfield-{}-{number}", std::process::id());
        let machines = Machines {
            namespaces: (0..count).map(|at| format!("{prefix}-{at}")).collect(),
            switch: format!("{prefix}-{SWITCH}"),
        };
        machines.connect()?;
        Ok(machines)
    }

    fn connect(&self) -> Result<(), String> {
        let switch = &self.switch;
        ip(&format!("netns add {switch}"))?;
        ip(&format!("-n {switch} link add name {SWITCH} type bridge"))?;
        ip(&format!("-n {switch} link set {SWITCH} up"))?;
        for (at, name) in self.namespaces.iter().enumerate() {
            let address = self.address(at);
            ip(&format!("netns add {name}"))?;
            ip(&format!(
                "-n {switch} link add port{at} type veth peer name {CABLE} netns {name}"
            ))?;
            ip(&format!("-n {switch} link set port{at} master {SWITCH} up"))?;
            ip(&format!("-n {name} addr add {address}/24 dev {CABLE}"))?;
            ip(&format!("-n {name} link set {CABLE} up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        // It takes the system a moment, and UCX uses the interfaces that exist when it starts.
        let began = Instant::now();
        for name in &self.namespaces {
            while !ip(&format!("-n {name} link show {CABLE}"))?.contains("state UP") {
                if began.elapsed() > LONG {
                    return Err(format!("the cable of {name} does not come up"));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// A machine's address, of a network that is kept for trials.
    pub fn address(&self, machine: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(198, 18, 77, machine as u8 + 1))
    }

    /// Has this thread run on a machine from now on: the sockets that it opens are those of the
    /// machine.
    ///
    /// # Panics
    /// The machine is gone.
    #[cfg(target_os = "linux")]
    pub fn enter(&self, machine: usize) {
        use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
        let path = format!("/run/netns/{}", self.namespaces[machine]);
        let file = std::fs::File::open(path).expect("the machine is there");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("who may make machines may enter them");
    }

    /// Cuts the cable of a machine, or joins it again.
    ///
    /// # Panics
    /// The machine is gone.
    pub fn set_cable(&self, machine: usize, is_up: bool) {
        let name = &self.namespaces[machine];
        let state = if is_up { "up" } else { "down" };
        ip(&format!("-n {name} link set {CABLE} {state}")).expect("the machine is there");
    }

    /// The words before a command that have it run on a machine, in the same process.
    pub fn on(&self, machine: usize) -> [&str; 4] {
        ["ip", "netns", "exec", &self.namespaces[machine]]
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.namespaces.iter().chain([&self.switch]) {
            // Not all of them were made if one could not be.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// The output of `ip` for a command, or the reason why it fails.
fn ip(command: &str) -> Result<String, String> {
    let refused = |why: &str| format!("no network namespaces: ip {command}: {}", why.trim());
    let output = Command::new("ip").args(command.split(' ')).output();
    let output = output.map_err(|error| refused(&error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(refused(&String::from_utf8_lossy(&output.stderr)))
    }
}
