//! Runs one program, with the interface of plugins of public BPF conformance suites.
//!
//! The program is hexadecimal text on standard input, or after `--program`; memory is a hexadecimal
//! argument. White space within both is ignored. Register 1 has the address of the memory and
//! register 2 its length. Register 0 is printed in hexadecimal when the program has ended;
//! `--native` makes the processor execute it. The exit status is not zero if the program is
//! malformed, or if it faults.
//!
//! ```text
//! echo 'bf 20 00 00 00 00 00 00  95 00 00 00 00 00 00 00' |
//!     cargo run -p nearfield-offload --example conformance -- '01 02 03'
//! ```

use nearfield_offload::executor::{BpfMachine, Interpreter, Native};
use nearfield_offload::isa::BpfCode;
use std::error::Error;
use std::io::Read;
use std::process::ExitCode;

const USAGE: &str = "usage: conformance [MEMORY] [--program HEX] [--native] < PROGRAM";

/// Largest number of backward jumps and calls of a program. It ends endless programs; one with a
/// long loop may run for minutes before.
const BUDGET: u64 = 1 << 30;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (mut memory, mut program, mut native) = (None, None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            "--native" => native = true,
            "--program" => program = Some(arguments.next().ok_or(USAGE)?),
            option if option.starts_with('-') => return Err(format!("{option}? {USAGE}").into()),
            // Suites pass an empty argument if they have no options or no memory.
            "" => {}
            _ if memory.is_some() => return Err(USAGE.into()),
            bytes => memory = Some(bytes_of(bytes)?),
        }
    }
    let program = match program {
        Some(program) => program,
        None => {
            let mut program = String::new();
            std::io::stdin().read_to_string(&mut program)?;
            program
        }
    };
    let code = BpfCode::decode(&bytes_of(&program)?)?;
    let mut memory = memory.unwrap_or_default();
    let mut machine = BpfMachine::with_memory(&mut memory);
    let result = if native {
        Native::translate(&code)?.run(&mut machine, BUDGET)?
    } else {
        Interpreter.run(&code, &mut machine, BUDGET)?
    };
    println!("{result:x}");
    Ok(())
}

fn bytes_of(text: &str) -> Result<Vec<u8>, String> {
    let mut digits = Vec::new();
    for letter in text.chars().filter(|letter| !letter.is_whitespace()) {
        let digit = letter.to_digit(16);
        digits.push(digit.ok_or_else(|| format!("{letter:?} is not a hexadecimal digit"))? as u8);
    }
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(format!("{} hexadecimal digits are odd", digits.len()));
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
