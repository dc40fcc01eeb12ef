//! The memory of processes, as Linux counts it.

use nearfield_tiers::machine::kibibytes_after;

/// Returns a size from the status of a process in bytes, such as `VmRSS:`, its resident memory.
/// `None` if there is no such process.
pub fn status_bytes(id: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    Some(kibibytes_after(&status, name)? * 1024)
}
