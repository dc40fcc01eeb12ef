//! Processes of the program, and the files that they read.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

pub const NEARFIELD: &str = env!("CARGO_BIN_EXE_nearfield");

/// A process whose output is read. It is killed if a test fails.
pub struct CliTestProcess {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl CliTestProcess {
    pub fn start(arguments: &[&str]) -> CliTestProcess {
        let mut child = Command::new(NEARFIELD)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        CliTestProcess { child, output }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line of output that contains a text.
    pub fn line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("text");
            assert!(length > 0, "it exited without {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits until a memory node runs programs, and returns their address.
    pub fn programs_address(&mut self) -> SocketAddrV4 {
        let ready = self.line("Traversal programs run on it");
        let mut words = ready.split_whitespace();
        let address = words.find_map(|word| word.trim_end_matches('.').parse().ok());
        address.expect("a place")
    }

    /// Ends the process by a signal, such as `-INT` of Ctrl-C, and returns the rest of its output.
    pub fn end(&mut self, name: &str) -> String {
        assert!(signal(self.id(), name));
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert!(self.child.wait().expect("it ends").success());
        rest
    }

    /// Kills the process, which cleans nothing up.
    pub fn kill(&mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
    }

    /// Ends the process as Ctrl-C does.
    pub fn interrupt(&mut self) {
        signal(self.id(), "-INT");
        let _ = self.child.wait();
    }
}

impl Drop for CliTestProcess {
    fn drop(&mut self) {
        // The process has ended already if the test passed.
        let _ = self.child.kill();
    }
}

/// Sends a signal to a process. Returns false if there is no such process.
pub fn signal(id: u32, name: &str) -> bool {
    let sent = Command::new("kill")
        .args([name, &id.to_string()])
        .stderr(Stdio::null())
        .status();
    sent.expect("kill").success()
}

/// Writes a file, and returns its path.
pub fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a folder");
    path.to_str().expect("text").to_owned()
}
