//! `nearfield program check`: verifies a program.

use super::source::program_of;
use crate::offload::{Failure, print_line};
use clap::Args;
use nearfield_offload::program::{NodeLoad, ProgramWindow, TraversalProgram};
use std::path::PathBuf;

/// Compile a traversal program and verify it, as a memory node does before it runs the program.
///
/// A refusal names the instruction and, if clang has written it, the place in the source. A source
/// includes nearfield_offload.h, which the command provides, and is compiled by clang (Debian's
/// package clang; NEARFIELD_CLANG may name another one).
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ProgramCheckArguments {
    /// A C source, or an object file of `clang -target bpf`
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  nearfield program check list.c
      Prints the size of the program, or the place of its first fault.
  clang -target bpf -mcpu=v3 -O3 -g -c list.c && nearfield program check list.o
      With other options of the compiler. With -g a refusal has its place in the source.";

/// Prints the properties of the program.
pub(super) fn run(arguments: &ProgramCheckArguments) -> Result<(), Failure> {
    let program = program_of(&arguments.file)?;
    let name = arguments.file.display();
    print_line(&format!("{name} is a program:\n{}", properties(&program)));
    Ok(())
}

fn properties(program: &TraversalProgram) -> String {
    let instructions = program.code().instructions().len();
    let longest = program.longest_path();
    let NodeLoad { start, bytes } = program.node_load();
    let node = match bytes {
        0 => "not read".to_owned(),
        _ => format!("{bytes} bytes from byte {start} of each node are read"),
    };
    let stores = [
        (ProgramWindow::Node, "into nodes"),
        (ProgramWindow::Allocation, "into new allocations"),
    ];
    let stores: Vec<&str> = stores
        .into_iter()
        .filter(|(window, _)| program.stores_into(*window))
        .map(|(_, text)| text)
        .collect();
    let stores = match stores.is_empty() {
        true => "none outside of the scratchpad".to_owned(),
        false => stores.join(" and "),
    };
    format!(
        "  instructions  {instructions}, at most {longest} in an iteration\n  scratchpad    {} \
         bytes\n  nodes         {node}\n  stores        {stores}\n  hash          {}",
        program.scratchpad_bytes(),
        program.hash()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_offload::isa::assemble;
    use nearfield_offload::program::Declaration;

    fn of(code: &str, declaration: Declaration) -> String {
        let code = assemble(code).expect("code");
        properties(&TraversalProgram::verify(code, declaration).expect("a program"))
    }

    #[test]
    fn the_properties_of_a_program_are_listed() {
        let find = "ldxdw r0, [r1-8]\n jeq r0, 0, end\n exit\n end:\n stxdw [r2], r3\n exit";
        let text = of(find, Declaration::scratchpad(24));
        for line in [
            "instructions  5, at most 4 in an iteration",
            "scratchpad    24 bytes",
            "nodes         8 bytes from byte -8 of each node are read",
            "stores        none outside of the scratchpad",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let declaration = Declaration {
            scratchpad: 16,
            regions_at: Some(0),
        };
        let both = of(
            "stxdw [r1], r3\n stxdw [r4], r3\n mov r0, 0\n exit",
            declaration,
        );
        let line = "stores        into nodes and into new allocations";
        assert!(both.contains(line), "{both}");
        let none = of("mov r0, 0\n exit", Declaration::default());
        assert!(none.contains("nodes         not read"), "{none}");
    }
}
