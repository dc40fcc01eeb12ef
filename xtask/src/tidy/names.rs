//! Names without meaning: a file or type must be named after its content.

use crate::finding::TidyFinding;
use crate::source::RustSource;
use syn::visit::{self, Visit};

const BANNED: [&str; 5] = ["manager", "helper", "util", "common", "handler"];

pub fn check(source: &RustSource) -> Vec<TidyFinding> {
    let mut names = BannedNameCheck {
        source,
        findings: Vec::new(),
    };
    let file = source.path.file_stem().unwrap_or_default();
    names.check(&file.to_string_lossy(), 1);
    names.visit_file(&source.syntax);
    names.findings
}

struct BannedNameCheck<'a> {
    source: &'a RustSource,
    findings: Vec<TidyFinding>,
}

impl BannedNameCheck<'_> {
    fn check(&mut self, name: &str, line: usize) {
        if let Some(word) = words(name).find(|word| is_banned(word)) {
            let reason = format!("{name}: {word:?} does not name its task");
            let finding = TidyFinding::new(&self.source.path, line, reason);
            self.findings.push(finding);
        }
    }

    fn check_identifier(&mut self, name: &syn::Ident) {
        self.check(&name.to_string(), name.span().start().line);
    }
}

macro_rules! visit_named {
    ($($visit:ident: $item:ident),* $(,)?) => {
        impl<'ast> Visit<'ast> for BannedNameCheck<'_> {$(
            fn $visit(&mut self, item: &'ast syn::$item) {
                self.check_identifier(&item.ident);
                visit::$visit(self, item);
            }
        )*}
    };
}

visit_named! {
    visit_item_enum: ItemEnum,
    visit_item_mod: ItemMod,
    visit_item_struct: ItemStruct,
    visit_item_trait: ItemTrait,
    visit_item_type: ItemType,
    visit_item_union: ItemUnion,
}

/// Returns the words of a name in snake or camel case, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter == '-' || letter.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            // Digits are left out, so that a number does not hide a word.
            word.extend(
                letter
                    .to_lowercase()
                    .filter(|letter| letter.is_alphabetic()),
            );
        }
    }
    words.into_iter()
}

fn is_banned(word: &str) -> bool {
    BANNED.contains(&word.strip_suffix('s').unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn found(text: &str) -> usize {
        check(&RustSource::of(text)).len()
    }

    #[test]
    fn empty_names_of_types_are_found() {
        assert_eq!(found("struct LockManager;"), 1);
        assert_eq!(found("enum HandlerKind {}"), 1);
        assert_eq!(found("trait Helpers {}"), 1);
        assert_eq!(found("type Util = u8;"), 1);
        assert_eq!(found("fn f() { struct Common; }"), 1);
        assert_eq!(found("mod utils { struct Manager; }"), 2);
    }

    #[test]
    fn empty_names_of_files_are_found() {
        let path = Path::new("src/string_utils.rs");
        let source = RustSource::parse(path, String::new()).unwrap();
        assert_eq!(
            check(&source)[0].to_string(),
            "src/string_utils.rs:1: string_utils: \"utils\" does not name its task"
        );
    }

    #[test]
    fn words_within_words_are_not() {
        assert_eq!(found("struct Utilization; fn f() {}"), 0);
        assert_eq!(found("struct Uncommon; struct Manage;"), 0);
    }
}
