//! Tests of the codecs.
//!
//! One program has all modules, so that generic code is compiled once.

mod codec;
mod word_codec;
