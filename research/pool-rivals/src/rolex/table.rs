//! The table with which a client finds leaves: the models, and the addresses of the leaves. It is
//! written to remote memory once, when the index is created, and never changes.
//!
//! ```text
//! root word   address of the table
//! table       | header, words | lines, 3 words each | addresses of extents, a word each |
//! ```
//!
//! An *extent* has consecutive leaves; all extents except the last have the same number. Extents
//! are on the nodes in turn. So a client computes the address of a leaf, and keeps no pointers to
//! leaves.

use super::model::{Models, RolexModelLine, prefix};
use super::options::{RolexLeafKind, RolexOptions};
use nearfield_fabric::GlobalAddress;
use nearfield_pool::layout::LeafMetadataPosition;
use std::ops::RangeInclusive;

/// Number of bytes of an extent.
const EXTENT_BYTES: usize = 1 << 16;
/// The first word of a table: its kind and its format.
const MAGIC: u64 = u64::from_le_bytes(*b"rolex  1");
const HEADER_WORDS: usize = 10;
const LINE_WORDS: usize = 3;
pub(super) const HEADER_BYTES: usize = HEADER_WORDS * 8;
/// Number of bytes of the longest table, which has more than 100 million lines.
const TABLE_BYTES_MAX: u64 = 1 << 32;

/// The models, and the addresses of the leaves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RolexModelTable {
    models: Models,
    extents: Vec<GlobalAddress>,
    keys_per_leaf: u64,
    stride_bytes: u64,
    leaves_per_extent: u64,
}

/// Returns the number of leaves of an extent.
pub(super) fn leaves_per_extent(options: &RolexOptions) -> usize {
    (EXTENT_BYTES / options.stride_bytes()).max(1)
}

impl RolexModelTable {
    pub fn new(
        options: &RolexOptions,
        models: Models,
        extents: Vec<GlobalAddress>,
    ) -> RolexModelTable {
        RolexModelTable {
            models,
            extents,
            keys_per_leaf: options.keys_per_leaf() as u64,
            stride_bytes: options.stride_bytes() as u64,
            leaves_per_extent: leaves_per_extent(options) as u64,
        }
    }

    /// Returns the number of leaves without synonyms: at least one.
    pub fn leaves(&self) -> u64 {
        self.models.loaded.div_ceil(self.keys_per_leaf).max(1)
    }

    /// Returns the address of a leaf.
    pub fn address(&self, leaf: u64) -> GlobalAddress {
        let extent = self.extents[(leaf / self.leaves_per_extent) as usize];
        extent.plus(leaf % self.leaves_per_extent * self.stride_bytes)
    }

    /// Returns the leaves that may have a key.
    pub fn candidates(&self, key: &[u8]) -> RangeInclusive<u64> {
        let ranks = self.models.ranks(prefix(key));
        ranks.start() / self.keys_per_leaf..=ranks.end() / self.keys_per_leaf
    }

    /// Returns the number of candidates that only keys with a vertical line exceed.
    pub fn candidates_max(&self) -> u64 {
        // The ranks may begin within a leaf.
        (2 * self.models.error + 3).div_ceil(self.keys_per_leaf) + 1
    }

    /// Returns its bytes at a compute node.
    pub fn kept_bytes(&self) -> usize {
        size_of::<RolexModelTable>()
            + self.models.lines.capacity() * size_of::<RolexModelLine>()
            + self.extents.capacity() * size_of::<GlobalAddress>()
    }

