//! Commands for work on this repository. `tidy` checks rules of the source tree that no compiler
//! checks, and `commits` the subjects of commits. `soak` searches for faults with random tests for
//! a given time, or with a given number of seeds.

#![forbid(unsafe_code)]

mod commits;
mod finding;
mod soak;
mod source;
mod tidy;
mod watchdog;

use std::env;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND\n  \
    tidy [--only columns|cycles|layout|names|words [FOLDER]]\n  \
    commits BASE\n  \
    soak [--minutes N] [SUITE]\n  \
    soak --seeds N SUITE";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let findings = match words.as_slice() {
        ["soak", arguments @ ..] => return soak::soak(arguments),
        ["commits", base] => {
            let wrong = commits::check(root(), base)?;
            wrong.iter().for_each(|line| println!("{line}"));
            println!("commits: {} subjects are wrong", wrong.len());
            return Ok(if wrong.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        ["tidy"] => {
            println!("{}", tidy::shares(root())?);
            tidy::tidy(root())?
        }
        ["tidy", "--only", check, folder @ ..]
            if tidy::RATCHETS.contains(check) && folder.len() <= 1 =>
        {
            let folder = folder.first().copied().unwrap_or_default();
            tidy::only(root(), check, Path::new(folder))?
        }
        _ => {
            // Not the code of a failed check, so that a script can tell the two apart.
            eprintln!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the root of the repository.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}
