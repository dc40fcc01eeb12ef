//! The keys of a contestant's process, which holds them until it ends.

use super::wire::{KeyForm, read_words};
use nearfield_peers::PeerTextKey;
use std::io::{self, Read};

/// All keys of the set, in the order in which they are loaded.
pub(super) enum ContestantKeys {
    Words(Vec<u64>),
    Text(Vec<PeerTextKey>),
}

impl ContestantKeys {
    /// Reads keys that [`write_keys`](super::wire::write_keys) has written.
    pub(super) fn read(
        source: &mut impl Read,
        form: KeyForm,
        count: usize,
        bytes: usize,
    ) -> io::Result<ContestantKeys> {
        if form == KeyForm::Words {
            return read_words(source, count).map(ContestantKeys::Words);
        }
        // Final sizes at once: a map could grow unnoticed into memory that a growing vector has
        // freed.
        let mut text = vec![0; bytes];
        source.read_exact(&mut text)?;
        // Keys live as long as the process, because maps may refer to them.
        let text: &'static [u8] = text.leak();
        let mut strings = Vec::with_capacity(count);
        strings.extend(
            text.split_inclusive(|&byte| byte == 0)
                .filter_map(PeerTextKey::from_terminated),
        );
        if strings.len() != count {
            let message = format!("{} of {count} keys arrived", strings.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(ContestantKeys::Text(strings))
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{ContestantOrder, keys_order, write_keys};
    use super::*;
    use crate::workload::KeySet;

    fn through_a_pipe(set: &KeySet) -> ContestantKeys {
        let ContestantOrder::Keys {
            form, count, bytes, ..
        } = keys_order("x", set)
        else {
            unreachable!()
        };
        let mut pipe = Vec::new();
        write_keys(&mut pipe, set).unwrap();
        assert_eq!(pipe.len(), bytes);
        ContestantKeys::read(&mut &pipe[..], form, count, bytes).unwrap()
    }

    #[test]
    fn keys_arrive_as_sent() {
        let words: Vec<u64> = (0..10_000).map(|i| i << 32).collect();
        match through_a_pipe(&KeySet::Words(words.clone())) {
            ContestantKeys::Words(arrived) => assert_eq!(arrived, words),
            ContestantKeys::Text(_) => panic!("words became text"),
        }
        let strings = [&b"near"[..], b"field", b"\xff"];
        match through_a_pipe(&KeySet::Bytes(strings.iter().collect())) {
            ContestantKeys::Text(arrived) => {
                assert!(arrived.iter().map(|text| text.bytes()).eq(strings))
            }
            ContestantKeys::Words(_) => panic!("text became words"),
        }
    }
}
