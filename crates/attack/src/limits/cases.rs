//! The clients of each case.

use super::served::ServedProgram;
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::reply::RespReplyValue;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Time after which clients are closed if the server has not closed them.
const STAY: Duration = Duration::from_secs(10);

/// A case with clients at a limit.
pub(super) struct LimitCase {
    pub(super) name: &'static str,
    /// Function that runs the clients, with their numbers divided, and describes their fate.
    pub(super) run: fn(&ServedProgram, usize) -> io::Result<String>,
}

pub(super) const CASES: &[LimitCase] = &[
    LimitCase {
        name: "none",
        run: none,
    },
    LimitCase {
        name: "10,000 idle clients",
        run: idle,
    },
    LimitCase {
        name: "2,000 clients that send a byte at a time",
        run: slow,
    },
    LimitCase {
        name: "100 clients that never read",
        run: unread,
    },
    LimitCase {
        name: "one write of 1,000,000 commands",
        run: pipeline,
    },
    LimitCase {
        name: "one value of 512 MB, written and read",
        run: value,
    },
];

/// Connects `count` clients.
fn connect(server: &ServedProgram, count: usize) -> io::Result<Vec<TcpStream>> {
    (0..count)
        .map(|_| TcpStream::connect(server.address))
        .collect()
}

/// Returns the number of clients that the server has not closed.
fn open(clients: &mut [TcpStream]) -> usize {
    let is_open = |client: &mut TcpStream| {
        if client.set_nonblocking(true).is_err() {
            return false;
        }
        let mut scratch = [0; 1 << 12];
        loop {
            match client.read(&mut scratch) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    };
    clients
        .iter_mut()
        .filter_map(|client| is_open(client).then_some(()))
        .count()
}

fn none(_: &ServedProgram, divisor: usize) -> io::Result<String> {
    thread::sleep(STAY / divisor as u32);
    Ok(String::new())
}

fn idle(server: &ServedProgram, divisor: usize) -> io::Result<String> {
    let mut clients = connect(server, 10_000 / divisor)?;
    // A reply ensures that the server knows each client.
    for client in &mut clients {
        client.write_all(b"PING\r\n")?;
        client.read_exact(&mut [0; 7])?;
    }
    thread::sleep(STAY / divisor as u32);
    Ok(format!("{} stay", open(&mut clients)))
}

fn slow(server: &ServedProgram, divisor: usize) -> io::Result<String> {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut clients = connect(server, 2000 / divisor)?;
    let mut request = Vec::new();
    encode(
        &mut request,
        &[b"SET", b"slow", b"a value that takes some seconds to send"],
    );
    let begin = Instant::now();
    for byte in request.chunks(1).cycle() {
        for client in &mut clients {
            client.write_all(byte)?;
        }
        if begin.elapsed() > STAY / divisor as u32 {
            break;
        }
        thread::sleep(PAUSE);
    }
    Ok(format!("{} stay", open(&mut clients)))
}

fn unread(server: &ServedProgram, divisor: usize) -> io::Result<String> {
    let mut first = TestkitConnection::open(server.address)?;
    first.command(&[b"SETRANGE", b"v", b"99999", b"x"])?;
    let mut request = Vec::new();
    for _ in 0..1000 {
        encode(&mut request, &[b"GET", b"v"]);
    }
    let mut clients = connect(server, (100 / divisor).max(1))?;
    let begin = Instant::now();
    for client in &mut clients {
        client.set_nonblocking(true)?;
    }
    while begin.elapsed() < STAY / divisor as u32 {
        for client in &mut clients {
            // A failed write is no fault, because the server may close the connection.
            let _ = client.write(&request);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(format!("{} stay", open(&mut clients)))
}

fn pipeline(server: &ServedProgram, divisor: usize) -> io::Result<String> {
    let count = 1_000_000 / divisor;
    let mut request = Vec::new();
    for _ in 0..count {
        encode(&mut request, &[b"SET", b"key", b"value"]);
    }
    let mut client = TcpStream::connect(server.address)?;
    let mut reader = client.try_clone()?;
    let begin = Instant::now();
    // A server may stop reading from a client that does not read its replies.
    let read = thread::spawn(move || {
        let mut left = count * b"+OK\r\n".len();
        let mut scratch = vec![0; 1 << 16];
        while left > 0 {
            match reader.read(&mut scratch)? {
                0 => return Err(io::Error::from(ErrorKind::UnexpectedEof)),
                length => left = left.saturating_sub(length),
            }
        }
        Ok(())
    });
    client.write_all(&request)?;
    match read.join() {
        Ok(result) => result?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    let rate = count as f64 / begin.elapsed().as_secs_f64() / 1000.0;
    Ok(format!("{rate:.0} thousand a second"))
}

fn value(server: &ServedProgram, divisor: usize) -> io::Result<String> {
    let value = vec![b'v'; (512 << 20) / divisor];
    let mut client = TestkitConnection::open(server.address)?;
    let begin = Instant::now();
    let answer = client.command(&[b"SET", b"large", &value])?;
    if !matches!(answer, RespReplyValue::Simple(_)) {
        return Ok(format!("refused: {answer}"));
    }
    let written = begin.elapsed();
    let mut reader = TcpStream::connect(server.address)?;
    reader.write_all(b"GET large\r\n")?;
    let head = format!("${}\r\n", value.len());
    let mut left = head.len() + value.len() + 2;
    let mut scratch = vec![0; 1 << 20];
    while left > 0 {
        match reader.read(&mut scratch)? {
            0 => {
                let written = written.as_secs_f64();
                return Ok(format!(
                    "written in {written:.1} s, closed while it was read"
                ));
            }
            length => left = left.saturating_sub(length),
        }
    }
    let read = begin.elapsed() - written;
    Ok(format!(
        "written in {:.1} s, read in {:.1} s",
        written.as_secs_f64(),
        read.as_secs_f64()
    ))
}
