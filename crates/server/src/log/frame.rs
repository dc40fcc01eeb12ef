//! Frames: how the log tells whole commands from torn and damaged ones.
//!
//! ```text
//! command command ... ECHO "nearfield:from=F:synced=S:crc32c=C"
//! └──────────────────── a frame ────────────────────────────┘
//! ```
//!
//! Commands are RESP arrays, as clients send them, and the trailer is a command that changes
//! nothing; so a log can be sent to any Redis as it is. `F` is the offset in the file at which the
//! frame begins, `C` the CRC-32C of all bytes from there to the checksum itself. What lies before
//! `S` was on the medium when the frame was written: damage there is no power failure's doing.

use crate::resp::Parser;
use crate::resp::request::{RequestLimits, Step};
use crc::{CRC_32_ISCSI, Crc, Table};
use std::io::{self, Read, Seek, SeekFrom};

type Tables = Table<16>;
static CHECKSUM: Crc<u32, Tables> = Crc::<u32, Tables>::new(&CRC_32_ISCSI);

const ECHO: &[u8] = b"*2\r\n$4\r\nECHO\r\n$";
const NAME: &[u8] = b"nearfield:from=";
const CHECKSUM_DIGITS: usize = 8;
/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// The CRC-32C of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    CHECKSUM.checksum(bytes)
}

/// Ends the frame `body`, which is to lie at the offset `from`.
pub fn seal(body: &mut Vec<u8>, from: u64, synced: u64) {
    let text = format!("nearfield:from={from}:synced={synced}:crc32c=");
    body.extend_from_slice(ECHO);
    let length = text.len() + CHECKSUM_DIGITS;
    body.extend_from_slice(format!("{length}\r\n{text}").as_bytes());
    let checksum = checksum(body);
    body.extend_from_slice(format!("{checksum:08x}\r\n").as_bytes());
}

/// What a trailer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trailer {
    from: u64,
    synced: u64,
    checksum: u32,
}

impl Trailer {
    /// Reads the argument of a trailer's command; `None` if it is none.
    fn parse(argument: &[u8]) -> Option<Trailer> {
        let text = std::str::from_utf8(argument.strip_prefix(NAME)?).ok()?;
        let (from, rest) = text.split_once(":synced=")?;
        let (synced, checksum) = rest.split_once(":crc32c=")?;
        let trailer = Trailer {
            from: from.parse().ok()?,
            synced: synced.parse().ok()?,
            checksum: u32::from_str_radix(checksum, 16).ok()?,
        };
        // Exactly as it is written: no sign, no leading zero, no capital letter.
        let written = format!(
            "{}:synced={}:crc32c={:08x}",
            trailer.from, trailer.synced, trailer.checksum
        );
        (written == text).then_some(trailer)
    }
}

/// What follows the last whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole frame, which ends at this offset of the file.
    Frame {
        /// Where it begins.
        from: u64,
        /// Where it ends.
        end: u64,
    },
    /// The end of the file.
    End,
    /// Bytes that are no whole frame.
    Bad {
        /// Where they begin.
        from: u64,
        /// What is wrong with them.
        reason: String,
        /// Offset of the command that the end of the file cuts short, if that is all.
        rest: Option<u64>,
    },
}

/// Reads a log, frame by frame. It holds one frame in memory.
#[derive(Debug)]
pub struct Frames<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where the frame begins in the buffer.
    start: usize,
    /// Where the frame begins in the file.
    from: u64,
    /// How many bytes the last frame has.
    taken: usize,
    /// Where the commands of the frame lie, from its first byte.
    commands: Vec<std::ops::Range<usize>>,
    ended: bool,
}

impl<R: Read> Frames<R> {
    /// Begins to read a log.
    pub fn new(input: R) -> Frames<R> {
        Frames {
            input,
            buffer: Vec::new(),
            start: 0,
            from: 0,
            taken: 0,
            commands: Vec::new(),
            ended: false,
        }
    }

