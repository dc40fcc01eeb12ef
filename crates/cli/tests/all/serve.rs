//! The server as a process: its output, signals, and the output of `top`.

use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_testkit::etcd::free_port;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NEARFIELD: &str = env!("CARGO_BIN_EXE_nearfield");
const PATIENCE: Duration = Duration::from_secs(30);

struct ServeProcess {
    child: Child,
    port: u16,
    metrics: u16,
    log: PathBuf,
}

impl ServeProcess {
    /// Starts a server and waits until it is ready. A port that was free may be taken by the time
    /// the server binds it, and then another process responds there. So the server's own log is
    /// read for readiness, and a server that ended is started again on other ports.
    fn start(name: &str) -> ServeProcess {
        for _ in 0..5 {
            let mut serving = ServeProcess::spawn(name);
            let mut ended = None;
            until(|| {
                ended = serving.child.try_wait().expect("a child");
                ended.is_some() || serving.says("ready")
            });
            match ended {
                None => return serving,
                Some(status) => eprintln!("the server ended with {status} on {}", serving.port),
            }
        }
        panic!("no server starts");
    }

    fn spawn(name: &str) -> ServeProcess {
        let log = std::env::temp_dir().join(format!("nearfield-{}-{name}.log", std::process::id()));
        let (port, metrics) = (free_port(), free_port());
        let child = Command::new(NEARFIELD)
            // Saved files must not be left in the source tree.
            .current_dir(env!("CARGO_TARGET_TMPDIR"))
            .args(["serve", "--log-format", "json", "--threads", "2"])
            .args(["--port", &port.to_string()])
            .args(["--metrics-port", &metrics.to_string()])
            .arg("--logfile")
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program");
        ServeProcess {
            child,
            port,
            metrics,
            log,
        }
    }

    fn says(&self, word: &str) -> bool {
        std::fs::read_to_string(&self.log).is_ok_and(|log| log.contains(word))
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill").success());
    }

