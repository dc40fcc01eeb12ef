//! Order-preserving encodings: the byte order of the codes is the order of the values.
//!
//! An index compares keys as bytes. [`Encode`] turns a typed key into bytes and [`Decode`] restores
//! it; [`WordCodec`] does both for keys of the 8-byte form, [`Words`](crate::Words).
//!
//! Every code upholds three rules, which the property tests check for all types:
//!
//! - **Order.** `a < b` exactly if `code(a) < code(b)` as bytes. The order is `Ord`; for floats,
//!   which have none, it is [`f64::total_cmp`].
//! - **Prefix-freeness.** No code is a proper prefix of another code of the same type. Codes can
//!   therefore stand side by side in a [tuple](#tuples) and still be separated and compared.
//! - **One code a value.** Decoding accepts exactly what encoding produces and refuses anything
//!   else with a [`CodecError`]; it never panics and never reserves more memory than the code
//!   is long.
//!
//! | value | code |
//! |---|---|
//! | `u8` … `u128` | big-endian |
//! | `i8` … `i128` | sign bit flipped, big-endian |
//! | `f32`, `f64` | sign bit flipped if positive, all bits inverted if negative, big-endian |
//! | `bool` | `00` or `01` |
//! | `str`, `String`, `[u8]`, `Vec<u8>` | `00` written as `00 FF`; then the end mark `00 00` |
//! | `Option<T>` | `None`: `00`; `Some`: `01` and the code of the value |
//! | [`Reverse<T>`](std::cmp::Reverse) | every byte of the code of `T` inverted |
//! | <a id="tuples"></a>tuples of 1 to 8 | the codes of the fields, one after the other |
//!
//! ```
//! use nearfield_core::codec::{Decode, Encode};
//! use std::cmp::Reverse;
//!
//! // The newest event of a user first: ascending by name, then descending by time.
//! let event = |user: &str, time: u64| (user, Reverse(time)).encode();
//! assert!(event("ann", 7) < event("ann", 6));
//! assert!(event("ann", 6) < event("anna", 9));
//!
//! let decoded = <(String, Reverse<u64>)>::decode(&event("ann", 7)).unwrap();
//! assert_eq!(decoded, ("ann".to_owned(), Reverse(7)));
//! ```

mod boolean;
mod code;
mod error;
mod float;
mod integer;
mod option;
mod reader;
mod reverse;
mod string;
mod tuple;
mod word;

pub use code::{Decode, Encode};
pub use error::{CodecError, DecodeReason};
pub use reader::CodecReader;
pub use word::{WordCodec, WordOutOfRange};
