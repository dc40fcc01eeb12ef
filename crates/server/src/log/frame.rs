//! Frames, which separate whole commands of the log from torn and damaged ones.
//!
//! ```text
//! command command ... ECHO "nearfield:log=T:from=F:synced=S:crc32c=C"
//! └──────────────────── a frame ──────────────────────────────────┘
//! ```
//!
//! Commands are RESP arrays, as clients send them, and the trailer is a command that changes
//! nothing; so a log can be sent to any Redis as it is. `F` is the offset in the file at which the
//! frame begins, `C` the CRC-32C of all bytes from there to the checksum itself. Everything before
//! `S` was on the medium when the frame was written: damage there cannot come from a power failure.
//!
//! `T` is a random number of the log, which its first frame, one without commands, has introduced.
//! A value cannot imitate a trailer, because no client knows the number. Logs of older servers have
//! no such number; there a value that looks like a trailer behind a torn frame is mistaken for one,
//! and the log is refused.

use crate::resp::Parser;
use crate::resp::request::{RequestLimits, RequestProgress};
use crc::{CRC_32_ISCSI, Crc, Table};
use std::fmt::{self, Display, Formatter};
use std::io::{self, Read, Seek, SeekFrom};

type Tables = Table<16>;
static CHECKSUM: Crc<u32, Tables> = Crc::<u32, Tables>::new(&CRC_32_ISCSI);

const ECHO: &[u8] = b"*2\r\n$4\r\nECHO\r\n$";
const NAME: &str = "nearfield:";
const TAG: &str = "log=";
const TAG_DIGITS: usize = 16;
const CHECKSUM_DIGITS: usize = 8;
/// Number of bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// Returns the CRC-32C of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    CHECKSUM.checksum(bytes)
}

/// The random number of a log, which each of its trailers repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTag(pub u64);

impl LogTag {
    /// Draws a number that no client can guess.
    pub fn random() -> LogTag {
        LogTag(rand::random())
    }
}

impl Display for LogTag {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{TAG}{:0TAG_DIGITS$x}:", self.0)
    }
}

/// Returns the beginning of a trailer's text.
fn head(tag: Option<LogTag>) -> String {
    let tag = tag.map(|tag| tag.to_string()).unwrap_or_default();
    format!("{NAME}{tag}from=")
}

/// Ends the frame `body`, which will be at the offset `from` of the log with this tag.
pub fn seal(body: &mut Vec<u8>, tag: Option<LogTag>, from: u64, synced: u64) {
    let text = format!("{}{from}:synced={synced}:crc32c=", head(tag));
    body.extend_from_slice(ECHO);
    let length = text.len() + CHECKSUM_DIGITS;
    body.extend_from_slice(format!("{length}\r\n{text}").as_bytes());
    let checksum = checksum(body);
    body.extend_from_slice(format!("{checksum:08x}\r\n").as_bytes());
}

/// The content of a trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trailer {
    tag: Option<LogTag>,
    from: u64,
    synced: u64,
    checksum: u32,
}

impl Trailer {
    /// Parses the argument of a trailer's command; `None` if it is not a trailer.
    fn parse(argument: &[u8]) -> Option<Trailer> {
        let text = std::str::from_utf8(argument).ok()?;
        let (tag, rest) = text.strip_prefix(NAME)?.split_once("from=")?;
        let tag = match tag.strip_prefix(TAG) {
            Some(digits) => {
                let digits = digits.strip_suffix(':')?;
                Some(LogTag(u64::from_str_radix(digits, 16).ok()?))
            }
            None => None,
        };
        let (from, rest) = rest.split_once(":synced=")?;
        let (synced, checksum) = rest.split_once(":crc32c=")?;
        let trailer = Trailer {
            tag,
            from: from.parse().ok()?,
            synced: synced.parse().ok()?,
            checksum: u32::from_str_radix(checksum, 16).ok()?,
        };
        // The text must be exactly as it is written: no sign, no leading zero, no capital letter.
        let written = format!(
            "{}{}:synced={}:crc32c={:08x}",
            head(tag),
            trailer.from,
            trailer.synced,
            trailer.checksum
        );
        (written == text).then_some(trailer)
    }
}

