//! Machines that are network namespaces of this one, each on a cable to the same switch: processes
//! in them reach each other only by the network, and cables can be cut.
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
/// A time that nothing here takes unless it hangs.
const LONG: Duration = Duration::from_secs(10);

/// A set of machines. They are removed when this value is dropped; their processes should have
/// ended before.
#[derive(Debug)]
pub struct Machines {
    namespaces: Vec<String>,
    switch: String,
}

impl Machines {
    /// Creates `count` machines (253 at most).
    ///
    /// # Errors
    /// The reason as a text: `ip` is missing, or permission.
    pub fn new(count: u8) -> Result<Machines, String> {
        debug_assert!(
            count <= 253,
            "a network of /24 has no more addresses for machines"
        );
        static NETWORKS: AtomicU32 = AtomicU32::new(0);
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("nearfield-{}-{number}", std::process::id());
        let machines = Machines {
            namespaces: (0..count).map(|at| format!("{prefix}-{at}")).collect(),
            switch: format!("{prefix}-{SWITCH}"),
        };
        // The value exists before the first command, so that its drop removes a part of it, too.
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
        // Interfaces take a moment to come up, and UCX uses only those that exist when it starts.
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

    /// Returns a machine's address, from a network that is reserved for tests.
    pub fn address(&self, machine: usize) -> IpAddr {
        // Address 0 is the network itself.
        IpAddr::V4(Ipv4Addr::new(198, 18, 77, machine as u8 + 1))
    }

    /// Moves this thread to a machine: sockets that it opens later belong to that machine.
    ///
    /// # Panics
    /// If the machine no longer exists.
    #[cfg(target_os = "linux")]
    pub fn enter(&self, machine: usize) {
        use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
        // `ip netns add` has mounted the namespace there.
        let path = format!("/run/netns/{}", self.namespaces[machine]);
        let file = std::fs::File::open(path).expect("the machine exists");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("permission to enter a machine that was created");
    }

    /// Cuts the cable of a machine, or reconnects it.
    ///
    /// # Panics
    /// If the machine no longer exists.
    pub fn set_cable(&self, machine: usize, is_up: bool) {
        let name = &self.namespaces[machine];
        let state = if is_up { "up" } else { "down" };
        ip(&format!("-n {name} link set {CABLE} {state}")).expect("the machine exists");
    }

    /// Returns the words to put before a command to run it on a machine, in the same process.
    pub fn on(&self, machine: usize) -> [&str; 4] {
        ["ip", "netns", "exec", &self.namespaces[machine]]
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.namespaces.iter().chain([&self.switch]) {
            // Some do not exist if creation has failed.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// Returns the output of `ip` for a command, or the reason why it fails.
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
