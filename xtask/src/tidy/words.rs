//! Plain words in comments and in texts for users.
//!
//! A comment opens with its subject or its verb, and uses the terms of docs/glossary.md. The check
//! reads lines instead of the syntax tree, so that comments in bodies and macros count, too.

use crate::finding::TidyFinding;
use crate::source::RustSource;
use proc_macro2::{TokenStream, TokenTree};

/// First words that hide the subject of a comment.
const OPENINGS: [&str; 14] = [
    "What", "Who", "Whom", "Whoever", "Whose", "Where", "Wherever", "When", "Whenever", "How",
    "However", "Whether", "That", "Which",
];

/// First words that are no verb in the third person.
const NO_VERBS: [&str; 38] = [
    "The", "A", "An", "All", "Each", "Every", "One", "Any", "Some", "No", "None", "Not", "Only",
    "Both", "True", "False", "Number", "Name", "Bytes", "Is", "Of", "For", "In", "At", "On", "By",
    "As", "If", "Like", "It", "Its", "This", "To", "With", "Without", "From", "Up", "So",
];

/// First words that are no noun.
const NO_NOUNS: [&str; 35] = [
    "Says", "Tells", "Is", "Has", "Are", "Was", "Were", "Had", "Does", "Do", "Can", "May", "Must",
    "Will", "Shall", "Should", "Of", "At", "By", "As", "If", "Up", "So", "To", "From", "In", "On",
    "Not", "It", "They", "There", "Then", "Because", "Since", "Until",
];

/// Phrases that have a plain term, and that term.
const PHRASES: [(&str, &str); 15] = [
    ("who", "that, which, or the name of the program"),
    ("whom", "that, which, or the name of the program"),
    ("whoever", "each client that, each thread that"),
    ("so many", "the number"),
    ("so much", "the amount"),
    ("answers", "returns, replies"),
    ("is over", "has expired, has ended"),
    ("it is none", "it is invalid, or what it is instead"),
    ("that is none", "that is invalid, or what it is instead"),
    ("comes to", "is, becomes, reaches"),
    ("is to be", "must be, will be"),
    ("no more than is", "at most"),
    ("as there", "because"),
    ("anew", "again"),
    ("for want of", "without"),
];

/// Reports words of comments and strings.
pub fn check(source: &RustSource) -> Vec<TidyFinding> {
    // The words themselves.
    if source.path.ends_with("xtask/src/tidy/words.rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut report = |index: usize, reason: String| {
        findings.push(TidyFinding::new(&source.path, index + 1, reason));
    };
    let lines: Vec<&str> = source.text.lines().collect();
    for (index, comment) in comments(&lines) {
        if let Some(reason) = opening(&lines, index, &comment) {
            report(index, reason);
        }
        for reason in phrases(comment.text) {
            report(index, reason);
        }
    }
    visit_strings(source.tokens.clone(), &mut |text, line| {
        debug_assert!(line > 0, "spans count lines from 1");
        for reason in phrases(text) {
            report(line - 1, reason);
        }
    });
    findings
}

/// Counts the blocks of comments of a file, and those that open with one of [`OPENINGS`].
pub fn count_openings(source: &RustSource) -> (usize, usize) {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut counts = (0, 0);
    for (_, comment) in comments(&lines).filter(|(_, comment)| comment.is_first) {
        counts.0 += 1;
        counts.1 += usize::from(OPENINGS.contains(&first_word(comment.text)));
    }
    counts
}

/// A line of a comment that stands alone on its line.
struct CommentLine<'s> {
    /// `//`, `///` or `//!`.
    mark: &'s str,
    text: &'s str,
    /// The line before is none with the same mark.
    is_first: bool,
}

fn comment_line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let mark = ["///", "//!", "//"]
        .into_iter()
        .find(|mark| line.starts_with(mark))?;
    let text = line.strip_prefix(mark)?;
    Some((mark, text.strip_prefix(' ').unwrap_or(text)))
}

/// Returns all lines of comments with their indexes.
fn comments<'s>(lines: &'s [&'s str]) -> impl Iterator<Item = (usize, CommentLine<'s>)> {
    let mut before = None;
    lines.iter().enumerate().filter_map(move |(index, line)| {
        let found = comment_line(line);
        let (mark, text) = match found {
            Some(found) => found,
            None => {
                before = None;
                return None;
            }
        };
        // Another mark begins a block of its own, as a doc after a comment does.
        let is_first = before.replace(mark) != Some(mark);
        Some((
            index,
            CommentLine {
                mark,
                text,
                is_first,
            },
        ))
    })
}

/// Returns the first word of a text, without marks and quotes.
fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches(|letter: char| !letter.is_alphanumeric() && letter != '`');
    let end = text.find(|letter: char| !letter.is_alphanumeric());
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

