//! Tests of the codecs.
//!
//! All modules are in one program, so that generic code is compiled once.

mod codec;
mod word_codec;
