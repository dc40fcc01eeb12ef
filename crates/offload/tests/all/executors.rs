//! Runs text on every executor, which must agree.

use nearfield_offload::executor::{Fault, Interpreter, Machine, Native};
use nearfield_offload::isa::{Code, assemble};

/// Largest number of backward jumps and calls of a run.
pub const BUDGET: u64 = 1000;

/// The result of a run, and the memory after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub result: Result<u64, Fault>,
    pub memory: Vec<u8>,
}

pub fn interpret(code: &Code, memory: &[u8]) -> Run {
    let mut memory = memory.to_vec();
    let mut machine = Machine::with_memory(&mut memory);
    let result = Interpreter.run(code, &mut machine, BUDGET);
    Run { result, memory }
}

pub fn native(code: &Code, memory: &[u8]) -> Run {
    let mut memory = memory.to_vec();
    let mut machine = Machine::with_memory(&mut memory);
    let result = Native::translate(code).unwrap().run(&mut machine, BUDGET);
    Run { result, memory }
}

pub fn each<T>(text: &str, memory: &[u8], inspect: impl Fn(Run) -> T) -> T {
    let code = assemble(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let run = interpret(&code, memory);
    assert_eq!(native(&code, memory), run, "native code of {text}");
    inspect(run)
}

/// Returns the result without memory.
pub fn result(text: &str) -> u64 {
    each(text, &[], |run| {
        run.result.unwrap_or_else(|fault| panic!("{fault}: {text}"))
    })
}

/// Returns the fault without memory.
pub fn fault(text: &str) -> Fault {
    each(text, &[], |run| run.result.expect_err(text))
}
