//! Decoding never panics and accepts only what encoding writes; code survives its text; running it
//! ends, and stays in memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_offload::executor::{Interpreter, Machine};
use nearfield_offload::isa::{Code, assemble, disassemble};

fuzz_target!(|input: (&[u8], [u8; 32], &str)| {
    let (bytes, mut memory, text) = input;
    if let Ok(code) = assemble(text) {
        assert_eq!(Code::decode(&code.encode()).as_ref(), Ok(&code), "{text:?}");
    }
    let Ok(code) = Code::decode(bytes) else {
        return;
    };
    assert_eq!(code.encode(), bytes);
    assert_eq!(assemble(&disassemble(&code)), Ok(code.clone()));
    // Its answer may be anything.
    let _ = Interpreter.run(&code, &mut Machine::with_memory(&mut memory), 1000);
});
