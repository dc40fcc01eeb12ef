//! Relative links of the documents have existing targets.

use crate::finding::TidyFinding;
use pulldown_cmark::{Event, Parser, Tag};
use std::path::{Component, Path, PathBuf};

/// Checks the links of a document. `exists` returns true for an existing path relative to the root
/// of the repository.
pub fn check(path: &Path, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<TidyFinding> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        let (Event::Start(Tag::Link { dest_url, .. }) | Event::Start(Tag::Image { dest_url, .. })) =
            event
        else {
            continue;
        };
        let Some(target) = relative_target(&dest_url) else {
            // Other sites change without a commit here, and headings are not checked.
            continue;
        };
        if !normalized(&folder.join(target)).is_some_and(|target| exists(&target)) {
            let line = text[..range.start].lines().count().max(1);
            let reason = format!("link to {dest_url}, which does not exist");
            findings.push(TidyFinding::new(path, line, reason));
        }
    }
    findings
}

/// Returns the path of a link within the repository; `None` for a place in the same document and
/// for a link with a scheme, such as `https:` or `mailto:`.
fn relative_target(url: &str) -> Option<&str> {
    let target = url.split('#').next()?;
    let has_scheme = target.split('/').next()?.contains(':');
    (!target.is_empty() && !has_scheme).then_some(target)
}

/// Resolves `.` and `..`. Returns `None` if the path leaves the repository.
fn normalized(path: &Path) -> Option<PathBuf> {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normalized.push(name),
            Component::CurDir => {}
            Component::ParentDir => normalized.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normalized)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<String> {
        let exists = |path: &Path| {
            ["README.md", "docs/testing.md"]
                .map(Path::new)
                .contains(&path)
        };
        let findings = check(Path::new("docs/page.md"), text, exists);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_broken_link_is_found() {
        assert_eq!(
            broken("A page.\n\nSee [this](gone.md#part).\n"),
            ["docs/page.md:3: link to gone.md#part, which does not exist"]
        );
        assert_eq!(broken("![picture](../gone.png)").len(), 1);
        assert_eq!(broken("[outside](../../README.md)").len(), 1);
        assert_eq!(broken("[reference][r]\n\n[r]: gone.md\n").len(), 1);
    }

    #[test]
    fn links_that_lead_somewhere_are_not() {
        let text = "[a](../README.md) [b](testing.md#seed) [c](#here) [d](https://example.org)\n\
                    [e](mailto:a@example.org) `[code](gone.md)`";
        assert_eq!(broken(text), [""; 0]);
    }
}
