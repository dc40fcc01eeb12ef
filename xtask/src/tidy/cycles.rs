//! The modules at the top of a crate import each other in one direction only.
//!
//! A module may use those below it. A cycle joins all of its modules: none can be read, tested or
//! changed without the others. Test code is not checked.

use crate::finding::TidyFinding;
use crate::source::RustSource;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Component, Path, PathBuf};
use syn::UseTree;

/// Searches a crate for cycles, and returns the shortest one of each group of modules that depend
/// on each other. `sources` are those of the crate, with modules in `folder`.
pub fn check(folder: &Path, sources: &[&RustSource]) -> Vec<TidyFinding> {
    let imports = Imports::of(folder, sources);
    imports
        .groups()
        .iter()
        .filter_map(|group| imports.shortest_cycle(group))
        .map(|cycle| imports.describe(&cycle))
        .collect()
}

/// The imports between modules, with the place of the first one of each pair.
struct Imports {
    edges: BTreeMap<String, BTreeMap<String, ImportLocation>>,
}

#[derive(Clone)]
struct ImportLocation {
    path: PathBuf,
    line: usize,
}

impl Imports {
    fn of(folder: &Path, sources: &[&RustSource]) -> Self {
        let files: Vec<(Vec<String>, &RustSource)> = sources
            .iter()
            .filter_map(|&source| Some((module_path(folder, &source.path)?, source)))
            .collect();
        let modules: BTreeSet<&str> = files
            .iter()
            .filter_map(|(module, _)| module.first().map(String::as_str))
            .collect();
        let mut names: BTreeMap<String, String> = modules
            .iter()
            .map(|&module| (module.to_owned(), module.to_owned()))
            .collect();
        let roots = files.iter().filter(|(module, _)| module.is_empty());
        for (_, source) in roots {
            add_reexports(source, &modules, &mut names);
        }

        // All files are scanned before edges are drawn, because a file does not say itself if it is
        // for tests: the module that declares it does.
        let mut scans = Vec::new();
        let mut for_tests = BTreeSet::new();
        for (module, source) in &files {
            let mut scan = CratePathScan::new(module.clone());
            scan.tokens(source.tokens.clone());
            for_tests.append(&mut scan.for_tests);
            scans.push((module, *source, scan.found));
        }
        let mut edges: BTreeMap<String, BTreeMap<String, ImportLocation>> = BTreeMap::new();
        for (module, source, found) in scans {
            // A module within one for tests is for tests, too.
            let is_test = (1..=module.len()).any(|depth| for_tests.contains(&module[..depth]));
            let Some(top) = module.first().filter(|_| !is_test) else {
                continue;
            };
            for (name, line) in found {
                let Some(target) = names.get(&name).filter(|target| *target != top) else {
                    continue;
                };
                let place = ImportLocation {
                    path: source.path.clone(),
                    line,
                };
                // The first import of a pair is enough to show it.
                let of_top = edges.entry(top.clone()).or_default();
                of_top.entry(target.clone()).or_insert(place);
            }
        }
        Imports { edges }
    }

    fn next(&self, module: &str) -> impl Iterator<Item = &String> {
        self.edges.get(module).into_iter().flat_map(BTreeMap::keys)
    }

