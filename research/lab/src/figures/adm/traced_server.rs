//! The real server in this process, with a trace of its accesses, and a client of it.

use crate::figures::job::PointError;
use crate::server::ServerError;
use crate::server::process::info_at;
use crate::server::replies::ReplyStreamParser;
use nearfield_server::access_trace::AccessTrace;
use nearfield_server::commands::TABLE;
use nearfield_server::config::{ListenPort, ServerOptions};
use nearfield_server::net;
use nearfield_server::resp::encode;
use nearfield_server::server::ServerCore;
use nearfield_tiers::policy::PolicyChoice;
use nearfield_tiers::{Specification, Tiers};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The name in errors.
const NAME: &str = "the server with a trace";
/// Number of commands that are sent before the first of their replies. Together they are shorter
/// than the buffers of a connection, so that neither side waits for the other.
const PIPELINE: usize = 16;
/// Timeout for replies.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on threads of its own, with two tiers and a trace. When this value is dropped, it ends,
/// and then the trace is complete.
#[derive(Debug)]
pub(super) struct TracedServer {
    address: SocketAddr,
    core: Arc<ServerCore>,
    trace: Arc<AccessTrace>,
    /// The first thread; the result is the reason for which the server could not start.
    thread: Option<JoinHandle<Result<(), String>>>,
}

fn broken(source: io::Error) -> ServerError {
    ServerError::Broken {
        name: NAME.to_owned(),
        source,
    }
}

impl TracedServer {
    /// Starts a server with memory of this many bytes above compressed memory, and a trace at
    /// `path`.
    pub(super) fn start(
        [memory, compressed]: [u64; 2],
        policy: PolicyChoice,
        path: &Path,
    ) -> Result<TracedServer, PointError> {
        let tiers = [
            Specification::memory(memory),
            Specification::compressed(compressed),
        ];
        let tiers = Tiers::open(&tiers);
        let tiers = tiers.map_err(|error| PointError::Missing(error.to_string()))?;
        let start = |source| ServerError::Start {
            name: NAME.to_owned(),
            source,
        };
        let trace = Arc::new(AccessTrace::create(path).map_err(start)?);
        let options = ServerOptions {
            port: ListenPort::Free,
            // The trace makes commands wait for each other anyway.
            threads: 1,
            tiers: Some(Arc::new(tiers)),
            tier_policy: policy,
            access_trace: Some(Arc::clone(&trace)),
            ..ServerOptions::default()
        };
        let core = Arc::new(ServerCore::new(TABLE.registry(), options));
        let shared = Arc::clone(&core);
        let (sender, receiver) = mpsc::channel();
        let thread = thread::Builder::new().name("traced".to_owned());
        let thread = thread.spawn(move || {
            let served = net::serve(&shared, |addresses: &[SocketAddr]| {
                // The receiver waits until the server listens, or has failed.
                let _ = sender.send(addresses.first().copied());
            });
            served.map_err(|error| error.to_string())
        });
        let thread = thread.map_err(start)?;
        match receiver.recv() {
            Ok(Some(address)) => Ok(TracedServer {
                address,
                core,
                trace,
                thread: Some(thread),
            }),
            _ => {
                core.stop();
                let reason = match thread.join() {
                    Ok(Err(reason)) => reason,
                    _ => "it has no address".to_owned(),
                };
                Err(PointError::Missing(format!(
                    "cannot start {NAME}: {reason}"
                )))
            }
        }
    }

    /// Returns the section of its INFO about tiers.
    pub(super) fn tiers(&self) -> Result<String, PointError> {
        Ok(info_at(self.address, "tiers").map_err(broken)?)
    }

    /// Writes all accesses so far to the file of the trace.
    pub(super) fn flush_trace(&self) {
        self.trace.flush();
    }

    /// Connects to it.
    pub(super) fn connect(&self) -> Result<CommandPipeline, PointError> {
        let stream = TcpStream::connect(self.address).map_err(broken)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(CommandPipeline {
            stream,
            out: Vec::new(),
            waiting: 0,
            replies: ReplyStreamParser::default(),
            buffer: vec![0; 256 << 10],
        })
    }
}

impl Drop for TracedServer {
    fn drop(&mut self) {
        self.core.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed its message, and its figure lacks points.
            let _ = thread.join();
        }
        // Its mover adds nothing any more.
        self.trace.flush();
    }
}

/// A connection that sends commands in groups, and counts their replies.
#[derive(Debug)]
pub(super) struct CommandPipeline {
    stream: TcpStream,
    out: Vec<u8>,
    /// Number of commands without a reply so far.
    waiting: usize,
    replies: ReplyStreamParser,
    buffer: Vec<u8>,
}

impl CommandPipeline {
    /// Sends a command, with others before or after it.
    ///
    /// # Errors
    /// The connection breaks, or an earlier command has an error as its reply.
    pub(super) fn send(&mut self, words: &[Vec<u8>]) -> Result<(), ServerError> {
        encode::words(&mut self.out, words);
        self.waiting += 1;
        match self.waiting >= PIPELINE {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Waits for all replies.
    ///
    /// # Errors
    /// As for [`send`](CommandPipeline::send).
    pub(super) fn settle(&mut self) -> Result<(), ServerError> {
        self.stream.write_all(&self.out).map_err(broken)?;
        self.out.clear();
        while self.waiting > 0 {
            let count = self.stream.read(&mut self.buffer).map_err(broken)?;
            if count == 0 {
                return Err(broken(ErrorKind::UnexpectedEof.into()));
            }
            let ended = self.replies.feed(&self.buffer[..count]);
            self.waiting = self.waiting.saturating_sub(ended);
        }
        match self.replies.error.take() {
            Some(reply) => Err(ServerError::ErrorReply {
                name: NAME.to_owned(),
                reply,
            }),
            None => Ok(()),
        }
    }
}
