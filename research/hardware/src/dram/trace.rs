//! Traces of memory requests: one line of text each.

use super::DramError;
use super::lines::{TraceLines, hexadecimal};
use std::io::BufRead;

/// The kind of access to a line of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DramAccess {
    /// A read of the line.
    Read,
    /// A write of the line.
    Write,
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramRequest {
    /// The address of a byte in the line of memory.
    pub address: u64,
    /// The kind of access to the line.
    pub access: DramAccess,
    /// The time at which it is sent, in picoseconds.
    pub picoseconds: u64,
}

/// Reader of the requests of a trace: `<hex address> READ|WRITE <picoseconds>` on each line, such
/// as `0x7f00 READ 1250`. Lines without a word are skipped. The reader ends after the first error.
///
/// ```
/// use nearfield_hardware::dram::{DramAccess, DramTrace};
///
/// let requests: Vec<_> = DramTrace::new("7f00 READ 0\n0x40 WRITE 1250\n".as_bytes())
///     .collect::<Result<_, _>>()?;
/// assert_eq!(requests[1].address, 0x40);
/// assert_eq!(requests[1].access, DramAccess::Write);
/// let error = DramTrace::new("7f00 LOAD 0".as_bytes()).next().unwrap().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 1 of the trace: access \"LOAD\" is neither READ nor WRITE"
/// );
/// # Ok::<(), nearfield_hardware::dram::DramError>(())
/// ```
#[derive(Debug)]
pub struct DramTrace<R> {
    lines: TraceLines<R>,
    failed: bool,
}

impl<R: BufRead> DramTrace<R> {
    /// Creates a reader of the requests of `reader`.
    pub fn new(reader: R) -> DramTrace<R> {
        DramTrace {
            lines: TraceLines::new(reader),
            failed: false,
        }
    }

    /// Returns the number of the line that was read last, from 1; 0 before the first.
    pub fn line(&self) -> u64 {
        self.lines.line()
    }

    fn read(&mut self) -> Option<Result<DramRequest, DramError>> {
        let read = self.lines.read()?;
        Some(read.and_then(|()| self.parse()))
    }

    fn parse(&self) -> Result<DramRequest, DramError> {
        let lines = &self.lines;
        let mut words = lines.words();
        let mut next = || words.next().unwrap_or_default();
        // A fourth word is read only to refuse it.
        let (address, access, picoseconds, rest) = (next(), next(), next(), next());
        let request = DramRequest {
            address: hexadecimal(address)
                .map_err(|reason| lines.wrong("address", address, reason))?,
            access: lines.access(access)?,
            picoseconds: lines.picoseconds(picoseconds)?,
        };
        lines.ends(rest)?;
        Ok(request)
    }
}

impl<R: BufRead> Iterator for DramTrace<R> {
    type Item = Result<DramRequest, DramError>;

    fn next(&mut self) -> Option<Result<DramRequest, DramError>> {
        if self.failed {
            return None;
        }
        let request = self.read();
        self.failed = matches!(request, Some(Err(_)));
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> Result<DramRequest, String> {
        let request = DramTrace::new(text.as_bytes()).next().unwrap();
        request.map_err(|error| error.to_string())
    }

    #[test]
    fn a_wrong_line_is_named_with_its_field() {
        let wrong = |text: &str| first(text).unwrap_err();
        assert_eq!(
            wrong("\n\n0xg READ 1"),
            "line 3 of the trace: address \"0xg\" is not a hexadecimal number such as 0x7f00"
        );
        assert!(wrong("0x READ 1").contains("address \"0x\""));
        assert!(wrong("11112222333344445 READ 1").contains("larger than 64 bits"));
        assert!(wrong("10 read 1").contains("access \"read\" is neither"));
        assert!(wrong("10").contains("access \"\" is neither"));
        assert!(wrong("10 READ").contains("time \"\" is not a whole number"));
        assert!(wrong("10 READ 1.5").contains("time \"1.5\" is not"));
        assert!(wrong("10 READ 18446744073709551616").contains("larger than 64"));
        assert!(wrong("10 READ 1 2").contains("text \"2\" follows"));
        assert!(wrong(&"a".repeat(1000)).contains("more than 255 bytes"));
    }

    #[test]
    fn the_largest_request_is_read() {
        let read = first("\t0XffffffffffffffFF  WRITE 18446744073709551615 \r\n").unwrap();
        assert_eq!(read.address, u64::MAX);
        assert_eq!(read.access, DramAccess::Write);
        assert_eq!(read.picoseconds, u64::MAX);
    }

    #[test]
    fn the_line_of_the_last_request_is_known() {
        let mut trace = DramTrace::new("1 READ 0\n\n2 READ 0\n".as_bytes());
        assert_eq!(trace.line(), 0);
        assert!(trace.next().unwrap().is_ok());
        assert_eq!(trace.line(), 1);
        assert!(trace.next().unwrap().is_ok());
        assert_eq!(trace.line(), 3);
    }

    #[test]
    fn a_trace_ends_after_an_error() {
        let mut trace = DramTrace::new("1 READ 0\nx\n2 READ 0\n".as_bytes());
        assert!(trace.next().unwrap().is_ok());
        assert!(trace.next().unwrap().is_err());
        assert!(trace.next().is_none());
    }
}
