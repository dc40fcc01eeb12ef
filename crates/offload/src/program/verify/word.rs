//! Bounds of numbers of one width, in both readings of their bits.
//!
//! Every rule here must keep each number that an execution can compute. A rule that keeps more only
//! refuses more programs. Sums and products are computed in 128 bits, so no bound wraps around
//! unnoticed.

use crate::isa::arithmetic::{alu32, alu64};
use crate::isa::{AluOperation, BranchCondition};

/// The numbers of `BITS` bits (32 or 64) that are from `min` to `max` without sign, and from
/// `signed_min` to `signed_max` with sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordBounds<const BITS: u32> {
    pub min: u64,
    pub max: u64,
    pub signed_min: i64,
    pub signed_max: i64,
}

impl<const BITS: u32> WordBounds<BITS> {
    const MASK: u64 = u64::MAX >> (64 - BITS);

    /// The bounds of all numbers.
    pub const ALL: WordBounds<BITS> = WordBounds {
        min: 0,
        max: Self::MASK,
        signed_min: i64::MIN >> (64 - BITS),
        signed_max: i64::MAX >> (64 - BITS),
    };

    /// Returns the bounds of one number, of which the lower bits count.
    pub const fn one(value: u64) -> WordBounds<BITS> {
        WordBounds {
            min: value & Self::MASK,
            max: value & Self::MASK,
            signed_min: Self::signed_reading(value),
            signed_max: Self::signed_reading(value),
        }
    }

    /// Returns the bounds of the numbers from `min` to `max`, without sign.
    pub fn unsigned(min: u64, max: u64) -> WordBounds<BITS> {
        debug_assert!(min <= max && max <= Self::MASK, "{min} to {max}");
        let bounds = WordBounds {
            min,
            max,
            ..Self::ALL
        };
        bounds.tightened().unwrap_or(Self::ALL)
    }

    /// Returns the bounds of the numbers from `min` to `max`, with sign.
    pub fn signed(min: i64, max: i64) -> WordBounds<BITS> {
        debug_assert!(min <= max, "{min} to {max}");
        let bounds = WordBounds {
            signed_min: min,
            signed_max: max,
            ..Self::ALL
        };
        bounds.tightened().unwrap_or(Self::ALL)
    }

    const fn signed_reading(value: u64) -> i64 {
        ((value << (64 - BITS)) as i64) >> (64 - BITS)
    }

    /// Returns the number, if there is only one.
    pub fn single(self) -> Option<u64> {
        (self.min == self.max).then_some(self.min)
    }

    /// Returns bounds that keep the numbers of both.
    pub fn join(self, other: WordBounds<BITS>) -> WordBounds<BITS> {
        WordBounds {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            signed_min: self.signed_min.min(other.signed_min),
            signed_max: self.signed_max.max(other.signed_max),
        }
    }

    /// Returns the bounds of the numbers that are within both, or `None` if there are none.
    pub fn meet(self, other: WordBounds<BITS>) -> Option<WordBounds<BITS>> {
        let bounds = WordBounds {
            min: self.min.max(other.min),
            max: self.max.min(other.max),
            signed_min: self.signed_min.max(other.signed_min),
            signed_max: self.signed_max.min(other.signed_max),
        };
        bounds.tightened()
    }

    fn is_empty(self) -> bool {
        self.min > self.max || self.signed_min > self.signed_max
    }

    /// Derives the bounds of each reading from those of the other. Returns `None` if no number is
    /// within both.
    fn tightened(mut self) -> Option<WordBounds<BITS>> {
        let half = 1u64 << (BITS - 1);
        // The second round uses the bounds that the first one has derived.
        for _ in 0..2 {
            if self.is_empty() {
                return None;
            }
            // Numbers on one side of the sign have the same order in both readings.
            if (self.min < half) == (self.max < half) {
                self.signed_min = self.signed_min.max(Self::signed_reading(self.min));
                self.signed_max = self.signed_max.min(Self::signed_reading(self.max));
            }
            if self.is_empty() {
                return None;
            }
            if (self.signed_min < 0) == (self.signed_max < 0) {
                self.min = self.min.max(self.signed_min as u64 & Self::MASK);
                self.max = self.max.min(self.signed_max as u64 & Self::MASK);
            }
        }
        (!self.is_empty()).then_some(self)
    }

