//! Bounds of a register's number: of all its bits, and of the lower half.
//!
//! Compilers compare halves (`w1 s> 7`) and then use the whole number, or shift the upper half out
//! and in again. Both sets of bounds are therefore kept, and each is derived from the other where
//! that is certain.

use super::word::WordBounds;
use crate::isa::arithmetic::reorder;
use crate::isa::{AluOperation, BranchCondition, ByteOrder, OperandSize, Width};

/// The numbers whose 64 bits and whose lower 32 bits are within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberBounds {
    pub whole: WordBounds<64>,
    pub low: WordBounds<32>,
}

/// The largest number without an upper half.
const LOW: u64 = u32::MAX as u64;

impl NumberBounds {
    /// The bounds of all numbers.
    pub const ALL: NumberBounds = NumberBounds {
        whole: WordBounds::ALL,
        low: WordBounds::ALL,
    };

    pub const fn one(value: u64) -> NumberBounds {
        NumberBounds {
            whole: WordBounds::one(value),
            low: WordBounds::one(value),
        }
    }

    /// Returns the bounds of the numbers of `bits` bits.
    pub fn of_bits(bits: u32) -> NumberBounds {
        // Zero would shift by all 64 bits.
        debug_assert!(0 < bits && bits <= 64);
        NumberBounds::unsigned(0, u64::MAX >> (64 - bits))
    }

    /// Returns the bounds of the numbers from `min` to `max`, without sign.
    pub fn unsigned(min: u64, max: u64) -> NumberBounds {
        NumberBounds::of_whole(WordBounds::unsigned(min, max))
    }

    /// Returns the bounds of the numbers from `min` to `max`, with sign.
    pub fn signed(min: i64, max: i64) -> NumberBounds {
        NumberBounds::of_whole(WordBounds::signed(min, max))
    }

    fn of_whole(whole: WordBounds<64>) -> NumberBounds {
        let low = WordBounds::ALL;
        let bounds = NumberBounds { whole, low };
        bounds.tightened().unwrap_or(bounds)
    }

    /// Returns the bounds of numbers without an upper half.
    fn of_low(low: WordBounds<32>) -> NumberBounds {
        let whole = WordBounds::unsigned(low.min, low.max);
        let bounds = NumberBounds { whole, low };
        bounds.tightened().unwrap_or(bounds)
    }

    /// Returns the number, if there is only one.
    pub fn single(self) -> Option<u64> {
        self.whole.single()
    }

    /// Returns true if the upper half is zero.
    pub fn has_no_upper_half(self) -> bool {
        self.whole.max <= LOW
    }

    /// Returns true if the number is the extension of its lower half's sign.
    pub fn extends_low_half(self) -> bool {
        let (min, max) = (self.whole.signed_min, self.whole.signed_max);
        i32::try_from(min).is_ok() && i32::try_from(max).is_ok()
    }

    /// Returns bounds that keep the numbers of both.
    pub fn join(self, other: NumberBounds) -> NumberBounds {
        NumberBounds {
            whole: self.whole.join(other.whole),
            low: self.low.join(other.low),
        }
    }

    /// Returns the bounds of the numbers that are within both, or `None` if there are none.
    pub fn meet(self, other: NumberBounds) -> Option<NumberBounds> {
        let bounds = NumberBounds {
            whole: self.whole.meet(other.whole)?,
            low: self.low.meet(other.low)?,
        };
        bounds.tightened()
    }

    /// Narrows to the numbers whose lower half is within bounds.
    pub fn meet_low(self, low: WordBounds<32>) -> Option<NumberBounds> {
        let low = self.low.meet(low)?;
        NumberBounds { low, ..self }.tightened()
    }

    /// Derives the bounds of the whole number and of its lower half from each other.
    fn tightened(mut self) -> Option<NumberBounds> {
        for _ in 0..2 {
            let whole = self.whole;
            // With one upper half, the lower halves are as adjacent as the numbers.
            if whole.min >> 32 == whole.max >> 32 {
                let low = WordBounds::unsigned(whole.min & LOW, whole.max & LOW);
                self.low = self.low.meet(low)?;
            }
            if self.extends_low_half() {
                let low = WordBounds::signed(whole.signed_min, whole.signed_max);
                self.low = self.low.meet(low)?;
            }
            if self.has_no_upper_half() {
                let whole = WordBounds::unsigned(self.low.min, self.low.max);
                self.whole = self.whole.meet(whole)?;
            }
            if self.extends_low_half() {
                let whole = WordBounds::signed(self.low.signed_min, self.low.signed_max);
                self.whole = self.whole.meet(whole)?;
            }
        }
        Some(self)
    }

