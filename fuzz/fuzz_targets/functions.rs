//! First lines and payloads of libraries from any bytes: none causes a panic, and an accepted one
//! is the same after it is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_server::rdb::{dump_functions, restore_functions};
use nearfield_server::script::library::LibraryHeader;

fuzz_target!(|input: (bool, &[u8])| {
    match input {
        (true, code) => check_code(code),
        (false, body) => {
            check_payload(body);
            check_payload(&with_footer(body));
        }
    }
});

/// Appends the version and the checksum, so that the input need not guess them.
fn with_footer(body: &[u8]) -> Vec<u8> {
    let empty = dump_functions([]);
    let (version, checksum) = empty.split_at(2);
    assert_eq!(crc64(version).to_le_bytes(), checksum);
    let summed = [body, version].concat();
    let checksum = crc64(&summed);
    [&summed[..], &checksum.to_le_bytes()].concat()
}

/// Computes the CRC-64 of Jones bit by bit, as used by Redis.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ u64::from(byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 }
        })
    })
}

fn check_payload(payload: &[u8]) {
    let Ok(codes) = restore_functions(payload) else {
        return;
    };
    let written = dump_functions(codes.iter().map(Vec::as_slice));
    let again = restore_functions(&written).expect("a payload of our own");
    assert_eq!(again, codes);
    for code in &codes {
        check_code(code);
    }
}

fn check_code(code: &[u8]) {
    if let Ok(LibraryHeader { name, body }) = LibraryHeader::parse(code) {
        assert!(
            !name.is_empty()
                && name
                    .bytes()
                    .all(|it| it.is_ascii_alphanumeric() || it == b'_')
        );
        assert!(body.starts_with(b"\n") && code.ends_with(body));
        let plain = [format!("#!lua name={name}").as_bytes(), body].concat();
        assert_eq!(
            LibraryHeader::parse(&plain),
            Ok(LibraryHeader { name, body })
        );
    }
}
