//! HyperLogLogs from any bytes: none causes a panic. Invalid and corrupted ones are refused with
//! Redis's errors. All others have the same registers and the same count after they were made
//! dense, merged or given more elements.
//!
//! With `NEARFIELD_FUZZ_CANARY=1` one form misses an element, which must be noticed.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nearfield_server::client::{ClientSession, ClientShared};
use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server::execute::Executor;
use nearfield_server::resp::{Protocol, RespReply};
use nearfield_server::server::ServerCore;
use nearfield_server_testkit::reply::RespReplyValue;
use std::sync::{Arc, LazyLock};

const REGISTERS: usize = 16_384;
const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;

#[derive(Arbitrary, Debug)]
enum HyperloglogBytes<'i> {
    Any(&'i [u8]),
    /// The sparse form: bytes of runs, which mostly cover all registers.
    Sparse(Vec<(u8, u8)>, bool),
    /// The dense form, in which the registers repeat.
    Dense(&'i [u8]),
}

impl HyperloglogBytes<'_> {
    /// Returns the value, without a cached count of elements.
    fn value(&self) -> Vec<u8> {
        let header = |form| [b"HYLL", &[form][..], &[0; 10], &[0x80]].concat();
        let mut value = match self {
            HyperloglogBytes::Any(bytes) => bytes.to_vec(),
            HyperloglogBytes::Sparse(runs, is_whole) => {
                let mut value = header(1);
                let mut left = REGISTERS;
                for &(first, second) in runs {
                    let bytes = [first, second];
                    let bytes = &bytes[..1 + usize::from(first >> 6 == 1)];
                    let length = run(bytes).map_or(0, |(_, length, _)| length);
                    if length <= left || !is_whole {
                        value.extend_from_slice(bytes);
                        left = left.saturating_sub(length);
                    }
                }
                if *is_whole && left > 0 {
                    let rest = left - 1;
                    value.extend([0x40 | (rest >> 8) as u8, rest as u8]);
                }
                value
            }
            HyperloglogBytes::Dense(bytes) => {
                let mut value = header(0);
                value.extend(bytes.iter().cycle().take(DENSE_BYTES - HEADER_BYTES));
                value.resize(DENSE_BYTES, 0);
                value
            }
        };
        if let Some(byte) = value.get_mut(HEADER_BYTES - 1) {
            *byte |= 0x80;
        }
        value
    }
}

/// Returns the first run of a sparse form: its rank, its registers and its bytes.
fn run(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    match *bytes {
        [byte, ..] if byte >= 0x80 => Some(((byte >> 2 & 31) + 1, usize::from(byte & 3) + 1, 1)),
        [byte, ..] if byte < 0x40 => Some((0, usize::from(byte) + 1, 1)),
        [high, low, ..] => {
            let length = usize::from(high & 63) << 8 | usize::from(low);
            Some((0, length + 1, 2))
        }
        _ => None,
    }
}

/// Returns the registers of a value, or the code of the error that it gives.
fn registers(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let body = value.get(HEADER_BYTES..).unwrap_or_default();
    let is_whole = value.len() >= HEADER_BYTES && value.starts_with(b"HYLL");
    match value.get(4) {
        Some(0) if is_whole && value.len() == DENSE_BYTES => {
            // Three bytes hold four registers, the lowest bits first.
            let four = |bytes: &[u8]| {
                let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
                [0, 6, 12, 18].map(|shift| (bits >> shift & 63) as u8)
            };
            Ok(body.chunks_exact(3).flat_map(four).collect())
        }
        Some(1) if is_whole => {
            let (mut registers, mut rest) = (Vec::new(), body);
            while !rest.is_empty() {
                let (rank, length, bytes) = run(rest).ok_or("INVALIDOBJ")?;
                registers.resize(registers.len() + length, rank);
                rest = &rest[bytes..];
            }
            match registers.len() {
                REGISTERS => Ok(registers),
                _ => Err("INVALIDOBJ"),
            }
        }
        _ => Err("WRONGTYPE"),
    }
}

/// One server for all inputs, because creating one takes longer than an input.
static SERVER: LazyLock<ServerCore> =
    LazyLock::new(|| ServerCore::new(TABLE.registry(), ServerOptions::default()));

struct HyperloglogFuzzSession<'s> {
    executor: Executor<'s>,
    client: ClientSession,
}