    /// Returns the bounds of the results of an operation. They may contain more than the exact
    /// results, never fewer.
    pub fn alu(self, operation: AluOperation, other: WordBounds<BITS>) -> WordBounds<BITS> {
        // Programs compute with constants often. The executors' own function returns the exact
        // result.
        if let (Some(a), Some(b)) = (self.single(), other.single()) {
            return WordBounds::one(match BITS {
                32 => alu32(operation, a as u32, b as u32).into(),
                _ => alu64(operation, a, b),
            });
        }
        let mut results = Self::ALL;
        if let Some((min, max)) = self.unsigned_results(operation, other) {
            (results.min, results.max) = (min, max);
        }
        if let Some((min, max)) = self.signed_results(operation, other) {
            (results.signed_min, results.signed_max) = (min, max);
        }
        // Both readings keep the result of each pair of operands, so only operands of a path that
        // is never taken leave none. Any bounds are right for those.
        results.tightened().unwrap_or(Self::ALL)
    }

    /// Returns the results without sign, unless they wrap around in different ways.
    fn unsigned_results(self, operation: AluOperation, b: WordBounds<BITS>) -> Option<(u64, u64)> {
        let a = self;
        let wide = |value: u64| i128::from(value);
        let (shift_min, shift_max) = b.distances();
        match operation {
            AluOperation::Add => {
                Self::wrapped(wide(a.min) + wide(b.min), wide(a.max) + wide(b.max))
            }
            AluOperation::Subtract => {
                Self::wrapped(wide(a.min) - wide(b.max), wide(a.max) - wide(b.min))
            }
            // The largest product is checked. If it fits, all do.
            AluOperation::Multiply => {
                let max = u128::from(a.max) * u128::from(b.max);
                let fits = max <= u128::from(Self::MASK);
                fits.then(|| (a.min * b.min, a.max * b.max))
            }
            // The largest divisor gives the smallest quotient.
            AluOperation::Divide if b.min > 0 => Some((a.min / b.max, a.max / b.min)),
            // A division by zero returns zero.
            AluOperation::Divide => Some((0, a.max)),
            // A number below the divisor is its own remainder.
            AluOperation::Modulo if b.min > a.max => Some((a.min, a.max)),
            AluOperation::Modulo if b.min > 0 => Some((0, a.max.min(b.max - 1))),
            // The remainder of a division by zero is the dividend.
            AluOperation::Modulo => Some((0, a.max)),
            AluOperation::And => Some((0, a.max.min(b.max))),
            // A sum of bits is at least each of both. No result has a bit above the highest one.
            AluOperation::Or => Some((a.min.max(b.min), ones(a.max | b.max))),
            // All bits change: the order is reversed.
            AluOperation::Xor if b.single() == Some(Self::MASK) => {
                Some((Self::MASK - a.max, Self::MASK - a.min))
            }
            AluOperation::Xor => Some((0, ones(a.max | b.max))),
            // Bits that are shifted out would make the result smaller than these bounds.
            AluOperation::ShiftLeft => {
                let max = u128::from(a.max) << shift_max;
                let fits = max <= u128::from(Self::MASK);
                fits.then(|| (a.min << shift_min, a.max << shift_max))
            }
            AluOperation::ShiftRight => Some((a.min >> shift_max, a.max >> shift_min)),
            AluOperation::Move => Some((b.min, b.max)),
            AluOperation::ShiftRightSigned
            | AluOperation::SignedDivide
            | AluOperation::SignedModulo => None,
        }
    }

