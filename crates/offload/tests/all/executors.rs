//! Runs text on every executor, which must agree.

use nearfield_offload::executor::{BpfMachine, ExecutionFault, Interpreter, Native};
use nearfield_offload::isa::{BpfCode, assemble};

/// Largest number of backward jumps and calls of a run.
pub const BUDGET: u64 = 1000;

/// The result of a run, and the memory after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorRun {
    pub result: Result<u64, ExecutionFault>,
    pub memory: Vec<u8>,
}

pub fn interpret(code: &BpfCode, memory: &[u8]) -> ExecutorRun {
    let mut memory = memory.to_vec();
    let mut machine = BpfMachine::with_memory(&mut memory);
    let result = Interpreter.run(code, &mut machine, BUDGET);
    ExecutorRun { result, memory }
}

pub fn native(code: &BpfCode, memory: &[u8]) -> ExecutorRun {
    let mut memory = memory.to_vec();
    let mut machine = BpfMachine::with_memory(&mut memory);
    let result = Native::translate(code).unwrap().run(&mut machine, BUDGET);
    ExecutorRun { result, memory }
}

pub fn each<T>(text: &str, memory: &[u8], inspect: impl Fn(ExecutorRun) -> T) -> T {
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
pub fn fault(text: &str) -> ExecutionFault {
    each(text, &[], |run| run.result.expect_err(text))
}
