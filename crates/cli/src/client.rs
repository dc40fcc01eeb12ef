//! A connection to a server for Redis clients, for the commands that look at one.

use clap::Args;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Where a server is, and who asks.
#[derive(Debug, Args)]
pub struct Address {
    /// Where the server is.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// The port that it listens on.
    #[arg(long, default_value_t = 6399)]
    pub port: u16,
    /// The user.
    #[arg(long, requires = "password")]
    user: Option<String>,
    /// The password.
    #[arg(long, env = "NEARFIELD_PASSWORD", hide_env_values = true)]
    password: Option<String>,
}

/// A reply.
#[derive(Debug, PartialEq)]
pub enum Reply {
    /// A string, or a number as it is written.
    Text(Vec<u8>),
    /// Several.
    Array(Vec<Reply>),
    /// Nothing is there.
    Null,
    /// What the server refuses, in its words.
    Error(String),
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client(BufReader<TcpStream>);

/// A server that does not answer for so long is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// A reply of more bytes or elements is none.
const LENGTH_MAX: usize = 16 << 20;
const DEPTH_MAX: usize = 8;

impl Address {
    /// Connects, and says who asks.
    pub fn connect(&self) -> io::Result<Client> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut client = Client(BufReader::new(stream));
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => client.command(&["AUTH", user, password])?,
            (None, Some(password)) => client.command(&["AUTH", password])?,
            _ => Reply::Null,
        };
        Ok(client)
    }
}

impl Client {
    /// Sends a command and reads the reply; one that is an error is an error here.
    pub fn command(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut request = Vec::new();
        write(&mut request, words);
        self.0.get_mut().write_all(&request)?;
        match self.read(0)? {
            Reply::Error(text) => Err(io::Error::other(text)),
            reply => Ok(reply),
        }
    }

    /// Sends `count` requests at once, as [`write`] makes them, and reads their replies.
    pub fn pipeline(&mut self, requests: &[u8], count: usize) -> io::Result<Vec<Reply>> {
        self.0.get_mut().write_all(requests)?;
        (0..count).map(|_| self.read(0)).collect()
    }

    fn read(&mut self, depth: usize) -> io::Result<Reply> {
        let wrong = || io::Error::new(ErrorKind::InvalidData, "this is no Redis protocol");
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or_else(wrong)?;
        let length = || rest.parse::<usize>().ok().filter(|it| *it <= LENGTH_MAX);
        match kind {
            "+" | ":" => Ok(Reply::Text(rest.into())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            "$" | "*" if rest == "-1" => Ok(Reply::Null),
            "$" => {
                let mut bytes = vec![0; length().ok_or_else(wrong)? + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(Reply::Text(bytes))
            }
            "*" if depth < DEPTH_MAX => {
                let length = length().ok_or_else(wrong)?;
                let all = (0..length).map(|_| self.read(depth + 1));
                all.collect::<io::Result<_>>().map(Reply::Array)
            }
            _ => Err(wrong()),
        }
    }
}

/// Appends a request of these words.
pub fn write<W: AsRef<[u8]>>(request: &mut Vec<u8>, words: &[W]) {
    request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}

impl Reply {
    /// The text of a reply that is one.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Reply::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of a reply that is one.
    pub fn number<N: std::str::FromStr>(&self) -> Option<N> {
        std::str::from_utf8(self.text()?).ok()?.parse().ok()
    }

    /// The elements of a reply that has some.
    pub fn elements(&self) -> &[Reply] {
        match self {
            Reply::Array(elements) => elements,
            _ => &[],
        }
    }
}
