//! `nearfield program`: programs in C are checked, and run at a memory node.

#![cfg(target_os = "linux")]

use crate::process::{CliTestProcess, NEARFIELD, file};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_testkit::polling::block_on;
use std::process::{Command, Output};

/// Adds the values of a list.
const SUM: &str = "\
#include \"nearfield_offload.h\"
struct node { u64 next, value; };
struct scratchpad { u64 sum, count; };
NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    pad->sum += node->value;
    pad->count += 1;
    return 0;
}
NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}
NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
";

/// Returns the output of `nearfield program` with arguments, and true if it has succeeded.
fn program(arguments: &[&str]) -> (bool, String) {
    let command = Command::new(NEARFIELD)
        .arg("program")
        .args(arguments)
        .output();
    let Output {
        status,
        stdout,
        stderr,
    } = command.expect("the program");
    let text = String::from_utf8([stdout, stderr].concat()).expect("text");
    (status.success(), text)
}

/// Returns false, and prints the reason, if there is no clang.
fn has_clang() -> bool {
    let found = Command::new("clang").arg("--version").output();
    let is_required = std::env::var_os("NEARFIELD_REQUIRE_CLANG").is_some();
    match found {
        Err(error) if !is_required => {
            eprintln!("skipped: no clang: {error}");
            false
        }
        found => found.expect("clang").status.success(),
    }
}

