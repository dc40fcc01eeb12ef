//! The parser of requests finds the same requests for all cuts of their bytes, and none beyond its
//! limits. The fast path, which uses the head of the previous request, finds the same requests.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_server::resp::repeated::RequestHead;
use nearfield_server::resp::request::RequestProgress;
use nearfield_server::resp::{Parser, ProtocolError, RequestLimits};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (cuts, bytes) = input;
    let limits = RequestLimits::default();
    let whole = feed(bytes, &[], &limits);
    assert_eq!(feed(bytes, cuts, &limits), whole, "cut at {cuts:?}");
    let single = vec![1; bytes.len()];
    assert_eq!(feed(bytes, &single, &limits), whole, "in single bytes");
    // Inputs are short, so the limit of lines is small, too. Only the bounds are checked, because a
    // line that has arrived completely is not refused for its length, so the result depends on the
    // cuts.
    let tight = RequestLimits {
        argument_bytes: 9,
        arguments: 3,
        line_bytes: 12,
    };
    for limits in [tight, RequestLimits::unauthenticated()] {
        for request in feed(bytes, cuts, &limits).requests {
            assert!(request.is_inline || request.words.len() <= limits.arguments);
            let mut words = request.words.iter();
            assert!(request.is_inline || words.all(|word| word.len() <= limits.argument_bytes));
        }
    }
});

#[derive(Debug, PartialEq)]
struct RespFuzzRequest {
    is_inline: bool,
    words: Vec<Vec<u8>>,
}

#[derive(Debug, PartialEq)]
struct RespFuzzResult {
    requests: Vec<RespFuzzRequest>,
    error: Option<ProtocolError>,
    /// Bytes that belong to no request yet.
    left: Vec<u8>,
}

/// Passes the bytes to the parser in pieces. The piece after the last cut is the whole rest.
fn feed(bytes: &[u8], cuts: &[u8], limits: &RequestLimits) -> RespFuzzResult {
    let mut parser = Parser::new();
    let mut found = RespFuzzResult {
        requests: Vec::new(),
        error: None,
        left: Vec::new(),
    };
    let mut rest = bytes;
    let mut cuts = cuts.iter();
    let mut head: Option<RequestHead> = None;
    while !rest.is_empty() {
        let length = cuts.next().map_or(rest.len(), |&cut| usize::from(cut));
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        found.left.extend_from_slice(piece);
        loop {
            let mut places = Vec::new();
            let again = match (&head, parser.is_between_requests()) {
                (Some(head), true) => head.find(&found.left, limits, |place| places.push(place)),
                _ => None,
            };
            let step = parser.next(&found.left, limits);
            if let Some(end) = again {
                assert_eq!(step, Ok(RequestProgress::Complete(end)));
                assert_eq!(parser.places(), places);
            }
            match step {
                Ok(RequestProgress::Incomplete) => break,
                Ok(RequestProgress::Complete(end)) => {
                    assert!(end > 0, "a request of no bytes");
                    head = RequestHead::of(&found.left[..end], parser.places());
                    let words = parser.arguments(&found.left);
                    found.requests.push(RespFuzzRequest {
                        is_inline: found.left[0] != b'*',
                        words: words.map(<[u8]>::to_vec).collect(),
                    });
                    found.left.drain(..end);
                }
                Err(error) => {
                    // The bytes received before the error depend on the cuts.
                    found.left.clear();
                    found.error = Some(error);
                    return found;
                }
            }
        }
    }
    found
}