/// The item after the last whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendLogItem {
    /// A whole frame of the file.
    Frame {
        /// The offset at which it begins.
        from: u64,
        /// The offset at which it ends.
        end: u64,
    },
    /// The end of the file.
    End,
    /// Bytes that are not a whole frame.
    Bad {
        /// The offset at which they begin.
        from: u64,
        /// A description of the error.
        reason: String,
        /// The offset of the command that the end of the file cuts short, if that is the only
        /// error.
        rest: Option<u64>,
    },
}

/// The reader of a log, frame by frame. It holds one frame in memory. If the log has a tag, a frame
/// ends at the next trailer at the latest, whatever lengths its commands announce.
#[derive(Debug)]
pub struct Frames<R> {
    input: R,
    /// The tag of the first frame.
    tag: Option<LogTag>,
    buffer: Vec<u8>,
    /// The index of the frame in the buffer.
    start: usize,
    /// The offset of the frame in the file.
    from: u64,
    /// The length of the last frame.
    taken: usize,
    /// The ranges of the frame's commands, relative to its first byte.
    commands: Vec<std::ops::Range<usize>>,
    ended: bool,
}

impl<R: Read> Frames<R> {
    /// Creates a reader of a log.
    pub fn new(input: R) -> Frames<R> {
        Frames {
            input,
            tag: None,
            buffer: Vec::new(),
            start: 0,
            from: 0,
            taken: 0,
            commands: Vec::new(),
            ended: false,
        }
    }

