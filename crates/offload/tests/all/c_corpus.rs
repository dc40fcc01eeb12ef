//! Natural C: the verifier accepts the code that clang makes of it, at all levels of optimization
//! and for all versions of the instruction set. A seed has a third of their pairs.
//!
//! `tests/c` has a file for each traversal. A file whose name begins with `refused_` must be
//! refused, for the reason that is given here.

use crate::c_programs::is_missing_clang_allowed;
use crate::programs::{instrumented, native};
use nearfield_offload::compile::{HEADER, ObjectError, from_object};
use nearfield_offload::executor::TraversalWorkspace;
use nearfield_offload::isa::assemble;
use nearfield_offload::program::{
    Declaration, InstructionRefusal, NodeLoad, TraversalProgram, VerifyError,
};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

const LEVELS: [&str; 3] = ["-O1", "-O2", "-O3"];
const VERSIONS: [&str; 4] = ["v1", "v2", "v3", "v4"];

/// Compiled sources, by name.
type CompiledCorpus = BTreeMap<String, Result<TraversalProgram, ObjectError>>;

fn sources() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let files = folder.read_dir().unwrap();
    let mut sources: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    sources.sort();
    sources
}

/// Compiles all sources by one call of clang. Returns `None`, with a note, if there is no clang or
/// if it does not know the version.
fn compile(level: &str, version: &str) -> Option<CompiledCorpus> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nearfield_offload.h"), HEADER).unwrap();
    let clang = std::env::var("NEARFIELD_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    command
        .args(["-target", "bpf", level, "-c", "-I", "."])
        .arg(format!("-mcpu={version}"))
        .args(sources())
        .current_dir(folder.path());
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound && is_missing_clang_allowed() => {
            eprintln!("skipped: {clang} is not installed");
            return None;
        }
        output => output.unwrap(),
    };
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("unknown target CPU") {
        eprintln!("skipped: {clang} does not know {version}");
        return None;
    }
    assert!(output.status.success(), "{level} {version}: {message}");
    let object = |source: PathBuf| {
        let name = source.file_stem().unwrap().to_str().unwrap().to_owned();
        let path = folder.path().join(&name).with_extension("o");
        (name, from_object(&std::fs::read(path).unwrap()))
    };
    Some(sources().into_iter().map(object).collect())
}

/// Compiles the corpus for the pairs of a seed, as far as clang knows their versions. Each seed has
/// all levels and all versions, and three in a row have all pairs.
fn compile_pairs(seed: u64) -> Vec<(String, CompiledCorpus)> {
    let cases = (0..LEVELS.len()).flat_map(|level| (0..VERSIONS.len()).map(move |at| (level, at)));
    let cases = cases.filter(|(level, version)| (level + version) as u64 % 3 == seed % 3);
    thread::scope(|scope| {
        let threads: Vec<_> = cases
            .map(|(level, version)| (LEVELS[level], VERSIONS[version]))
            .map(|(level, version)| {
                let compiled = scope.spawn(move || compile(level, version));
                (format!("{level} {version}"), compiled)
            })
            .collect();
        let compiled = threads.into_iter().map(|(case, thread)| {
            let corpus = thread.join().unwrap();
            corpus.map(|corpus| (case, corpus))
        });
        compiled.flatten().collect()
    })
}

/// Returns a window full of small numbers. Sources with signed sums are undefined for others.
fn small_words(random: &mut impl Rng, bytes: usize) -> Vec<u8> {
    let word = |_| random.random_range(0..20u64).to_le_bytes();
    let mut words: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(word).collect();
    words.truncate(bytes);
    words
}

/// Number of the windows of a seed.
const WINDOWS: u64 = 8;
/// The bytes before and behind the place of the current address.
const AROUND: usize = 256;

fn workspace(program: &TraversalProgram, around: &[u8], scratchpad: &[u8]) -> TraversalWorkspace {
    let mut workspace = TraversalWorkspace::new(0x5000, scratchpad.to_vec());
    let NodeLoad { start, .. } = program.node_load();
    let first = AROUND.checked_add_signed(start.into()).unwrap();
    let node = workspace.node_mut(program.node_load());
    let bytes = node.len();
    node.copy_from_slice(&around[first..first + bytes]);
    workspace.begin(program.declaration());
    workspace
}

