//! Every `unsafe` block and `unsafe impl` has a comment that states why it is sound.
//!
//! Clippy checks blocks, too, but not those within a `macro_rules!`, which may never be expanded
//! with the lint on. Tokens show all of them.

use crate::finding::TidyFinding;
use crate::source::RustSource;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The mark of such a comment.
const MARK: &str = "SAFETY:";

pub fn check(source: &RustSource) -> Vec<TidyFinding> {
    let mut search = SafetyCommentSearch {
        lines: source.text.lines().collect(),
        unargued: Vec::new(),
    };
    search.visit(source.tokens.clone(), &[]);
    let reason = format!("unsafe without a {MARK} comment above it");
    search
        .unargued
        .into_iter()
        .map(|line| TidyFinding::new(&source.path, line, reason.as_str()))
        .collect()
}

struct SafetyCommentSearch<'a> {
    lines: Vec<&'a str>,
    unargued: Vec<usize>,
}

impl SafetyCommentSearch<'_> {
    /// Checks `tokens`. `outer` are the lines of the statements that contain these tokens. The
    /// comment may be above any of them.
    fn visit(&mut self, tokens: TokenStream, outer: &[usize]) {
        let mut starts = outer.to_vec();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let line = token.span().start().line;
            if starts.len() == outer.len() {
                starts.push(line);
            }
            debug_assert_eq!(
                starts.len(),
                outer.len() + 1,
                "the statement at hand is the last"
            );
            let ends_statement = match &token {
                TokenTree::Group(group) => {
                    let braces = group.delimiter() == Delimiter::Brace;
                    // A comment above a block argues for none of the statements in it.
                    let outer = if braces { &[] } else { starts.as_slice() };
                    self.visit(group.stream(), outer);
                    braces
                }
                // `>` for the arrow of a match arm; that of a type ends no line in practice.
                TokenTree::Punct(punct) => matches!(punct.as_char(), ';' | ',' | '>'),
                TokenTree::Ident(ident) if ident == "unsafe" => {
                    let argued = || starts.iter().chain([&line]).any(|&line| self.argued(line));
                    if tokens.peek().is_some_and(needs_argument) && !argued() {
                        self.unargued.push(line);
                    }
                    false
                }
                _ => false,
            };
            if ends_statement {
                starts.truncate(outer.len());
            }
        }
    }

    /// Returns true if the comment is in `line`, counted from 1, or in the comments right above it.
    fn argued(&self, line: usize) -> bool {
        debug_assert!((1..=self.lines.len()).contains(&line));
        let above = self.lines[..line - 1].iter().rev().map(|line| line.trim());
        let mut comments =
            above.take_while(|line| line.starts_with("//") || line.starts_with("#["));
        self.lines[line - 1].contains(MARK) || comments.any(|line| line.contains(MARK))
    }
}

/// Returns true for the token after `unsafe` in a block or an `impl`. An `unsafe fn` leaves the
/// argument to its callers.
fn needs_argument(next: &TokenTree) -> bool {
    match next {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Ident(ident) => ident == "impl",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = check(&RustSource::of(text));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_unargued_block_is_found() {
        assert_eq!(
            found("fn f(p: *const u8) -> u8 {\n    // Reads it.\n    unsafe { *p }\n}\n"),
            ["src/snippet.rs:3: unsafe without a SAFETY: comment above it"]
        );
    }

    #[test]
    fn an_unargued_impl_is_found() {
        assert_eq!(found("struct S;\nunsafe impl Send for S {}").len(), 1);
        assert_eq!(
            found("// SAFETY: no.\nstruct S;\nunsafe impl Send for S {}").len(),
            1
        );
        assert_eq!(found("// SAFETY: yes.\nunsafe impl Send for S {}").len(), 0);
    }

    #[test]
    fn an_argument_is_for_one_statement() {
        let text = "fn f() {\n// SAFETY: yes.\nlet a = unsafe { g() };\nlet b = unsafe { g() };\n}";
        assert_eq!(found(text).len(), 1);
    }

    #[test]
    fn macros_are_searched() {
        assert_eq!(
            found("macro_rules! m { () => { unsafe { f() } } }").len(),
            1
        );
        assert_eq!(found("fn f() { assert!(unsafe { g() }); }").len(), 1);
    }

    #[test]
    fn the_comment_may_stand_above_the_statement() {
        let text = "fn f() {\n// SAFETY: yes.\nlet a = g(\n    1,\n    unsafe { h() },\n);\n}";
        assert_eq!(found(text).len(), 0);
        let text = "fn f() { match a {\n// SAFETY: yes.\nA => unsafe { g() },\nB => {}\n} }";
        assert_eq!(found(text).len(), 0);
    }

    #[test]
    fn other_uses_of_the_word_are_not_found() {
        assert_eq!(found("/// unsafe { }\nunsafe fn f() {}").len(), 0);
        assert_eq!(found("const TEXT: &str = \"unsafe { }\";").len(), 0);
        assert_eq!(found("trait T { unsafe fn f(); }").len(), 0);
    }
}
