//! Code that was meant to be removed before a commit, and files that a server of a test may leave.

use crate::finding::TidyFinding;
use crate::source::RustSource;
use proc_macro2::{TokenStream, TokenTree};
use std::path::{Path, PathBuf};

/// Marks of unfinished work in comments; in two parts, so that this file does not find itself.
const MARKS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];

pub fn check(source: &RustSource) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        // Whole words only, because a mark may be a part of a name.
        let mut words = line.split(|letter: char| !letter.is_alphanumeric());
        if let Some(mark) = words.find(|word| MARKS.contains(word)) {
            let reason = format!("{mark}: do it, or remove it");
            findings.push(TidyFinding::new(&source.path, index + 1, reason));
        }
    }
    visit(source.tokens.clone(), &mut |name, line| {
        findings.push(TidyFinding::new(
            &source.path,
            line,
            format!("{name}! is left over"),
        ));
    });
    findings
}

/// Files that a server writes into its directory.
const OF_SERVERS: [&str; 3] = ["dump.rdb", "nearfield.lock", "nearfield.manifest"];

/// Reports files that servers have left in the tree.
pub fn check_left_files(files: &[PathBuf]) -> Vec<TidyFinding> {
    let is_left = |path: &&PathBuf| {
        let is_log = path.extension().is_some_and(|it| it == "aof");
        is_log || OF_SERVERS.iter().any(|name| path.ends_with(name))
    };
    let left = files.iter().filter(is_left);
    left.map(|path| {
        TidyFinding::new(
            path,
            1,
            "a server wrote it: start the server in another directory",
        )
    })
    .collect()
}

/// Reports servers of tests that are not made by the testkit, which gives each a directory.
pub fn check_servers_of_tests(source: &RustSource) -> Vec<TidyFinding> {
    const MADE: &str = concat!("Server::", "new(");
    let is_test = source.path.starts_with(Path::new("crates/server/tests"));
    if !is_test || source.text.contains("in_own_folder(") {
        return Vec::new();
    }
    let is_made = |line: &str| {
        // At the beginning of a name: other types may end with the same word.
        line.match_indices(MADE).any(|(place, _)| {
            let before = line.get(..place).unwrap_or_default().chars().next_back();
            !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        })
    };
    let lines = source.text.lines().enumerate();
    lines
        .filter(|(_, line)| is_made(line))
        .map(|(index, _)| {
            let reason = "a server of a test without a directory of its own: UnservedServer";
            TidyFinding::new(&source.path, index + 1, reason)
        })
        .collect()
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
        let findings = check(&RustSource::of(text));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn marks_are_found() {
        for mark in MARKS {
            assert_eq!(
                found(&format!("fn f() {{}}\n// {mark}: later\n")),
                [format!("src/snippet.rs:2: {mark}: do it, or remove it")]
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
    fn files_of_servers_are_found() {
        let files = [
            "crates/x/log-1.aof",
            "dump.rdb",
            "a/nearfield.lock",
            "dump.rs",
        ];
        let files = files.map(PathBuf::from);
        assert_eq!(check_left_files(&files).len(), 3);
    }

    #[test]
    fn servers_of_tests_without_a_directory_are_found() {
        let made = concat!("fn f() { g(Server::", "new(o)); }");
        let mut source = RustSource::of(made);
        assert!(check_servers_of_tests(&source).is_empty());
        source.path = "crates/server/tests/all/x.rs".into();
        assert_eq!(check_servers_of_tests(&source).len(), 1);
        for innocent in [
            concat!("fn f() { UnservedServer::", "new(o); }"),
            concat!(
                "fn f() { let (o, _own) = in_own_folder(o); Server::",
                "new(o); }"
            ),
        ] {
            let mut source = RustSource::of(innocent);
            source.path = "crates/server/tests/all/x.rs".into();
            assert!(check_servers_of_tests(&source).is_empty(), "{innocent}");
        }
    }

    #[test]
    fn innocent_lines_are_not() {
        assert_eq!(
            found("// mastodon dbg\nfn todo() {} fn f() { todo() }"),
            [""; 0]
        );
    }
}
