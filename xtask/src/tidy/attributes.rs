//! Attributes that are required (`forbid(unsafe_code)`) or forbidden (`allow(dead_code)`).

use super::packages::Package;
use crate::finding::TidyFinding;
use crate::source::RustSource;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The packages that may contain unsafe code, and the reasons.
const MAY_BE_UNSAFE: &[(&str, &str)] = &[
    (
        "nearfield-radix",
        "nodes are raw memory with tagged pointers",
    ),
    (
        "nearfield-radix-rivals",
        "nodes and leaves are raw memory with tagged pointers",
    ),
    ("nearfield-tiers", "the interface of allocators is unsafe"),
    (
        "nearfield-lab",
        "the probe of the machine's limits maps memory and prefetches",
    ),
    (
        "nearfield-peers",
        "some peers are foreign code or have an unsafe interface",
    ),
    (
        "nearfield-fabric",
        "the memory of a node is an object that processes map, and UCX is a library in C",
    ),
    (
        "nearfield-offload",
        "native code is called, and reaches memory by pointers",
    ),
    (
        "nearfield-server",
        "functions in Lua outlive the arguments that a script's call lends them",
    ),
    ("nearfield-cli", "mimalloc frees memory by a function in C"),
    (
        "nearfield-fuzz",
        "the entry point that libFuzzer calls is exported by a macro",
    ),
];

/// Checks that every library and program has `#![forbid(unsafe_code)]`, except those of
/// `MAY_BE_UNSAFE`.
pub fn check_forbid_unsafe(packages: &[Package], sources: &[RustSource]) -> Vec<TidyFinding> {
    let strict = packages
        .iter()
        .filter(|package| MAY_BE_UNSAFE.iter().all(|(name, _)| *name != package.name));
    let roots = strict.flat_map(|package| package.targets.iter().filter(|target| target.shipped));
    roots
        .filter_map(|root| sources.iter().find(|source| source.path == root.path))
        .filter(|source| !contains_call(&source.tokens, "forbid", "unsafe_code"))
        .map(|source| TidyFinding::new(&source.path, 1, "lacks #![forbid(unsafe_code)]"))
        .collect()
}

/// Reports silenced warnings of dead code: code without a caller must be removed.
pub fn check_dead_code(source: &RustSource) -> Vec<TidyFinding> {
    // Tokens, because the syntax tree has no attributes within a `macro_rules!`.
    lines_of_calls(&source.tokens, "allow", "dead_code")
        .into_iter()
        .map(|line| {
            TidyFinding::new(
                &source.path,
                line,
                "allow(dead_code): remove the code instead",
            )
        })
        .collect()
}

fn contains_call(tokens: &TokenStream, name: &str, argument: &str) -> bool {
    !lines_of_calls(tokens, name, argument).is_empty()
}

/// Returns the lines of `name(.., argument, ..)`.
fn lines_of_calls(tokens: &TokenStream, name: &str, argument: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut previous = None;
    for token in tokens.clone() {
        if let TokenTree::Group(group) = &token {
            let is_call = group.delimiter() == Delimiter::Parenthesis
                && previous.is_some_and(|previous: TokenTree| previous.to_string() == name);
            let mut inner = group.stream().into_iter();
            if is_call && inner.any(|token| token.to_string() == argument) {
                lines.push(group.span().start().line);
            }
            lines.extend(lines_of_calls(&group.stream(), name, argument));
        }
        previous = Some(token);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::packages::CargoTarget;
    use super::*;

    fn package(name: &str) -> Package {
        Package {
            name: name.to_owned(),
            manifest: "Cargo.toml".into(),
            dependencies: Vec::new(),
            targets: vec![CargoTarget {
                path: "src/snippet.rs".into(),
                shipped: true,
            }],
        }
    }

    #[test]
    fn a_missing_forbid_is_found() {
        let sources = [RustSource::of(
            "//! Says `forbid(unsafe_code)` in its docs only.\n",
        )];
        assert_eq!(
            check_forbid_unsafe(&[package("nearfield-core")], &sources).len(),
            1
        );
        assert_eq!(
            check_forbid_unsafe(&[package("nearfield-radix")], &sources).len(),
            0
        );
        let sources = [RustSource::of("#![forbid(unsafe_code)]")];
        assert_eq!(
            check_forbid_unsafe(&[package("nearfield-core")], &sources).len(),
            0
        );
    }

    #[test]
    fn silenced_dead_code_is_found() {
        let found = |text| check_dead_code(&RustSource::of(text)).len();
        assert_eq!(found("#[allow(dead_code)] fn f() {}"), 1);
        assert_eq!(
            found("#[cfg_attr(test, allow(unused, dead_code))] fn f() {}"),
            1
        );
        assert_eq!(found("#[allow(unused_imports)] use std::fmt;"), 0);
    }
}
