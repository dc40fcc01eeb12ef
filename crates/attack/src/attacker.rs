//! Threads that send streams, several at a time each.

use crate::record::StreamRecord;
use crate::streams::{ByteStream, ReadingManner, StreamAuthor, StreamDoor, StreamKind};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Connections of one thread at a time.
const SLOTS: usize = 8;
/// Time that a client waits for missing replies.
const PATIENCE: Duration = Duration::from_millis(150);
/// Time that a client waits for a server that does not read.
const STUCK: Duration = Duration::from_secs(2);

/// Address and protocol of the server.
#[derive(Clone, Debug)]
pub(crate) struct ServerDoors {
    pub(crate) tcp: SocketAddr,
    pub(crate) tls: SocketAddr,
    pub(crate) socket: PathBuf,
}

/// The streams to send, shared by all attackers.
#[derive(Debug)]
pub(crate) struct StreamOrders {
    next: AtomicU64,
    end: u64,
}

impl StreamOrders {
    pub(crate) fn new(first: u64, count: u64) -> StreamOrders {
        StreamOrders {
            next: AtomicU64::new(first),
            end: first.saturating_add(count),
        }
    }

    fn take(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then_some(number)
    }
}

/// Counts of the streams and bytes that attackers have sent.
#[derive(Debug, Default)]
pub(crate) struct AttackCounts {
    /// Numbers of streams that were sent, and of their bytes.
    pub(crate) streams: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    /// Number of connections that were refused.
    pub(crate) refused: AtomicU64,
}

trait ByteSocket: Read + Write + Send {
    /// Ends the sending direction.
    fn finish(&self) -> io::Result<()>;
}

