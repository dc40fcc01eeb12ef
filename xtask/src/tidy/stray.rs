//! What was meant to be removed before a commit.

use crate::finding::Finding;
use crate::source::Source;
use proc_macro2::{TokenStream, TokenTree};

/// Marks of unfinished work in comments; in two parts, so that this file does not find itself.
const MARKS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];

pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let mut words = line.split(|letter: char| !letter.is_alphanumeric());
        if let Some(mark) = words.find(|word| MARKS.contains(word)) {
            let reason = format!("{mark}: do it, or leave it out");
            findings.push(Finding::new(&source.path, index + 1, reason));
        }
    }
    visit(source.tokens.clone(), &mut |name, line| {
        findings.push(Finding::new(
            &source.path,
            line,
            format!("{name}! is left over"),
        ));
    });
    findings
}

/// Reports each call of one of `MACROS`.
fn visit(tokens: TokenStream, report: &mut impl FnMut(&str, usize)) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => visit(group.stream(), report),
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                let is_call =
                    matches!(tokens.peek(), Some(TokenTree::Punct(it)) if it.as_char() == '!');
                if is_call && MACROS.contains(&name.as_str()) {
                    report(&name, ident.span().start().line);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = check(&Source::of(text));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn marks_are_found() {
        for mark in MARKS {
            assert_eq!(
                found(&format!("fn f() {{}}\n// {mark}: later\n")),
                [format!("src/snippet.rs:2: {mark}: do it, or leave it out")]
            );
        }
    }

    #[test]
    fn macros_are_found() {
        assert_eq!(
            found("fn f() {\n    dbg!(1);\n}"),
            ["src/snippet.rs:2: dbg! is left over"]
        );
        assert_eq!(found("fn f() { g(|| todo!()) }").len(), 1);
        assert_eq!(found("fn f() { unimplemented!() }").len(), 1);
    }

    #[test]
    fn innocent_lines_are_not() {
        assert_eq!(
            found("// mastodon dbg\nfn todo() {} fn f() { todo() }"),
            [""; 0]
        );
    }
}
