//! The attacked server, a process with small limits.

use nearfield_server_testkit::connection::{PATIENCE, TestkitConnection};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::reply::RespReplyValue;
use rcgen::{CertificateParams, KeyPair};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The user as which attackers log in.
pub(crate) const ATTACKER: &str = "attacker";
/// The attackers' password.
pub(crate) const ATTACKER_PASSWORD: &str = "hostile";
/// The password of the default user, which attackers do not know.
const PASSWORD: &str = "a password that no stream has";

/// Commands that attackers may not run, because they legitimately stop a server or change the
/// measured values.
const FORBIDDEN: &[&str] = &[
    "-shutdown",
    "-debug",
    "-config|set",
    "-config|rewrite",
    "-acl|setuser",
    "-acl|deluser",
    "-acl|load",
    "-acl|save",
    "-client|pause",
    "-client|no-evict",
    "-replicaof",
    "-slaveof",
    "-migrate",
    "-module",
    "-save",
    "-bgsave",
    "-bgrewriteaof",
    "+debug|object",
    "+debug|digest",
    "+debug|digest-value",
    "+debug|protocol",
    "+debug|error",
];

/// Words in the log that a correct server never writes.
const REPORTS: &[&str] = &["AddressSanitizer", "panicked at", "runtime error:"];

/// The limits of the server.
#[derive(Clone, Debug)]
pub(crate) struct TargetLimits {
    pub(crate) memory_bytes: u64,
    pub(crate) policy: &'static str,
    pub(crate) threads: usize,
    /// True if the server logs changes.
    pub(crate) logs: bool,
}

/// A server's process. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct AttackedServer {
    child: Child,
    /// The server's files.
    pub(crate) folder: TestkitFolder,
    pub(crate) address: SocketAddr,
    pub(crate) tls: SocketAddr,
    pub(crate) socket: PathBuf,
    log: PathBuf,
    /// Position up to which the log was checked.
    looked_at: u64,
}

impl AttackedServer {
    /// Starts the server of a program.
    ///
    /// # Errors
    /// It does not reply in time.
    pub(crate) fn start(program: &Path, limits: &TargetLimits) -> io::Result<AttackedServer> {
        let folder = TestkitFolder::new();
        let [port, tls] = free_ports()?;
        let socket = folder.join("socket");
        write_certificate(&folder)?;
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        let configuration = folder.join("server.conf");
        let text = configuration_text(limits, &folder, port, tls);
        fs::write(&configuration, text)?;
        let log = folder.join("server.log");
        let output = File::create(&log)?;
        let child = Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(&configuration)
            .args(["--threads", &limits.threads.to_string()])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut target = AttackedServer {
            child,
            folder,
            address: local(port),
            tls: local(tls),
            socket,
            log,
            looked_at: 0,
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Ok(mut control) = target.control() {
                target.admit_attackers(&mut control)?;
                return Ok(target);
            }
            if Instant::now() > deadline || target.ended().is_some() {
                let log = fs::read_to_string(&target.log).unwrap_or_default();
                return Err(io::Error::other(format!("it does not start: {log}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn admit_attackers(&self, control: &mut TestkitConnection) -> io::Result<()> {
        let password = format!(">{ATTACKER_PASSWORD}");
        let words = [
            "ACL", "SETUSER", ATTACKER, "on", &password, "~*", "&*", "+@all",
        ];
        ask(control, &words)?;
        // In their order, because the last rules allow subcommands again.
        for rule in FORBIDDEN {
            // A server without a command refuses the rule for it.
            let _ = ask(control, &["ACL", "SETUSER", ATTACKER, rule]);
        }
        Ok(())
    }

    /// Opens a connection of a user with all rights.
    pub(crate) fn control(&self) -> io::Result<TestkitConnection> {
        control(self.address, PATIENCE)
    }

    /// Returns the id of the server's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status, if the server has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns text that the server has logged since the last call and that a correct server never
    /// logs.
    pub(crate) fn report(&mut self) -> Option<String> {
        let mut log = File::open(&self.log).ok()?;
        log.seek(SeekFrom::Start(self.looked_at)).ok()?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes).ok()?;
        // An incomplete line is read again next time.
        let length = bytes.iter().rposition(|&byte| byte == b'\n')? + 1;
        self.looked_at += length as u64;
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let is_report = |line: &&str| REPORTS.iter().any(|report| line.contains(report));
        text.lines().find(is_report).map(str::to_owned)
    }

    /// Returns the path of the log.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Shuts the server down, and returns its exit status.
    ///
    /// # Errors
    /// It does not end within `patience`.
    pub(crate) fn shut_down(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        if let Ok(mut control) = self.control() {
            // A server that is shutting down sends no reply.
            let _ = ask(&mut control, &["SHUTDOWN", "NOSAVE"]);
        }
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("it does not end"));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for AttackedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens a connection to a target, of a user with all rights. Waits for `patience` until the server
/// replies to the user's name.
pub(crate) fn control(address: SocketAddr, patience: Duration) -> io::Result<TestkitConnection> {
    let mut connection = TestkitConnection::open(address)?;
    connection.send_words(&[b"AUTH", PASSWORD.as_bytes()])?;
    accepted(connection.receive_within(patience)?)?;
    Ok(connection)
}

/// Sends a command and reads its reply, which must not be an error.
pub(crate) fn ask(
    connection: &mut TestkitConnection,
    words: &[&str],
) -> io::Result<RespReplyValue> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    accepted(connection.command(&words)?)
}

/// Turns a reply that is an error into an error.
fn accepted(reply: RespReplyValue) -> io::Result<RespReplyValue> {
    match reply {
        RespReplyValue::Error(text) => Err(io::Error::other(
            String::from_utf8_lossy(&text).into_owned(),
        )),
        answer => Ok(answer),
    }
}

/// Returns two free ports.
pub(crate) fn free_ports() -> io::Result<[u16; 2]> {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // Both are open at the same time, so that the ports differ.
    let (first, second) = (free()?, free()?);
    Ok([first.local_addr()?.port(), second.local_addr()?.port()])
}

fn write_certificate(folder: &TestkitFolder) -> io::Result<()> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let params = CertificateParams::new(vec!["localhost".to_owned()]).map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    fs::write(folder.join("server.pem"), certificate.pem())?;
    fs::write(folder.join("server.key"), key.serialize_pem())
}

fn configuration_text(
    limits: &TargetLimits,
    folder: &TestkitFolder,
    port: u16,
    tls: u16,
) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    let logs = if limits.logs { "yes" } else { "no" };
    format!(
        "bind 127.0.0.1\nport {port}\nrequirepass \"{PASSWORD}\"\n\
         maxmemory {memory}\nmaxmemory-policy {policy}\nmaxmemory-clients {clients}\n\
         client-output-buffer-limit normal 8mb 4mb 5\n\
         client-output-buffer-limit pubsub 8mb 4mb 5\n\
         client-query-buffer-limit 16mb\nproto-max-bulk-len 16mb\n\
         enable-debug-command yes\nbusy-reply-threshold 50\n\
         dir \"{data}\"\nappendonly {logs}\nsave \"\"\n\
         unixsocket \"{socket}\"\ntls-port {tls}\ntls-auth-clients no\n\
         tls-cert-file \"{certificate}\"\ntls-key-file \"{key}\"\n",
        memory = limits.memory_bytes,
        policy = limits.policy,
        clients = limits.memory_bytes / 4,
        data = path("data"),
        socket = path("socket"),
        certificate = path("server.pem"),
        key = path("server.key"),
    )
}
