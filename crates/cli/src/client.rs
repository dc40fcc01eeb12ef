//! A connection to a server for Redis clients, for the commands that inspect one.

use clap::Args;
use nearfield_server::resp::encode;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The address of a server, and the credentials of the user.
#[derive(Debug, Args)]
pub struct ConnectArguments {
    /// The host name or address of the server.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// The port of the server.
    #[arg(long, default_value_t = 6399)]
    pub port: u16,
    /// The user.
    #[arg(long, requires = "password")]
    user: Option<String>,
    /// The password.
    #[arg(long, env = "NEARFIELD_PASSWORD", hide_env_values = true)]
    password: Option<String>,
}

/// A reply of a server.
#[derive(Debug, PartialEq)]
pub enum CliReply {
    /// A string, or a number in decimal.
    Text(Vec<u8>),
    /// An array of replies.
    Array(Vec<CliReply>),
    /// The null reply: no value.
    Null,
    /// An error reply, with the server's message.
    Error(String),
}

/// A connection to a server.
#[derive(Debug)]
pub struct CliClient(BufReader<TcpStream>);

/// The time without a reply after which a server counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// Greatest number of bytes of a string, or of elements of an array; more is invalid.
const LENGTH_MAX: usize = 16 << 20;
/// Greatest number of bytes of a reply with all its elements.
const REPLY_BYTES_MAX: usize = 32 << 20;
/// Greatest number of bytes of a line.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Greatest depth of arrays within arrays, because each level takes stack.
const DEPTH_MAX: usize = 8;

impl ConnectArguments {
    /// Connects and authenticates.
    pub fn connect(&self) -> io::Result<CliClient> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // Otherwise the last packet of a pipeline could wait for an acknowledgment of those before
        // it.
        stream.set_nodelay(true)?;
        let mut client = CliClient(BufReader::new(stream));
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => client.command(&["AUTH", user, password])?,
            (None, Some(password)) => client.command(&["AUTH", password])?,
            _ => CliReply::Null,
        };
        Ok(client)
    }
}

impl CliClient {
    /// Sends a command and reads the reply. Returns an error if the reply is one.
    pub fn command(&mut self, words: &[&str]) -> io::Result<CliReply> {
        match self.exchange(words)? {
            CliReply::Error(text) => Err(io::Error::other(text)),
            reply => Ok(reply),
        }
    }

    /// Sends a command and reads the reply, which may be an error.
    pub fn exchange(&mut self, words: &[&str]) -> io::Result<CliReply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut request = Vec::new();
        encode::words(&mut request, &words);
        self.0.get_mut().write_all(&request)?;
        self.read_reply()
    }

    /// Sends `count` requests at once and reads their replies.
    pub fn pipeline(&mut self, requests: &[u8], count: usize) -> io::Result<Vec<CliReply>> {
        self.0.get_mut().write_all(requests)?;
        (0..count).map(|_| self.read_reply()).collect()
    }

    fn read_reply(&mut self) -> io::Result<CliReply> {
        let mut left = REPLY_BYTES_MAX;
        self.read(0, &mut left)
    }

    /// Reads a reply, or an element at a depth of one, of which `left` more bytes are allowed.
    fn read(&mut self, depth: usize, left: &mut usize) -> io::Result<CliReply> {
        let wrong = || {
            io::Error::new(
                ErrorKind::InvalidData,
                "the reply is not in the Redis protocol",
            )
        };
        debug_assert!(depth <= DEPTH_MAX);
        let mut line = String::new();
        let longest = LINE_BYTES_MAX.min(*left);
        let read = (&mut self.0).take(longest as u64).read_line(&mut line)?;
        if read == 0 && longest > 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !line.ends_with('\n') {
            return Err(wrong());
        }
        *left -= read;
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or_else(wrong)?;
        // Limited before memory is reserved, because the other end may be no Redis server.
        let length = || rest.parse::<usize>().ok().filter(|it| *it <= LENGTH_MAX);
        match kind {
            "+" | ":" => Ok(CliReply::Text(rest.into())),
            "-" => Ok(CliReply::Error(rest.to_owned())),
            // RESP2 has two null replies. That of RESP3 needs HELLO 3, which no command here sends.
            "$" | "*" if rest == "-1" => Ok(CliReply::Null),
            "$" => {
                let bytes = length().ok_or_else(wrong)? + 2;
                *left = left.checked_sub(bytes).ok_or_else(wrong)?;
                let mut bytes = vec![0; bytes];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(CliReply::Text(bytes))
            }
            "*" if depth < DEPTH_MAX => {
                let length = length().ok_or_else(wrong)?;
                let all = (0..length).map(|_| self.read(depth + 1, left));
                all.collect::<io::Result<_>>().map(CliReply::Array)
            }
            _ => Err(wrong()),
        }
    }
}

impl CliReply {
    /// Returns the text, if the reply is one.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            CliReply::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number, if the reply is one.
    pub fn number<N: std::str::FromStr>(&self) -> Option<N> {
        std::str::from_utf8(self.text()?).ok()?.parse().ok()
    }

    /// Returns the elements of an array; none for other replies.
    pub fn elements(&self) -> &[CliReply] {
        match self {
            CliReply::Array(elements) => elements,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server cannot make its client use any amount of memory.
    #[test]
    fn a_reply_without_an_end_is_refused() {
        const BYTES_MAX: usize = 256 << 20;
        let replies: [(&[u8], &[u8]); 3] = [
            (b"+", b"a"),
            (b"*16000000\r\n", b":1\r\n"),
            (b"*16000000\r\n", b"$3\r\nabc\r\n"),
        ];
        for (first, part) in replies {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let sender = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let part = part.repeat(1 << 12);
                let mut sent = first.len();
                stream.write_all(first).unwrap();
                while sent < BYTES_MAX && stream.write_all(&part).is_ok() {
                    sent += part.len();
                }
                sent
            });
            let mut client = CliClient(BufReader::new(TcpStream::connect(address).unwrap()));
            let error = client.exchange(&["PING"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            drop(client);
            assert!(sender.join().unwrap() < BYTES_MAX);
        }
    }
}
