//! Names of types that say what they are wherever they are read.
//!
//! A bare participle (`Told`) needs its noun, and a name of one word that many places share
//! (`Entry`) needs another word.

use crate::finding::TidyFinding;
use crate::source::RustSource;
use std::collections::BTreeMap;
use syn::visit::{self, Visit};

/// Number of types in the workspace that may share a name of one word.
const SHARED_MAX: usize = 3;

/// Participles that do not end in "ed" or "ing".
const PARTICIPLES: [&str; 52] = [
    "Begun",
    "Bound",
    "Bought",
    "Broken",
    "Brought",
    "Built",
    "Caught",
    "Chosen",
    "Come",
    "Cut",
    "Done",
    "Drawn",
    "Driven",
    "Fallen",
    "Felt",
    "Found",
    "Given",
    "Gone",
    "Grown",
    "Heard",
    "Held",
    "Hidden",
    "Kept",
    "Known",
    "Laid",
    "Led",
    "Left",
    "Lent",
    "Lost",
    "Made",
    "Meant",
    "Met",
    "Paid",
    "Put",
    "Risen",
    "Said",
    "Seen",
    "Sent",
    "Shown",
    "Shut",
    "Sought",
    "Spent",
    "Split",
    "Stood",
    "Taken",
    "Thought",
    "Thrown",
    "Told",
    "Torn",
    "Understood",
    "Won",
    "Written",
];

/// Nouns that end like participles.
const NOUNS: [&str; 14] = [
    "Bed", "Ceiling", "Embed", "Feed", "King", "Need", "Ping", "Ring", "Seed", "Speed", "Spring",
    "String", "Thing", "Timing",
];

/// A type that a file defines.
pub struct TypeName<'s> {
    name: String,
    source: &'s RustSource,
    line: usize,
}

/// Returns all structures, enumerations and traits of the workspace.
pub fn defined(sources: &[RustSource]) -> Vec<TypeName<'_>> {
    let mut names = Vec::new();
    for source in sources {
        let mut visitor = TypeVisitor {
            source,
            names: Vec::new(),
        };
        visitor.visit_file(&source.syntax);
        names.append(&mut visitor.names);
    }
    names
}

/// Returns the number of types with a name of one word, and of those that share their name with at
/// least two others.
pub fn count_shared(names: &[TypeName<'_>]) -> (usize, usize) {
    let one_word = names.iter().filter(|name| is_one_word(&name.name)).count();
    let shared = counts(names)
        .into_values()
        .filter(|&count| count >= 3)
        .sum();
    (one_word, shared)
}

/// Returns the number of types of each name.
fn counts<'n>(names: &'n [TypeName<'_>]) -> BTreeMap<&'n str, usize> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for name in names {
        *counts.entry(&name.name).or_default() += 1;
    }
    counts
}

pub fn check(sources: &[RustSource]) -> Vec<TidyFinding> {
    let names = defined(sources);
    let counts = counts(&names);
    let mut findings = Vec::new();
    for TypeName { name, source, line } in &names {
        let count = counts.get(name.as_str()).copied().unwrap_or_default();
        // A name of several words says enough, even if two modules use it.
        let reason = if is_bare_participle(name) {
            format!("{name}: a participle without its noun")
        } else if is_one_word(name) && count > SHARED_MAX {
            format!("{name}: {count} types have this name of one word")
        } else {
            continue;
        };
        findings.push(TidyFinding::new(&source.path, *line, reason));
    }
    findings
}

/// Returns true if a name has one capital only.
fn is_one_word(name: &str) -> bool {
    let capitals = name.chars().filter(|letter| letter.is_uppercase()).count();
    capitals <= 1
}

fn is_bare_participle(name: &str) -> bool {
    // By the ending alone, `Ring` and `Seed` would be participles, too.
    is_one_word(name)
        && !NOUNS.contains(&name)
        && (name.ends_with("ed") || name.ends_with("ing") || PARTICIPLES.contains(&name))
}

struct TypeVisitor<'s> {
    source: &'s RustSource,
    names: Vec<TypeName<'s>>,
}

impl TypeVisitor<'_> {
    fn add(&mut self, name: &syn::Ident) {
        self.names.push(TypeName {
            name: name.to_string(),
            source: self.source,
            line: name.span().start().line,
        });
    }
}

macro_rules! visit_types {
    ($($visit:ident: $item:ident),* $(,)?) => {
        impl<'ast> Visit<'ast> for TypeVisitor<'_> {$(
            fn $visit(&mut self, item: &'ast syn::$item) {
                self.add(&item.ident);
                visit::$visit(self, item);
            }
        )*}
    };
}

visit_types! {
    visit_item_enum: ItemEnum,
    visit_item_struct: ItemStruct,
    visit_item_trait: ItemTrait,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str]) -> Vec<String> {
        let sources: Vec<RustSource> = texts.iter().map(|text| RustSource::of(text)).collect();
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bare_participles_are_found() {
        let told = "src/snippet.rs:1: Told: a participle without its noun";
        assert_eq!(found(&["struct Told;"]), [told]);
        assert_eq!(found(&["enum Moved {}", "trait Waiting {}"]).len(), 2);
        assert_eq!(
            found(&["struct MovedValue;", "struct Seed;", "struct Ring;"]),
            [""; 0]
        );
    }

    #[test]
    fn shared_names_of_one_word_are_found() {
        let entry = "struct Entry;";
        assert_eq!(found(&[entry; 3]), [""; 0]);
        assert_eq!(found(&[entry; 4]).len(), 4);
        assert_eq!(found(&["struct LogEntry;"; 4]), [""; 0]);
    }
}