    /// Returns the bounds of the results of an operation. They may contain more than the exact
    /// results, never fewer.
    pub fn alu(self, width: Width, operation: AluOperation, other: NumberBounds) -> NumberBounds {
        if width == Width::W32 {
            return NumberBounds::of_low(self.low.alu(operation, other.low));
        }
        let mut whole = self.whole.alu(operation, other.whole);
        let low = match operation {
            // The lower half of these results depends on the lower halves only.
            AluOperation::Add
            | AluOperation::Subtract
            | AluOperation::Multiply
            | AluOperation::And
            | AluOperation::Or
            | AluOperation::Xor
            | AluOperation::Move => self.low.alu(operation, other.low),
            AluOperation::ShiftLeft if other.whole.max < 32 => self.low.alu(operation, other.low),
            _ => WordBounds::ALL,
        };
        // The lower half becomes the upper one, and zeros follow: both readings keep its order.
        if operation == AluOperation::ShiftLeft && other.single() == Some(32) {
            let raised = WordBounds {
                min: self.low.min << 32,
                max: self.low.max << 32,
                signed_min: self.low.signed_min << 32,
                signed_max: self.low.signed_max << 32,
            };
            whole = whole.meet(raised).unwrap_or(raised);
        }
        let bounds = NumberBounds { whole, low };
        bounds
            .tightened()
            .unwrap_or_else(|| NumberBounds::of_whole(whole))
    }

    /// Returns the bounds of the negated numbers.
    pub fn negated(self, width: Width) -> NumberBounds {
        NumberBounds::one(0).alu(width, AluOperation::Subtract, self)
    }

    /// Returns the bounds after the sign of the lower bits was extended to `width`.
    pub fn sign_extended(self, from: OperandSize, width: Width) -> NumberBounds {
        let unused = 64 - from.bits();
        let (least, most) = (i64::MIN >> unused, i64::MAX >> unused);
        let fits = |min: i64, max: i64| (least <= min && max <= most).then_some((min, max));
        // A number that the lower bits can hold with its sign stays the same.
        let (min, max) = fits(self.whole.signed_min, self.whole.signed_max)
            .or(fits(self.low.signed_min, self.low.signed_max))
            .unwrap_or((least, most));
        let extended = NumberBounds::signed(min, max);
        match width {
            Width::W64 => extended,
            Width::W32 => NumberBounds::of_low(extended.low),
        }
    }

    /// Returns the bounds of the lower bytes.
    pub fn truncated(self, size: OperandSize) -> NumberBounds {
        let most = u64::MAX >> (64 - size.bits());
        if self.whole.max <= most {
            self
        } else if self.low.max <= most {
            NumberBounds::of_low(self.low)
        } else {
            NumberBounds::of_bits(size.bits())
        }
    }

    /// Returns the bounds after the order of the lower bytes was changed, and the others cleared.
    pub fn reordered(self, order: ByteOrder, size: OperandSize) -> NumberBounds {
        match (order, self.single()) {
            (_, Some(value)) => NumberBounds::one(reorder(order, size, value)),
            (ByteOrder::Little, None) => self.truncated(size),
            // Each byte may become the highest one.
            (ByteOrder::Big | ByteOrder::Swapped, None) => NumberBounds::of_bits(size.bits()),
        }
    }