/// Runs all programs of a source in the windows of a seed. All must have the same results, stay in
/// their windows, and read nothing that was not written.
fn agree(name: &str, programs: &[(&str, &TraversalProgram)], seed: u64) {
    for window in 0..WINDOWS {
        let mut random = SmallRng::seed_from_u64(seed.wrapping_mul(WINDOWS).wrapping_add(window));
        let around = small_words(&mut random, 3 * AROUND);
        let scratchpad = small_words(&mut random, programs[0].1.scratchpad_bytes());
        let mut expected = None;
        for &(case, program) in programs {
            let load = program.node_load();
            let workspace = workspace(program, &around, &scratchpad);
            let (next, after) = instrumented(program.code(), load, &workspace)
                .unwrap_or_else(|reason| panic!("{name} {case}: {reason}"));
            // Native code of all of them would take long to make.
            if window == 0 && case == "-O2 v3" {
                let translated = native(program.clone(), &workspace);
                assert_eq!(translated, (next, after.clone()), "{name} {case}");
            }
            let result = (next, after.scratchpad);
            let expected = expected.get_or_insert_with(|| result.clone());
            assert_eq!(result, *expected, "{name} {case}, window {window}");
        }
    }
}

#[test]
fn what_clang_makes_of_natural_c_is_accepted() {
    seeds::each(1, check_corpora);
}

/// Checks the programs of the pairs of a seed.
fn check_corpora(seed: u64) {
    let corpora = compile_pairs(seed);
    let (mut accepted, mut refused) = (0, 0);
    let mut programs: BTreeMap<&str, Vec<(&str, &TraversalProgram)>> = BTreeMap::new();
    for (case, corpus) in &corpora {
        for (name, compiled) in corpus {
            match compiled {
                Ok(program) => {
                    assert!(!name.starts_with("refused_"), "{name} {case} is accepted");
                    accepted += 1;
                    let of_name = programs.entry(name.as_str()).or_default();
                    of_name.push((case.as_str(), program));
                }
                Err(error) => {
                    assert!(is_expected(name, error), "{name} {case}: {error}");
                    refused += 1;
                }
            }
        }
    }
    for (name, programs) in &programs {
        agree(name, programs, seed);
    }
    eprintln!("{accepted} accepted, {refused} refused");
    // At least 60 traversals are accepted, and two at most are not.
    assert!(corpora.is_empty() || programs.len() >= 60, "{accepted}");
    assert!(refused <= 2 * corpora.len(), "{refused}");
}

/// Returns true if a source is refused for the right reason, and the message says so.
fn is_expected(name: &str, error: &ObjectError) -> bool {
    let message = error.to_string();
    match error {
        ObjectError::Verify(VerifyError::Instruction {
            refusal: InstructionRefusal::Loop,
            ..
        }) => {
            name == "refused_loop"
                && message.ends_with(
                    "the jump closes a loop: programs have none, so unroll it (in C by `#pragma \
                     unroll` and a constant count)",
                )
        }
        ObjectError::Relocation { .. } => {
            name == "refused_table" && message.ends_with("which no program can reach")
        }
        _ => false,
    }
}

/// A canary: a program that reads one byte more than its window has is found.
#[test]
fn a_window_that_is_too_short_is_found() {
    let code = assemble("ldxdw r0, [r1+8]\n exit").unwrap();
    let program = TraversalProgram::verify(code, Declaration::scratchpad(8)).unwrap();
    let load = program.node_load();
    let shorter = NodeLoad {
        bytes: load.bytes - 1,
        ..load
    };
    let workspace = workspace(&program, &[0; 3 * AROUND], &[0; 8]);
    assert!(instrumented(program.code(), load, &workspace).is_ok());
    assert!(instrumented(program.code(), shorter, &workspace).is_err());
}
