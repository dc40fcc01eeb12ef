//! The thresholds of hotness for classes. Source: RADAR, section V-A (adaptive data labeling).
//!
//! The classes of requested subranges should be as large as levels of a skip list: each half as
//! large as the one below. Instead of sorting all subranges, a sample is sorted, and a curve is
//! fitted to the hotness by rank. The threshold of a class is the curve's value at its last rank.
//! By Zipf's law the logarithm of the hotness is linear in that of the rank, so a parabola fits
//! closely.

/// Width of a step in log2 of the rank. The ranks within a step are averaged.
const STEP: f64 = 0.25;

/// The parabola `ln(1 + hotness) = a + b u + c u²`, where `u` is log2 of the number of subranges
/// divided by the rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve([f64; 3]);

impl Curve {
    /// Fits a parabola to the hotness of subranges, given in any order, and with the same weight to
    /// the `former` parabola if there is one. Returns `None` if there are no subranges.
    pub fn fit(mut hotness: Vec<u32>, former: Option<&Curve>) -> Option<Curve> {
        hotness.sort_unstable_by(|one, other| other.cmp(one));
        let count = hotness.len() as f64;
        // The sums of u and of ln(1 + hotness), and the count, for each step.
        let mut steps: Vec<(f64, f64, f64)> = Vec::new();
        for (rank, &hot) in hotness.iter().enumerate() {
            let u = -((rank + 1) as f64 / count).log2();
            let step = (u.max(0.0) / STEP) as usize;
            if steps.len() <= step {
                steps.resize(step + 1, (0.0, 0.0, 0.0));
            }
            // Steps of equal width in log2 of the rank keep the many cold subranges from
            // outweighing the few hot ones.
            let sums = &mut steps[step];
            sums.0 += u;
            sums.1 += f64::from(hot).ln_1p();
            sums.2 += 1.0;
        }
        // A few ranks do not determine a parabola; undetermined coefficients are zero.
        let mut equations = Equations::default();
        let full = steps.iter().filter(|sums| sums.2 > 0.0);
        for &(u, logarithm, count) in full {
            let u = u / count;
            equations.add(u, logarithm / count, count.sqrt());
            if let Some(former) = former {
                // The former curve is fitted to the same ranks, so it halves each change of the
                // hotness.
                equations.add(u, former.at(u), count.sqrt());
            }
        }
        (count > 0.0).then(|| Curve(equations.solve()))
    }

    fn at(&self, u: f64) -> f64 {
        let Curve([a, b, c]) = self;
        a + b * u + c * u * u
    }

    /// Returns the thresholds of classes 1 and up, which never decrease.
    pub fn thresholds(&self, classes: usize) -> Vec<f64> {
        let values = (1..classes).map(|class| self.at(class as f64).exp() - 1.0);
        // A parabola may fall again at its end, where it has few samples.
        let mut most = 0.0_f64;
        let rising = values.map(|value| {
            most = most.max(value);
            most
        });
        rising.collect()
    }
}

/// Returns the class of a subrange with this many requests: the number of thresholds that it
/// reaches.
pub fn class(hotness: f64, thresholds: &[f64]) -> usize {
    thresholds.partition_point(|&threshold| threshold <= hotness)
}

/// The normal equations of least squares for a parabola.
#[derive(Debug, Default)]
struct Equations {
    /// Sums of the weighted powers of u, up to the fourth.
    powers: [f64; 5],
    /// Sums of the weighted values times powers of u.
    values: [f64; 3],
}

impl Equations {
    fn add(&mut self, u: f64, value: f64, weight: f64) {
        let mut power = weight;
        for number in 0..5 {
            self.powers[number] += power;
            if let Some(sum) = self.values.get_mut(number) {
                *sum += power * value;
            }
            power *= u;
        }
    }

