//! The rules by which the replies of two servers to one command count as equal.

use super::reply::RespReplyValue;

/// Number above which numbers are times in [`Mode::Times`].
const TIME_MIN: i64 = 1_000_000_000;

/// The comparison of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Equal replies.
    Exact,
    /// Elements in any order.
    Unordered,
    /// Pairs in any order, in one flat array or not.
    Pairs,
    /// A cursor, and elements in any order.
    Scan,
    /// A cursor, and pairs in any order, in one flat array.
    ScanPairs,
    /// Numbers that differ by this at most, also within arrays and maps.
    Near(i64),
    /// Times since 1970 that differ by this at most. Numbers that are too small for a time must be
    /// equal.
    Times(i64),
}

impl Mode {
    /// Returns true if two replies count as equal.
    pub fn same(self, ours: &RespReplyValue, redis: &RespReplyValue) -> bool {
        match (self, ours, redis) {
            (
                Mode::Near(distance),
                RespReplyValue::Integer(ours),
                RespReplyValue::Integer(redis),
                // Negative numbers are codes, such as that of a key without an expiry.
            ) => (*ours < 0) == (*redis < 0) && ours.abs_diff(*redis) <= distance.unsigned_abs(),
            (
                Mode::Times(distance),
                RespReplyValue::Integer(ours),
                RespReplyValue::Integer(redis),
            ) => {
                let near = Mode::Near(distance);
                match (*ours).min(*redis) > TIME_MIN {
                    true => near.same(
                        &RespReplyValue::Integer(*ours),
                        &RespReplyValue::Integer(*redis),
                    ),
                    false => ours == redis,
                }
            }
            (
                Mode::Near(_) | Mode::Times(_),
                RespReplyValue::Array(ours),
                RespReplyValue::Array(redis),
            ) => {
                let mut pairs = ours.iter().zip(redis);
                ours.len() == redis.len() && pairs.all(|(ours, redis)| self.same(ours, redis))
            }
            (
                Mode::Near(_) | Mode::Times(_),
                RespReplyValue::Map(ours),
                RespReplyValue::Map(redis),
            ) => {
                let mut pairs = ours.iter().zip(redis);
                let same = |(ours, redis): (
                    &(RespReplyValue, RespReplyValue),
                    &(RespReplyValue, RespReplyValue),
                )| { ours.0 == redis.0 && self.same(&ours.1, &redis.1) };
                ours.len() == redis.len() && pairs.all(same)
            }
            (Mode::Exact | Mode::Near(_) | Mode::Times(_), ours, redis) => ours == redis,
            (mode, ours, redis) => mode.sorted(ours.clone()) == mode.sorted(redis.clone()),
        }
    }

    fn sorted(self, value: RespReplyValue) -> RespReplyValue {
        match (self, value) {
            (Mode::Unordered, RespReplyValue::Array(mut elements)) => {
                elements.sort();
                RespReplyValue::Array(elements)
            }
            (Mode::Unordered, RespReplyValue::Set(mut elements)) => {
                elements.sort();
                RespReplyValue::Set(elements)
            }
            (_, RespReplyValue::Map(mut pairs)) => {
                pairs.sort();
                RespReplyValue::Map(pairs)
            }
            (Mode::Pairs, RespReplyValue::Array(mut elements)) => {
                // In RESP3, each pair is an array.
                if elements
                    .iter()
                    .any(|element| matches!(element, RespReplyValue::Array(_)))
                {
                    elements.sort();
                    return RespReplyValue::Array(elements);
                }
                let mut pairs: Vec<Vec<RespReplyValue>> =
                    elements.chunks(2).map(<[_]>::to_vec).collect();
                pairs.sort();
                RespReplyValue::Array(pairs.concat())
            }
            (Mode::Scan | Mode::ScanPairs, RespReplyValue::Array(mut parts)) => {
                let inner = if self == Mode::Scan {
                    Mode::Unordered
                } else {
                    Mode::Pairs
                };
                if let [_, elements] = parts.as_mut_slice() {
                    *elements = inner.sorted(elements.clone());
                }
                RespReplyValue::Array(parts)
            }
            (_, value) => value,
        }
    }
}
