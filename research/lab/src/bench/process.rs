//! The conductor's handle of a contestant's process.

use super::wire::{ContestantOrder, ContestantReply, read_line, write_line};
use crate::harness::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

/// The buffer of a pipe. A pipe holds 64 KiB; larger writes gain nothing.
const BUFFER_BYTES: usize = 1 << 16;

/// Timeout for a reply. The slowest slice takes seconds, the slowest load of 50 million keys some
/// minutes.
const PATIENCE: Timespec = Timespec {
    tv_sec: 20 * 60,
    tv_nsec: 0,
};

/// A process that is ended when this is dropped.
pub(super) struct ContestantProcess {
    child: Child,
    pid: Pid,
    orders: BufWriter<ChildStdin>,
    replies: BufReader<ChildStdout>,
    error_output: Option<JoinHandle<String>>,
    interrupt: Interrupt,
}

impl ContestantProcess {
    /// Starts `command` with huge pages on the allocator.
    pub(super) fn start(mut command: Command, interrupt: &Interrupt) -> io::Result<Self> {
        command
            .env("MIMALLOC_ALLOW_LARGE_OS_PAGES", "1")
            // A Ctrl-C reaches only the conductor.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        interrupt.enter(pid);
        let missing = || io::Error::other("a pipe is missing");
        let orders = child.stdin.take().ok_or_else(missing)?;
        let replies = child.stdout.take().ok_or_else(missing)?;
        // A full pipe would block the process, so a thread reads it all the time.
        let error_output = child
            .stderr
            .take()
            .map(|stderr| thread::spawn(|| last_message(stderr)));
        Ok(ContestantProcess {
            child,
            pid,
            orders: BufWriter::with_capacity(BUFFER_BYTES, orders),
            replies: BufReader::new(replies),
            error_output,
            interrupt: interrupt.clone(),
        })
    }

    /// Sends an order and the block of bytes that belongs to it.
    ///
    /// # Errors
    /// The way in which the process ended.
    pub(super) fn send(
        &mut self,
        order: &ContestantOrder,
        block: impl FnOnce(&mut BufWriter<ChildStdin>) -> io::Result<()>,
    ) -> Result<(), String> {
        let sent = write_line(&mut self.orders, order)
            .and_then(|()| block(&mut self.orders))
            .and_then(|()| self.orders.flush());
        sent.map_err(|error| self.describe_end(&error))
    }

    /// Waits for the reply to the last order, for up to [`PATIENCE`].
    ///
    /// # Errors
    /// The way in which the process ended, or its reason for a refusal.
    pub(super) fn receive(&mut self) -> Result<ContestantReply, String> {
        if let Err(error) = self.await_reply() {
            // A process that hangs would never end by itself.
            let _ = self.child.kill();
            return Err(error.to_string());
        }
        match read_line(&mut self.replies) {
            Ok(Some(ContestantReply::Refused { reason })) => Err(reason),
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.describe_end(&io::Error::other("no reply"))),
            Err(error) => Err(self.describe_end(&error)),
        }
    }

    /// Waits until there is something to read.
    fn await_reply(&self) -> io::Result<()> {
        // The pipe suffices, because replies are read whole and leave nothing in the buffer.
        let pipe = self.replies.get_ref();
        loop {
            match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&PATIENCE)) {
                Ok(0) => {
                    let message = format!("hangs: no reply for {} minutes", PATIENCE.tv_sec / 60);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                // A signal ends the call early.
                Err(Errno::INTR) => {}
                polled => return polled.map(drop).map_err(io::Error::from),
            }
        }
    }

    /// Calls [`send`](Self::send) and [`receive`](Self::receive), for orders without a block.
    pub(super) fn exchange(&mut self, order: &ContestantOrder) -> Result<ContestantReply, String> {
        self.send(order, |_| Ok(()))?;
        self.receive()
    }

    fn end(&mut self) -> io::Result<ExitStatus> {
        self.interrupt.leave(self.pid);
        // Killing fails only if the process has ended already.
        let _ = self.child.kill();
        self.child.wait()
    }

    /// Describes how the process ended, after its pipe failed with `error`.
    fn describe_end(&mut self, error: &io::Error) -> String {
        self.interrupt.leave(self.pid);
        // Its output is closed, so it is ending; killing it would hide the cause.
        let status = self.child.wait();
        let words = self
            .error_output
            .take()
            .and_then(|thread| thread.join().ok());
        let words = words.filter(|words| !words.is_empty());
        let end = match status {
            // The kernel sends this signal when memory runs out.
            Ok(status) if status.signal() == Some(9) => {
                "killed, as when memory runs out".to_owned()
            }
            Ok(status) => status.to_string(),
            Err(_) => error.to_string(),
        };
        match words {
            Some(words) => format!("{end}: {words}"),
            None => end,
        }
    }
}

impl Drop for ContestantProcess {
    fn drop(&mut self) {
        // No caller is left that could receive the status.
        let _ = self.end();
    }
}

/// Returns the message of a panic, or else the last line, of the standard error of a process.
fn last_message(stderr: impl Read) -> String {
    let lines = BufReader::new(stderr).split(b'\n').map_while(Result::ok);
    let mut last = String::new();
    let mut panicked = false;
    for line in lines {
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if line.is_empty() || line.starts_with("note: run with") {
            continue;
        }
        // The line after "thread … panicked at …:" is the message, others may follow.
        if panicked {
            last = line;
            break;
        }
        panicked = line.contains("panicked at");
        last = line;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> ContestantProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ContestantProcess::start(command, &Interrupt::default()).unwrap()
    }

    const ORDER: ContestantOrder = ContestantOrder::Slice {
        part: 0,
        parts: 1,
        version: 0,
    };

    #[test]
    fn a_crash_reports_its_status_and_last_message() {
        let error = shell("read line; echo went wrong >&2; exit 3")
            .exchange(&ORDER)
            .unwrap_err();
        assert_eq!(error, "exit status: 3: went wrong");
        let panic = "thread 'main' panicked at a.rs:1:1:\nno room\nnote: run with `X`";
        let script = format!(
            "read line; printf '{}' >&2; exit 101",
            panic.replace('\'', " ")
        );
        assert_eq!(
            shell(&script).exchange(&ORDER).unwrap_err(),
            "exit status: 101: no room"
        );
    }

    #[test]
    fn a_killed_process_is_distinguished_from_one_that_refuses() {
        let error = shell("read line; kill -9 $$").exchange(&ORDER).unwrap_err();
        assert!(error.starts_with("killed"), "{error}");
        let script = r#"read line; echo '{"answer":"refused","reason":"too long"}'; read line"#;
        assert_eq!(shell(script).exchange(&ORDER).unwrap_err(), "too long");
    }

    #[test]
    fn an_interrupt_ends_a_process_that_is_waited_for() {
        let interrupt = Interrupt::default();
        let mut command = Command::new("sleep");
        command.arg("600");
        let mut process = ContestantProcess::start(command, &interrupt).unwrap();
        let raiser = interrupt.clone();
        let thread = thread::spawn(move || raiser.raise());
        assert!(process.exchange(&ORDER).is_err());
        thread.join().unwrap();
        assert!(interrupt.is_raised());
    }
}