    /// Solves the equations by elimination with the greatest pivot. An undetermined coefficient is
    /// zero.
    fn solve(&self) -> [f64; 3] {
        let mut rows = [[0.0; 4]; 3];
        for (number, row) in rows.iter_mut().enumerate() {
            row[..3].copy_from_slice(&self.powers[number..number + 3]);
            row[3] = self.values[number];
        }
        // A pivot is compared with the sum of all weights, because rounding leaves small numbers
        // where zero is meant.
        let scale = self.powers[0].max(f64::MIN_POSITIVE);
        let mut used = [false; 3];
        let mut of_column = [None; 3];
        for (column, pivot_of) in of_column.iter_mut().enumerate() {
            let free = (0..3).filter(|&row| !used[row]);
            let size = |row: &usize| rows[*row][column].abs();
            let pivot = free.max_by(|one, other| size(one).total_cmp(&size(other)));
            let Some(pivot) = pivot.filter(|row| size(row) > 1e-9 * scale) else {
                continue;
            };
            used[pivot] = true;
            *pivot_of = Some(pivot);
            let from = rows[pivot];
            for (number, row) in rows.iter_mut().enumerate() {
                if number != pivot {
                    let factor = row[column] / from[column];
                    for (value, part) in row.iter_mut().zip(from) {
                        *value -= factor * part;
                    }
                }
            }
        }
        let mut column = 0;
        of_column.map(|pivot| {
            let value = pivot.map_or(0.0, |row| rows[row][3] / rows[row][column]);
            column += 1;
            value
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hotness of `count` subranges that follow Zipf's law.
    fn zipf(count: usize, exponent: f64) -> Vec<u32> {
        let hot = |rank: usize| 1e6 * (rank as f64).powf(-exponent);
        (1..=count).map(|rank| hot(rank) as u32).collect()
    }

    #[test]
    fn classes_halve_from_level_to_level() {
        for exponent in [0.4, 0.99, 1.2] {
            let hotness = zipf(4096, exponent);
            let curve = Curve::fit(hotness.clone(), None).expect("a curve");
            let thresholds = curve.thresholds(6);
            assert_eq!(thresholds.len(), 5);
            for class in 1..6 {
                let above = hotness
                    .iter()
                    .filter(|&&hot| super::class(f64::from(hot), &thresholds) >= class);
                let (above, wanted) = (above.count() as f64, 4096.0 / f64::from(1 << class));
                assert!(
                    (above / wanted - 1.0).abs() < 0.1,
                    "{exponent}, {class}: {above}"
                );
            }
        }
    }

    #[test]
    fn thresholds_follow_what_is_asked_for_half_way() {
        let former = Curve::fit(zipf(1000, 1.0), None).expect("a curve");
        let tenth: Vec<u32> = zipf(1000, 1.0).iter().map(|hot| hot / 10).collect();
        let alone = Curve::fit(tenth.clone(), None).expect("a curve");
        let both = Curve::fit(tenth, Some(&former)).expect("a curve");
        for u in [0.0, 2.0, 5.0] {
            let middle = (former.at(u) + alone.at(u)) / 2.0;
            assert!((both.at(u) - middle).abs() < 1e-6);
        }
    }

    #[test]
    fn thresholds_never_fall_and_few_subranges_are_enough() {
        assert_eq!(Curve::fit(Vec::new(), None), None);
        for hotness in [vec![7], vec![7, 7], vec![7; 100], vec![9, 1, 1]] {
            let curve = Curve::fit(hotness.clone(), None).expect("a curve");
            let thresholds = curve.thresholds(20);
            assert!(thresholds.iter().all(|threshold| threshold.is_finite()));
            assert!(thresholds.is_sorted(), "{thresholds:?}");
            assert!((curve.at(0.0).exp() - 1.0) <= 10.0, "{hotness:?}");
        }
        assert_eq!(class(3.0, &[1.0, 3.0, 4.0]), 2);
        assert_eq!(class(0.0, &[1.0, 3.0]), 0);
    }
}
