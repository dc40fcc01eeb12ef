//! A program that the verifier accepts never leaves its windows, depends on nothing that it has not
//! written, and has the same result in the interpreter and in native code. With
//! `NEARFIELD_FUZZ_CANARY` in the environment the node is a byte shorter than the verifier assumes,
//! which must be found.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_offload::executor::{Interpreter, NativeProgram, TraversalWorkspace};
use nearfield_offload::isa::BpfCode;
use nearfield_offload::program::{Declaration, TraversalProgram};
use std::sync::LazyLock;

static CANARY: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("NEARFIELD_FUZZ_CANARY").is_some());

/// The instructions with which code begins: registers 0 and 6 are numbers, register 7 is an address
/// in the node and register 8 one in the scratchpad.
const PROLOGUE: [u8; 48] = [
    0xb7, 0, 0, 0, 0, 0, 0, 0, // mov r0, 0
    0x79, 0x16, 0, 0, 0, 0, 0, 0, // ldxdw r6, [r1]
    0x57, 6, 0, 0, 63, 0, 0, 0, // and r6, 63
    0xbf, 0x17, 0, 0, 0, 0, 0, 0, // mov r7, r1
    0x0f, 0x67, 0, 0, 0, 0, 0, 0, // add r7, r6
    0xbf, 0x28, 0, 0, 0, 0, 0, 0, // mov r8, r2
];

fuzz_target!(|input: (&[u8], [u8; 32], bool)| {
    let (bytes, content, bare) = input;
    let _ = TraversalProgram::decode(bytes);
    let mut code = if bare { Vec::new() } else { PROLOGUE.to_vec() };
    code.extend_from_slice(bytes);
    let Ok(code) = BpfCode::decode(&code) else {
        return;
    };
    let declaration = Declaration {
        scratchpad: 96,
        regions_at: Some(64),
    };
    let Ok(program) = TraversalProgram::verify(code, declaration) else {
        return;
    };
    assert_eq!(
        TraversalProgram::decode(&program.encode()).as_ref(),
        Ok(&program)
    );
    let mut load = program.node_load();
    let mut workspace = TraversalWorkspace::new(0x1000, content.repeat(3));
    for (to, from) in workspace
        .node_mut(load)
        .iter_mut()
        .zip(content.iter().cycle())
    {
        *to = *from;
    }
    workspace.begin(declaration);
    if *CANARY {
        load.bytes = load.bytes.saturating_sub(1);
    }
    let run = |garbage| {
        let mut workspace = workspace.clone();
        let next = Interpreter
            .iterate_code(program.code(), load, &mut workspace, garbage)
            .expect("a verified program stays in its windows");
        (next, workspace)
    };
    let interpreted = run(0xa5a5_a5a5_a5a5_a5a5);
    assert_eq!(interpreted, run(0x5a5a_5a5a_5a5a_5a5a));
    let native = NativeProgram::translate(program.into()).expect("native code of any program");
    let next = native.iterate(&mut workspace);
    assert_eq!((next, workspace), interpreted);
});