/// Item that a doc comment stands before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DocumentedItem {
    Function,
    Other,
    /// A test, whose doc is a sentence.
    TestFunction,
}

/// Finds the item below the doc comment whose first line is at `index`.
fn documented_item(lines: &[&str], index: usize) -> DocumentedItem {
    let mut is_test = false;
    for line in lines.iter().skip(index) {
        let line = line.trim_start();
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]");
        } else if !line.is_empty() && comment_line(line).is_none() && line != ")]" {
            let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let is_function = words
                .take_while(|word| !["struct", "enum", "trait", "type"].contains(word))
                // More words than can stand before the `fn` of a function.
                .take(9)
                .any(|word| word == "fn");
            // A type `fn(…)` names no function.
            let is_function = is_function && line.contains("fn ");
            return match (is_function, is_test) {
                (true, true) => DocumentedItem::TestFunction,
                (true, false) => DocumentedItem::Function,
                _ => DocumentedItem::Other,
            };
        }
    }
    DocumentedItem::Other
}

fn opening(lines: &[&str], index: usize, comment: &CommentLine<'_>) -> Option<String> {
    if !comment.is_first {
        return None;
    }
    let word = first_word(comment.text);
    if OPENINGS.contains(&word) {
        return Some(format!(
            "a comment opens with {word:?}: open with its subject or verb"
        ));
    }
    if comment.mark != "///" {
        return None;
    }
    match documented_item(lines, index) {
        DocumentedItem::Function if NO_VERBS.contains(&word) => {
            let reason = "the doc of a function opens with a verb in the third person";
            Some(format!("{word:?}: {reason}"))
        }
        DocumentedItem::Other if NO_NOUNS.contains(&word) => Some(format!(
            "{word:?}: the doc of a type or field opens with a noun"
        )),
        _ => None,
    }
}

/// Finds [`PHRASES`] between borders of words.
fn phrases(text: &str) -> impl Iterator<Item = String> {
    PHRASES.iter().flat_map(move |(phrase, term)| {
        let places = text.match_indices(phrase);
        let whole = places.filter(|(start, _)| {
            let before = text.get(..*start).unwrap_or_default();
            let after = text.get(start + phrase.len()..).unwrap_or_default();
            let is_border = |letter: Option<char>| {
                !letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
            };
            is_border(before.chars().next_back()) && is_border(after.chars().next())
        });
        whole.map(move |_| format!("{phrase:?}: write {term}"))
    })
}

/// Reports each string literal with its line.
fn visit_strings(tokens: TokenStream, report: &mut impl FnMut(&str, usize)) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => visit_strings(group.stream(), report),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.starts_with('"') {
                    report(&text, literal.span().start().line);
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
    fn openings_are_found() {
        for opening in OPENINGS {
            let text = format!("fn f() {{\n    // {opening} it is.\n}}");
            assert_eq!(found(&text).len(), 1, "{opening}");
            assert_eq!(count_openings(&RustSource::of(&text)), (1, 1));
        }
        let later = "// It is known\n// What it is.\nfn f() {}";
        assert_eq!(found(later), [""; 0]);
        assert_eq!(count_openings(&RustSource::of(later)), (1, 0));
    }

    #[test]
    fn docs_of_functions_open_with_a_verb() {
        for opening in ["The bytes.", "True if so.", "A tree.", "If it is so."] {
            assert_eq!(
                found(&format!("/// {opening}\n#[inline]\nfn f() {{}}")).len(),
                1
            );
            assert_eq!(
                found(&format!("/// {opening}\n#[test]\nfn f() {{}}")).len(),
                0
            );
        }
        assert_eq!(
            found("/// Returns the bytes.\npub const fn f() {}"),
            [""; 0]
        );
    }

    #[test]
    fn docs_of_types_open_with_a_noun() {
        assert_eq!(found("/// Says it.\nstruct S { f: fn() }").len(), 1);
        assert_eq!(
            found("enum E {\n    /// The bytes.\n    Of(fn(u8)),\n}"),
            [""; 0]
        );
        assert_eq!(
            found("struct S {\n    /// Is set.\n    f: bool,\n}").len(),
            1
        );
        assert_eq!(
            found("/// The state.\nstruct S {\n    /// Bytes.\n    f: u8,\n}"),
            [""; 0]
        );
    }

    #[test]
    fn phrases_are_found_in_comments_and_strings() {
        for (phrase, _) in PHRASES {
            assert_eq!(
                found(&format!("// It {phrase} now.\nfn f() {{}}")).len(),
                1,
                "{phrase}"
            );
            assert_eq!(
                found(&format!("const C: &str = \"it {phrase} now\";")).len(),
                1
            );
        }
        assert_eq!(
            found("// The whole renewal, as therein.\nfn f() {}"),
            [""; 0]
        );
    }
}
