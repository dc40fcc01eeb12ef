//! Decoding never panics and accepts only what encoding writes; code is the same after it is
//! printed and parsed; running it ends and stays in memory, with the same result in the interpreter
//! and in native code.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_offload::executor::{BpfMachine, Interpreter, Native};
use nearfield_offload::isa::{BpfCode, assemble, disassemble};

fuzz_target!(|input: (&[u8], [u8; 32], &str)| {
    let (bytes, mut memory, text) = input;
    if let Ok(code) = assemble(text) {
        assert_eq!(
            BpfCode::decode(&code.encode()).as_ref(),
            Ok(&code),
            "{text:?}"
        );
    }
    let Ok(code) = BpfCode::decode(bytes) else {
        return;
    };
    assert_eq!(code.encode(), bytes);
    assert_eq!(assemble(&disassemble(&code)), Ok(code.clone()));
    let mut other = memory;
    let interpreted = Interpreter.run(&code, &mut BpfMachine::with_memory(&mut memory), 1000);
    let native = Native::translate(&code).expect("native code of any code this short");
    let executed = native.run(&mut BpfMachine::with_memory(&mut other), 1000);
    assert_eq!((executed, other), (interpreted, memory));
});