impl<'s> HyperloglogFuzzSession<'s> {
    fn begin(server: &'s ServerCore) -> HyperloglogFuzzSession<'s> {
        let id = server.clients.next_id();
        let (peer, here) = ("peer".to_owned(), "here".to_owned());
        let shared = Arc::new(ClientShared::new(id, 0, peer, here, 0));
        HyperloglogFuzzSession {
            executor: Executor::new(server),
            client: ClientSession::new(shared, true),
        }
    }

    fn ask(&mut self, words: &[&[u8]]) -> RespReplyValue {
        let mut reply = RespReply::new(Protocol::Resp2);
        let now_ms = 1_700_000_000_000;
        let wait = self
            .executor
            .run(&mut self.client, words, now_ms, &mut reply);
        assert!(wait.is_none());
        let parsed = RespReplyValue::parse(reply.bytes()).expect("a reply");
        parsed.expect("a whole reply").0
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.ask(&[b"SET", key, value]);
    }

    fn add(&mut self, key: &[u8], elements: &[&[u8]]) -> RespReplyValue {
        self.ask(&[&[b"PFADD", key][..], elements].concat())
    }

    fn count(&mut self, key: &[u8]) -> i64 {
        match self.ask(&[b"PFCOUNT", key]) {
            RespReplyValue::Integer(count) => count,
            other => panic!("PFCOUNT replied {other}"),
        }
    }

    /// Returns the registers of a value that is made dense.
    fn dense(&mut self, key: &[u8]) -> Vec<u8> {
        let answer = self.ask(&[b"PFDEBUG", b"TODENSE", key]);
        assert!(matches!(answer, RespReplyValue::Integer(_)), "{answer}");
        match self.ask(&[b"GET", key]) {
            RespReplyValue::Bulk(value) => registers(&value).expect("a dense value"),
            other => panic!("GET replied {other}"),
        }
    }
}

fuzz_target!(|input: (HyperloglogBytes<'_>, Vec<&[u8]>)| {
    let (bytes, elements) = input;
    let value = bytes.value();
    let mut session = HyperloglogFuzzSession::begin(&SERVER);
    session.ask(&[b"DEL", b"k", b"dense", b"merged"]);
    session.set(b"k", &value);
    match registers(&value) {
        Err(code) => check_refused(&mut session, code, &elements),
        Ok(registers) => check_same(&mut session, &value, &registers, &elements),
    }
});

fn check_refused(session: &mut HyperloglogFuzzSession, code: &str, elements: &[&[u8]]) {
    let refused: [&[&[u8]]; 5] = [
        &[b"PFCOUNT", b"k"],
        &[b"PFCOUNT", b"k", b"none"],
        &[b"PFMERGE", b"merged", b"k"],
        &[b"PFDEBUG", b"GETREG", b"k"],
        &[b"PFDEBUG", b"TODENSE", b"k"],
    ];
    for words in refused {
        let answer = session.ask(words);
        let is_code =
            matches!(&answer, RespReplyValue::Error(text) if text.starts_with(code.as_bytes()));
        assert!(is_code, "{code}: {answer}");
    }
    session.ask(&[b"PFDEBUG", b"DECODE", b"k"]);
    // Corruption elsewhere in the value may not be noticed.
    match session.add(b"k", elements) {
        RespReplyValue::Error(text) => assert!(text.starts_with(code.as_bytes())),
        answer => assert!(code == "INVALIDOBJ", "{answer}"),
    }
}

fn check_same(
    session: &mut HyperloglogFuzzSession,
    value: &[u8],
    registers: &[u8],
    elements: &[&[u8]],
) {
    session.ask(&[b"PFDEBUG", b"DECODE", b"k"]);
    let count = session.count(b"k");
    assert_eq!(session.count(b"k"), count, "kept");
    session.ask(&[b"PFMERGE", b"merged", b"k"]);
    session.set(b"dense", value);
    for key in [&b"dense"[..], b"merged"] {
        assert_eq!(session.dense(key), registers);
        assert_eq!(session.count(key), count);
    }
    let lost = usize::from(std::env::var_os("NEARFIELD_FUZZ_CANARY").is_some());
    let kept = elements.len().saturating_sub(lost);
    let one = session.add(b"k", elements);
    assert_eq!(one, session.add(b"dense", &elements[..kept]));
    assert_eq!(session.count(b"k"), session.count(b"dense"));
    assert_eq!(session.dense(b"k"), session.dense(b"dense"));
}
