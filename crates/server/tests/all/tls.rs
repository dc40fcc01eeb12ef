//! TLS and sockets in the file system, compared with redis-cli.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::commands::TABLE;
use nearfield_server::config::{ConfigFileContents, ListenPort, ServerOptions};
use nearfield_server::net;
use nearfield_server::server::ServerCore;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::in_own_folder;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A server with a folder for its certificates.
struct TlsTestServer {
    server: Arc<ServerCore>,
    tls: SocketAddr,
    folder: PathBuf,
    _own: Option<TestkitFolder>,
    thread: Option<JoinHandle<()>>,
}

/// Creates an authority, and its certificates for the server and for a client.
fn write_certificates(folder: &Path) {
    let mut params = CertificateParams::default();
    // OpenSSL takes a certificate for a self-signed one if its issuer has the same name.
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "Nearfield test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    for name in ["server", "client"] {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

impl TlsTestServer {
    fn start(name: &str, auth_clients: &str) -> TlsTestServer {
        let folder = format!("nearfield-tls-{}-{name}", process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        write_certificates(&folder);
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut settings = ConfigFileContents::default();
        for (name, value) in [
            ("tls-port", port.to_string()),
            ("tls-cert-file", path("server.pem")),
            ("tls-key-file", path("server.key")),
            ("tls-ca-cert-file", path("ca.pem")),
            ("tls-auth-clients", auth_clients.to_owned()),
            ("unixsocket", path("socket")),
            ("unixsocketperm", "700".to_owned()),
        ] {
            settings.add(name, value).unwrap();
        }
        let (options, own) = in_own_folder(ServerOptions {
            port: ListenPort::Free,
            threads: 2,
            settings,
            ..ServerOptions::default()
        });
        let server = Arc::new(ServerCore::new(TABLE.registry(), options));
        let (sender, receiver) = mpsc::channel();
        let shared = Arc::clone(&server);
        let thread = thread::spawn(move || {
            net::serve(&shared, |addresses| sender.send(addresses[1]).unwrap()).unwrap();
        });
        TlsTestServer {
            server,
            tls: receiver.recv_timeout(PATIENCE).unwrap(),
            folder,
            _own: own,
            thread: Some(thread),
        }
    }

    fn connect(&self, certificate: bool) -> StreamOwned<ClientConnection, TcpStream> {
        self.connect_to(self.tls, certificate)
    }

    fn connect_to(
        &self,
        address: SocketAddr,
        certificate: bool,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.folder.join("ca.pem")).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = if certificate {
            let chain = CertificateDer::from_pem_file(self.folder.join("client.pem")).unwrap();
            let key = PrivateKeyDer::from_pem_file(self.folder.join("client.key")).unwrap();
            config.with_client_auth_cert(vec![chain], key).unwrap()
        } else {
            config.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        StreamOwned::new(session, stream)
    }
}

impl Drop for TlsTestServer {
    fn drop(&mut self) {
        self.server.stop();
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn expect(stream: &mut impl Read, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    stream.read_exact(&mut read).unwrap();
    assert!(
        read == bytes,
        "{}",
        read.escape_ascii()
            .to_string()
            .chars()
            .take(200)
            .collect::<String>()
    );
}

#[test]
fn requests_and_replies_of_all_sizes_go_through_tls() {
    let setting = TlsTestServer::start("sizes", "no");
    let mut stream = setting.connect(false);
    stream.write_all(b"PING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n");
    for length in [
        0, 1, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 5_000_000,
    ] {
        let value = vec![b'v'; length];
        let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\n");
        let request = [
            head.as_bytes(),
            &value,
            b"\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
        ]
        .concat();
        stream.write_all(&request).unwrap();
        let head = format!("+OK\r\n${length}\r\n");
        expect(&mut stream, &[head.as_bytes(), &value, b"\r\n"].concat());
    }
    // Many requests at once, some of which TLS still holds when the socket is empty.
    stream
        .write_all(&b"*1\r\n$4\r\nPING\r\n".repeat(20_000))
        .unwrap();
    expect(&mut stream, &b"+PONG\r\n".repeat(20_000));
    // Requests before the end get their replies.
    stream.write_all(b"PING\r\nPING\r\n").unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    expect(&mut stream, b"+PONG\r\n+PONG\r\n");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn many_connections_speak_tls_at_once() {
    let setting = TlsTestServer::start("many", "no");
    thread::scope(|scope| {
        for number in 0..8 {
            let setting = &setting;
            scope.spawn(move || {
                for round in 0..10 {
                    let mut stream = setting.connect(false);
                    for _ in 0..20 {
                        stream
                            .write_all(format!("SET k{number} {round}\r\n").as_bytes())
                            .unwrap();
                        expect(&mut stream, b"+OK\r\n");
                    }
                }
            });
        }
    });
}

#[test]
fn clients_show_certificates_if_they_have_to() {
    let setting = TlsTestServer::start("auth", "yes");
    let mut stream = setting.connect(true);
    stream.write_all(b"PING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n");
    let mut stream = setting.connect(false);
    let refused = stream
        .write_all(b"PING\r\n")
        .and_then(|()| stream.read_exact(&mut [0; 7]));
    assert!(refused.is_err());
    // A client that does not speak TLS gets no replies.
    let mut stream = TcpStream::connect(setting.tls).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"PING\r\nPING\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|word| word == b"PONG"));
    let optional = TlsTestServer::start("optional", "optional");
    for certificate in [false, true] {
        let mut stream = optional.connect(certificate);
        stream.write_all(b"PING\r\n").unwrap();
        expect(&mut stream, b"+PONG\r\n");
    }
}

#[test]
fn certificates_are_read_again() {
    let setting = TlsTestServer::start("reload", "no");
    let old = setting.connect(false);
    write_certificates(&setting.folder);
    setting.server.tls.get().unwrap().reload().unwrap();
    // This client trusts only the new authority.
    let mut stream = setting.connect(false);
    stream.write_all(b"PING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n");
    drop(old);
    fs::write(setting.folder.join("server.key"), "no key").unwrap();
    let error = setting.server.tls.get().unwrap().reload().unwrap_err();
    assert!(error.to_string().contains("server.key"), "{error}");
    let mut stream = setting.connect(false);
    stream.write_all(b"PING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n");
}

#[test]
fn a_socket_in_the_file_system_is_served() {
    let setting = TlsTestServer::start("unix", "no");
    let path = setting.folder.join("socket");
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"SET a b\r\nGET a\r\nCLIENT INFO\r\n")
        .unwrap();
    expect(&mut stream, b"+OK\r\n$1\r\nb\r\n");
    let mut info = [0; 200];
    let count = stream.read(&mut info).unwrap();
    let info = String::from_utf8_lossy(&info[..count]).into_owned();
    assert!(
        info.contains(&format!("addr={}:0", path.display())),
        "{info}"
    );
    drop(setting);
    assert!(!path.exists());
}

#[test]
fn redis_cli_speaks_tls() {
    let setting = TlsTestServer::start("redis-cli", "yes");
    let path = |name: &str| setting.folder.join(name);
    let output = Command::new("redis-cli")
        .args([
            "-h",
            "127.0.0.1",
            "-p",
            &setting.tls.port().to_string(),
            "--tls",
        ])
        .arg("--cacert")
        .arg(path("ca.pem"))
        .arg("--cert")
        .arg(path("client.pem"))
        .arg("--key")
        .arg(path("client.key"))
        .args(["SET", "a", "b"])
        .stdin(Stdio::null())
        .output();
    // Without redis-cli, the other tests must suffice.
    if let Ok(output) = output {
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "OK\n",
            "{output:?}"
        );
    }
}

#[test]
fn metrics_are_complete_and_well_formed() {
    let setting = TlsTestServer::start("metrics", "no");
    let mut stream = setting.connect(false);
    let sets = "SET a 1\r\nGET a\r\nGET b\r\nDEL a\r\n";
    stream.write_all(sets.as_bytes()).unwrap();
    expect(&mut stream, b"+OK\r\n$1\r\n1\r\n$-1\r\n:1\r\n");
    stream.write_all(b"SET a 1\r\nPING\r\n").unwrap();
    expect(&mut stream, b"+OK\r\n+PONG\r\n");
    let text = nearfield_server::metrics::text(&setting.server, &setting.server.keyspace.share());
    for line in [
        "nearfield_commands_total{command=\"get\"} 2",
        "nearfield_commands_total{command=\"set\"} 2",
        "nearfield_commands_total{command=\"del\"} 1",
        "nearfield_connected_clients 1",
        "nearfield_keyspace_hits_total 1",
        "nearfield_keyspace_misses_total 1",
        "nearfield_keys_evicted_total 0",
        "nearfield_keys{database=\"0\"} 1",
        "nearfield_batch_size_count 2",
        "nearfield_snapshot_in_progress 0",
        "# TYPE nearfield_command_duration_seconds histogram",
        "# EOF",
    ] {
        assert!(
            text.lines().any(|other| other == line),
            "{line} is not in\n{text}"
        );
    }
    for start in [
        "nearfield_memory_used_bytes{kind=\"index_leaves\"} ",
        "nearfield_command_duration_seconds_bucket{le=\"+Inf\",command=\"get\"} 2",
        "nearfield_command_duration_seconds_sum{command=\"get\"} ",
        "nearfield_log_sync_seconds_total ",
    ] {
        assert!(
            text.lines().any(|other| other.starts_with(start)),
            "{start} is not in\n{text}"
        );
    }
}

#[test]
fn tls_is_spoken_where_addresses_change_to() {
    let setting = TlsTestServer::start("bind", "no");
    let mut stream = setting.connect(false);
    stream
        .write_all(
            b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$4\r\nbind\r\n$19\r\n127.0.0.1 127.0.0.2\r\n",
        )
        .unwrap();
    expect(&mut stream, b"+OK\r\n");
    for last in [1, 2] {
        let at = SocketAddr::new(Ipv4Addr::new(127, 0, 0, last).into(), setting.tls.port());
        let mut other = setting.connect_to(at, false);
        other.write_all(b"PING\r\n").unwrap();
        expect(&mut other, b"+PONG\r\n");
    }
    stream.write_all(b"PING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n");
    // The socket in the file system stays.
    let mut local = UnixStream::connect(setting.folder.join("socket")).unwrap();
    local.write_all(b"PING\r\n").unwrap();
    expect(&mut local, b"+PONG\r\n");
}
