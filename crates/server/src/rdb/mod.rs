//! Redis's file format: snapshots of a keyspace, and the payloads of `DUMP` and `RESTORE`.
//!
//! ```text
//! "REDIS" version    AUX key value ...    FUNCTION code ...
//! SELECTDB number    RESIZEDB keys expires
//!   [EXPIRETIME_MS time] [IDLE seconds | FREQ counter]  type key value
//!   ...
//! EOF  checksum of all bytes before it
//! ```
//!
//! [`RdbReader`] reads every form that a Redis up to 8 has written since version 1 of the format,
//! and those of Valkey up to 9, whose files begin with `VALKEY`. [`RdbWriter`] writes one plain
//! form for each type, which every Redis 7 and Valkey reads. Hashes with fields that expire are the
//! exception: they have two forms ([`Dialect`]). Streams are written in the form of 7.0, which
//! lacks the times at which consumers were active, because 7.0 refuses the form that has them.
//! [`dump`] and [`restore`] do the same for one value without a key.
//!
//! There is a maintained crate for reading, `rdb` 0.4. It is not used because it skips data that a
//! server must keep (idle times, frequencies, functions), verifies no checksum, reads no payloads
//! of `DUMP`, and brings a command line with it; `lzf` 1.0, which decompresses strings, is
//! deprecated by its author.
//!
//! This module trusts no length: memory is reserved in proportion to data that have been read. It
//! does not know the keyspace either, so that members which occur twice in one container are passed
//! on as they are.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod checksum;
mod decode;
mod dump;
mod encode;
mod error;
mod format;
mod lzf;
mod packed;
mod reader;
mod sink;
mod skip;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod writer;

pub use dump::{dump, dump_functions, restore, restore_functions, restore_within};
pub use error::{RdbError, RdbResult};
pub use format::{Dialect, RdbValue, TimedField};
pub use reader::{RdbItem, RdbReader, RdbUnsupportedPolicy};
pub use writer::{Attributes, RdbWriter};