    /// Returns the results with sign, unless they wrap around in different ways.
    fn signed_results(self, operation: AluOperation, b: WordBounds<BITS>) -> Option<(i64, i64)> {
        let a = self;
        let wide = |value: i64| i128::from(value);
        let (shift_min, shift_max) = b.distances();
        match operation {
            AluOperation::Add => Self::signed_wrapped(
                wide(a.signed_min) + wide(b.signed_min),
                wide(a.signed_max) + wide(b.signed_max),
            ),
            AluOperation::Subtract => Self::signed_wrapped(
                wide(a.signed_min) - wide(b.signed_max),
                wide(a.signed_max) - wide(b.signed_min),
            ),
            // A product is linear in each factor, so its extremes are at the corners.
            AluOperation::Multiply => {
                let (low, high) = corners(
                    [wide(a.signed_min), wide(a.signed_max)],
                    [wide(b.signed_min), wide(b.signed_max)],
                    |x, y| x * y,
                );
                Self::signed_wrapped(low, high)
            }
            // A shift by one distance keeps the order, and a longer one moves away from zero.
            AluOperation::ShiftLeft => {
                let (low, high) = corners(
                    [wide(a.signed_min), wide(a.signed_max)],
                    [shift_min, shift_max],
                    |x, distance| x << distance,
                );
                Self::signed_wrapped(low, high)
            }
            // As above, but a longer one moves towards zero, or towards -1.
            AluOperation::ShiftRightSigned => {
                let (low, high) = corners(
                    [wide(a.signed_min), wide(a.signed_max)],
                    [shift_min, shift_max],
                    |x, distance| x >> distance,
                );
                Self::signed_wrapped(low, high)
            }
            // With a positive divisor, the quotient grows with the dividend, and moves towards zero
            // as the divisor grows.
            AluOperation::SignedDivide if b.signed_min > 0 => {
                let (low, high) = corners(
                    [wide(a.signed_min), wide(a.signed_max)],
                    [wide(b.signed_min), wide(b.signed_max)],
                    |x, y| x / y,
                );
                Self::signed_wrapped(low, high)
            }
            // No quotient is farther from zero than the dividend, and that of zero is zero. The
            // least number divided by -1 does not fit, and `signed_wrapped` finds that.
            AluOperation::SignedDivide => {
                let most = wide(a.signed_min).abs().max(wide(a.signed_max).abs());
                Self::signed_wrapped(-most, most)
            }
            // The remainder has the sign of the dividend, and is not farther from zero. A divisor
            // of zero leaves the dividend; another one is farther from zero than the remainder.
            AluOperation::SignedModulo => {
                let (mut low, mut high) = (a.signed_min.min(0), a.signed_max.max(0));
                if b.min > 0 {
                    let most = wide(b.signed_min).abs().max(wide(b.signed_max).abs());
                    let limit = i64::try_from(most - 1).unwrap_or(i64::MAX);
                    (low, high) = (low.max(-limit), high.min(limit));
                }
                Some((low, high))
            }
            AluOperation::Xor if b.single() == Some(Self::MASK) => {
                Some((!a.signed_max, !a.signed_min))
            }
            // The bits above the highest one that differs from the sign repeat the sign. The
            // operation keeps that, as it treats all these bits alike.
            AluOperation::And | AluOperation::Or | AluOperation::Xor => {
                let bits = |value: i64| if value < 0 { !value } else { value };
                let all = bits(a.signed_min)
                    | bits(a.signed_max)
                    | bits(b.signed_min)
                    | bits(b.signed_max);
                let most = ones(all as u64) as i64;
                Some((!most, most))
            }
            AluOperation::Move => Some((b.signed_min, b.signed_max)),
            // Their results without sign give the bounds with sign.
            AluOperation::Divide | AluOperation::Modulo | AluOperation::ShiftRight => None,
        }
    }

    /// Returns the shortest and longest distance of a shift by these numbers: executors use the
    /// lower 5 or 6 bits.
    fn distances(self) -> (u32, u32) {
        let most = u64::from(BITS - 1);
        match self.single() {
            Some(value) => ((value & most) as u32, (value & most) as u32),
            None if self.max <= most => (self.min as u32, self.max as u32),
            None => (0, BITS - 1),
        }
    }

    /// Returns the numbers from `low` to `high` without their upper bits. If those differ, the
    /// remaining bits are not adjacent, and the result is `None`.
    fn wrapped(low: i128, high: i128) -> Option<(u64, u64)> {
        let same = low >> BITS == high >> BITS;
        same.then_some((low as u64 & Self::MASK, high as u64 & Self::MASK))
    }

    /// Returns the same with sign.
    fn signed_wrapped(low: i128, high: i128) -> Option<(i64, i64)> {
        let half = 1i128 << (BITS - 1);
        let same = (low + half) >> BITS == (high + half) >> BITS;
        same.then_some((
            Self::signed_reading(low as u64),
            Self::signed_reading(high as u64),
        ))
    }

    /// Narrows both to the numbers for which a comparison holds, or for which it does not. Returns
    /// `None` if there are none.
    pub fn narrow_where(
        self,
        condition: BranchCondition,
        holds: bool,
        other: WordBounds<BITS>,
    ) -> Option<(WordBounds<BITS>, WordBounds<BITS>)> {
        if holds {
            return self.narrowed(condition, other);
        }
        match opposite(condition) {
            Some(opposite) => self.narrowed(opposite, other),
            // No bit is in both. With one known number, the other has only bits outside of it.
            None => {
                let (mut a, mut b) = (self, other);
                if let Some(mask) = other.single() {
                    a.max = a.max.min(!mask & Self::MASK);
                }
                if let Some(mask) = self.single() {
                    b.max = b.max.min(!mask & Self::MASK);
                }
                Some((a.tightened()?, b.tightened()?))
            }
        }
    }

