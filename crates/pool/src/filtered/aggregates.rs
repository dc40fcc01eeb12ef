//! Aggregates of the values of a range.

/// The count, sum, least and greatest of values.
///
/// ```
/// use nearfield_pool::filtered::ScanAggregates;
///
/// let aggregates: ScanAggregates = [5, u64::MAX, 7].into_iter().collect();
/// assert_eq!((aggregates.count, aggregates.sum), (3, (1 << 64) + 11));
/// assert_eq!((aggregates.min, aggregates.max), (Some(5), Some(u64::MAX)));
/// assert_eq!(ScanAggregates::default().max, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanAggregates {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u128,
    /// The least one, if there is one.
    pub min: Option<u64>,
    /// The greatest one, if there is one.
    pub max: Option<u64>,
}

impl ScanAggregates {
    /// Returns the mean; `None` if there is no value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Adds the values of others.
    pub(crate) fn join(&mut self, others: &ScanAggregates) {
        // Memory nodes report these numbers, and may be wrong.
        self.count = self.count.saturating_add(others.count);
        self.sum = self.sum.saturating_add(others.sum);
        self.min = self.min.into_iter().chain(others.min).min();
        self.max = self.max.into_iter().chain(others.max).max();
    }
}

impl Extend<u64> for ScanAggregates {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values: I) {
        for value in values {
            self.join(&ScanAggregates {
                count: 1,
                sum: value.into(),
                min: Some(value),
                max: Some(value),
            });
        }
    }
}

impl FromIterator<u64> for ScanAggregates {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> ScanAggregates {
        let mut aggregates = ScanAggregates::default();
        aggregates.extend(values);
        aggregates
    }
}

/// Returns the number that a value counts as: its first eight bytes, low end first. A shorter value
/// counts as if zeros followed it.
///
/// ```
/// use nearfield_pool::filtered::number;
///
/// assert_eq!(number(&258_u64.to_le_bytes()), 258);
/// assert_eq!((number(&[2, 1]), number(b"")), (258, 0));
/// assert_eq!(number(&[2, 1, 0, 0, 0, 0, 0, 0, 9]), 258);
/// ```
pub fn number(value: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (byte, from) in word.iter_mut().zip(value) {
        *byte = *from;
    }
    u64::from_le_bytes(word)
}