    /// Returns its bytes in remote memory.
    pub fn encode(&self, options: &RolexOptions) -> Vec<u8> {
        let header = [self.models.lines.len() as u64, self.extents.len() as u64];
        let lines = self.models.lines.iter();
        let lines = lines.flat_map(|line| [line.first, line.rank, line.slope.to_bits()]);
        let extents = self.extents.iter().map(|extent| extent.to_bits());
        let sizes = sizes(options, self.models.loaded);
        let words = sizes.into_iter().chain(header).chain(lines).chain(extents);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Reads the number of bytes of the whole table from the header. Returns `None` if it is not a
    /// table of an index with these sizes.
    pub fn encoded_bytes(header: &[u8], options: &RolexOptions) -> Option<usize> {
        let header = words(header);
        let [.., loaded, lines, extents] = *header.get(..HEADER_WORDS)? else {
            return None;
        };
        // A client with other sizes or another error would read wrong leaves.
        let is_ours = header[..HEADER_WORDS - 2] == sizes(options, loaded);
        // Memory may contain anything, and all of the table is read at once.
        let words = lines.checked_mul(LINE_WORDS as u64)?;
        let words = words.checked_add(extents)?;
        let bytes = words.checked_add(HEADER_WORDS as u64)?.checked_mul(8)?;
        (is_ours && bytes <= TABLE_BYTES_MAX).then_some(bytes as usize)
    }

    /// Decodes a table from all its bytes; returns `None` if it is damaged.
    pub fn decode(bytes: &[u8], options: &RolexOptions) -> Option<RolexModelTable> {
        if RolexModelTable::encoded_bytes(bytes, options)? != bytes.len() {
            return None;
        }
        let words = words(bytes);
        let (header, rest) = words.split_at(HEADER_WORDS);
        let (lines, extents) = rest.split_at(header[HEADER_WORDS - 2] as usize * LINE_WORDS);
        let line = |words: &[u64]| RolexModelLine {
            first: words[0],
            rank: words[1],
            slope: f64::from_bits(words[2]),
        };
        let models = Models {
            lines: lines.chunks_exact(LINE_WORDS).map(line).collect(),
            loaded: header[HEADER_WORDS - 3],
            // The same as in the header, which was checked.
            error: u64::from(options.error),
        };
        let extents = extents.iter().map(|&word| GlobalAddress::from_bits(word));
        let table = RolexModelTable::new(options, models, extents.collect());
        // Any rank of the models is in a leaf of an extent.
        let needed = table.leaves().div_ceil(table.leaves_per_extent);
        let is_whole = table.models.are_valid() && table.extents.len() as u64 == needed;
        is_whole.then_some(table)
    }
}

/// Returns the words of the header that must be equal for all clients, and the number of loaded
/// keys.
fn sizes(options: &RolexOptions, loaded: u64) -> [u64; HEADER_WORDS - 2] {
    let shape = options.geometry.shape();
    let kind = match (options.leaves, shape.metadata) {
        (RolexLeafKind::Arrays, _) => 0,
        (RolexLeafKind::Hopscotch { .. }, LeafMetadataPosition::Single) => 1,
        (RolexLeafKind::Hopscotch { .. }, LeafMetadataPosition::Replicated) => 2,
    };
    [
        MAGIC,
        shape.key_bytes as u64,
        shape.value_bytes as u64,
        shape.leaf_span as u64,
        shape.neighborhood as u64,
        kind,
        u64::from(options.error),
        loaded,
    ]
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    bytes.chunks_exact(8).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::super::model::RolexModelTrainer;
    use super::*;
    use nearfield_fabric::NodeId;
    use nearfield_testkit::seeds;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn a_table_comes_back_and_one_of_other_sizes_is_none() {
        let options = RolexOptions::default();
        let mut trainer = RolexModelTrainer::new(options.error);
        (0..10_000_u64).for_each(|number| trainer.push(number * number));
        // 10,000 keys in leaves of 16, and 204 of these in an extent.
        let extents = [64, 1 << 20, 1 << 30, 1 << 40];
        let extents = extents.map(|offset| GlobalAddress::new(NodeId(2), offset));
        let table = RolexModelTable::new(&options, trainer.finish(), extents.into());
        assert!(table.models.lines() > 2);
        let bytes = table.encode(&options);
        let header = &bytes[..HEADER_BYTES];
        assert_eq!(
            RolexModelTable::encoded_bytes(header, &options),
            Some(bytes.len())
        );
        assert_eq!(RolexModelTable::decode(&bytes, &options), Some(table));
        let other = RolexOptions {
            error: 17,
            ..options.clone()
        };
        assert_eq!(RolexModelTable::encoded_bytes(header, &other), None);
        assert_eq!(
            RolexModelTable::encoded_bytes(&[0; HEADER_BYTES], &options),
            None
        );
    }

    /// A table with any damaged word is refused, or leads every key to leaves that exist.
    #[test]
    fn damaged_tables_are_refused_or_lead_to_leaves() {
        let options = RolexOptions::default();
        let mut trainer = RolexModelTrainer::new(options.error);
        let prefixes = (0..5_000_u64).map(|number| number * number);
        let ties = std::iter::repeat_n(1 << 30, 100);
        prefixes
            .chain(ties)
            .chain([u64::MAX])
            .for_each(|prefix| trainer.push(prefix));
        let extents = [64, 1 << 40].map(|offset| GlobalAddress::new(NodeId(2), offset));
        let table = RolexModelTable::new(&options, trainer.finish(), extents.into());
        let bytes = table.encode(&options);
        assert!(RolexModelTable::decode(&bytes, &options).is_some());
        let mut refused = 0;
        seeds::each(3_000, |seed| {
            let random = &mut SmallRng::seed_from_u64(seed);
            let mut damaged = bytes.clone();
            for _ in 0..random.random_range(1..4) {
                let words = damaged.len() / 8;
                let at = 8 * random.random_range(0..words);
                let word: u64 = match random.random_range(0..4) {
                    0 => random.random(),
                    1 => u64::MAX,
                    2 => 0,
                    _ => 1 << random.random_range(0..64),
                };
                damaged[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            let Some(table) = RolexModelTable::decode(&damaged, &options) else {
                refused += 1;
                return;
            };
            for _ in 0..20 {
                let shift = random.random_range(0..64);
                let key = (random.random::<u64>() >> shift).to_be_bytes();
                let candidates = table.candidates(&key);
                assert!(candidates.start() <= candidates.end());
                for leaf in candidates.take(50) {
                    let _ = table.address(leaf);
                }
            }
        });
        assert!(refused > 0);
    }

    #[test]
    fn addresses_of_leaves_are_computed() {
        let options = RolexOptions::default();
        assert_eq!(
            (options.stride_bytes(), leaves_per_extent(&options)),
            (320, 204)
        );
        let extents = [4096, 1 << 20].map(|offset| GlobalAddress::new(NodeId(1), offset));
        let table = RolexModelTable::new(
            &options,
            RolexModelTrainer::new(16).finish(),
            extents.into(),
        );
        assert_eq!(table.address(0).offset(), 4096);
        assert_eq!(table.address(203).offset(), 4096 + 203 * 320);
        assert_eq!(table.address(205).offset(), (1 << 20) + 320);
        assert_eq!((table.leaves(), table.candidates(b"any")), (1, 0..=0));
    }
}
