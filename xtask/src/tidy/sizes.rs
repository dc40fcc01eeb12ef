//! Files and functions that are too long for a reader.

use crate::finding::TidyFinding;
use crate::source::RustSource;
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FILE_LINES_MAX: usize = 900;
const FUNCTION_LINES_MAX: usize = 120;

/// A file or function that is longer for a reason. The list is a ratchet: `lines` may only
/// decrease, and an entry that is no longer needed is a finding.
pub struct Exception {
    pub path: &'static str,
    /// The function; `None` for the file as a whole.
    pub function: Option<&'static str>,
    pub lines: usize,
    pub reason: &'static str,
}

pub const EXCEPTIONS: &[Exception] = &[];

pub fn check(sources: &[RustSource], exceptions: &[Exception]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut needed = vec![false; exceptions.len()];
    for (source, long) in sources.iter().flat_map(too_long) {
        let exception = exceptions.iter().position(|exception| {
            source.path.as_os_str() == exception.path
                && long.function.as_deref() == exception.function
        });
        if let Some(position) = exception {
            needed[position] = true;
        }
        let (limit, why) = exception.map_or((long.limit(), ""), |position| {
            (exceptions[position].lines, exceptions[position].reason)
        });
        // An exception has its own limit, so that what it excuses does not grow.
        if long.lines > limit {
            let name = long.function.as_deref().unwrap_or("the file");
            let separator = if why.is_empty() { "" } else { ": " };
            let reason = format!(
                "{name} has {} lines, the limit is {limit}{separator}{why}",
                long.lines
            );
            findings.push(TidyFinding::new(&source.path, long.start, reason));
        }
    }
    for (exception, _) in exceptions.iter().zip(needed).filter(|(_, needed)| !needed) {
        let reason = "is short enough: remove its exception in xtask/src/tidy/sizes.rs";
        findings.push(TidyFinding::new(exception.path.as_ref(), 1, reason));
    }
    findings
}

/// A file (`function` is `None`) or function above the general limit.
struct Long {
    function: Option<String>,
    start: usize,
    lines: usize,
}

impl Long {
    fn limit(&self) -> usize {
        match self.function {
            Some(_) => FUNCTION_LINES_MAX,
            None => FILE_LINES_MAX,
        }
    }
}

fn too_long(source: &RustSource) -> impl Iterator<Item = (&RustSource, Long)> {
    let file = Long {
        function: None,
        start: 1,
        lines: source.text.lines().count(),
    };
    let mut functions = FunctionLengths(vec![file]);
    functions.visit_file(&source.syntax);
    let long = functions.0.into_iter();
    long.filter(|long| long.lines > long.limit())
        .map(move |long| (source, long))
}

struct FunctionLengths(Vec<Long>);

impl FunctionLengths {
    fn add(&mut self, name: &syn::Ident, span: Span) {
        let start = span.start().line;
        self.0.push(Long {
            function: Some(name.to_string()),
            start,
            lines: span.end().line - start + 1,
        });
    }
}

/// The visitor measures a function from its signature to its end, without its documentation.
impl<'ast> Visit<'ast> for FunctionLengths {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let span = function.sig.span().join(function.block.span());
        self.add(&function.sig.ident, span.unwrap_or(function.block.span()));
        // Functions within this one are measured, too.
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let span = function.sig.span().join(function.block.span());
        self.add(&function.sig.ident, span.unwrap_or(function.block.span()));
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            let span = function.sig.span().join(block.span());
            self.add(&function.sig.ident, span.unwrap_or(block.span()));
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!(
            "/// Long.\nfn long() {{\n{}}}\n",
            "    f();\n".repeat(lines - 2)
        )
    }

    fn found(text: &str, exceptions: &[Exception]) -> Vec<String> {
        let findings = check(&[RustSource::of(text)], exceptions);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_function_is_found() {
        assert_eq!(found(&function(120), &[]), [""; 0]);
        assert_eq!(
            found(&function(121), &[]),
            ["src/snippet.rs:2: long has 121 lines, the limit is 120"]
        );
        let method = format!("struct S; impl S {{ {} }}", function(121));
        assert_eq!(found(&method, &[]).len(), 1);
        let provided = format!("trait T {{ {} }}", function(121));
        assert_eq!(found(&provided, &[]).len(), 1);
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(found(&"use a::b;\n".repeat(900), &[]).len(), 0);
        assert_eq!(
            found(&"use a::b;\n".repeat(901), &[]),
            ["src/snippet.rs:1: the file has 901 lines, the limit is 900"]
        );
    }

    #[test]
    fn an_exception_is_a_ratchet() {
        let exceptions = [Exception {
            path: "src/snippet.rs",
            function: Some("long"),
            lines: 130,
            reason: "a test",
        }];
        assert_eq!(found(&function(130), &exceptions).len(), 0);
        assert_eq!(
            found(&function(131), &exceptions),
            ["src/snippet.rs:2: long has 131 lines, the limit is 130: a test"]
        );
        assert_eq!(
            found(&function(100), &exceptions),
            ["src/snippet.rs:1: is short enough: remove its exception in xtask/src/tidy/sizes.rs"]
        );
    }
}
