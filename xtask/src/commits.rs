//! Subjects of commits: an imperative verb first, and short enough for every list.

use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

/// Longest subject, in characters.
const SUBJECT_CHARS_MAX: usize = 72;

/// Endings of verbs that are not in the imperative.
const ENDINGS: [&str; 2] = ["ed", "ing"];

/// Imperatives that end like other forms.
const IMPERATIVES: [&str; 20] = [
    "Address", "Assess", "Bring", "Bypass", "Compress", "Cross", "Discuss", "Embed", "Express",
    "Feed", "Focus", "Guess", "Miss", "Need", "Pass", "Press", "Process", "Seed", "Speed",
    "Suppress",
];

/// Returns what is wrong with the subjects of all commits since `base`, one line for each.
///
/// # Errors
/// `git` cannot be run, or does not know `base`.
pub fn check(root: &Path, base: &str) -> anyhow::Result<Vec<String>> {
    let range = format!("{base}..HEAD");
    let output = Command::new("git")
        // Tools write the subjects of merges.
        .args(["log", "--no-merges", "--format=%h %s", &range, "--"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let wrong = text.lines().filter_map(|line| {
        let (hash, subject) = line.split_once(' ')?;
        let reason = reason(subject)?;
        Some(format!("{hash} {subject}\n    {reason}"))
    });
    Ok(wrong.collect())
}

/// Returns the reason for which a subject is wrong, if it is.
fn reason(subject: &str) -> Option<String> {
    debug_assert!(!subject.contains('\n'), "a subject is one line");
    let length = subject.chars().count();
    if length > SUBJECT_CHARS_MAX {
        return Some(format!(
            "{length} characters, the limit is {SUBJECT_CHARS_MAX}"
        ));
    }
    if subject.ends_with('.') {
        return Some("a subject ends without a period".to_owned());
    }
    let first = subject.split(' ').next().unwrap_or_default();
    // A scope such as `server:` would take the place of the verb.
    if !first.starts_with(|letter: char| letter.is_uppercase()) || first.ends_with(':') {
        return Some(format!(
            "{first:?}: begin with a verb in the imperative, with a capital"
        ));
    }
    // Imperatives such as "Pass" end in "ss".
    let is_other_form = ENDINGS.iter().any(|ending| first.ends_with(ending))
        || first.ends_with('s') && !first.ends_with("ss");
    if is_other_form && !IMPERATIVES.contains(&first) {
        return Some(format!("{first:?} is not a verb in the imperative"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_in_other_forms_are_found() {
        for subject in [
            "Clamped expiry times when loading RDB",
            "Clamps expiry times when loading RDB",
            "Clamping expiry times when loading RDB",
            "clamp expiry times when loading RDB",
            "rdb: clamp expiry times",
            "Clamp expiry times.",
        ] {
            assert!(reason(subject).is_some(), "{subject}");
        }
        assert!(reason(&format!("Clamp {}", "x".repeat(67))).is_some());
    }

    #[test]
    fn imperatives_are_not() {
        for subject in [
            "Clamp out-of-range expiry times when loading RDB",
            "Pass the limit to the parser",
            "Feed the parser byte by byte",
        ] {
            assert_eq!(reason(subject), None, "{subject}");
        }
        assert_eq!(reason(&format!("Clamp {}", "x".repeat(66))), None);
    }
}