    /// Reads the next frame, whose commands are those of [`commands`](Self::commands) then.
    ///
    /// # Errors
    /// Those of the input.
    pub fn read(&mut self) -> io::Result<Next> {
        self.start += self.taken;
        self.from += std::mem::take(&mut self.taken) as u64;
        self.commands.clear();
        let limits = RequestLimits::default();
        let mut parser = Parser::new();
        let mut position = 0;
        loop {
            let rest = self.buffer.get(self.start + position..).unwrap_or_default();
            if rest.first().is_some_and(|&byte| byte != b'*') {
                return Ok(self.bad("what follows is no command"));
            }
            match parser.next(rest, &limits) {
                Ok(Step::Complete(length)) => {
                    let is_echo = parser.argument_count() == 2 && rest.starts_with(ECHO);
                    let trailer = is_echo.then(|| Trailer::parse(parser.argument(rest, 1)));
                    let command = position..position + length;
                    position += length;
                    match trailer.flatten() {
                        Some(trailer) => return Ok(self.end_frame(trailer, position)),
                        None => self.commands.push(command),
                    }
                }
                Ok(Step::Incomplete) => {
                    if self.ended && self.buffer.len() == self.start {
                        return Ok(Next::End);
                    }
                    if self.ended {
                        return Ok(Next::Bad {
                            from: self.from,
                            reason: "it ends without a trailer".to_owned(),
                            rest: Some(self.from + position as u64),
                        });
                    }
                    self.fill()?;
                }
                Err(error) => return Ok(self.bad(&error.to_string())),
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..std::mem::take(&mut self.start));
        let mut chunk = (&mut self.input).take(CHUNK as u64);
        self.ended = chunk.read_to_end(&mut self.buffer)? == 0;
        Ok(())
    }

    fn end_frame(&mut self, trailer: Trailer, end: usize) -> Next {
        let frame = self.start..self.start + end;
        let frame = self.buffer.get(frame).unwrap_or_default();
        // The checksum's digits and the line's end, which the parser takes for granted.
        let (covered, last) = frame.split_at(end - CHECKSUM_DIGITS - 2);
        if checksum(covered) != trailer.checksum || !last.ends_with(b"\r\n") {
            return self.bad("its checksum is not that of its bytes");
        }
        if trailer.from != self.from {
            let from = trailer.from;
            return self.bad(&format!("it was written to offset {from}"));
        }
        self.taken = end;
        Next::Frame {
            from: self.from,
            end: self.from + end as u64,
        }
    }

    fn bad(&self, reason: &str) -> Next {
        Next::Bad {
            from: self.from,
            reason: reason.to_owned(),
            rest: None,
        }
    }

    /// The commands of the frame that was read last, each with its offset in the file.
    pub fn commands(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let command = |range: &std::ops::Range<usize>| {
            let place = self.start + range.start..self.start + range.end;
            let bytes = self.buffer.get(place).unwrap_or_default();
            (self.from + range.start as u64, bytes)
        };
        self.commands.iter().map(command)
    }
}

/// What lies behind damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// No trailer, so that the damage may be a frame that was not written to its end.
    Nothing,
    /// Trailers, all of which were written while what is damaged was not known to be on the
    /// medium.
    Unsynced,
    /// Trailers that were written when what is damaged was on the medium.
    Synced,
}

/// A trailer is no longer than this, nor an empty frame.
const TRAILER_BYTES_MAX: usize = 128;

