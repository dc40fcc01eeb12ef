//! Sets of numbers that a register may hold: all from a smallest to a largest one.

use crate::isa::arithmetic::{alu32, alu64};
use crate::isa::{AluOperation, Condition, Width};

/// The numbers from `min` to `max`, without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub min: u64,
    pub max: u64,
}

const LOW: u64 = u32::MAX as u64;

impl Interval {
    /// The interval of all numbers.
    pub const ALL: Interval = Interval {
        min: 0,
        max: u64::MAX,
    };

    pub const fn one(value: u64) -> Interval {
        Interval {
            min: value,
            max: value,
        }
    }

    /// Creates the interval of the numbers of `bits` bits.
    pub const fn of_bits(bits: u32) -> Interval {
        Interval {
            min: 0,
            max: u64::MAX >> (64 - bits),
        }
    }

    /// Returns the number, if there is only one.
    pub fn single(self) -> Option<u64> {
        (self.min == self.max).then_some(self.min)
    }

    /// Returns the smallest interval with all numbers of both.
    pub fn join(self, other: Interval) -> Interval {
        Interval {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Returns the interval of the lower 32 bits.
    pub fn low_half(self) -> Interval {
        if self.max <= LOW {
            self
        } else if let Some(value) = self.single() {
            Interval::one(value & LOW)
        } else {
            Interval::of_bits(32)
        }
    }

    /// Returns the results of an operation. The interval may contain more than the exact results,
    /// never fewer.
    pub fn alu(self, width: Width, operation: AluOperation, other: Interval) -> Interval {
        let (a, b) = match width {
            Width::W64 => (self, other),
            Width::W32 => (self.low_half(), other.low_half()),
        };
        if let (Some(a), Some(b)) = (a.single(), b.single()) {
            return Interval::one(match width {
                Width::W64 => alu64(operation, a, b),
                Width::W32 => alu32(operation, a as u32, b as u32).into(),
            });
        }
        let bits = match width {
            Width::W64 => 64,
            Width::W32 => 32,
        };
        let all = Interval::of_bits(bits);
        let result = a.wide(bits, operation, b).unwrap_or(all);
        if result.max > all.max { all } else { result }
    }

    /// Returns the results if none wraps around, otherwise `None`.
    fn wide(self, bits: u32, operation: AluOperation, b: Interval) -> Option<Interval> {
        let a = self;
        let interval = |min, max| Some(Interval { min, max });
        let shift = b.single().map(|shift| shift as u32 & (bits - 1));
        match operation {
            // A constant that is negative as a signed number is subtracted.
            AluOperation::Add => match negative(b, bits) {
                Some(summand) => interval(a.min.checked_sub(summand)?, a.max - summand),
                None => interval(a.min.checked_add(b.min)?, a.max.checked_add(b.max)?),
            },
            AluOperation::Subtract => interval(a.min.checked_sub(b.max)?, a.max - b.min),
            AluOperation::Multiply => {
                interval(a.min.checked_mul(b.min)?, a.max.checked_mul(b.max)?)
            }
            AluOperation::Divide if b.min > 0 => interval(a.min / b.max, a.max / b.min),
            // A division by zero returns zero.
            AluOperation::Divide => interval(0, a.max),
            AluOperation::Modulo if b.min > a.max => Some(a),
            AluOperation::Modulo if b.min > 0 => interval(0, a.max.min(b.max - 1)),
            AluOperation::Modulo => interval(0, a.max),
            AluOperation::And => interval(0, a.max.min(b.max)),
            AluOperation::Or | AluOperation::Xor => {
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
                let fits = a.max.leading_zeros() >= shift;
                fits.then(|| Interval {
                    min: a.min << shift,
                    max: a.max << shift,
                })
            }
            AluOperation::ShiftRight => match shift {
                Some(shift) => interval(a.min >> shift, a.max >> shift),
                None => interval(0, a.max),
            },
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

    /// Narrows both intervals to the numbers for which a comparison of 64 bits holds. If it cannot
    /// hold, returns them unchanged: then the code after it is not reached, and any interval is
    /// right.
    pub fn where_holds(self, condition: Condition, other: Interval) -> (Interval, Interval) {
        let signs = |interval: Interval| interval.max <= i64::MAX as u64;
        let unsigned = signs(self) && signs(other);
        let (a, b) = match condition {
            Condition::Equal => {
                let both = Interval {
                    min: self.min.max(other.min),
                    max: self.max.min(other.max),
                };
                (both, both)
            }
            Condition::NotEqual => (self.without(other), other.without(self)),
            Condition::Less => less(self, other),
            Condition::LessOrEqual => less_or_equal(self, other),
            Condition::Greater => swap(less(other, self)),
            Condition::GreaterOrEqual => swap(less_or_equal(other, self)),
            Condition::SignedLess if unsigned => less(self, other),
            Condition::SignedLessOrEqual if unsigned => less_or_equal(self, other),
            Condition::SignedGreater if unsigned => swap(less(other, self)),
            Condition::SignedGreaterOrEqual if unsigned => swap(less_or_equal(other, self)),
            _ => (self, other),
        };
        let is_empty = |interval: Interval| interval.min > interval.max;
        if is_empty(a) || is_empty(b) {
            return (self, other);
        }
        (a, b)
    }

    /// Removes the number of an interval of one, if it is the smallest or largest number here.
    fn without(self, other: Interval) -> Interval {
        let mut left = self;
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
fn negative(interval: Interval, bits: u32) -> Option<u64> {
    let value = interval.single()?;
    let is_negative = value >> (bits - 1) & 1 == 1;
    let magnitude = match bits {
        64 => value.wrapping_neg(),
        _ => u64::from((value as u32).wrapping_neg()),
    };
    is_negative.then_some(magnitude)
}

fn less(a: Interval, b: Interval) -> (Interval, Interval) {
    // No number is below zero or above the largest one. In that case nothing is left.
    let (Some(most), Some(least)) = (b.max.checked_sub(1), a.min.checked_add(1)) else {
        return (a, b);
    };
    (
        Interval {
            min: a.min,
            max: a.max.min(most),
        },
        Interval {
            min: b.min.max(least),
            max: b.max,
        },
    )
}

fn less_or_equal(a: Interval, b: Interval) -> (Interval, Interval) {
    (
        Interval {
            min: a.min,
            max: a.max.min(b.max),
        },
        Interval {
            min: b.min.max(a.min),
            max: b.max,
        },
    )
}

fn swap((a, b): (Interval, Interval)) -> (Interval, Interval) {
    (b, a)
}

/// Returns the condition that holds when `condition` does not.
pub fn opposite(condition: Condition) -> Option<Condition> {
    Some(match condition {
        Condition::Equal => Condition::NotEqual,
        Condition::NotEqual => Condition::Equal,
        Condition::Greater => Condition::LessOrEqual,
        Condition::GreaterOrEqual => Condition::Less,
        Condition::Less => Condition::GreaterOrEqual,
        Condition::LessOrEqual => Condition::Greater,
        Condition::SignedGreater => Condition::SignedLessOrEqual,
        Condition::SignedGreaterOrEqual => Condition::SignedLess,
        Condition::SignedLess => Condition::SignedGreaterOrEqual,
        Condition::SignedLessOrEqual => Condition::SignedGreater,
        Condition::SharesBits => return None,
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
    const CONDITIONS: [Condition; 10] = [
        Condition::Equal,
        Condition::NotEqual,
        Condition::Greater,
        Condition::GreaterOrEqual,
        Condition::Less,
        Condition::LessOrEqual,
        Condition::SignedGreater,
        Condition::SignedGreaterOrEqual,
        Condition::SignedLess,
        Condition::SignedLessOrEqual,
    ];

    /// Returns intervals of a few numbers, at edges of both widths and signs.
    fn intervals() -> Vec<Interval> {
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
        intervals.map(|(min, max)| Interval { min, max }).collect()
    }

    fn contains(interval: Interval, value: u64) -> bool {
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
                    let (left, right) = a.where_holds(condition, b);
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
        let index = Interval::of_bits(5);
        let scaled = index.alu(Width::W64, AluOperation::ShiftLeft, Interval::one(3));
        assert_eq!(scaled, Interval { min: 0, max: 248 });
        let (small, _) = Interval::ALL.where_holds(Condition::Less, Interval::one(7));
        assert_eq!(small, Interval { min: 0, max: 6 });
        let minus_one = Interval::one(u64::MAX);
        let before = Interval { min: 1, max: 9 }.alu(Width::W64, AluOperation::Add, minus_one);
        assert_eq!(before, Interval { min: 0, max: 8 });
    }
}