    fn narrowed(
        self,
        condition: BranchCondition,
        other: WordBounds<BITS>,
    ) -> Option<(WordBounds<BITS>, WordBounds<BITS>)> {
        let swapped = |condition| {
            let (b, a) = other.narrowed(condition, self)?;
            Some((a, b))
        };
        let (mut a, mut b) = (self, other);
        match condition {
            BranchCondition::Equal => {
                let both = self.meet(other)?;
                return Some((both, both));
            }
            BranchCondition::NotEqual => {
                a.remove(other);
                b.remove(self);
            }
            BranchCondition::Less => {
                a.max = a.max.min(other.max.checked_sub(1)?);
                b.min = b.min.max(self.min.checked_add(1)?);
            }
            BranchCondition::LessOrEqual => {
                a.max = a.max.min(other.max);
                b.min = b.min.max(self.min);
            }
            BranchCondition::SignedLess => {
                a.signed_max = a.signed_max.min(other.signed_max.checked_sub(1)?);
                b.signed_min = b.signed_min.max(self.signed_min.checked_add(1)?);
            }
            BranchCondition::SignedLessOrEqual => {
                a.signed_max = a.signed_max.min(other.signed_max);
                b.signed_min = b.signed_min.max(self.signed_min);
            }
            BranchCondition::Greater => return swapped(BranchCondition::Less),
            BranchCondition::GreaterOrEqual => return swapped(BranchCondition::LessOrEqual),
            BranchCondition::SignedGreater => return swapped(BranchCondition::SignedLess),
            BranchCondition::SignedGreaterOrEqual => {
                return swapped(BranchCondition::SignedLessOrEqual);
            }
            // Zero shares no bit.
            BranchCondition::SharesBits => {
                a.remove(WordBounds::one(0));
                b.remove(WordBounds::one(0));
            }
        }
        Some((a.tightened()?, b.tightened()?))
    }

    /// Removes a single number, if it is at an end of these.
    fn remove(&mut self, other: WordBounds<BITS>) {
        let Some(value) = other.single() else {
            return;
        };
        if self.single() == Some(value) {
            // Nothing is left: the bounds become empty.
            (self.min, self.max) = (1, 0);
            return;
        }
        // Removing a number within the bounds would leave two intervals.
        if value == self.min {
            self.min += 1;
        } else if value == self.max {
            self.max -= 1;
        }
        let value = Self::signed_reading(value);
        if self.signed_min < self.signed_max {
            if value == self.signed_min {
                self.signed_min += 1;
            } else if value == self.signed_max {
                self.signed_max -= 1;
            }
        }
    }
}

/// Returns all bits up to the highest one of a number.
fn ones(value: u64) -> u64 {
    match value {
        0 => 0,
        _ => u64::MAX >> value.leading_zeros(),
    }
}

/// Returns the least and the greatest result at the corners of two ranges.
fn corners<T: Copy>(a: [i128; 2], b: [T; 2], result: impl Fn(i128, T) -> i128) -> (i128, i128) {
    let first = result(a[0], b[0]);
    let others = [result(a[0], b[1]), result(a[1], b[0]), result(a[1], b[1])];
    let extend = |(low, high): (i128, i128), x: i128| (low.min(x), high.max(x));
    others.into_iter().fold((first, first), extend)
}

