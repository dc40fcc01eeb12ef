//! A watchdog for commands that may never end.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between checks of a command.
const TICK: Duration = Duration::from_millis(50);

/// Runs a command until it ends, `limit` has passed or `stopped` is set. A command that has not
/// ended by then is killed, with all processes that it has started. Returns its output, and true if
/// it was killed because of the limit.
pub fn output(
    command: &mut Command,
    limit: Duration,
    stopped: &AtomicBool,
) -> io::Result<(Output, bool)> {
    // In a group of its own, so that the processes that it starts can be killed with it.
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    // Read in threads, because a command stops when a pipe is full.
    let printed = [reader(child.stdout.take()), reader(child.stderr.take())];
    let begin = Instant::now();
    let mut hangs = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        hangs = begin.elapsed() > limit;
        if hangs || stopped.load(Ordering::Relaxed) {
            debug_assert!(
                child.id() > 1,
                "other numbers stand for groups of other processes"
            );
            let group = format!("-{}", child.id());
            // The standard library kills only the process itself.
            Command::new("kill")
                .args(["-KILL", "--", &group])
                .status()?;
            break child.wait()?;
        }
        // Polled, because the standard library has no wait with a timeout.
        thread::sleep(TICK);
    };
    let [stdout, stderr] = printed.map(|thread| thread.join().unwrap_or_default());
    let output = Output {
        status,
        stdout,
        stderr,
    };
    Ok((output, hangs))
}

/// Reads all output in a thread.
fn reader(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // After an error, the bytes read so far are kept.
            let _ = from.read_to_end(&mut bytes);
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Output, bool) {
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]);
        output(command, limit, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_with_what_it_has_begun() {
        let begin = Instant::now();
        let script = "echo begun; sleep 600 & wait";
        let (output, hangs) = shell(script, Duration::from_millis(300));
        assert!(hangs && !output.status.success());
        assert_eq!(output.stdout, b"begun\n");
        // The sleep has inherited the output, which would otherwise be open for ten minutes.
        assert!(begin.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn a_command_that_ends_is_left_alone() {
        let (output, hangs) = shell("echo out; echo err >&2; exit 3", Duration::from_secs(600));
        assert!(!hangs);
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (&output.stdout[..], &output.stderr[..]),
            (&b"out\n"[..], &b"err\n"[..])
        );
    }
}
