//! Statistics of repeated measurements.

/// The same thing measured several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// In ascending order, never empty.
    sorted: Vec<f64>,
}

impl Sample {
    /// A sample of `values`; `None` if there is none, or one is no number.
    #[must_use]
    pub fn new(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let usable = !values.is_empty() && values.iter().all(|value| value.is_finite());
        usable.then_some(Sample { sorted: values })
    }

    /// The middle value; of an even number, the mean of the middle two.
    #[must_use]
    pub fn median(&self) -> f64 {
        let middle = self.sorted.len() / 2;
        match self.sorted.len() % 2 {
            0 => f64::midpoint(self.sorted[middle - 1], self.sorted[middle]),
            _ => self.sorted[middle],
        }
    }

    /// How far apart the extremes are, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.sorted[self.sorted.len() - 1] - self.sorted[0]) / self.median()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.to_vec()).unwrap()
    }

    #[test]
    fn median_and_spread() {
        assert_eq!(sample(&[3.0]).median(), 3.0);
        assert_eq!(sample(&[3.0]).spread(), 0.0);
        assert_eq!(sample(&[5.0, 1.0, 4.0]).median(), 4.0);
        assert_eq!(sample(&[5.0, 1.0, 4.0]).spread(), 1.0);
        assert_eq!(sample(&[4.0, 1.0, 3.0, 2.0]).median(), 2.5);
        // One outlier moves the spread and not the median.
        assert_eq!(sample(&[10.0, 10.0, 10.0, 10.0, 100.0]).median(), 10.0);
        assert_eq!(sample(&[10.0, 10.0, 10.0, 10.0, 100.0]).spread(), 9.0);
    }

    #[test]
    fn nothing_is_no_sample() {
        assert_eq!(Sample::new(Vec::new()), None);
        assert_eq!(Sample::new(vec![1.0, f64::NAN]), None);
    }
}
