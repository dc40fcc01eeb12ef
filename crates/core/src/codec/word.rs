//! Order-preserving maps to a word of 8 bytes, for keys and values of the 8-byte form.

use super::float::{f32_from_ordered, f64_from_ordered, ordered_from_f32, ordered_from_f64};
use std::fmt::{self, Display, Formatter};

/// A value that has an order-preserving code of one word, as keys of [`Words`](crate::Words) are.
///
/// `a < b` exactly if `a.to_word() < b.to_word()`, and each value has one word. Unsigned integers
/// of any width are their own words, and signed integers are shifted by 2⁶³, so that a key type can
/// be widened within its kind without changing stored keys. Floats are ordered, and their zeros and
/// NaNs kept, as by [`Encode`](super::Encode).
///
/// ```
/// use nearfield_core::codec::WordCodec;
///
/// assert!((-2.5_f64).to_word() < 1e300_f64.to_word());
/// assert_eq!(f64::from_word((-2.5_f64).to_word()), Ok(-2.5));
/// assert_eq!(7_i8.to_word(), 7_i64.to_word());
/// assert!(u8::from_word(256).is_err());
/// ```
pub trait WordCodec: Copy {
    /// Returns the word of the value.
    fn to_word(self) -> u64;

    /// Returns the value of a word.
    ///
    /// # Errors
    /// [`WordOutOfRange`], if the word belongs to no value of this type; never for types of 8
    /// bytes.
    fn from_word(word: u64) -> Result<Self, WordOutOfRange>;
}

/// A word that belongs to no value of the type asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordOutOfRange {
    /// The word.
    pub word: u64,
    /// The type.
    pub type_name: &'static str,
}

impl Display for WordOutOfRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let WordOutOfRange { word, type_name } = self;
        write!(f, "word {word:#018x} is not a value of {type_name}")
    }
}

impl std::error::Error for WordOutOfRange {}

impl WordOutOfRange {
    fn new<T>(word: u64) -> Self {
        WordOutOfRange {
            word,
            type_name: std::any::type_name::<T>(),
        }
    }
}

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl WordCodec for $type {
            #[inline]
            fn to_word(self) -> u64 {
                u64::from(self)
            }

            #[inline]
            fn from_word(word: u64) -> Result<Self, WordOutOfRange> {
                // Refused rather than truncated, so that each value has one word.
                <$type>::try_from(word).map_err(|_| WordOutOfRange::new::<$type>(word))
            }
        }
    )*};
}

macro_rules! signed {
    ($($type:ty),*) => {$(
        impl WordCodec for $type {
            #[inline]
            fn to_word(self) -> u64 {
                // Widened first, so that a value has one word in all signed types.
                (i64::from(self) ^ i64::MIN).cast_unsigned()
            }

            #[inline]
            fn from_word(word: u64) -> Result<Self, WordOutOfRange> {
                <$type>::try_from(word.cast_signed() ^ i64::MIN)
                    .map_err(|_| WordOutOfRange::new::<$type>(word))
            }
        }
    )*};
}

signed!(i8, i16, i32);
unsigned!(u8, u16, u32);

impl WordCodec for u64 {
    #[inline]
    fn to_word(self) -> u64 {
        self
    }

    #[inline]
    fn from_word(word: u64) -> Result<Self, WordOutOfRange> {
        Ok(word)
    }
}

impl WordCodec for i64 {
    #[inline]
    fn to_word(self) -> u64 {
        (self ^ i64::MIN).cast_unsigned()
    }

    #[inline]
    fn from_word(word: u64) -> Result<Self, WordOutOfRange> {
        Ok(word.cast_signed() ^ i64::MIN)
    }
}

impl WordCodec for f32 {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(ordered_from_f32(self))
    }

    #[inline]
    fn from_word(word: u64) -> Result<Self, WordOutOfRange> {
        u32::try_from(word)
            .map(f32_from_ordered)
            .map_err(|_| WordOutOfRange::new::<f32>(word))
    }
}

impl WordCodec for f64 {
    #[inline]
    fn to_word(self) -> u64 {
        ordered_from_f64(self)
    }

    #[inline]
    fn from_word(word: u64) -> Result<Self, WordOutOfRange> {
        Ok(f64_from_ordered(word))
    }
}
