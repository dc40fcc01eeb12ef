//! TLS records as bytes.

use super::spoil::{bytes as spoil, noise};
use rand::RngExt;
use rand::rngs::SmallRng;

/// Returns a client hello that a server accepts, in its record.
fn hello(random: &mut SmallRng) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend(noise(random, 32));
    let session = [0, 32, 255][random.random_range(0..3)];
    body.push(session);
    body.extend(noise(random, usize::from(session)));
    // The cipher suites are of TLS 1.3 and 1.2, and one is unknown.
    let suites = [0x13, 0x01, 0x13, 0x02, 0xc0, 0x2b, 0xc0, 0x2f, 0xff, 0xfe];
    body.extend([0, suites.len() as u8]);
    body.extend(suites);
    body.extend([1, 0]);
    let mut extensions = Vec::new();
    let mut extension = |kind: u16, content: &[u8]| {
        extensions.extend(kind.to_be_bytes());
        extensions.extend((content.len() as u16).to_be_bytes());
        extensions.extend(content);
    };
    extension(0, b"\0\x0c\0\0\x09localhost");
    // The extensions are groups, point formats, signature algorithms, versions, and a key share.
    extension(10, &[0, 4, 0, 0x1d, 0, 0x17]);
    extension(11, &[1, 0]);
    extension(13, &[0, 6, 4, 3, 8, 4, 8, 7]);
    extension(43, &[4, 3, 4, 3, 3]);
    let mut share = vec![0, 36, 0, 0x1d, 0, 32];
    share.extend(noise(random, 32));
    extension(51, &share);
    if random.random_bool(0.2) {
        let length = random.random_range(0..3000);
        extension(random.random(), &noise(random, length));
    }
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    record(22, &message)
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    debug_assert!(
        u16::try_from(content.len()).is_ok(),
        "its length has two bytes"
    );
    let mut record = vec![kind, 3, 1];
    record.extend((content.len() as u16).to_be_bytes());
    record.extend(content);
    record
}

/// Returns a client's records: a hello, which is mostly damaged, and others after it.
pub(super) fn records(random: &mut SmallRng) -> Vec<u8> {
    let mut all = hello(random);
    if random.random_bool(0.7) {
        spoil(&mut all, random);
    }
    for _ in 0..random.random_range(0..4) {
        let length = [0, 1, 2, 40, 16_384, 20_000][random.random_range(0..6)];
        let kind = [20, 21, 22, 23, 24, random.random()][random.random_range(0..6)];
        let content = noise(random, length);
        all.extend(record(kind, &content));
    }
    all
}