    /// Returns the modules that can be reached from `module` by at least one import.
    fn reached(&self, module: &str) -> BTreeSet<&String> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = self.next(module).collect();
        while let Some(module) = open.pop() {
            if reached.insert(module) {
                open.extend(self.next(module));
            }
        }
        reached
    }

    /// Returns the groups of modules that reach each other.
    fn groups(&self) -> Vec<Vec<&String>> {
        let reached: BTreeMap<&String, BTreeSet<&String>> = self
            .edges
            .keys()
            .map(|module| (module, self.reached(module)))
            .collect();
        let mut groups: Vec<Vec<&String>> = Vec::new();
        for (&module, reaches) in &reached {
            let group: Vec<&String> = reaches
                .iter()
                .copied()
                .filter(|other| reached.get(*other).is_some_and(|it| it.contains(module)))
                .collect();
            // Each module of a group finds the same one.
            if !group.is_empty() && !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    fn shortest_cycle(&self, group: &[&String]) -> Option<Vec<String>> {
        let cycles = group.iter().filter_map(|module| self.cycle_from(module));
        cycles.min_by_key(Vec::len)
    }

    /// Returns the shortest path from `start` back to itself, without the second `start` at its
    /// end.
    fn cycle_from(&self, start: &str) -> Option<Vec<String>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        // Breadth first, so that the first way back is the shortest.
        let mut open = VecDeque::from([start]);
        while let Some(module) = open.pop_front() {
            for next in self.next(module) {
                if next == start {
                    let mut cycle = vec![module.to_owned()];
                    let mut at = module;
                    while let Some(&previous) = before.get(at) {
                        cycle.push(previous.to_owned());
                        at = previous;
                    }
                    cycle.reverse();
                    debug_assert_eq!(cycle.first().map(String::as_str), Some(start));
                    return Some(cycle);
                }
                if !before.contains_key(next.as_str()) {
                    before.insert(next, module);
                    open.push_back(next);
                }
            }
        }
        None
    }

    fn describe(&self, cycle: &[String]) -> TidyFinding {
        debug_assert!(
            cycle.len() > 1,
            "an import of the module itself is no arrow"
        );
        let nexts = cycle.iter().skip(1).chain(cycle.first());
        let steps: Vec<(&String, &ImportLocation)> = cycle
            .iter()
            .zip(nexts)
            .map(|(from, to)| (to, &self.edges[from][to]))
            .collect();
        let members = self.groups();
        let size = members
            .iter()
            .find(|group| group.contains(&&cycle[0]))
            .map_or(cycle.len(), Vec::len);
        let mut reason = format!("{size} modules import each other; the shortest cycle: ");
        reason += &cycle[0];
        for (to, place) in &steps {
            reason += &format!(" -> {to} ({}:{})", place.path.display(), place.line);
        }
        TidyFinding::new(&steps[0].1.path, steps[0].1.line, reason)
    }
}

/// Returns the module of a file, as names from the root of the crate: an empty list for the root
/// itself.
fn module_path(folder: &Path, path: &Path) -> Option<Vec<String>> {
    let inner = path.strip_prefix(folder).ok()?.with_extension("");
    let mut names: Vec<String> = inner
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    let is_root = matches!(names.as_slice(), [name] if name == "lib" || name == "main");
    if is_root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    // Programs next to the library are separate crates.
    (names.first().map(String::as_str) != Some("bin")).then_some(names)
}

/// Adds the names under which the root of the crate re-exports items of its modules.
fn add_reexports(
    root: &RustSource,
    modules: &BTreeSet<&str>,
    names: &mut BTreeMap<String, String>,
) {
    for item in &root.syntax.items {
        let syn::Item::Use(item) = item else { continue };
        add_names_of_root(&item.tree, modules, names);
    }
}

/// Skips `crate::` and `self::`, and takes each path into a module.
fn add_names_of_root(
    tree: &UseTree,
    modules: &BTreeSet<&str>,
    names: &mut BTreeMap<String, String>,
) {
    match tree {
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            if modules.contains(first.as_str()) {
                add_names(&path.tree, &first, names);
            } else if first == "crate" || first == "self" {
                add_names_of_root(&path.tree, modules, names);
            }
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                add_names_of_root(tree, modules, names);
            }
        }
        _ => {}
    }
}

fn add_names(tree: &UseTree, module: &str, names: &mut BTreeMap<String, String>) {
    let name = match tree {
        UseTree::Path(path) => return add_names(&path.tree, module, names),
        UseTree::Group(group) => {
            for tree in &group.items {
                add_names(tree, module, names);
            }
            return;
        }
        UseTree::Name(name) => &name.ident,
        UseTree::Rename(rename) => &rename.rename,
        UseTree::Glob(_) => return,
    };
    // A module keeps its name, even if an item of another module has the same name.
    let module = module.to_owned();
    names.entry(name.to_string()).or_insert(module);
}

/// A scan of the paths of one file that begin at the root of the crate.
struct CratePathScan {
    /// The current module; within `mod name { .. }` it is longer than that of the file.
    module: Vec<String>,
    /// Names that follow `crate::`, or the `super::` that lead to the root, and their lines.
    found: Vec<(String, usize)>,
    /// Modules that are declared for tests only, in files of their own.
    for_tests: BTreeSet<Vec<String>>,
}

