//! The memory of this machine, as the system reports it.

/// Returns the bytes of memory that the process may have: those of the machine, or of its control
/// group if that has fewer. `None` where the system does not report them.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = kibibytes_after(&text, "MemTotal:")? * 1024;
    Some(group_bytes().map_or(machine, |group| group.min(machine)))
}

/// Returns the memory limit of the process's control group, in either version of the interface.
fn group_bytes() -> Option<u64> {
    const FILES: [&str; 2] = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    // A group without a limit has the text `max`, which is no number.
    let number = |file: &&str| std::fs::read_to_string(file).ok()?.trim().parse().ok();
    FILES.iter().find_map(number)
}

/// Sums all `name  <number> kB` lines of a text in the format of `/proc/meminfo`; returns `None` if
/// there is no such line. The kernel writes "kB" and means 1,024 bytes.
pub fn kibibytes_after(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter_map(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
        .reduce(|sum: u64, kibibytes| sum + kibibytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_lines_are_summed() {
        let text = "MemFree: 7 kB\nMemAvailable:   123 kB\nMemAvailable: 2 kB\n";
        assert_eq!(kibibytes_after(text, "MemAvailable:"), Some(125));
        assert_eq!(kibibytes_after(text, "SwapFree:"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        // Other systems do not report it.
        if cfg!(target_os = "linux") {
            assert!(memory_bytes().is_some_and(|bytes| bytes > 1 << 28));
        }
    }
}