    /// Waits for the end of the process and returns its exit status.
    fn status(&mut self) -> Option<i32> {
        let mut status = None;
        until(|| {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    fn ask(&self, port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        reply
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sigterm_ends_it_and_sighup_opens_the_log_again() {
    let mut serving = ServeProcess::start("signals");
    let moved = serving.log.with_extension("old");
    std::fs::rename(&serving.log, &moved).expect("a log");
    let first = std::fs::read_to_string(&moved).expect("a log");
    let _ = std::fs::remove_file(&moved);
    let line = first
        .lines()
        .find(|line| line.contains("ready"))
        .expect("a line");
    assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
    serving.signal("-HUP");
    until(|| serving.log.exists());
    serving.signal("-USR1");
    assert_eq!(
        serving.ask(serving.port, "PING\r\nQUIT\r\n"),
        "+PONG\r\n+OK\r\n"
    );
    serving.signal("-TERM");
    assert_eq!(serving.status(), Some(0));
}

#[test]
fn the_first_sigterm_ends_it_while_scripts_run_that_do_not_end() {
    for script in ["", "redis.call('set','key','value')"] {
        let mut serving = ServeProcess::start("endless");
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port)).expect("a server");
        let request = format!(
            "CONFIG SET busy-reply-threshold 20\r\nEVAL \"{script} while true do end\" 0\r\n"
        );
        client.write_all(request.as_bytes()).expect("it is sent");
        until(|| {
            let reply = serving.ask(serving.port, "PING\r\nQUIT\r\n");
            reply.starts_with("-BUSY")
        });
        serving.signal("-TERM");
        assert_eq!(serving.status(), Some(0));
    }
}

#[test]
fn metrics_and_top_show_the_work() {
    let serving = ServeProcess::start("metrics");
    let page = serving.ask(
        serving.metrics,
        "GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n",
    );
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("\nnearfield_connected_clients "), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
    let other = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    assert!(
        serving
            .ask(serving.metrics, other)
            .starts_with("HTTP/1.1 404")
    );
    let top = Command::new(NEARFIELD)
        .args(["top", "--once", "--port", &serving.port.to_string()])
        .output()
        .expect("the program");
    let text = String::from_utf8_lossy(&top.stdout);
    assert!(top.status.success(), "{top:?}");
    for word in [
        "commands/s",
        "Hot keys",
        "Batches",
        "Memory",
        "index leaves",
    ] {
        assert!(text.contains(word), "no {word} in\n{text}");
    }
}

/// Returns the first output of a server that is started with a configuration file.
fn greeting(name: &str, settings: &str) -> String {
    let file = std::env::temp_dir().join(format!("nearfield-{}-{name}.conf", std::process::id()));
    let settings = format!("port {}\n{settings}\n", free_port());
    std::fs::write(&file, settings).expect("a file");
    let mut child = Command::new(NEARFIELD)
        // Saved files must not be left in the source tree.
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .args(["serve", "--config"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program");
    let mut words = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains("Ctrl-C") && words.read_line(&mut text).is_ok_and(|read| read > 0) {}
    let _ = child.kill();
    let _ = child.wait();
    let _ = std::fs::remove_file(&file);
    text
}

#[test]
fn the_welcome_names_a_client_and_the_durability() {
    let text = greeting("bare", "");
    assert!(
        text.contains("redis-cli -p") && !text.contains("--askpass"),
        "{text}"
    );
    assert!(text.contains("KPREFIX user:"), "{text}");
    assert!(text.contains("Data is lost"), "{text}");
    let folder = TestkitFolder::new();
    let dir = format!("dir {}", folder.0.display());
    let text = greeting(
        "kept",
        &format!("{dir}\nappendonly yes\nrequirepass secret"),
    );
    assert!(text.contains("--askpass"), "{text}");
    assert!(
        text.contains(&format!("Data is saved in {}", folder.0.display())),
        "{text}"
    );
    let text = greeting("saved", &format!("{dir}\nappendonly no\nsave 60 1"));
    assert!(text.contains("Snapshots are saved in"), "{text}");
}

/// A configuration file in a folder of its own, which is deleted with this value.
struct ServeConfigFile(TestkitFolder);

impl ServeConfigFile {
    fn new(lines: &str) -> ServeConfigFile {
        let folder = TestkitFolder::new();
        let lines = format!("dir {}\nio-threads 1\n{lines}", folder.0.display());
        std::fs::write(folder.join("server.conf"), lines).expect("a file");
        ServeConfigFile(folder)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(NEARFIELD);
        command.args(["serve", "--config"]);
        command.arg(self.0.join("server.conf"));
        command.env_remove("NOTIFY_SOCKET");
        command
    }
}

fn signal(id: &str, name: &str) -> bool {
    let sent = Command::new("kill")
        .args([name, id])
        .stderr(Stdio::null())
        .status();
    sent.expect("kill").success()
}

#[test]
fn a_server_goes_into_the_background_with_its_number_in_a_file() {
    let configured = ServeConfigFile::new(
        "port 0\nunixsocket server.socket\ndaemonize yes\npidfile server.pid\nsave \"\"\n\
         shutdown-on-sigterm \"nosave now\"\nset-proc-title no\n",
    );
    let output = configured.command().output().expect("the program");
    assert!(output.status.success(), "{output:?}");
    let file = configured.0.join("server.pid");
    let number = std::fs::read_to_string(&file).expect("a file");
    let number = number.trim().to_owned();
    let socket = configured.0.join("server.socket");
    let stream = std::os::unix::net::UnixStream::connect(&socket);
    assert!(stream.is_ok(), "{stream:?}");
    assert!(signal(&number, "-TERM"));
    until(|| !file.exists() && !socket.exists());
    until(|| !signal(&number, "-0"));
    // The error is printed first, and a server that does not start is no success.
    for lines in ["daemonize yes\nport x\n", "daemonize yes\nport 0\n"] {
        let configured = ServeConfigFile::new(lines);
        let output = configured.command().output().expect("the program");
        assert!(!output.status.success(), "{lines}");
        assert!(!output.stderr.is_empty(), "{lines}");
    }
}

#[test]
fn sigterm_saves_as_configured() {
    for (words, saves) in [
        ("nosave now", false),
        ("default", true),
        ("save force", true),
    ] {
        let configured = ServeConfigFile::new(&format!(
            "port 0\nunixsocket server.socket\nappendonly no\nsave 3600 1\n\
             shutdown-on-sigterm {words}\n"
        ));
        let mut child = configured
            .command()
            .stdout(Stdio::null())
            .spawn()
            .expect("the program");
        let socket = configured.0.join("server.socket");
        let mut stream = None;
        until(|| {
            stream = std::os::unix::net::UnixStream::connect(&socket).ok();
            stream.is_some()
        });
        let mut stream = stream.expect("a connection");
        stream.write_all(b"SET a 1\r\n").expect("it is sent");
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+OK\r\n");
        assert!(signal(&child.id().to_string(), "-TERM"));
        let status = child.wait().expect("a status");
        assert!(status.success(), "{words}: {status}");
        assert_eq!(configured.0.join("dump.rdb").exists(), saves, "{words}");
    }
}
