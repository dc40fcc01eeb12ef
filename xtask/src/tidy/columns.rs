//! Lines that are too wide to be read next to another file. rustfmt does not break comments and
//! strings.

use crate::finding::TidyFinding;
use crate::source::RustSource;

const COLUMNS_MAX: usize = 100;

pub fn check(source: &RustSource) -> Vec<TidyFinding> {
    // In characters, because a letter of several bytes takes one column.
    let lines = source.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX && !ends_with_address(line))
        .map(|(index, line)| {
            let columns = line.chars().count();
            let reason = format!("{columns} columns, the limit is {COLUMNS_MAX}");
            TidyFinding::new(&source.path, index + 1, reason)
        })
        .collect()
}

/// Returns true if only a web address exceeds the limit.
fn ends_with_address(line: &str) -> bool {
    // An address cannot be broken, but all before it can.
    let mut words = line.trim_end().rsplitn(2, char::is_whitespace);
    let (last, before) = (words.next(), words.next());
    last.is_some_and(|word| word.contains("://"))
        && before.is_some_and(|before| before.chars().count() < COLUMNS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = check(&RustSource::of(text));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_wide_line_is_found() {
        let comment = format!("// {}", "é".repeat(97));
        assert_eq!(found(&comment), [""; 0]);
        assert_eq!(
            found(&format!("\n{comment}x")),
            ["src/snippet.rs:2: 101 columns, the limit is 100"]
        );
        let string = format!("const S: &str = \"{}\";", "x".repeat(100));
        assert_eq!(found(&string).len(), 1);
    }

    #[test]
    fn an_address_may_end_a_wide_line() {
        let address = format!("https://example.org/{}", "x".repeat(100));
        assert_eq!(found(&format!("// See {address}")).len(), 0);
        assert_eq!(found(&format!("// See {address} and more")).len(), 1);
    }
}
