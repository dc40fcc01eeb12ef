//! A Rust file as the checks see it.

use anyhow::Context;
use proc_macro2::TokenStream;
use std::fs;
use std::path::{Path, PathBuf};

/// A Rust file: its text, tokens and syntax tree. Comments are in the text only. The content of a
/// `macro_rules!` is in the tokens, but not in the tree.
pub struct RustSource {
    /// Path relative to the root of the repository.
    pub path: PathBuf,
    pub text: String,
    pub tokens: TokenStream,
    pub syntax: syn::File,
}

impl RustSource {
    pub fn read(root: &Path, path: &Path) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string(root.join(path)).with_context(|| path.display().to_string())?;
        Self::parse(path, text).with_context(|| path.display().to_string())
    }

    pub fn parse(path: &Path, text: String) -> anyhow::Result<Self> {
        Ok(RustSource {
            path: path.to_owned(),
            tokens: text.parse().map_err(|error| anyhow::anyhow!("{error}"))?,
            syntax: syn::parse_file(&text)?,
            text,
        })
    }
}

#[cfg(test)]
impl RustSource {
    /// Creates a source for tests of a check.
    pub fn of(text: &str) -> Self {
        Self::parse(Path::new("src/snippet.rs"), text.to_owned()).unwrap()
    }
}
