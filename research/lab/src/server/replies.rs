//! Counting of replies without interpreting them.

/// A parser that finds the ends of replies in a stream.
#[derive(Debug, Default)]
pub struct ReplyStreamParser {
    /// The received part of an incomplete line.
    line: Vec<u8>,
    /// Number of missing bytes of a byte string, with its line end.
    skip: usize,
    /// Number of missing values until the reply ends.
    values: usize,
    /// The first error reply.
    pub error: Option<String>,
}

impl ReplyStreamParser {
    /// Parses bytes and returns the number of replies that end in them.
    pub fn feed(&mut self, mut bytes: &[u8]) -> usize {
        let mut ended = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                if self.skip == 0 {
                    ended += self.end_value();
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                break;
            };
            let mut buffered = std::mem::take(&mut self.line);
            let line = if buffered.is_empty() {
                &bytes[..end]
            } else {
                buffered.extend_from_slice(&bytes[..end]);
                &buffered
            };
            ended += self.line(line.strip_suffix(b"\r").unwrap_or(line));
            bytes = &bytes[end + 1..];
        }
        ended
    }

    fn line(&mut self, line: &[u8]) -> usize {
        let Some((kind, rest)) = line.split_first() else {
            return 0;
        };
        let number = || std::str::from_utf8(rest).ok()?.parse::<i64>().ok();
        if self.values == 0 {
            self.values = 1;
        }
        match kind {
            b'$' => match number() {
                Some(length) if length >= 0 => {
                    self.skip = length as usize + 2;
                    return 0;
                }
                // A null has no bytes behind its line.
                _ => {}
            },
            // The array itself counts as a value, which ends with this line.
            b'*' => self.values += number().map_or(0, |count| count.max(0) as usize),
            b'-' => {
                let text = || String::from_utf8_lossy(rest).into_owned();
                self.error.get_or_insert_with(text);
            }
            _ => {}
        }
        self.end_value()
    }

    fn end_value(&mut self) -> usize {
        debug_assert!(self.values > 0, "a value ends without a reply");
        self.values -= 1;
        usize::from(self.values == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let bytes =
            b"+OK\r\n$5\r\na\r\nbc\r\n$-1\r\n*2\r\n*1\r\n:1\r\n$0\r\n\r\n*0\r\n-ERR x\r\n:7\r\n";
        for piece in 1..bytes.len() {
            let mut replies = ReplyStreamParser::default();
            let ended: usize = bytes.chunks(piece).map(|part| replies.feed(part)).sum();
            assert_eq!(ended, 7, "pieces of {piece}");
            assert_eq!(replies.error.as_deref(), Some("ERR x"));
        }
    }
}
