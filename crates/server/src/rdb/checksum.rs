//! The checksum at the end of snapshots and payloads.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

/// Sixteen tables of 2 KiB: a single table would handle one byte at a time, at a third of the
/// speed.
type Tables = Table<16>;

static CHECKSUM: Crc<u64, Tables> = Crc::<u64, Tables>::new(&CRC_64_REDIS);

pub(super) type Running = Digest<'static, u64, Tables>;

pub(super) fn running() -> Running {
    CHECKSUM.digest()
}

pub(super) fn of(bytes: &[u8]) -> u64 {
    CHECKSUM.checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_one_of_redis() {
        assert_eq!(of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(of(b""), 0);
        let mut parts = running();
        parts.update(b"1234");
        parts.update(b"56789");
        assert_eq!(parts.finalize(), of(b"123456789"));
    }
}
