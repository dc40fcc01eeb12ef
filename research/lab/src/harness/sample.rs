//! Statistics of repeated measurements.

/// A sample of repeated measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasurementSample {
    /// The values in ascending order, never empty.
    sorted: Vec<f64>,
}

impl MeasurementSample {
    /// Creates a sample of `values`; returns `None` if it is empty or a value is not finite.
    #[must_use]
    pub fn new(mut values: Vec<f64>) -> Option<Self> {
        // A total order also sorts numbers that are not finite, which are refused below.
        values.sort_by(f64::total_cmp);
        let usable = !values.is_empty() && values.iter().all(|value| value.is_finite());
        usable.then_some(MeasurementSample { sorted: values })
    }

    /// Returns the median; for an even number of values, the mean of the middle two.
    #[must_use]
    pub fn median(&self) -> f64 {
        debug_assert!(!self.sorted.is_empty() && self.sorted.is_sorted());
        let middle = self.sorted.len() / 2;
        match self.sorted.len() % 2 {
            0 => f64::midpoint(self.sorted[middle - 1], self.sorted[middle]),
            _ => self.sorted[middle],
        }
    }

    /// Returns the difference of the extremes, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.sorted[self.sorted.len() - 1] - self.sorted[0]) / self.median()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> MeasurementSample {
        MeasurementSample::new(values.to_vec()).unwrap()
    }

    #[test]
    fn median_and_spread() {
        assert_eq!(sample(&[3.0]).median(), 3.0);
        assert_eq!(sample(&[3.0]).spread(), 0.0);
        assert_eq!(sample(&[5.0, 1.0, 4.0]).median(), 4.0);
        assert_eq!(sample(&[5.0, 1.0, 4.0]).spread(), 1.0);
        assert_eq!(sample(&[4.0, 1.0, 3.0, 2.0]).median(), 2.5);
        // One outlier changes the spread but not the median.
        assert_eq!(sample(&[10.0, 10.0, 10.0, 10.0, 100.0]).median(), 10.0);
        assert_eq!(sample(&[10.0, 10.0, 10.0, 10.0, 100.0]).spread(), 9.0);
    }

    #[test]
    fn nothing_is_no_sample() {
        assert_eq!(MeasurementSample::new(Vec::new()), None);
        assert_eq!(MeasurementSample::new(vec![1.0, f64::NAN]), None);
    }
}
