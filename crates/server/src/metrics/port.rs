//! The port for Prometheus: a few HTTP requests at a time, on one thread.
//!
//! Clients of the port need no password, so nothing here grows with their input: there are at most
//! [`CONNECTIONS_MAX`] connections, each with one request of [`HEAD_BYTES_MAX`] bytes, and
//! [`PATIENCE`] for all of it. A further connection takes the place of the oldest.

use super::text;
use crate::server::ServerCore;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CONNECTIONS_MAX: usize = 32;
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Largest number of header lines of a request.
const HEADERS_MAX: usize = 64;
/// Longest duration of a connection.
const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(500);
const LISTENER: Token = Token(usize::MAX);
const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves metrics on `metrics-port` of the first address, on a thread of its own. Returns the
/// address; `None` if the port is 0.
///
/// # Errors
/// The port cannot be listened on, or there is no thread.
pub fn serve(server: &'static ServerCore) -> io::Result<Option<SocketAddr>> {
    let port = u16::try_from(server.config.integer("metrics-port")).unwrap_or(0);
    let Some(&address) = server.options.bind.first().filter(|_| port != 0) else {
        return Ok(None);
    };
    let port = MetricsPort::listen(SocketAddr::new(address.ip, port))?;
    let address = port.address()?;
    // A scrape delays no client.
    let thread = std::thread::Builder::new().name("nearfield-metrics".to_owned());
    thread.spawn(move || port.run(|request| answer(server, request)))?;
    Ok(Some(address))
}

/// Returns the response to a request.
fn answer(server: &ServerCore, request: MetricsRequest<'_>) -> Vec<u8> {
    match request {
        // A scrape does not wait for the end of a long script.
        MetricsRequest::Path("/metrics") => match server.share_unless_busy() {
            Some(databases) => response("200 OK", METRICS, &text(server, &databases)),
            None => response(
                "503 Service Unavailable",
                TEXT,
                "The server is busy with a long-running script.\n",
            ),
        },
        MetricsRequest::Path(_) => response("404 Not Found", TEXT, "Metrics are at /metrics.\n"),
        MetricsRequest::Other => response("400 Bad Request", TEXT, "Only GET is supported.\n"),
    }
}

fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricsRequest<'r> {
    /// A path, without the part after a question mark.
    Path(&'r str),
    /// Another method than GET, or bytes that are not HTTP.
    Other,
}

/// Reads a request; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Option<MetricsRequest<'_>> {
    // A request with more headers is refused.
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        // A head beyond the limit is refused, so that it takes no more memory.
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => None,
        Ok(httparse::Status::Complete(_)) if request.method == Some("GET") => {
            let path = request.path.and_then(|path| path.split('?').next());
            Some(path.map_or(MetricsRequest::Other, MetricsRequest::Path))
        }
        _ => Some(MetricsRequest::Other),
    }
}

/// A connection, from its first byte to its last.
#[derive(Debug)]
struct MetricsScrape {
    token: Token,
    stream: TcpStream,
    since: Instant,
    head: Vec<u8>,
    /// Response once the request has arrived, and the number of its bytes that were sent.
    answer: Option<Vec<u8>>,
    sent: usize,
}

