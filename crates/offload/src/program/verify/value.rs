//! The knowledge of the verifier about a register or a word of the stack.

use super::interval::Interval;
use crate::program::Window;

/// The largest distance of an address from the start of its window. Windows are much shorter; the
/// bound keeps sums of distances from wrapping around.
pub const DISTANCE_MAX: i64 = 1 << 20;

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing known: not written on some path, or not the same kind on all paths.
    Unknown,
    /// A number.
    Number(Interval),
    /// An address, from `min` to `max` bytes after the origin of a window.
    Address { window: Window, min: i64, max: i64 },
}

impl Value {
    pub const NUMBER: Value = Value::Number(Interval::ALL);

    pub const fn origin(window: Window) -> Value {
        Value::Address {
            window,
            min: 0,
            max: 0,
        }
    }

    /// Returns what is true of both values.
    pub fn join(self, other: Value) -> Value {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => Value::Number(a.join(b)),
            (
                Value::Address { window, min, max },
                Value::Address {
                    window: other,
                    min: other_min,
                    max: other_max,
                },
            ) if window == other => Value::Address {
                window,
                min: min.min(other_min),
                max: max.max(other_max),
            },
            _ => Value::Unknown,
        }
    }
}
