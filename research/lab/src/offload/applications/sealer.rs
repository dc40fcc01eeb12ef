//! WebService's own work on an object before it sends it to a user: it compresses and encrypts it.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zstd::bulk::Compressor;

/// A user's session: a key, and the number of the next message.
pub(super) struct Sealer {
    key: LessSafeKey,
    compressor: Compressor<'static>,
    next: u64,
}

/// The compression level: the fastest of zstd's usual levels.
const LEVEL: i32 = 1;
/// The key of all users: it is a benchmark.
const KEY: [u8; 16] = [0x2b; 16];

/// Error for an object that cannot be sent to a user, or a message that the service has not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object cannot be compressed or encrypted, or the message is not from the service")]
pub struct SealError;

fn key() -> Result<LessSafeKey, SealError> {
    let key = UnboundKey::new(&AES_128_GCM, &KEY).map_err(|_| SealError)?;
    Ok(LessSafeKey::new(key))
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    for (to, from) in bytes.iter_mut().zip(number.to_le_bytes()) {
        *to = from;
    }
    // Sessions share the key, so numbers repeat. The messages of a benchmark are no secret.
    Nonce::assume_unique_for_key(bytes)
}

impl Sealer {
    pub(super) fn new() -> Result<Sealer, SealError> {
        Ok(Sealer {
            key: key()?,
            compressor: Compressor::new(LEVEL).map_err(|_| SealError)?,
            next: 0,
        })
    }

    /// Seals an object; returns the message's number and bytes.
    pub(super) fn seal(&mut self, object: &[u8]) -> Result<(u64, Vec<u8>), SealError> {
        let mut bytes = self.compressor.compress(object).map_err(|_| SealError)?;
        let number = self.next;
        self.next += 1;
        let sealed = self
            .key
            .seal_in_place_append_tag(nonce(number), Aad::empty(), &mut bytes);
        sealed.map_err(|_| SealError)?;
        Ok((number, bytes))
    }
}

/// Opens a message as the user does, and returns the object.
#[cfg(test)]
pub(super) fn open(number: u64, message: &[u8], object_bytes: usize) -> Result<Vec<u8>, SealError> {
    let mut bytes = message.to_vec();
    let opened = key()?
        .open_in_place(nonce(number), Aad::empty(), &mut bytes)
        .map_err(|_| SealError)?;
    let mut decompressor = zstd::bulk::Decompressor::new().map_err(|_| SealError)?;
    decompressor
        .decompress(opened, object_bytes)
        .map_err(|_| SealError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_opens_only_the_sealed_message() {
        let mut sealer = Sealer::new().expect("a key of 16 bytes");
        let object = vec![5; 8192];
        for number in 0..3 {
            let (nonce, mut message) = sealer.seal(&object).expect("an object");
            assert_eq!(nonce, number);
            assert!(message.len() < 200);
            assert_eq!(open(nonce, &message, 8192), Ok(object.clone()));
            assert_eq!(open(nonce + 1, &message, 8192), Err(SealError));
            message[3] ^= 1;
            assert_eq!(open(nonce, &message, 8192), Err(SealError));
        }
    }
}
