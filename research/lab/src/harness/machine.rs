//! The machine and the versions of a measurement.

use super::team::cores;
use nearfield_tiers::machine::kibibytes_after;
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;

/// The properties of the machine that rates depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineProperties {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// The kernel's setting of transparent huge pages: `always`, `madvise`, `never`.
    pub huge_pages: String,
    /// The kernel's name and release.
    pub kernel: String,
}

impl MachineProperties {
    /// Describes this machine; properties that cannot be read are `unknown` or 0.
    #[must_use]
    pub fn here() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let cpu = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let setting = read("/sys/kernel/mm/transparent_hugepage/enabled");
        let chosen = setting
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        let or_unknown = |text: Option<&str>| text.map_or("unknown".into(), |t| t.trim().into());
        let release = read("/proc/sys/kernel/osrelease");
        MachineProperties {
            cpu: or_unknown(cpu.map(|(_, name)| name)),
            cores: cores().len(),
            memory_bytes: kibibytes_after(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0) * 1024,
            huge_pages: or_unknown(chosen.map(|(name, _)| name)),
            kernel: format!("Linux {}", or_unknown(Some(&release))),
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the commit of the working tree, with `-dirty` if it differs; `unknown` without git.
#[must_use]
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    match (git(&["rev-parse", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        // Also if the state of the files is unknown.
        (Some(commit), _) => format!("{commit}-dirty"),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = MachineProperties::here();
        assert!(
            machine.cores > 0 && machine.memory_bytes > 1 << 28,
            "{machine:?}"
        );
        assert!(machine.kernel.len() > "Linux ".len());
    }
}
