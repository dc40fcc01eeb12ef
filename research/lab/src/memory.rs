//! The memory that the machine has left for an experiment.

use std::fs;

use crate::error::LabError;
use nearfield_tiers::machine::kibibytes_after;

/// Returns the memory that can be taken without swapping, in bytes: the kernel's `MemAvailable`, or
/// the rest of the limit of this process's control group (version 2) if that is less. Returns
/// `None` if neither can be read.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| kibibytes_after(&text, "MemAvailable:"))
        .map(|kibibytes| kibibytes * 1024);
    match (machine, group_bytes()) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

/// Checks that an experiment fits into the available memory.
///
/// # Errors
/// `OutOfMemory` naming `what`, its need and the memory available.
pub fn check_available(
    describe: impl FnOnce() -> String,
    needed_bytes: u64,
) -> Result<(), LabError> {
    match available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes => Err(LabError::OutOfMemory {
            subject: describe(),
            needed_bytes,
            available_bytes,
        }),
        _ => Ok(()),
    }
}

fn group_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let folder = format!("/sys/fs/cgroup{}", path.trim_end_matches('/'));
    let read = |file: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("{folder}/{file}")).ok()?;
        // A group without a limit has the word `max` there, which is no number.
        text.trim().parse().ok()
    };
    // A limit that was lowered may be below the present use.
    Some(read("memory.max")?.saturating_sub(read("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_petabyte_is_refused_and_a_byte_is_not() {
        assert!(check_available(|| "a byte".to_owned(), 1).is_ok());
        let refused = check_available(|| "a petabyte".to_owned(), 1 << 50);
        let Err(LabError::OutOfMemory { needed_bytes, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(needed_bytes, 1 << 50);
    }
}