    /// Narrows both to the numbers for which a comparison holds, or for which it does not. Returns
    /// `None` if there are none.
    pub fn narrow_where(
        self,
        width: Width,
        condition: BranchCondition,
        holds: bool,
        other: NumberBounds,
    ) -> Option<(NumberBounds, NumberBounds)> {
        match width {
            Width::W64 => {
                let (a, b) = self.whole.narrow_where(condition, holds, other.whole)?;
                let a = NumberBounds { whole: a, ..self }.tightened()?;
                let b = NumberBounds { whole: b, ..other }.tightened()?;
                Some((a, b))
            }
            // Only the halves are compared, so only their bounds change.
            Width::W32 => {
                let (a, b) = self.low.narrow_where(condition, holds, other.low)?;
                Some((self.meet_low(a)?, other.meet_low(b)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::arithmetic::{alu32, alu64, compare32, compare64, sign_extend};

    /// Numbers at edges of both widths and signs.
    const EDGES: [u64; 14] = [
        0,
        1,
        7,
        40,
        127,
        128,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_fff9,
        0xffff_ffff,
        0x1_0000_0003,
        0x7fff_ffff_8000_0000,
        0xffff_ffff_8000_0000,
        u64::MAX,
    ];

    /// Returns bounds of each pair of edges, as tight as the bounds can be.
    fn samples() -> Vec<(NumberBounds, [u64; 2])> {
        let pairs = EDGES.into_iter().flat_map(|x| EDGES.map(|y| [x, y]));
        let pairs = pairs.filter(|[x, y]| x <= y);
        let bounds = |[x, y]: [u64; 2]| NumberBounds::one(x).join(NumberBounds::one(y));
        pairs.map(|pair| (bounds(pair), pair)).collect()
    }

    fn contains(bounds: NumberBounds, value: u64) -> bool {
        bounds.meet(NumberBounds::one(value)).is_some()
    }

    const OPERATIONS: [AluOperation; 6] = [
        AluOperation::Add,
        AluOperation::Subtract,
        AluOperation::Multiply,
        AluOperation::ShiftLeft,
        AluOperation::ShiftRightSigned,
        AluOperation::Xor,
    ];

    #[test]
    fn bounds_contain_all_results() {
        for (a, numbers) in samples() {
            for (b, others) in samples() {
                for operation in OPERATIONS {
                    let whole = a.alu(Width::W64, operation, b);
                    let half = a.alu(Width::W32, operation, b);
                    for (x, y) in numbers.into_iter().flat_map(|x| others.map(|y| (x, y))) {
                        let result = alu64(operation, x, y);
                        assert!(contains(whole, result), "{x} {operation:?} {y}: {whole:?}");
                        let result = alu32(operation, x as u32, y as u32).into();
                        assert!(contains(half, result), "{x} {operation:?} {y}: {half:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn parts_of_numbers_are_contained() {
        let sizes = [OperandSize::Byte, OperandSize::Half, OperandSize::Word];
        for (bounds, numbers) in samples() {
            for value in numbers {
                for size in sizes {
                    let extended = sign_extend(size, value);
                    assert!(contains(bounds.sign_extended(size, Width::W64), extended));
                    let half = u64::from(extended as u32);
                    assert!(contains(bounds.sign_extended(size, Width::W32), half));
                    let low = value & (u64::MAX >> (64 - size.bits()));
                    assert!(contains(bounds.truncated(size), low));
                    for order in [ByteOrder::Little, ByteOrder::Big] {
                        let other = reorder(order, size, value);
                        assert!(contains(bounds.reordered(order, size), other));
                    }
                }
                let negated = bounds.negated(Width::W64);
                assert!(contains(negated, value.wrapping_neg()));
                let negated = bounds.negated(Width::W32);
                assert!(contains(negated, (value as u32).wrapping_neg().into()));
            }
        }
    }

    #[test]
    fn a_comparison_keeps_the_numbers_for_which_it_holds() {
        let conditions = [
            BranchCondition::Equal,
            BranchCondition::NotEqual,
            BranchCondition::Less,
            BranchCondition::SignedGreaterOrEqual,
            BranchCondition::SharesBits,
        ];
        for (a, numbers) in samples() {
            for (b, others) in samples() {
                for (condition, holds) in
                    conditions.into_iter().flat_map(|c| [(c, true), (c, false)])
                {
                    let whole = a.narrow_where(Width::W64, condition, holds, b);
                    let half = a.narrow_where(Width::W32, condition, holds, b);
                    for (x, y) in numbers.into_iter().flat_map(|x| others.map(|y| (x, y))) {
                        let keeps = |narrowed: Option<(NumberBounds, NumberBounds)>| {
                            narrowed.is_some_and(|(a, b)| contains(a, x) && contains(b, y))
                        };
                        let is = compare64(condition, x, y);
                        assert!(is != holds || keeps(whole), "{x} {condition:?} {y}");
                        let is = compare32(condition, x as u32, y as u32);
                        assert!(is != holds || keeps(half), "{x} {condition:?} {y}");
                    }
                }
            }
        }
    }

    /// The ways in which compilers bound the sign of a number of 32 bits.
    #[test]
    fn bounds_pass_between_a_number_and_its_half() {
        let one = NumberBounds::one;
        let word = NumberBounds::of_bits(32);
        let narrow = |bounds: NumberBounds, condition, holds, than| {
            let narrowed = bounds.narrow_where(Width::W32, condition, holds, one(than));
            narrowed.expect("it is possible").0
        };
        let above = narrow(word, BranchCondition::SignedLess, false, 0);
        let within = narrow(above, BranchCondition::SignedGreater, false, 7);
        assert_eq!(within, NumberBounds::unsigned(0, 7));
        let raised = word.alu(Width::W64, AluOperation::ShiftLeft, one(32));
        let extended = raised.alu(Width::W64, AluOperation::ShiftRightSigned, one(32));
        assert_eq!(
            extended,
            NumberBounds::signed(i32::MIN.into(), i32::MAX.into())
        );
        let halves = NumberBounds::signed(-4, 3).alu(Width::W32, AluOperation::Add, one(4));
        assert_eq!(halves, NumberBounds::unsigned(0, 7));
    }
}
