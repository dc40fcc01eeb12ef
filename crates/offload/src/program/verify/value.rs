//! The knowledge of the verifier about a register or a word of the stack.

use super::interval::UnsignedInterval;
use crate::program::ProgramWindow;

/// The largest distance of an address from the start of its window. Windows are much shorter; the
/// bound keeps sums of distances from wrapping around.
pub const DISTANCE_MAX: i64 = 1 << 20;

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbstractValue {
    /// Nothing known: not written on some path, or not the same kind on all paths.
    Unknown,
    /// A number.
    Number(UnsignedInterval),
    /// An address, from `min` to `max` bytes after the origin of a window.
    Address {
        window: ProgramWindow,
        min: i64,
        max: i64,
    },
}

impl AbstractValue {
    pub const NUMBER: AbstractValue = AbstractValue::Number(UnsignedInterval::ALL);

    pub const fn origin(window: ProgramWindow) -> AbstractValue {
        AbstractValue::Address {
            window,
            min: 0,
            max: 0,
        }
    }

    /// Returns what is true of both values.
    pub fn join(self, other: AbstractValue) -> AbstractValue {
        match (self, other) {
            (AbstractValue::Number(a), AbstractValue::Number(b)) => {
                AbstractValue::Number(a.join(b))
            }
            (
                AbstractValue::Address { window, min, max },
                AbstractValue::Address {
                    window: other,
                    min: other_min,
                    max: other_max,
                },
            ) if window == other => AbstractValue::Address {
                window,
                min: min.min(other_min),
                max: max.max(other_max),
            },
            _ => AbstractValue::Unknown,
        }
    }
}