/// Looks for trailers from the offset `start` of a log on, which is damaged at `damage`. They are
/// told by their form, whatever offset they name and whatever lies before them: bytes that are
/// missing or inserted move all that follows, and a frame that is damaged itself has one, too.
/// Reads each byte once.
///
/// # Errors
/// Those of the input.
pub fn look_behind<F: Read + Seek>(input: &mut F, start: u64, damage: u64) -> io::Result<Behind> {
    let mut found = Behind::Nothing;
    let mut window = Vec::new();
    input.seek(SeekFrom::Start(start))?;
    loop {
        let read = (&mut *input).take(CHUNK as u64).read_to_end(&mut window)?;
        for place in memchr::memmem::find_iter(&window, ECHO) {
            let rest = window.get(place..).unwrap_or_default();
            let rest = rest.get(..TRAILER_BYTES_MAX).unwrap_or(rest);
            let mut parser = Parser::new();
            let step = parser.next(rest, &RequestLimits::default());
            let Ok(Step::Complete(_)) = step else {
                continue;
            };
            match Trailer::parse(parser.argument(rest, 1)) {
                Some(trailer) if trailer.synced > damage => return Ok(Behind::Synced),
                Some(_) => found = Behind::Unsynced,
                None => {}
            }
        }
        if read == 0 {
            return Ok(found);
        }
        // A trailer may lie across the end of what was read.
        let keep = window.len().saturating_sub(TRAILER_BYTES_MAX);
        window.drain(..keep);
    }
}

/// The frame without commands with which each log begins, so that none is empty.
pub fn opening() -> Vec<u8> {
    let mut frame = Vec::new();
    seal(&mut frame, 0, 0);
    frame
}

