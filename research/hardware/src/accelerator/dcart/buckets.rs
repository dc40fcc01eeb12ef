//! The distribution of operations to buckets.

use super::{DcartOperation, DcartParameters};

/// The bucket of each label. Consecutive labels have consecutive buckets. The paper does not state
/// how 256 labels become 16 buckets; here they divide the operations of the previous batch as
/// evenly as runs of labels can. The labels of the first batch divide that batch itself, as if the
/// load before had been like it.
#[derive(Clone, Debug)]
pub(super) struct LabelBuckets {
    buckets: usize,
    of: [u8; 256],
}

impl LabelBuckets {
    /// Creates buckets that divide these operations.
    pub(super) fn of(buckets: usize, operations: &[DcartOperation]) -> LabelBuckets {
        let of = [0; 256];
        let mut labels = LabelBuckets { buckets, of };
        labels.balance(operations);
        labels
    }

    /// Divides these operations by runs of labels, so that the largest bucket is as small as
    /// possible.
    pub(super) fn balance(&mut self, operations: &[DcartOperation]) {
        let mut counts = [0_u64; 256];
        for operation in operations {
            counts[usize::from(operation.label)] += 1;
        }
        let largest = counts.iter().copied().max().unwrap_or(0);
        let (mut least, mut most) = (largest, operations.len() as u64);
        // The number of runs never grows with their size, so the least size that suffices is found
        // by halving.
        while least < most {
            let size = least + (most - least) / 2;
            if runs(&counts, size) <= self.buckets {
                most = size;
            } else {
                least = size + 1;
            }
        }
        debug_assert!(runs(&counts, least) <= self.buckets);
        let (mut bucket, mut taken) = (0, 0);
        for (label, count) in counts.iter().enumerate() {
            if taken + count > least && taken > 0 {
                (bucket, taken) = (bucket + 1, 0);
            }
            taken += count;
            self.of[label] = bucket.min(self.buckets - 1) as u8;
        }
    }

    pub(super) fn bucket(&self, label: u8) -> usize {
        usize::from(self.of[usize::from(label)])
    }
}

/// Returns the number of runs of labels if none has more than `size` operations.
fn runs(counts: &[u64; 256], size: u64) -> usize {
    let (mut runs, mut taken) = (1, 0);
    for count in counts {
        if taken + count > size && taken > 0 {
            (runs, taken) = (runs + 1, 0);
        }
        taken += count;
    }
    runs
}

/// The operations of a batch, by their places in it.
#[derive(Clone, Debug, Default)]
pub(super) struct DcartBucket {
    /// The operations in the order of the batch.
    pub(super) operations: Vec<u32>,
    /// The offset of the end of each record in the bucket's table.
    pub(super) ends: Vec<u64>,
    /// Number of bytes that were written to memory.
    pub(super) spilled: u64,
}

impl DcartBucket {
    pub(super) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// The buckets of a batch while they are filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    pub(super) all: Vec<DcartBucket>,
}

impl Buckets {
    pub(super) fn empty(buckets: usize) -> Buckets {
        Buckets {
            all: vec![DcartBucket::default(); buckets],
        }
    }

    /// Adds an operation. Returns its bucket, the number of its lines that must now be written to
    /// memory, and the offset of the first of these bytes.
    pub(super) fn add(
        &mut self,
        place: usize,
        operation: &DcartOperation,
        labels: &LabelBuckets,
        parameters: &DcartParameters,
    ) -> (usize, u64, u64) {
        let index = match parameters.combines {
            true => labels.bucket(operation.label),
            false => place % self.all.len(),
        };
        let bucket = &mut self.all[index];
        bucket.operations.push(place as u32);
        bucket
            .ends
            .push(bucket.bytes() + u64::from(operation.bytes));
        let beyond = bucket.bytes().saturating_sub(parameters.bucket_bytes());
        // Bytes are written in bursts, because single lines would open a row of memory each.
        let burst = parameters.spill_lines * crate::dram::LINE_BYTES;
        if beyond < bucket.spilled + burst {
            return (index, 0, 0);
        }
        let from = parameters.bucket_bytes() + bucket.spilled;
        bucket.spilled += burst;
        (index, parameters.spill_lines, from)
    }

    /// Returns the buckets that have operations, the largest first.
    pub(super) fn by_size(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.all.len())
            .filter(|bucket| !self.all[*bucket].operations.is_empty())
            .collect();
        // The largest bucket would hold up the batch if it began last.
        order.sort_by_key(|bucket| std::cmp::Reverse(self.all[*bucket].operations.len()));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(label: u8) -> DcartOperation {
        DcartOperation {
            key: u64::from(label),
            label,
            bytes: 24,
            writes: false,
        }
    }

    #[test]
    fn runs_of_labels_are_balanced() {
        // Half of the operations have one label, which cannot be divided.
        let operations: Vec<DcartOperation> = (0..1024_u32)
            .map(|number| {
                operation(if number % 2 == 0 {
                    7
                } else {
                    (number / 2 % 256) as u8
                })
            })
            .collect();
        let labels = LabelBuckets::of(4, &operations);
        let mut counts = [0; 4];
        for operation in &operations {
            counts[labels.bucket(operation.label)] += 1;
        }
        assert_eq!(counts.iter().sum::<u32>(), 1024);
        assert!(*counts.iter().max().unwrap() <= 530, "{counts:?}");
        assert!((1..256).all(|label| labels.of[label] >= labels.of[label - 1]));
    }

    #[test]
    fn records_beyond_the_buffer_are_spilled_in_bursts() {
        let parameters = DcartParameters {
            bucket_buffer: 2 * 16 * 64,
            ..DcartParameters::published()
        };
        assert_eq!(parameters.bucket_bytes(), 64);
        let labels = LabelBuckets::of(16, &[]);
        let mut buckets = Buckets::empty(16);
        let mut lines = 0;
        for place in 0..100 {
            lines += buckets.add(place, &operation(0), &labels, &parameters).1;
        }
        assert_eq!(buckets.all[0].bytes(), 2400);
        // 2,336 bytes beyond the buffer: four bursts of 512.
        assert_eq!((lines, buckets.all[0].spilled), (32, 2048));
    }
}