    /// Reads the next frame, whose commands [`commands`](Self::commands) then returns.
    ///
    /// # Errors
    /// Those of the input.
    pub fn read(&mut self) -> io::Result<AppendLogItem> {
        self.start += self.taken;
        self.from += std::mem::take(&mut self.taken) as u64;
        self.commands.clear();
        let limits = RequestLimits::default();
        let mut parser = Parser::new();
        let mut position = 0;
        // No trailer begins in this many bytes of the frame.
        let mut searched = 0;
        loop {
            let rest = self.buffer.get(self.start + position..).unwrap_or_default();
            // The parser accepts lines as commands, too, but a log has none.
            if rest.first().is_some_and(|&byte| byte != b'*') {
                return Ok(self.bad("the bytes are not a command"));
            }
            match parser.next(rest, &limits) {
                Ok(RequestProgress::Complete(length)) => {
                    let is_echo = parser.argument_count() == 2 && rest.starts_with(ECHO);
                    let trailer = is_echo.then(|| Trailer::parse(parser.argument(rest, 1)));
                    let command = position..position + length;
                    position += length;
                    match trailer.flatten() {
                        Some(trailer) => return Ok(self.end_frame(trailer, position)),
                        // ECHO changes no key, so that only a trailer can be one.
                        None if is_echo => return Ok(self.bad("its trailer does not parse")),
                        None if parser.argument_count() == 0 => {
                            return Ok(self.bad("a command without a name"));
                        }
                        None => self.commands.push(command),
                    }
                }
                Ok(RequestProgress::Incomplete) => {
                    if self.ended && self.buffer.len() == self.start {
                        return Ok(AppendLogItem::End);
                    }
                    if self.ended {
                        return Ok(AppendLogItem::Bad {
                            from: self.from,
                            reason: "it ends without a trailer".to_owned(),
                            rest: Some(self.from + position as u64),
                        });
                    }
                    let frame = self.buffer.get(self.start..).unwrap_or_default();
                    // A damaged length would otherwise take all later frames for one argument.
                    if self.tag.is_some() && has_trailer(frame, searched, self.tag) {
                        return Ok(self.bad("its trailer is inside a command"));
                    }
                    searched = frame.len().saturating_sub(TRAILER_BYTES_MAX);
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

    fn end_frame(&mut self, trailer: Trailer, end: usize) -> AppendLogItem {
        let frame = self.start..self.start + end;
        let frame = self.buffer.get(frame).unwrap_or_default();
        debug_assert_eq!(frame.len(), end);
        // The checksum's digits and the line's end, which the parser does not check.
        let (covered, last) = frame.split_at(end - CHECKSUM_DIGITS - 2);
        if checksum(covered) != trailer.checksum || !last.ends_with(b"\r\n") {
            return self.bad("its checksum does not match its bytes");
        }
        if trailer.from != self.from {
            let from = trailer.from;
            return self.bad(&format!("it was written to offset {from}"));
        }
        // The first frame introduces the tag of the log.
        if self.from == 0 {
            self.tag = trailer.tag;
        } else if trailer.tag != self.tag {
            return self.bad("it was written to another log");
        }
        self.taken = end;
        AppendLogItem::Frame {
            from: self.from,
            end: self.from + end as u64,
        }
    }

    fn bad(&self, reason: &str) -> AppendLogItem {
        AppendLogItem::Bad {
            from: self.from,
            reason: reason.to_owned(),
            rest: None,
        }
    }

    /// Returns the commands of the frame that was read last, each with its offset in the file.
    pub fn commands(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let command = |range: &std::ops::Range<usize>| {
            let place = self.start + range.start..self.start + range.end;
            let bytes = self.buffer.get(place).unwrap_or_default();
            (self.from + range.start as u64, bytes)
        };
        self.commands.iter().map(command)
    }
}

/// The result of a search for trailers behind damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// No trailer was found, so that the damage may be a frame that was not written to its end.
    Nothing,
    /// Trailers were found, all of them written before the damaged bytes were known to be on the
    /// medium.
    Unsynced,
    /// A trailer was found that was written when the damaged bytes were on the medium.
    Synced,
}

/// The maximum length of a trailer, and of an empty frame.
const TRAILER_BYTES_MAX: usize = 128;

/// Returns the trailers that begin in `bytes` at `from` or after it, and are complete: those with
/// this tag, or all if `tag` is `None`.
fn trailers(bytes: &[u8], from: usize, tag: Option<LogTag>) -> impl Iterator<Item = Trailer> + '_ {
    let behind = bytes.get(from..).unwrap_or_default();
    let places = memchr::memmem::find_iter(behind, ECHO);
    let trailer = move |place: usize| {
        let rest = behind.get(place..).unwrap_or_default();
        let rest = rest.get(..TRAILER_BYTES_MAX).unwrap_or(rest);
        let mut parser = Parser::new();
        let step = parser.next(rest, &RequestLimits::default());
        matches!(step, Ok(RequestProgress::Complete(_)))
            .then(|| Trailer::parse(parser.argument(rest, 1)))
            .flatten()
    };
    places
        .filter_map(trailer)
        .filter(move |trailer| tag.is_none() || trailer.tag == tag)
}

fn has_trailer(bytes: &[u8], from: usize, tag: Option<LogTag>) -> bool {
    trailers(bytes, from, tag).next().is_some()
}

/// Returns the tag of a log; `None` if it has none, or if its first frame is damaged.
///
/// # Errors
/// Those of the input.
pub fn tag_of<F: Read + Seek>(input: &mut F) -> io::Result<Option<LogTag>> {
    input.seek(SeekFrom::Start(0))?;
    // A first frame with a tag has no commands.
    let mut frames = Frames::new(input.take(TRAILER_BYTES_MAX as u64));
    frames.read()?;
    Ok(frames.tag)
}

/// Searches for trailers from the offset `start` of a log on, which is damaged at `damage`. They
/// are recognized by their form and the log's tag, regardless of the offset that they name and the
/// bytes before them: missing or inserted bytes move all that follows, and a frame that is damaged
/// itself has a trailer, too. Reads each byte once.
///
/// # Errors
/// Those of the input.
pub fn find_later_frames<F: Read + Seek>(
    input: &mut F,
    start: u64,
    damage: u64,
) -> io::Result<Behind> {
    let tag = tag_of(input)?;
    let mut found = Behind::Nothing;
    let mut window = Vec::new();
    input.seek(SeekFrom::Start(start))?;
    loop {
        let read = (&mut *input).take(CHUNK as u64).read_to_end(&mut window)?;
        for trailer in trailers(&window, 0, tag) {
            if trailer.synced > damage {
                return Ok(Behind::Synced);
            }
            found = Behind::Unsynced;
        }
        if read == 0 {
            return Ok(found);
        }
        // A trailer may cross the end of the bytes read so far.
        let keep = window.len().saturating_sub(TRAILER_BYTES_MAX);
        window.drain(..keep);
    }
}

/// Returns the frame without commands with which each log begins, so that no log is empty. It gives
/// the log its tag.
pub fn opening(tag: LogTag) -> Vec<u8> {
    let mut frame = Vec::new();
    seal(&mut frame, Some(tag), 0, 0);
    debug_assert_eq!(frame.len() as u64, OPENING_BYTES);
    frame
}

/// The length of the first frame of a log with a tag. The first frame of a log without one is
/// shorter.
pub const OPENING_BYTES: u64 = 83;

/// Returns true if only zeros follow the beginning of a frame at `from`. A file may end like this
/// after a power failure: it was extended, but its bytes were not written.
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
    debug_assert!(from <= end && end < offset);
    // Bytes other than zeros must be the beginning of a frame.
    match Frames::new(input.take(end - from)).read()? {
        AppendLogItem::End => Ok(true),
        AppendLogItem::Bad { rest, .. } => Ok(rest.is_some()),
        AppendLogItem::Frame { .. } => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    const TAG: LogTag = LogTag(0x0123_4567_89ab_cdef);

    /// Creates a log of these frames, each synced before the next is written if `synced`.
    fn log(frames: &[&[&[u8]]], synced: bool) -> (Vec<u8>, Vec<usize>) {
        let (mut log, mut ends) = (Vec::new(), Vec::new());
        for commands in frames {
            let mut body = commands.concat();
            let from = log.len() as u64;
            seal(&mut body, Some(TAG), from, if synced { from } else { 0 });
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

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, AppendLogItem) {
        let mut frames = Frames::new(bytes);
        let mut commands = Vec::new();
        loop {
            match frames.read().unwrap() {
                AppendLogItem::Frame { .. } => {
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
        assert_eq!(end, AppendLogItem::End);
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
                assert_eq!(end, AppendLogItem::End);
            } else {
                let AppendLogItem::Bad { from, rest, .. } = end else {
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
                let behind =
                    find_later_frames(&mut Cursor::new(&log[..length]), from, from).unwrap();
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
                        let AppendLogItem::Bad { from: at, rest, .. } = end else {
                            panic!("{from} {length}: {end:?}");
                        };
                        let start = rest.unwrap_or(at);
                        let behind =
                            find_later_frames(&mut Cursor::new(&damaged), start, at).unwrap();
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
                    let AppendLogItem::Bad { from, rest, .. } = end else {
                        panic!("{position}: {end:?}");
                    };
                    let frame = ends.iter().filter(|&&end| end <= position).count();
                    let begin = if frame == 0 { 0 } else { ends[frame - 1] };
                    assert_eq!(from, begin as u64, "{position}");
                    assert_eq!(commands, intact[..[0, 1, 3, 4][frame]]);
                    let start = rest.unwrap_or(from);
                    let damaged = &mut Cursor::new(&damaged);
                    let behind = find_later_frames(damaged, start, from).unwrap();
                    // The trailer of the last frame may itself be damaged.
                    if frame < ends.len() - 1 {
                        assert_ne!(behind, Behind::Nothing, "{position}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_that_looks_like_a_trailer_is_no_trailer_of_a_torn_frame() {
        let (trailer, frames) = (opening(LogTag(1)), [FAKE, &opening(LogTag(1))].concat());
        for value in [FAKE, &trailer, &frames] {
            let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len() + 9);
            let set = [head.as_bytes(), value, b"and more.\r\n"].concat();
            for synced in [true, false] {
                let (log, ends) = log(&[&[], &[SET], &[SET, &set]], synced);
                assert_eq!(read(&log).1, AppendLogItem::End);
                assert_eq!(tag_of(&mut Cursor::new(&log)).unwrap(), Some(TAG));
                for length in ends[1] + 1..log.len() {
                    let torn = &log[..length];
                    let AppendLogItem::Bad { from, rest, .. } = read(torn).1 else {
                        panic!("{length}");
                    };
                    assert_eq!(from, ends[1] as u64);
                    let start = rest.unwrap();
                    let behind = find_later_frames(&mut Cursor::new(torn), start, from).unwrap();
                    assert_eq!(behind, Behind::Nothing, "{length}");
                }
            }
        }
    }

    #[test]
    fn a_frame_of_another_log_is_refused() {
        let (mut log, _) = log(&[&[SET]], true);
        let mut other = SET.to_vec();
        seal(&mut other, Some(LogTag(1)), log.len() as u64, 0);
        log.extend(other);
        let (commands, end) = read(&log);
        assert_eq!(commands.len(), 1);
        assert!(
            matches!(end, AppendLogItem::Bad { rest: None, .. }),
            "{end:?}"
        );
    }

    #[test]
    fn a_log_without_a_tag_is_read() {
        let mut log = Vec::new();
        for commands in [&[][..], SET, DEL] {
            let mut body = commands.to_vec();
            seal(&mut body, None, log.len() as u64, log.len() as u64);
            log.extend(body);
        }
        assert_eq!(read(&log).1, AppendLogItem::End);
        assert_eq!(read(&log).0.len(), 2);
        assert_eq!(tag_of(&mut Cursor::new(&log)).unwrap(), None);
    }

    #[test]
    fn each_log_begins_with_as_many_bytes() {
        let opening = opening(LogTag::random());
        assert_eq!(opening.len() as u64, OPENING_BYTES);
        let mut longest = Vec::new();
        seal(&mut longest, Some(TAG), u64::MAX, u64::MAX);
        assert!(longest.len() <= TRAILER_BYTES_MAX, "{}", longest.len());
    }

    /// An input that counts the bytes taken from it.
    struct CountingReader<'b>(&'b [u8], usize);

    impl Read for CountingReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buffer)?;
            self.1 += read;
            Ok(read)
        }
    }

    #[test]
    fn a_damaged_length_does_not_take_the_rest_of_the_log_into_memory() {
        let value = vec![b'v'; 100_000];
        let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len());
        let set = [head.as_bytes(), &value, b"\r\n"].concat();
        let commands: [&[u8]; 1] = [&set];
        let frames = vec![&commands[..]; 100];
        let (log, ends) = log(&frames, true);
        let damaged = |from: &str, to: &str| {
            let place = ends[0] + memchr::memmem::find(&log[ends[0]..], from.as_bytes()).unwrap();
            let mut damaged = log.clone();
            damaged.splice(place..place + from.len(), to.bytes());
            let mut frames = Frames::new(CountingReader(&damaged, 0));
            assert!(matches!(
                frames.read().unwrap(),
                AppendLogItem::Frame { .. }
            ));
            let AppendLogItem::Bad { from, .. } = frames.read().unwrap() else {
                panic!("a damaged frame");
            };
            assert_eq!(from, ends[0] as u64);
            assert!(frames.buffer.capacity() < 8 * CHUNK);
            assert!(frames.input.1 < 4 * CHUNK, "{}", frames.input.1);
        };
        damaged("$100000\r\n", "$500000000\r\n");
        damaged("*3\r\n", "*1000000\r\n");
        damaged("*3\r\n", "*0\r\n");
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
        assert!(matches!(end, AppendLogItem::Bad { .. }), "{end:?}");
    }
}