/// True if nothing but zeros follows what is the beginning of a frame at `from`. A file may end so
/// after a power failure: it was made longer, and its bytes were not written.
///
/// # Errors
/// Those of the input.
pub fn ends_in_zeros<F: Read + Seek>(input: &mut F, from: u64) -> io::Result<bool> {
    input.seek(SeekFrom::Start(from))?;
    let mut chunk = vec![0; CHUNK];
    let (mut offset, mut end) = (from, from);
    loop {
        let read = input.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        let bytes = chunk.get(..read).unwrap_or_default();
        if let Some(last) = bytes.iter().rposition(|&byte| byte != 0) {
            end = offset + last as u64 + 1;
        }
        offset += read as u64;
    }
    if end == offset {
        return Ok(false);
    }
    input.seek(SeekFrom::Start(from))?;
    match Frames::new(input.take(end - from)).read()? {
        Next::End => Ok(true),
        Next::Bad { rest, .. } => Ok(rest.is_some()),
        Next::Frame { .. } => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A log of these frames, each synced before the next is written if `synced`.
    fn log(frames: &[&[&[u8]]], synced: bool) -> (Vec<u8>, Vec<usize>) {
        let (mut log, mut ends) = (Vec::new(), Vec::new());
        for commands in frames {
            let mut body = commands.concat();
            let from = log.len() as u64;
            seal(&mut body, from, if synced { from } else { 0 });
            log.extend(body);
            ends.push(log.len());
        }
        (log, ends)
    }

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    const DEL: &[u8] = b"*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";
    /// A value that looks like a trailer.
    const FAKE: &[u8] = b"*2\r\n$4\r\nECHO\r\n$41\r\nnearfield:from=0:synced=0:crc32c=00000000\r\n";

    fn sample(synced: bool) -> (Vec<u8>, Vec<usize>) {
        let value = b"*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n";
        let set = [
            &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$23\r\n"[..],
            value,
            b"\r\n",
        ]
        .concat();
        log(&[&[SET], &[DEL, SET], &[&set], &[SET, DEL, DEL]], synced)
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Next) {
        let mut frames = Frames::new(bytes);
        let mut commands = Vec::new();
        loop {
            match frames.read().unwrap() {
                Next::Frame { .. } => {
                    commands.extend(frames.commands().map(|(_, command)| command.to_vec()));
                }
                end => return (commands, end),
            }
        }
    }

    #[test]
    fn frames_are_read_as_they_are_written() {
        let (log, _) = sample(true);
        let (commands, end) = read(&log);
        assert_eq!(end, Next::End);
        assert_eq!(commands.len(), 7);
        assert_eq!(commands[1], DEL);
    }

    #[test]
    fn a_log_cut_anywhere_gives_the_frames_before() {
        let (log, ends) = sample(true);
        for length in 0..=log.len() {
            let (commands, end) = read(&log[..length]);
            let whole = ends.iter().filter(|&&end| end <= length).count();
            assert_eq!(commands.len(), [0, 1, 3, 4, 7][whole], "{length}");
            if ends.contains(&length) || length == 0 {
                assert_eq!(end, Next::End);
            } else {
                let Next::Bad { from, rest, .. } = end else {
                    panic!("{length}: {end:?}");
                };
                assert_eq!(
                    from,
                    if whole == 0 {
                        0
                    } else {
                        ends[whole - 1] as u64
                    }
                );
                let behind = look_behind(&mut Cursor::new(&log[..length]), from, from).unwrap();
                assert_eq!(behind, Behind::Nothing);
                assert!(rest.is_some(), "{length}");
                let mut zeros = log[..length].to_vec();
                zeros.resize(length + 3000, 0);
                assert!(ends_in_zeros(&mut Cursor::new(&zeros), from).unwrap());
                *zeros.last_mut().unwrap() = 1;
                let not = Cursor::new(&zeros);
                assert!(!ends_in_zeros(&mut { not }, from).unwrap());
            }
        }
    }

    #[test]
    fn bytes_that_are_missing_or_too_many_are_no_torn_tail() {
        let (log, _) = sample(false);
        for from in 0..log.len() - TRAILER_BYTES_MAX {
            {
                for length in [1, 30] {
                    let without = [&log[..from], &log[from + length..]].concat();
                    let twice = [&log[..from + length], &log[from..]].concat();
                    for damaged in [without, twice] {
                        let (commands, end) = read(&damaged);
                        assert!(read(&log).0.starts_with(&commands));
                        let Next::Bad { from: at, rest, .. } = end else {
                            panic!("{from} {length}: {end:?}");
                        };
                        let start = rest.unwrap_or(at);
                        let behind = look_behind(&mut Cursor::new(&damaged), start, at).unwrap();
                        assert_ne!(behind, Behind::Nothing, "{from} {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_flipped_byte_is_taken_for_a_log() {
        for synced in [true, false] {
            let (log, ends) = sample(synced);
            let intact = read(&log).0;
            for position in 0..log.len() {
                for bit in 0..8 {
                    let mut damaged = log.clone();
                    damaged[position] ^= 1 << bit;
                    let (commands, end) = read(&damaged);
                    let Next::Bad { from, rest, .. } = end else {
                        panic!("{position}: {end:?}");
                    };
                    let frame = ends.iter().filter(|&&end| end <= position).count();
                    let begin = if frame == 0 { 0 } else { ends[frame - 1] };
                    assert_eq!(from, begin as u64, "{position}");
                    assert_eq!(commands, intact[..[0, 1, 3, 4][frame]]);
                    let start = rest.unwrap_or(from);
                    let damaged = &mut Cursor::new(&damaged);
                    let behind = look_behind(damaged, start, from).unwrap();
                    // The last one's own trailer may be what is damaged.
                    if frame < ends.len() - 1 {
                        assert_ne!(behind, Behind::Nothing, "{position}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_command_that_looks_like_a_trailer_is_none() {
        let (log, _) = log(&[&[FAKE, SET]], true);
        let (commands, end) = read(&log);
        assert!(commands.is_empty(), "{end:?}");
    }

    #[test]
    fn a_frame_in_another_place_is_refused() {
        let (log, ends) = sample(true);
        let without = [&log[..ends[0]], &log[ends[1]..]].concat();
        let (commands, end) = read(&without);
        assert_eq!(commands.len(), 1);
        assert!(matches!(end, Next::Bad { .. }), "{end:?}");
    }
}