#[test]
fn a_program_is_checked_and_its_fault_is_shown_in_the_source() {
    if !has_clang() {
        return;
    }
    let folder = TestkitFolder::new();
    let (accepted, text) = program(&["check", &file(&folder.0, "sum.c", SUM)]);
    assert!(accepted, "{text}");
    for line in [
        "sum.c is a program:",
        "scratchpad    16 bytes",
        "16 bytes from byte 0 of each node are read",
        "none outside of the scratchpad",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // Byte 320 of a scratchpad of 16.
    let far = SUM.replace("pad->count += 1;", "(&pad->sum)[40] = address;");
    let far = &file(&folder.0, "far.c", &far);
    let (accepted, text) = program(&["check", far]);
    assert!(!accepted, "{text}");
    let (head, source) = text.split_once('\n').expect("the source");
    assert!(head.contains("far.c:6:"), "{text}");
    assert!(
        head.contains("are not all within the scratchpad, which has 0 to 16"),
        "{text}"
    );
    assert!(
        source.contains("     6 |     (&pad->sum)[40] = address;"),
        "{text}"
    );
    assert!(source.trim_end().ends_with('^'), "{text}");
    let stores = SUM.replace("pad->count += 1;", "((struct node *)node)->value = 0;");
    let (accepted, text) = program(&["check", &file(&folder.0, "stores.c", &stores)]);
    assert!(
        accepted && text.contains("stores        into nodes"),
        "{text}"
    );
    let wrong = SUM.replace("pad->count", "pad->nothing");
    let (accepted, text) = program(&["check", &file(&folder.0, "wrong.c", &wrong)]);
    assert!(
        !accepted && text.contains("clang refuses the source"),
        "{text}"
    );
}

#[test]
fn missing_files_and_compilers_are_named() {
    let folder = TestkitFolder::new();
    let (accepted, text) = program(&["check", "/nowhere/sum.c"]);
    assert!(
        !accepted && text.contains("cannot read /nowhere/sum.c"),
        "{text}"
    );
    let output = Command::new(NEARFIELD)
        .args(["program", "check", &file(&folder.0, "sum.c", SUM)])
        .env("NEARFIELD_CLANG", "/nowhere/clang")
        .output();
    let text = String::from_utf8(output.expect("the program").stderr).expect("text");
    assert!(
        text.contains("/nowhere/clang is not installed (Debian: clang)"),
        "{text}"
    );
    let object = &file(&folder.0, "cut.o", "\x7fELF");
    let (accepted, text) = program(&["check", object]);
    assert!(!accepted && text.contains("not an object file"), "{text}");
}

/// A memory node that runs programs. It ends with this value.
struct ProgramNode {
    process: CliTestProcess,
    name: String,
    /// The place of its programs.
    at: String,
}

impl ProgramNode {
    fn start(tenants: &str) -> ProgramNode {
        let name = format!("program-{}", std::process::id());
        let listen = format!("shm:{name}");
        let node = ["memory-node", "--size", "1mb", "--number", "1"];
        let offload = ["--offload", "127.0.0.1:0", "--tenants", tenants];
        let listen = ["--listen", &listen];
        let mut process = CliTestProcess::start(&[&node[..], &listen, &offload].concat());
        let at = process.programs_address().to_string();
        ProgramNode { process, name, at }
    }
}

impl Drop for ProgramNode {
    fn drop(&mut self) {
        // Ctrl-C, so that the node removes its memory.
        self.process.interrupt();
    }
}

#[test]
fn a_program_runs_at_a_node_within_the_parts_of_its_tenant() {
    if !has_clang() {
        return;
    }
    let folder = TestkitFolder::new();
    let keys = ["0a", "0b"].map(|byte| byte.repeat(32));
    let lines = format!("1 {} 4096-8192:read\n2 {} 8192-12288\n", keys[0], keys[1]);
    let node = ProgramNode::start(&file(&folder.0, "tenants", &lines));
    let endpoint = ShmEndpoint::attach([&node.name]).expect("a node");
    // Ten nodes of a list, from offset 4096 on.
    let at = |place: u64| GlobalAddress::new(NodeId(1), 4096 + 64 * place);
    for place in 0..10 {
        let next = match place {
            9 => 0,
            _ => at(place + 1).to_bits(),
        };
        let words: [u64; 2] = [next, 1 << place];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        block_on(endpoint.write(at(place), &bytes)).expect("a node");
    }
    let source = &file(&folder.0, "sum.c", SUM);
    let key_files =
        [0, 1].map(|tenant: usize| file(&folder.0, &format!("key-{tenant}"), &keys[tenant]));
    let run = |tenant: &str, more: &[&str]| {
        let key = match tenant {
            "1" => &key_files[0],
            _ => &key_files[1],
        };
        let first = [
            "run", source, "--at", &node.at, "--tenant", tenant, "--key", key,
        ];
        program(&[&first[..], more].concat())
    };
    let (ended, text) = run("1", &["--start", "1:4096", "--words", "0x1000,5"]);
    assert!(ended && text.contains("Done after 10 iterations"), "{text}");
    // The words begin as they were given.
    let sum = 0x1000 + 0x3ff;
    assert!(
        text.contains(&format!("word 0    {sum:#018x}  {sum}")),
        "{text}"
    );
    assert!(text.contains("word 1    0x000000000000000f  15"), "{text}");
    let start = at(5).to_bits().to_string();
    let (ended, text) = run("1", &["--start", &start]);
    assert!(ended && text.contains("Done after 5 iterations"), "{text}");
    let (ended, text) = run("1", &["--start", "1:4096", "--iterations", "3"]);
    assert!(
        !ended && text.contains("has not ended after 3 iterations"),
        "{text}"
    );
    let (ended, text) = run("2", &["--start", "1:4096"]);
    assert!(
        !ended && text.contains("the tenant may not read 0x"),
        "{text}"
    );
    let (ended, text) = run("1", &["--start", "1:4096", "--words", "1,2,3"]);
    assert!(!ended && text.contains("3 words do not fit"), "{text}");
    // The node drops datagrams by another key.
    let other = [
        "run", source, "--at", &node.at, "--tenant", "1", "--start", "1:4096",
    ];
    let (ended, text) =
        program(&[&other[..], &["--key", &key_files[1], "--patience", "1"]].concat());
    assert!(
        !ended && text.contains("no reply from a memory node"),
        "{text}"
    );
    // A program may store only where its tenant may.
    let stores = SUM.replace("pad->count += 1;", "((struct node *)node)->value = 0;");
    let stores = &file(&folder.0, "stores.c", &stores);
    let first = [
        "run",
        stores,
        "--at",
        &node.at,
        "--tenant",
        "1",
        "--key",
        &key_files[0],
    ];
    let (ended, text) = program(&[&first[..], &["--start", "1:4096"]].concat());
    assert!(!ended && text.contains("may not store there"), "{text}");
    drop(node);
}