/// Returns the condition that holds when `condition` does not.
fn opposite(condition: BranchCondition) -> Option<BranchCondition> {
    Some(match condition {
        BranchCondition::Equal => BranchCondition::NotEqual,
        BranchCondition::NotEqual => BranchCondition::Equal,
        BranchCondition::Greater => BranchCondition::LessOrEqual,
        BranchCondition::GreaterOrEqual => BranchCondition::Less,
        BranchCondition::Less => BranchCondition::GreaterOrEqual,
        BranchCondition::LessOrEqual => BranchCondition::Greater,
        BranchCondition::SignedGreater => BranchCondition::SignedLessOrEqual,
        BranchCondition::SignedGreaterOrEqual => BranchCondition::SignedLess,
        BranchCondition::SignedLess => BranchCondition::SignedGreaterOrEqual,
        BranchCondition::SignedLessOrEqual => BranchCondition::SignedGreater,
        BranchCondition::SharesBits => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::arithmetic::{compare32, compare64};

    /// Returns bounds of a few numbers, at edges of both widths and signs, with these numbers.
    fn samples<const BITS: u32>() -> Vec<(WordBounds<BITS>, Vec<u64>)> {
        let all = WordBounds::<BITS>::ALL;
        let mut samples = Vec::new();
        for edge in [0, 1, 5, 31, 64, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 1] {
            for length in 0..3 {
                let min = edge & all.max;
                let max = min.saturating_add(length).min(all.max);
                samples.push((WordBounds::unsigned(min, max), (min..=max).collect()));
            }
        }
        for edge in [-3, -1, i64::MIN, i32::MIN.into(), i32::MAX.into()] {
            for length in 0..3i64 {
                let min = edge.max(all.signed_min);
                let max = min.saturating_add(length).min(all.signed_max);
                let numbers = (min..=max).map(|value| value as u64 & all.max);
                samples.push((WordBounds::signed(min, max), numbers.collect()));
            }
        }
        samples
    }

    fn contains<const BITS: u32>(bounds: WordBounds<BITS>, value: u64) -> bool {
        let signed = WordBounds::<BITS>::one(value).signed_min;
        (bounds.min..=bounds.max).contains(&value)
            && (bounds.signed_min..=bounds.signed_max).contains(&signed)
    }

    fn contain_all_results<const BITS: u32>(exact: impl Fn(AluOperation, u64, u64) -> u64) {
        for (a, numbers) in samples::<BITS>() {
            for (b, others) in samples::<BITS>() {
                for operation in AluOperation::ALL {
                    let results = a.alu(operation, b);
                    for &x in &numbers {
                        for &y in &others {
                            let result = exact(operation, x, y);
                            assert!(
                                contains(results, result),
                                "{BITS} bits: {x} {operation:?} {y}: {results:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    fn keep_what_holds<const BITS: u32>(exact: impl Fn(BranchCondition, u64, u64) -> bool) {
        for (a, numbers) in samples::<BITS>() {
            for (b, others) in samples::<BITS>() {
                for condition in BranchCondition::ALL {
                    for holds in [true, false] {
                        let narrowed = a.narrow_where(condition, holds, b);
                        for &x in &numbers {
                            for &y in &others {
                                let kept =
                                    narrowed.is_some_and(|(a, b)| contains(a, x) && contains(b, y));
                                assert!(
                                    kept || exact(condition, x, y) != holds,
                                    "{BITS} bits: {x} {condition:?} {y} is {holds}: {narrowed:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_contain_all_results() {
        contain_all_results::<64>(alu64);
        contain_all_results::<32>(|operation, x, y| alu32(operation, x as u32, y as u32).into());
    }

    #[test]
    fn a_comparison_keeps_the_numbers_for_which_it_holds() {
        keep_what_holds::<64>(compare64);
        keep_what_holds::<32>(|condition, x, y| compare32(condition, x as u32, y as u32));
    }

    #[test]
    fn bounds_are_kept_where_programs_need_them() {
        let unsigned = WordBounds::<64>::unsigned;
        let one = WordBounds::<64>::one;
        let index = unsigned(0, 31);
        assert_eq!(index.alu(AluOperation::ShiftLeft, one(3)), unsigned(0, 248));
        let below = WordBounds::ALL.narrow_where(BranchCondition::Less, true, one(7));
        assert_eq!(below.map(|(below, _)| below), Some(unsigned(0, 6)));
        let minus_one = one(u64::MAX);
        assert_eq!(
            unsigned(1, 9).alu(AluOperation::Add, minus_one),
            unsigned(0, 8)
        );
        // Numbers of both signs.
        let step = index.alu(AluOperation::Subtract, one(4));
        assert_eq!((step.signed_min, step.signed_max), (-4, 27));
        let not = one(0).join(one(7)).alu(AluOperation::Xor, minus_one);
        assert_eq!((not.signed_min, not.signed_max), (-8, -1));
        let small = unsigned(0, 3).alu(AluOperation::ShiftLeft, unsigned(1, 4));
        assert_eq!((small.min, small.max), (0, 48));
        let rest = WordBounds::<64>::ALL.alu(AluOperation::SignedModulo, one(12));
        assert_eq!((rest.signed_min, rest.signed_max), (-11, 11));
    }
}
