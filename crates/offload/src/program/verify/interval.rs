//! Sets of numbers that a register may hold: all from a smallest to a largest one.

use crate::isa::arithmetic::{alu32, alu64};
use crate::isa::{AluOperation, BranchCondition, Width};

/// The numbers from `min` to `max`, without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsignedInterval {
    pub min: u64,
    pub max: u64,
}

const LOW: u64 = u32::MAX as u64;

impl UnsignedInterval {
    /// The interval of all numbers.
    pub const ALL: UnsignedInterval = UnsignedInterval {
        min: 0,
        max: u64::MAX,
    };

    pub const fn one(value: u64) -> UnsignedInterval {
        UnsignedInterval {
            min: value,
            max: value,
        }
    }

    /// Creates the interval of the numbers of `bits` bits.
    pub const fn of_bits(bits: u32) -> UnsignedInterval {
        // Zero would shift by all 64 bits.
        debug_assert!(0 < bits && bits <= 64);
        UnsignedInterval {
            min: 0,
            max: u64::MAX >> (64 - bits),
        }
    }

    /// Returns the number, if there is only one.
    pub fn single(self) -> Option<u64> {
        (self.min == self.max).then_some(self.min)
    }

    /// Returns the smallest interval with all numbers of both.
    pub fn join(self, other: UnsignedInterval) -> UnsignedInterval {
        UnsignedInterval {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Returns the interval of the lower 32 bits.
    pub fn low_half(self) -> UnsignedInterval {
        if self.max <= LOW {
            self
        } else if let Some(value) = self.single() {
            UnsignedInterval::one(value & LOW)
        } else {
            // The lower halves of an interval that crosses a multiple of 2³² are not adjacent.
            UnsignedInterval::of_bits(32)
        }
    }

    /// Returns the results of an operation. The interval may contain more than the exact results,
    /// never fewer.
    pub fn alu(
        self,
        width: Width,
        operation: AluOperation,
        other: UnsignedInterval,
    ) -> UnsignedInterval {
        let (a, b) = match width {
            Width::W64 => (self, other),
            Width::W32 => (self.low_half(), other.low_half()),
        };
        // Programs compute with constants often. The executors' own function returns the exact
        // result.
        if let (Some(a), Some(b)) = (a.single(), b.single()) {
            return UnsignedInterval::one(match width {
                Width::W64 => alu64(operation, a, b),
                Width::W32 => alu32(operation, a as u32, b as u32).into(),
            });
        }
        let bits = match width {
            Width::W64 => 64,
            Width::W32 => 32,
        };
        let all = UnsignedInterval::of_bits(bits);
        let result = a.wide(bits, operation, b).unwrap_or(all);
        debug_assert!(result.min <= result.max, "{a:?} {operation:?} {b:?}");
        if result.max > all.max { all } else { result }
    }

    /// Returns the results if none wraps around, otherwise `None`.
    fn wide(
        self,
        bits: u32,
        operation: AluOperation,
        b: UnsignedInterval,
    ) -> Option<UnsignedInterval> {
        let a = self;
        let interval = |min, max| Some(UnsignedInterval { min, max });
        let shift = b.single().map(|shift| shift as u32 & (bits - 1));
        match operation {
            // A constant that is negative as a signed number is subtracted.
            AluOperation::Add => match negative(b, bits) {
                Some(summand) => interval(a.min.checked_sub(summand)?, a.max - summand),
                None => interval(a.min.checked_add(b.min)?, a.max.checked_add(b.max)?),
            },
            // The largest is subtracted from the smallest first: if that is not negative, no
            // difference is.
            AluOperation::Subtract => interval(a.min.checked_sub(b.max)?, a.max - b.min),
            AluOperation::Multiply => {
                interval(a.min.checked_mul(b.min)?, a.max.checked_mul(b.max)?)
            }
            // The largest divisor gives the smallest quotient.
            AluOperation::Divide if b.min > 0 => interval(a.min / b.max, a.max / b.min),
            // A division by zero returns zero.
            AluOperation::Divide => interval(0, a.max),
            // A number below the divisor is its own remainder.
            AluOperation::Modulo if b.min > a.max => Some(a),
            AluOperation::Modulo if b.min > 0 => interval(0, a.max.min(b.max - 1)),
            // The remainder of a division by zero is the dividend.
            AluOperation::Modulo => interval(0, a.max),
            AluOperation::And => interval(0, a.max.min(b.max)),
            AluOperation::Or | AluOperation::Xor => {
                // No result has a bit above the highest one of both operands.
                let bits = 64 - (a.max | b.max).leading_zeros();
                let max = if bits == 0 {
                    0
                } else {
                    u64::MAX >> (64 - bits)
                };
                interval(0, max)
            }
            AluOperation::ShiftLeft => {
                let shift = shift?;
                // Bits that are shifted out would make the result smaller than its interval.
                let fits = a.max.leading_zeros() >= shift;
                fits.then(|| UnsignedInterval {
                    min: a.min << shift,
                    max: a.max << shift,
                })
            }
            AluOperation::ShiftRight => match shift {
                Some(shift) => interval(a.min >> shift, a.max >> shift),
                None => interval(0, a.max),
            },
            // Without a sign, the shift fills with zeros.
            AluOperation::ShiftRightSigned if a.max >> (bits - 1) == 0 => match shift {
                Some(shift) => interval(a.min >> shift, a.max >> shift),
                None => interval(0, a.max),
            },
            AluOperation::Move => Some(b),
            AluOperation::ShiftRightSigned
            | AluOperation::SignedDivide
            | AluOperation::SignedModulo => None,
        }
    }

    /// Narrows both intervals to the numbers for which a comparison of 64 bits holds, if it can
    /// hold.
    pub fn narrow_where(
        self,
        condition: BranchCondition,
        other: UnsignedInterval,
    ) -> (UnsignedInterval, UnsignedInterval) {
        // Without signs, both kinds of comparisons order numbers alike.
        let signs = |interval: UnsignedInterval| interval.max <= i64::MAX as u64;
        let unsigned = signs(self) && signs(other);
        let (a, b) = match condition {
            BranchCondition::Equal => {
                let both = UnsignedInterval {
                    min: self.min.max(other.min),
                    max: self.max.min(other.max),
                };
                (both, both)
            }
            BranchCondition::NotEqual => (self.without(other), other.without(self)),
            BranchCondition::Less => less(self, other),
            BranchCondition::LessOrEqual => less_or_equal(self, other),
            BranchCondition::Greater => swap(less(other, self)),
            BranchCondition::GreaterOrEqual => swap(less_or_equal(other, self)),
            BranchCondition::SignedLess if unsigned => less(self, other),
            BranchCondition::SignedLessOrEqual if unsigned => less_or_equal(self, other),
            BranchCondition::SignedGreater if unsigned => swap(less(other, self)),
            BranchCondition::SignedGreaterOrEqual if unsigned => swap(less_or_equal(other, self)),
            _ => (self, other),
        };
        let is_empty = |interval: UnsignedInterval| interval.min > interval.max;
        // The comparison cannot hold, so the code after it is not reached, and any interval is
        // right. An empty one would break later computations.
        if is_empty(a) || is_empty(b) {
            return (self, other);
        }
        (a, b)
    }

    /// Removes the number of an interval of one, if it is the smallest or largest number here.
    fn without(self, other: UnsignedInterval) -> UnsignedInterval {
        let mut left = self;
        // Removing a number within the interval would leave two intervals, and removing the only
        // one none.
        if let Some(value) = other.single()
            && self.min < self.max
        {
            if value == self.min {
                left.min += 1;
            }
            if value == self.max {
                left.max -= 1;
            }
        }
        left
    }
}

/// Returns the magnitude of a single number that is negative.
fn negative(interval: UnsignedInterval, bits: u32) -> Option<u64> {
    let value = interval.single()?;
    let is_negative = value >> (bits - 1) & 1 == 1;
    let magnitude = match bits {
        64 => value.wrapping_neg(),
        _ => u64::from((value as u32).wrapping_neg()),
    };
    is_negative.then_some(magnitude)
}

fn less(a: UnsignedInterval, b: UnsignedInterval) -> (UnsignedInterval, UnsignedInterval) {
    // No number is below zero or above the largest one. In that case nothing is left.
    let (Some(most), Some(least)) = (b.max.checked_sub(1), a.min.checked_add(1)) else {
        return (a, b);
    };
    (
        UnsignedInterval {
            min: a.min,
            max: a.max.min(most),
        },
        UnsignedInterval {
            min: b.min.max(least),
            max: b.max,
        },
    )
}

fn less_or_equal(a: UnsignedInterval, b: UnsignedInterval) -> (UnsignedInterval, UnsignedInterval) {
    (
        UnsignedInterval {
            min: a.min,
            max: a.max.min(b.max),
        },
        UnsignedInterval {
            min: b.min.max(a.min),
            max: b.max,
        },
    )
}

fn swap((a, b): (UnsignedInterval, UnsignedInterval)) -> (UnsignedInterval, UnsignedInterval) {
    (b, a)
}

/// Returns the condition that holds when `condition` does not.
pub fn opposite(condition: BranchCondition) -> Option<BranchCondition> {
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
    use crate::isa::arithmetic::compare64;

    const OPERATIONS: [AluOperation; 14] = [
        AluOperation::Add,
        AluOperation::Subtract,
        AluOperation::Multiply,
        AluOperation::Divide,
        AluOperation::SignedDivide,
        AluOperation::Or,
        AluOperation::And,
        AluOperation::ShiftLeft,
        AluOperation::ShiftRight,
        AluOperation::Modulo,
        AluOperation::SignedModulo,
        AluOperation::Xor,
        AluOperation::Move,
        AluOperation::ShiftRightSigned,
    ];
    const CONDITIONS: [BranchCondition; 10] = [
        BranchCondition::Equal,
        BranchCondition::NotEqual,
        BranchCondition::Greater,
        BranchCondition::GreaterOrEqual,
        BranchCondition::Less,
        BranchCondition::LessOrEqual,
        BranchCondition::SignedGreater,
        BranchCondition::SignedGreaterOrEqual,
        BranchCondition::SignedLess,
        BranchCondition::SignedLessOrEqual,
    ];

    /// Returns intervals of a few numbers, at edges of both widths and signs.
    fn intervals() -> Vec<UnsignedInterval> {
        let edges = [
            0,
            1,
            5,
            31,
            64,
            1 << 31,
            u64::from(u32::MAX),
            1 << 32,
            1 << 63,
            u64::MAX - 1,
        ];
        let at = |min: u64| [0, 1, 2].map(|length| (min, min.saturating_add(length)));
        let intervals = edges.into_iter().flat_map(at);
        intervals
            .map(|(min, max)| UnsignedInterval { min, max })
            .collect()
    }

    fn contains(interval: UnsignedInterval, value: u64) -> bool {
        (interval.min..=interval.max).contains(&value)
    }

    #[test]
    fn intervals_contain_all_results() {
        for a in intervals() {
            for b in intervals() {
                for operation in OPERATIONS {
                    let wide = a.alu(Width::W64, operation, b);
                    let narrow = a.alu(Width::W32, operation, b);
                    for x in a.min..=a.max {
                        for y in b.min..=b.max {
                            let result = alu64(operation, x, y);
                            assert!(contains(wide, result), "{x} {operation:?} {y}: {wide:?}");
                            let result = alu32(operation, x as u32, y as u32).into();
                            assert!(
                                contains(narrow, result),
                                "{x} {operation:?} {y}: {narrow:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_comparison_keeps_the_numbers_for_which_it_holds() {
        for a in intervals() {
            for b in intervals() {
                for condition in CONDITIONS {
                    let (left, right) = a.narrow_where(condition, b);
                    for x in a.min..=a.max {
                        for y in b.min..=b.max {
                            let holds = compare64(condition, x, y);
                            let kept = contains(left, x) && contains(right, y);
                            assert!(!holds || kept, "{x} {condition:?} {y}: {left:?} {right:?}");
                            let opposite = opposite(condition).expect("of comparisons");
                            assert_eq!(compare64(opposite, x, y), !holds);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_are_kept_where_programs_need_them() {
        let index = UnsignedInterval::of_bits(5);
        let scaled = index.alu(
            Width::W64,
            AluOperation::ShiftLeft,
            UnsignedInterval::one(3),
        );
        assert_eq!(scaled, UnsignedInterval { min: 0, max: 248 });
        let (small, _) =
            UnsignedInterval::ALL.narrow_where(BranchCondition::Less, UnsignedInterval::one(7));
        assert_eq!(small, UnsignedInterval { min: 0, max: 6 });
        let minus_one = UnsignedInterval::one(u64::MAX);
        let before =
            UnsignedInterval { min: 1, max: 9 }.alu(Width::W64, AluOperation::Add, minus_one);
        assert_eq!(before, UnsignedInterval { min: 0, max: 8 });
    }
}
