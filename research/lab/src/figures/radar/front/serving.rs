//! The server side: one thread takes commands from all connections, as Redis does, and the index
//! executes them as one batch.

use super::super::contender::ModelledIndex;
use super::protocol::{RadarReplyForm, accept, write_reply};
use crate::server::lane::ignore_interrupts;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use nearfield_core::{Batch, Words};
use nearfield_server::resp::request::RequestProgress;
use nearfield_server::resp::{Parser, Protocol, RequestLimits, RespReply};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// A server of an index on a thread of its own, which ends when this value is dropped.
pub(super) struct Front {
    pub(super) address: SocketAddr,
    shared: Arc<RadarFrontState>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The state that the thread and its owner share.
#[derive(Default)]
struct RadarFrontState {
    /// Number of commands of a batch.
    expected: AtomicUsize,
    /// Time that the index has executed batches, in nanoseconds.
    executing: AtomicU64,
    stops: AtomicBool,
}

impl Front {
    pub(super) fn start(index: Arc<dyn ModelledIndex>) -> io::Result<Front> {
        let mut listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        let registry = poll.registry();
        registry.register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(registry, WAKER)?;
        let shared = Arc::<RadarFrontState>::default();
        let mut serving = RadarFrontServer {
            index,
            shared: Arc::clone(&shared),
            poll,
            listener,
            connections: Vec::new(),
            batch: Batch::new(),
            reply_forms: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("front".to_owned());
        let thread = thread.spawn(move || serving.serve())?;
        Ok(Front {
            address,
            shared,
            waker,
            thread: Some(thread),
        })
    }

    /// Sets the number of commands of the next batches: they are executed once all have arrived.
    /// Without it, they are executed as soon as some have.
    pub(super) fn expect(&self, commands: usize) {
        self.shared.expected.store(commands, Ordering::Release);
    }

    /// Returns the time that the index has executed batches so far.
    pub(super) fn executing(&self) -> Duration {
        Duration::from_nanos(self.shared.executing.load(Ordering::Acquire))
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Release);
        // If waking the thread fails, it waits for ever, so it is not joined.
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

struct RadarFrontServer {
    index: Arc<dyn ModelledIndex>,
    shared: Arc<RadarFrontState>,
    poll: Poll,
    listener: TcpListener,
    /// The connections by token; `None` for those that have ended.
    connections: Vec<Option<RadarFrontConnection>>,
    batch: Batch<Words>,
    /// For each received command: its connection, its position in the batch, and the form of its
    /// reply.
    reply_forms: Vec<(usize, usize, RadarReplyForm)>,
}

struct RadarFrontConnection {
    stream: TcpStream,
    parser: Parser,
    /// Received bytes that are not a whole command yet.
    received: Vec<u8>,
    reply: RespReply,
    sent: usize,
}

impl RadarFrontServer {
    fn serve(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut buffer = vec![0; 256 << 10];
        loop {
            self.poll
                .poll(&mut events, None)
                .or_else(ignore_interrupts)?;
            if self.shared.stops.load(Ordering::Acquire) {
                return Ok(());
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    WAKER => {}
                    Token(number) => self.attend(number, &mut buffer),
                }
            }
            let expected = self.shared.expected.load(Ordering::Acquire);
            if self.reply_forms.len() >= expected.max(1) {
                self.execute();
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    ignore_interrupts(error)?;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            // Numbers are not used again: events of an ended connection may still be waiting.
            let token = Token(self.connections.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registry = self.poll.registry();
            registry.register(&mut stream, token, interest)?;
            self.connections.push(Some(RadarFrontConnection {
                stream,
                parser: Parser::new(),
                received: Vec::new(),
                reply: RespReply::new(Protocol::Resp2),
                sent: 0,
            }));
        }
    }

    /// Reads from a connection, and sends the replies that are ready. Drops the connection if it
    /// breaks, or does not speak the protocol.
    fn attend(&mut self, number: usize, buffer: &mut [u8]) {
        let Some(Some(connection)) = self.connections.get_mut(number) else {
            return;
        };
        let (batch, reply_forms) = (&mut self.batch, &mut self.reply_forms);
        let read = connection.receive(buffer, |words| {
            let position = batch.len();
            let form = accept(words, batch);
            reply_forms.push((number, position, form));
        });
        if read.and_then(|()| connection.send()).is_err() {
            self.connections[number] = None;
        }
    }

    /// Executes the commands that have arrived, and sends the replies.
    fn execute(&mut self) {
        let start = Instant::now();
        let executed = match self.batch.is_empty() {
            true => Ok(()),
            false => self.index.execute(&mut self.batch),
        };
        let took = start.elapsed().as_nanos() as u64;
        self.shared.executing.fetch_add(took, Ordering::AcqRel);
        // An index refuses a batch as a whole.
        if let Err(error) = executed {
            for (_, _, form) in &mut self.reply_forms {
                *form = RadarReplyForm::Error(format!("ERR {error}"));
            }
        }
        for (number, position, form) in self.reply_forms.drain(..) {
            if let Some(connection) = &mut self.connections[number] {
                write_reply(&form, &self.batch, position, &mut connection.reply);
            }
        }
        self.batch.clear();
        for connection in &mut self.connections {
            if connection.as_mut().is_some_and(|one| one.send().is_err()) {
                *connection = None;
            }
        }
    }
}

impl RadarFrontConnection {
    /// Reads the available bytes, and calls `take` with each command.
    fn receive(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[&[u8]])) -> io::Result<()> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.received.extend_from_slice(&buffer[..count]);
                    self.parse(&mut take)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => ignore_interrupts(error)?,
            }
        }
    }

    fn parse(&mut self, take: &mut impl FnMut(&[&[u8]])) -> io::Result<()> {
        let limits = RequestLimits::default();
        let mut begin = 0;
        while let RequestProgress::Complete(length) = self
            .parser
            .next(&self.received[begin..], &limits)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?
        {
            let words: Vec<&[u8]> = self.parser.arguments(&self.received[begin..]).collect();
            if !words.is_empty() {
                take(&words);
            }
            begin += length;
        }
        debug_assert!(begin <= self.received.len());
        self.received.drain(..begin);
        Ok(())
    }

    /// Sends as much as the system takes.
    fn send(&mut self) -> io::Result<()> {
        debug_assert!(self.sent <= self.reply.len());
        while self.sent < self.reply.len() {
            match self.stream.write(&self.reply.bytes()[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => ignore_interrupts(error)?,
            }
        }
        self.reply.truncate(0);
        self.sent = 0;
        Ok(())
    }
}
