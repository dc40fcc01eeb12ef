//! The memory of the machine and of this process, as the system reports them.

/// Returns the bytes of memory that the process may have: those of the machine, or of its control
/// group if that has fewer. `None` where the system does not report them.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let machine = kilobytes * 1024;
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

/// Returns the bytes of memory that the process has taken and uses; `None` where the system does
/// not report them.
pub fn resident_bytes() -> Option<u64> {
    const PAGE_BYTES: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE_BYTES)
}
