//! What the verifier knows of a register or of a word of the stack.

use super::interval::Interval;
use crate::program::Window;

/// The farthest that an address may be from the start of its window. Windows are shorter by far;
/// the bound keeps sums of distances from wrapping around.
pub const DISTANCE_MAX: i64 = 1 << 20;

/// A register's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not written on some path, or not the same kind on all paths.
    Unknown,
    /// A number.
    Number(Interval),
    /// An address, from `min` to `max` bytes behind the origin of a window.
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

    /// What is known if either of two is true.
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