impl CratePathScan {
    fn new(module: Vec<String>) -> Self {
        CratePathScan {
            module,
            found: Vec::new(),
            for_tests: BTreeSet::new(),
        }
    }

    fn tokens(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_test_attribute(&tokens, at) {
                at = self.skip_item(&tokens, at + 2);
                continue;
            }
            match &tokens[at] {
                TokenTree::Ident(ident) if ident == "crate" => self.path(&tokens, at, 0),
                TokenTree::Ident(ident) if ident == "super" => {
                    // Those after the first belong to its path.
                    let is_first = at == 0 || !is_punct(&tokens[at - 1], ':');
                    let supers = (at..tokens.len())
                        .step_by(3)
                        .take_while(|&at| is_ident(&tokens[at], "super"))
                        .count();
                    if is_first && supers <= self.module.len() {
                        self.path(&tokens, at + 3 * (supers - 1), self.module.len() - supers);
                    }
                }
                TokenTree::Group(group) => {
                    let name = at.checked_sub(2).filter(|&at| is_ident(&tokens[at], "mod"));
                    if name.is_some() && group.delimiter() == Delimiter::Brace {
                        self.module.push(tokens[at - 1].to_string());
                        self.tokens(group.stream());
                        self.module.pop();
                    } else {
                        self.tokens(group.stream());
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Records the name after the word at `at`, which leads to a module `depth` levels below the
    /// root.
    fn path(&mut self, tokens: &[TokenTree], at: usize, depth: usize) {
        let is_path = tokens.len() > at + 3
            && is_punct(&tokens[at + 1], ':')
            && is_punct(&tokens[at + 2], ':');
        if is_path && depth == 0 {
            self.names(&tokens[at + 3]);
        }
    }

    /// Records a name, or the first name of each path in a group of imports.
    fn names(&mut self, token: &TokenTree) {
        match token {
            TokenTree::Ident(ident) => {
                let line = ident.span().start().line;
                self.found.push((ident.to_string(), line));
            }
            TokenTree::Group(group) => {
                let mut is_first = true;
                for token in group.stream() {
                    if is_first {
                        self.names(&token);
                    }
                    is_first = is_punct(&token, ',');
                }
            }
            _ => {}
        }
    }

    /// Returns the position after the item that begins at `at`, possibly with attributes.
    fn skip_item(&mut self, tokens: &[TokenTree], mut at: usize) -> usize {
        while at + 1 < tokens.len() && is_punct(&tokens[at], '#') {
            at += 2;
        }
        let words = tokens[at..].iter().take_while(|token| match token {
            TokenTree::Ident(_) => true,
            TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
            _ => false,
        });
        let words: Vec<String> = words.map(ToString::to_string).collect();
        let has = |word: &str| words.iter().any(|it| it == word);
        if has("mod") {
            let name = words.last().cloned();
            let path = self.module.iter().cloned().chain(name).collect();
            self.for_tests.insert(path);
        }
        const BLOCKS: [&str; 8] = [
            "fn", "mod", "impl", "struct", "enum", "trait", "union", "unsafe",
        ];
        let ends_with_block = BLOCKS.iter().any(|word| has(word));
        // Other items are fields, variants and arms, which end with a comma.
        let ends_with_semicolon = ends_with_block
            || ["use", "const", "static", "type", "let"]
                .iter()
                .any(|it| has(it));
        for (position, token) in tokens.iter().enumerate().skip(at) {
            let ends = match token {
                TokenTree::Group(group) => ends_with_block && group.delimiter() == Delimiter::Brace,
                TokenTree::Punct(punct) if punct.as_char() == ';' => true,
                TokenTree::Punct(punct) => punct.as_char() == ',' && !ends_with_semicolon,
                _ => false,
            };
            if ends {
                return position + 1;
            }
        }
        tokens.len()
    }
}

/// Returns true for `#[cfg(test)]` and `#[cfg(all(test, ..))]`, and for `#[test]`.
fn is_test_attribute(tokens: &[TokenTree], at: usize) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(group), ..] = &tokens[at..] else {
        return false;
    };
    if hash.as_char() != '#' || group.delimiter() != Delimiter::Bracket {
        return false;
    }
    let text = group.stream().to_string();
    let words: Vec<&str> = text
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .collect();
    match words.as_slice() {
        ["test"] => true,
        ["cfg", conditions @ ..] => {
            let has = |word| conditions.contains(&word);
            has("test") && !has("not") && !has("any")
        }
        _ => false,
    }
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn is_ident(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<RustSource> = files
            .iter()
            .map(|(path, text)| RustSource::parse(Path::new(path), (*text).to_owned()).unwrap())
            .collect();
        let sources: Vec<&RustSource> = sources.iter().collect();
        let findings = check(Path::new("src"), &sources);
        findings.iter().map(ToString::to_string).collect()
    }

    fn between(a: &str, b: &str) -> usize {
        found(&[("src/a.rs", a), ("src/b.rs", b)]).len()
    }

    #[test]
    fn the_shortest_cycle_is_shown_with_its_places() {
        let files = [
            ("src/a.rs", "use crate::b::B;\nuse crate::c::C;"),
            ("src/b.rs", "\nuse crate::c;"),
            ("src/c.rs", "use crate::{d, a::A};"),
            ("src/d.rs", ""),
        ];
        assert_eq!(
            found(&files),
            [
                "src/a.rs:2: 3 modules import each other; the shortest cycle: \
              a -> c (src/a.rs:2) -> a (src/c.rs:1)"
            ]
        );
    }

    #[test]
    fn arrows_down_are_fine() {
        let files = [
            ("src/lib.rs", "mod a; mod b; mod c; use crate::a::A;"),
            ("src/a.rs", "use crate::b; use crate::c; use crate::a::X;"),
            ("src/b.rs", "use crate::c;"),
            ("src/c.rs", "use std::fmt;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn each_way_to_name_a_module_counts() {
        let back = "use crate::a;";
        assert_eq!(between("use crate::b::B;", back), 1);
        assert_eq!(between("fn f() { crate::b::g() }", back), 1);
        assert_eq!(between("use super::b::B;", back), 1);
        assert_eq!(between("use super::{c, b::B};", back), 1);
        assert_eq!(between("mod inner { use super::super::b; }", back), 1);
        assert_eq!(between("mod inner { use super::b; }", back), 0);
        assert_eq!(
            between("macro_rules! m { () => { $crate::b::g() } }", back),
            1
        );
    }

    #[test]
    fn files_below_belong_to_their_top() {
        let files = [
            ("src/a/mod.rs", "mod inner;"),
            ("src/a/inner.rs", "use super::super::b::B;"),
            ("src/b/mod.rs", "mod inner;"),
            ("src/b/inner.rs", "use crate::a;"),
        ];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn names_of_the_root_are_those_of_their_modules() {
        let files = [
            ("src/lib.rs", "mod a; mod b; pub use b::{B as C, inner::D};"),
            ("src/a.rs", "use crate::D;"),
            ("src/b.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn tests_comments_and_strings_do_not_count() {
        let back = "use crate::a;";
        assert_eq!(between("// crate::b\n/// [`crate::b`]\nfn f() {}", back), 0);
        assert_eq!(between("const S: &str = \"crate::b\";", back), 0);
        assert_eq!(between("#[cfg(test)] mod tests { use crate::b; }", back), 0);
        assert_eq!(between("#[cfg(test)] use crate::{b};", back), 0);
        assert_eq!(
            between("#[cfg(test)] fn f<A, B>() { crate::b::g() }", back),
            0
        );
        assert_eq!(
            between("struct S { #[cfg(test)] f: crate::b::B, g: u8 }", back),
            0
        );
        assert_eq!(between("#[cfg(not(test))] use crate::b;", back), 1);
        assert_eq!(between("#[cfg(test)] use x; use crate::b;", back), 1);
        let files = [
            ("src/a/mod.rs", "#[cfg(test)]\nmod tests;"),
            ("src/a/tests.rs", "use crate::b;"),
            ("src/b.rs", back),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
