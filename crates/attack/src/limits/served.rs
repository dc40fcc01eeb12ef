//! The measured servers, all with the same settings.

use crate::process::{CoreTimes, processor_time, resident_bytes};
use crate::target::free_ports;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server's process. It is killed when this value is dropped.
pub(super) struct ServedProgram {
    child: Child,
    pub(super) address: SocketAddr,
    /// The name of the program.
    pub(super) name: String,
    /// The server's files.
    _folder: TestkitFolder,
}

impl ServedProgram {
    /// Starts the server of a program, and waits until it replies.
    pub(super) fn start(program: &Path) -> io::Result<ServedProgram> {
        let folder = TestkitFolder::new();
        let [port, _] = free_ports()?;
        let configuration = folder.join("server.conf");
        let text = format!(
            "bind 127.0.0.1\nport {port}\nsave \"\"\nappendonly no\nmaxclients 15000\n\
             tcp-backlog 4096\nclient-output-buffer-limit normal 64mb 32mb 10\ndir \"{}\"\n",
            folder.0.display()
        );
        fs::write(&configuration, text)?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut command = Command::new(program);
        if name.starts_with("nearfield") {
            command.args(["serve", "--config"]);
        }
        let child = command
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("{}: {error}", program.display())))?;
        let server = ServedProgram {
            child,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            name: name.into_owned(),
            _folder: folder,
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answers = TestkitConnection::open(server.address)
                .is_ok_and(|mut connection| connection.command(&[b"PING"]).is_ok());
            if answers {
                return Ok(server);
            }
            if Instant::now() > deadline {
                let name = program.display();
                return Err(io::Error::other(format!("{name} does not serve")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for ServedProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resources that a server has used up to an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerResourceUsage {
    pub(super) resident_bytes: u64,
    pub(super) processor_time: Duration,
    pub(super) cores: CoreTimes,
}

impl ServerResourceUsage {
    pub(super) fn of(server: &ServedProgram) -> ServerResourceUsage {
        let id = server.child.id();
        ServerResourceUsage {
            resident_bytes: resident_bytes(id).unwrap_or(0),
            processor_time: processor_time(id).unwrap_or_default(),
            cores: CoreTimes::read(),
        }
    }
}
