//! The state of other processes.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Returns the system's state of a process: its letter, and the start time in ticks.
fn state(process: u32) -> Option<(char, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before the parenthesis may have any characters.
    let (_, fields) = status.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let letter = fields.next()?.chars().next()?;
    Some((letter, fields.nth(18)?.parse().ok()?))
}

/// Returns true if a process lives. An ended process that its parent has not waited for does not.
pub fn is_alive(process: u32) -> bool {
    let Some(id) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return false;
    };
    if test_kill_process(id) == Err(Errno::SRCH) {
        return false;
    }
    !matches!(state(process), Some(('Z' | 'X', _)))
}

/// Returns the start time of a process, in ticks of the system; `None` if it is unknown.
pub fn started(process: u32) -> Option<u64> {
    state(process).map(|(_, ticks)| ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_was_started_after_its_parent() {
        let me = std::process::id();
        assert!(is_alive(me));
        let parent = std::os::unix::process::parent_id();
        assert!(started(me).is_some() && started(me) >= started(parent));
        assert!(!is_alive(0) && !is_alive(u32::MAX));
        assert_eq!(started(u32::MAX), None);
    }
}