impl ByteSocket for TcpStream {
    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl ByteSocket for UnixStream {
    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

struct OpenStream {
    stream: ByteStream,
    socket: Box<dyn ByteSocket>,
    sent: usize,
    /// The time of the last progress.
    since: Instant,
    finished: bool,
}

/// Sends streams until there are no more or `stop` is set. Returns the last streams of each
/// connection, and the number of each kind.
pub(crate) fn attack(
    mut author: StreamAuthor<'_>,
    doors: &ServerDoors,
    orders: &StreamOrders,
    counts: &AttackCounts,
    stop: &AtomicBool,
) -> (Vec<StreamRecord>, BTreeMap<StreamKind, u64>) {
    let mut slots: Vec<Option<OpenStream>> = (0..SLOTS).map(|_| None).collect();
    let mut records: Vec<StreamRecord> = (0..SLOTS).map(|_| StreamRecord::default()).collect();
    let mut kinds = BTreeMap::new();
    let mut scratch = vec![0; 1 << 16];
    let mut is_over = false;
    while !stop.load(Ordering::Relaxed) {
        let mut moved = false;
        for (slot, record) in slots.iter_mut().zip(&mut records) {
            if let Some(open) = slot {
                match open.step(&mut scratch, counts) {
                    StreamStep::Waits => {}
                    StreamStep::Moves => moved = true,
                    StreamStep::Ends => {
                        counts.streams.fetch_add(1, Ordering::Relaxed);
                        *slot = None;
                        moved = true;
                    }
                }
            } else if !is_over {
                moved = true;
                let Some(number) = orders.take() else {
                    is_over = true;
                    continue;
                };
                let stream = author.write(number);
                *kinds.entry(stream.kind).or_default() += 1;
                record.note(&stream);
                if stream.door == StreamDoor::Session {
                    // It waits for the server itself, so it takes no slot.
                    if session(&stream, doors, counts).is_err() {
                        counts.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    counts.streams.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                *slot = open(stream, doors).ok();
                if slot.is_none() {
                    // The server is at its limit of clients, or has ended.
                    counts.refused.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        if is_over && slots.iter().all(Option::is_none) {
            break;
        }
        if !moved {
            thread::sleep(Duration::from_micros(200));
        }
    }
    (records, kinds)
}

fn open(stream: ByteStream, doors: &ServerDoors) -> io::Result<OpenStream> {
    let socket: Box<dyn ByteSocket> = match stream.door {
        StreamDoor::Socket => {
            let socket = UnixStream::connect(&doors.socket)?;
            socket.set_nonblocking(true)?;
            Box::new(socket)
        }
        StreamDoor::Tcp | StreamDoor::Tls | StreamDoor::Session => {
            let address = match stream.door {
                StreamDoor::Tcp => doors.tcp,
                _ => doors.tls,
            };
            let socket = TcpStream::connect_timeout(&address, STUCK)?;
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            Box::new(socket)
        }
    };
    Ok(OpenStream {
        stream,
        socket,
        sent: 0,
        since: Instant::now(),
        finished: false,
    })
}

enum StreamStep {
    Waits,
    Moves,
    Ends,
}

impl OpenStream {
    /// Sends the next piece, or reads received bytes.
    fn step(&mut self, scratch: &mut [u8], counts: &AttackCounts) -> StreamStep {
        debug_assert!(self.sent <= self.stream.bytes.len());
        let rest = &self.stream.bytes[self.sent..];
        let mut moved = false;
        if !rest.is_empty() {
            let piece = &rest[..rest.len().min(self.stream.piece)];
            match self.socket.write(piece) {
                Ok(count) => {
                    self.sent += count;
                    counts.sent_bytes.fetch_add(count as u64, Ordering::Relaxed);
                    moved = count > 0;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return StreamStep::Ends,
            }
        }
        let is_sent = self.sent == self.stream.bytes.len();
        match self.stream.manner {
            ReadingManner::Leaves if is_sent => return StreamStep::Ends,
            ReadingManner::NeverReads(for_ms) => {
                if moved {
                    self.since = Instant::now();
                }
                let patience = Duration::from_millis(for_ms.into());
                return match (moved, self.since.elapsed() > patience) {
                    (true, _) => StreamStep::Moves,
                    (false, true) => StreamStep::Ends,
                    (false, false) => StreamStep::Waits,
                };
            }
            ReadingManner::Leaves | ReadingManner::Reads => {}
        }
        match self.socket.read(scratch) {
            Ok(0) => return StreamStep::Ends,
            Ok(count) => {
                let count = count as u64;
                counts.received_bytes.fetch_add(count, Ordering::Relaxed);
                moved = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return StreamStep::Ends,
        }
        if is_sent && !self.finished {
            // The server closes the connection after its replies.
            self.finished = true;
            if self.socket.finish().is_err() {
                return StreamStep::Ends;
            }
            moved = true;
        }
        if moved {
            self.since = Instant::now();
            return StreamStep::Moves;
        }
        // Some commands have no reply, so none is awaited for long.
        let patience = if is_sent { PATIENCE } else { STUCK };
        match self.since.elapsed() > patience {
            true => StreamStep::Ends,
            false => StreamStep::Waits,
        }
    }
}

/// Sends a stream within a session of TLS.
fn session(stream: &ByteStream, doors: &ServerDoors, counts: &AttackCounts) -> io::Result<()> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let connection =
        ClientConnection::new(Arc::new(configuration), name).map_err(io::Error::other)?;
    let socket = TcpStream::connect_timeout(&doors.tls, STUCK)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut session = StreamOwned::new(connection, socket);
    // The server need not read all of them.
    if session.write_all(&stream.bytes).is_ok() {
        let sent = stream.bytes.len() as u64;
        counts.sent_bytes.fetch_add(sent, Ordering::Relaxed);
    }
    let mut scratch = [0; 1 << 14];
    while let Ok(count @ 1..) = session.read(&mut scratch) {
        let count = count as u64;
        counts.received_bytes.fetch_add(count, Ordering::Relaxed);
    }
    Ok(())
}

/// A verifier that accepts any certificate, because nothing of value is sent to the server.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
