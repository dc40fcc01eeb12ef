//! A connection to a server.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer, as far as it matters here.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// A string, or a number as it is written.
    Text(Vec<u8>),
    /// Several.
    Array(Vec<Answer>),
}

/// A connection to a server.
#[derive(Debug)]
pub struct Source(BufReader<TcpStream>);

/// A server that does not answer for so long is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer of more bytes or elements is none.
const LENGTH_MAX: usize = 16 << 20;
const DEPTH_MAX: usize = 8;

impl Source {
    /// Connects.
    pub fn connect(host: &str, port: u16) -> io::Result<Source> {
        let stream = TcpStream::connect((host, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Source(BufReader::new(stream)))
    }

    /// Sends a command and reads the answer; one that is an error is an error here.
    pub fn command(&mut self, words: &[&str]) -> io::Result<Answer> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        self.read(0)
    }

    fn read(&mut self, depth: usize) -> io::Result<Answer> {
        let wrong = || io::Error::new(ErrorKind::InvalidData, "this is no Redis protocol");
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or_else(wrong)?;
        let length = || rest.parse::<usize>().ok().filter(|it| *it <= LENGTH_MAX);
        match kind {
            "+" | ":" => Ok(Answer::Text(rest.into())),
            "-" => Err(io::Error::other(rest.to_owned())),
            "$" => {
                let mut bytes = vec![0; length().ok_or_else(wrong)? + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(Answer::Text(bytes))
            }
            "*" if depth < DEPTH_MAX => {
                let length = length().ok_or_else(wrong)?;
                let all = (0..length).map(|_| self.read(depth + 1));
                all.collect::<io::Result<_>>().map(Answer::Array)
            }
            _ => Err(wrong()),
        }
    }
}
