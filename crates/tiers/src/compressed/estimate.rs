//! An estimate of how small values would become, from a sample of them.

use super::block::CompressedBlock;
use super::dictionary::{Dictionaries, Dictionary};
use super::{BLOCK_OVERHEAD_BYTES, BLOCK_VALUES_MAX, is_block};

/// The size that values would have in a compressed tier.
///
/// ```
/// use nearfield_tiers::Compression;
///
/// let record = |n| format!("{{\"name\":\"ann\",\"city\":\"york\",\"id\":{n}}}");
/// let values: Vec<String> = (0..2000).map(record).collect();
/// let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
/// let told = Compression::of(&values);
/// assert!(told.trained_bytes * 2 < told.bytes);
/// assert!(told.trained_bytes < told.alone_bytes);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compression {
    /// Number of values that were compressed: every second one of the sample.
    pub values: u64,
    /// Number of bytes of these values.
    pub bytes: u64,
    /// Number of bytes that they use if each is compressed alone, with the tier's overhead.
    pub alone_bytes: u64,
    /// Number of bytes that they use in blocks, with a dictionary that was trained on the other
    /// half of the sample. The dictionary itself is not counted.
    pub trained_bytes: u64,
}

impl Compression {
    /// Compresses every second value of a sample, as the tier does, and trains a dictionary on the
    /// others. A value that does not shrink counts with its own bytes.
    ///
    /// The larger the sample, up to 4 MiB, the better the dictionary.
    pub fn of(values: &[&[u8]]) -> Compression {
        // Measured on the other half, because a dictionary fits the values of its sample too well.
        let half = |first| values.iter().copied().skip(first).step_by(2);
        let (trained_on, measured): (Vec<&[u8]>, Vec<&[u8]>) =
            (half(0).collect(), half(1).collect());
        let dictionaries = Dictionaries::default();
        let alone = measured
            .iter()
            .map(|value| block_bytes(&[value], &dictionaries));
        let alone_bytes = alone.sum();
        if let Some(dictionary) = Dictionary::trained_on(&trained_on) {
            dictionaries.add(dictionary);
        }
        let blocks = blocks(&measured);
        let trained_bytes = blocks.map(|block| block_bytes(block, &dictionaries)).sum();
        Compression {
            values: measured.len() as u64,
            bytes: sum(&measured),
            alone_bytes,
            trained_bytes,
        }
    }
}

fn sum(values: &[&[u8]]) -> u64 {
    values.iter().map(|value| value.len() as u64).sum()
}

/// Returns the bytes that a block of these values uses, or those of the values if that is no less.
fn block_bytes(values: &[&[u8]], dictionaries: &Dictionaries) -> u64 {
    match CompressedBlock::compress(values, dictionaries, false) {
        Ok(block) => sum(values).min(block.bytes() as u64 + BLOCK_OVERHEAD_BYTES),
        Err(_) => sum(values),
    }
}

/// Returns the values of each block, in order.
fn blocks<'v>(mut values: &'v [&'v [u8]]) -> impl Iterator<Item = &'v [&'v [u8]]> {
    std::iter::from_fn(move || {
        let (mut count, mut bytes, mut last) = (0, 0, 0);
        while let Some(value) = values.get(count)
            && !is_block(bytes, last)
            && count < BLOCK_VALUES_MAX
        {
            last = value.len();
            bytes += last;
            count += 1;
        }
        let (block, rest) = values.split_at_checked(count).filter(|_| count > 0)?;
        values = rest;
        Some(block)
    })
}

#[cfg(test)]
mod tests {
    use super::super::BLOCK_BYTES;
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, RngExt, SeedableRng};

    #[test]
    fn every_second_value_is_in_one_block_once() {
        let mut random = SmallRng::seed_from_u64(1);
        for count in [0, 1, 2, 7, 600] {
            let lengths = (0..count).map(|_| random.random_range(0..700));
            let values: Vec<Vec<u8>> = lengths.map(|length| vec![b'x'; length]).collect();
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let together: Vec<&[u8]> = blocks(&values).flatten().copied().collect();
            assert_eq!(together, values);
            assert!(blocks(&values).all(|block| sum(block) < BLOCK_BYTES as u64 + 700));
            assert_eq!(Compression::of(&values).values, count as u64 / 2);
        }
    }

    #[test]
    fn a_block_has_as_many_values_as_come_nearest_to_its_size() {
        for (value_bytes, count) in [(256, 16), (700, 6), (1000, 4), (1300, 3), (5000, 1)] {
            let values = vec![vec![b'x'; value_bytes]; 2 * count];
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            assert!(
                blocks(&values).all(|block| block.len() == count),
                "{value_bytes}"
            );
        }
    }

    #[test]
    fn what_the_tier_takes_is_what_was_told() {
        let mut random = SmallRng::seed_from_u64(2);
        let mut record = || {
            let mut text = String::from("{\"kind\":\"order\",\"items\":[");
            for _ in 0..12 {
                text += &format!("{{\"article\":{}}},", random.random_range(0..5000));
            }
            text.into_bytes()
        };
        let values: Vec<Vec<u8>> = (0..30_000).map(|_| record()).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let told = Compression::of(&values);
        let tier = super::super::CompressedTier::new(1, 1 << 30);
        // The tier has trained dictionaries on the first part; they are smaller than the
        // estimate's.
        let (before, after) = values.split_at(24_000);
        for block in blocks(before) {
            tier.put(block).unwrap();
            tier.tend();
        }
        let start = tier.usage();
        blocks(after).for_each(|block| drop(tier.put(block).unwrap()));
        let end = tier.usage();
        let found = (end.value_bytes - start.value_bytes) as f64
            / (end.used_bytes - start.used_bytes) as f64;
        let told = told.bytes as f64 / told.trained_bytes as f64;
        assert!(
            (told / found - 1.0).abs() < 0.1,
            "told {told}, found {found}"
        );
    }

    #[test]
    fn noise_is_told_to_stay_as_it_is() {
        let mut random = SmallRng::seed_from_u64(3);
        let mut noise = || {
            let mut value = vec![0; 500];
            random.fill_bytes(&mut value);
            value
        };
        let values: Vec<Vec<u8>> = (0..200).map(|_| noise()).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let told = Compression::of(&values);
        assert_eq!(
            (told.alone_bytes, told.trained_bytes),
            (told.bytes, told.bytes)
        );
    }
}