impl MetricsScrape {
    /// Reads and sends as much as possible. Returns true if the connection continues.
    fn go_on(&mut self, answer: &impl Fn(MetricsRequest<'_>) -> Vec<u8>) -> bool {
        let is_later = |error: &io::Error| error.kind() == ErrorKind::WouldBlock;
        while self.answer.is_none() {
            debug_assert!(self.head.len() < HEAD_BYTES_MAX, "it has got its response");
            let mut buffer = [0; 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.head.extend(buffer.iter().take(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return is_later(&error),
            }
            self.answer = parse(&self.head).map(answer);
        }
        while let Some(rest) = self.answer.as_ref().and_then(|it| it.get(self.sent..))
            && !rest.is_empty()
        {
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return is_later(&error),
            }
        }
        // A connection is for one response, which announces that.
        false
    }
}

/// A listener, and the connections that it has accepted, the oldest first.
#[derive(Debug)]
struct MetricsPort {
    poll: Poll,
    listener: TcpListener,
    scrapes: VecDeque<MetricsScrape>,
    next: usize,
}

impl MetricsPort {
    fn listen(address: SocketAddr) -> io::Result<MetricsPort> {
        let (poll, mut listener) = (Poll::new()?, TcpListener::bind(address)?);
        let registry = poll.registry();
        registry.register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(MetricsPort {
            poll,
            listener,
            scrapes: VecDeque::new(),
            next: 0,
        })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Responds to requests until the process ends.
    fn run(mut self, answer: impl Fn(MetricsRequest<'_>) -> Vec<u8>) {
        let mut events = Events::with_capacity(2 * CONNECTIONS_MAX);
        loop {
            if let Err(error) = self.poll.poll(&mut events, Some(TICK))
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!("cannot wait for requests for metrics: {error}");
                return;
            }
            for event in &events {
                // Both kinds of events let it go on, because it reads first and then writes.
                let is = |scrape: &MetricsScrape| scrape.token == event.token();
                if let Some(place) = self.scrapes.iter().position(is)
                    && let Some(scrape) = self.scrapes.get_mut(place)
                    && !scrape.go_on(&answer)
                {
                    self.scrapes.remove(place);
                }
            }
            // Also without an event: an accept that failed because there were no descriptors is not
            // reported again.
            self.accept();
            self.scrapes.retain(|it| it.since.elapsed() < PATIENCE);
        }
    }

    fn accept(&mut self) {
        // At most as many at a time as may exist, so that existing connections have their turn.
        for _ in 0..CONNECTIONS_MAX {
            let Ok((mut stream, _)) = self.listener.accept() else {
                return;
            };
            let token = Token(self.next);
            // Numbers are not used again soon, so that a late event finds no other connection.
            self.next = (self.next + 1) % LISTENER.0;
            let on = Interest::READABLE | Interest::WRITABLE;
            if self
                .poll
                .registry()
                .register(&mut stream, token, on)
                .is_err()
            {
                continue;
            }
            if self.scrapes.len() >= CONNECTIONS_MAX {
                self.scrapes.pop_front();
            }
            self.scrapes.push_back(MetricsScrape {
                token,
                stream,
                since: Instant::now(),
                head: Vec::new(),
                answer: None,
                sent: 0,
            });
            debug_assert!(self.scrapes.len() <= CONNECTIONS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream as Socket;

    /// Starts a port that responds with the request, on a thread that lives as long as the tests.
    fn start() -> SocketAddr {
        let port = MetricsPort::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = port.address().unwrap();
        std::thread::spawn(|| {
            port.run(|request| response("200 OK", TEXT, &format!("{request:?}")))
        });
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut socket = Socket::connect(address).unwrap();
        socket.write_all(request).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn requests_are_understood_that_come_in_pieces() {
        let request = b"GET /metrics?a=b HTTP/1.1\r\nHost: here\r\n\r\n";
        for end in 0..request.len() {
            assert_eq!(parse(&request[..end]), None, "{end}");
        }
        assert_eq!(parse(request), Some(MetricsRequest::Path("/metrics")));
        assert_eq!(
            parse(b"POST / HTTP/1.1\r\n\r\n"),
            Some(MetricsRequest::Other)
        );
        assert_eq!(parse(b"PING\r\n"), Some(MetricsRequest::Other));
        let long = [b"GET / HTTP/1.1\r\nA: ", &[b'a'; HEAD_BYTES_MAX][..]].concat();
        assert_eq!(parse(&long), Some(MetricsRequest::Other));
    }

    #[test]
    fn connections_that_do_not_end_take_bounded_room_and_hold_up_nobody() {
        let address = start();
        let unfinished: Vec<Socket> = (0..10 * CONNECTIONS_MAX)
            .map(|_| {
                let mut socket = Socket::connect(address).unwrap();
                // It may be closed by now.
                let _ = socket.write_all(b"GET /metrics HTTP/1.1\r\nHo");
                socket
            })
            .collect();
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("Path(\"/metrics\")"), "{answer}");
        // Of the earlier connections, all were closed except as many as may exist.
        let is_closed = |mut socket: &Socket| {
            socket
                .set_read_timeout(Some(Duration::from_millis(1)))
                .unwrap();
            let kind = socket.read(&mut [0]).map_err(|error| error.kind());
            !matches!(kind, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
        };
        let closed = unfinished.iter().filter(|it| is_closed(it)).count();
        assert!(closed >= 9 * CONNECTIONS_MAX, "{closed}");
    }

    #[test]
    fn what_is_no_request_is_told_so() {
        let address = start();
        let long = [b'a'; 2 * HEAD_BYTES_MAX];
        for request in [&b"SET a b\r\n\r\n"[..], &long] {
            let mut socket = Socket::connect(address).unwrap();
            let _ = socket.write_all(request);
            let mut answer = Vec::new();
            // Unread bytes of a request may end the connection before the response arrives.
            let _ = socket.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer);
            assert!(text.is_empty() || text.ends_with("Other"), "{text}");
        }
    }
}
