use super::*;
use crate::isa::assemble;
use crate::program::{Declaration, TraversalProgram, VerifyError};

const PLAIN: Declaration = Declaration::scratchpad(64);
const ALLOCATING: Declaration = Declaration {
    scratchpad: 64,
    regions_at: Some(16),
};

fn verify(text: &str, declaration: Declaration) -> Result<TraversalProgram, VerifyError> {
    let code = assemble(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    TraversalProgram::verify(code, declaration)
}

fn accepted(text: &str) -> TraversalProgram {
    verify(text, PLAIN).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the slot and the cause of a refusal.
fn refused(text: &str) -> (usize, InstructionRefusal) {
    match verify(text, PLAIN) {
        Err(VerifyError::Instruction { slot, refusal, .. }) => (slot, refusal),
        other => panic!("{other:?}: {text}"),
    }
}

fn out_of_bounds(
    window: ProgramWindow,
    start: i64,
    end: i64,
    from: i64,
    to: i64,
) -> InstructionRefusal {
    InstructionRefusal::OutOfBounds {
        window,
        start,
        end,
        from,
        to,
    }
}

#[test]
fn control_only_goes_forward() {
    let back = refused("again: mov r0, 0\n ja again\n exit");
    assert_eq!(back, (1, InstructionRefusal::BackwardJump));
    let back = refused("mov r0, 0\nagain: jeq r0, 0, again\n exit");
    assert_eq!(back, (1, InstructionRefusal::BackwardJump));
    let call = refused("mov r0, 0\n call next\nnext: exit");
    assert_eq!(call, (1, InstructionRefusal::Call));
    let dead = refused("mov r0, 0\n exit\n mov r0, 1\n exit");
    assert_eq!(dead, (2, InstructionRefusal::Unreachable));
    accepted("mov r0, 0\n ja32 end\nend: jne r0, 1, last\n exit\nlast: exit");
}

#[test]
fn registers_are_written_before_they_are_read() {
    let unset = |register| InstructionRefusal::Uninitialised { register };
    assert_eq!(refused("exit"), (0, unset(Register::R0)));
    assert_eq!(refused("mov r0, r4\n exit"), (0, unset(Register::R4)));
    assert_eq!(refused("add r6, 1\n exit"), (0, unset(Register::R6)));
    assert_eq!(
        refused("jeq r3, 0, end\n mov r0, 1\nend: exit"),
        (2, unset(Register::R0))
    );
    // An address on one path, a number on the other.
    let text = "mov r0, 0\n mov r6, r1\n jeq r3, 0, end\n mov r6, 1\nend: mov r0, r6\n exit";
    assert_eq!(refused(text), (4, unset(Register::R6)));
}

#[test]
fn accesses_stay_in_their_windows() {
    let error = refused("ldxdw r0, [r2+57]\n exit").1;
    assert_eq!(
        error,
        out_of_bounds(ProgramWindow::Scratchpad, 57, 65, 0, 64)
    );
    accepted("ldxdw r0, [r2+56]\n exit");
    let error = refused("stb [r2-1], 0\n mov r0, 0\n exit").1;
    assert_eq!(
        error,
        out_of_bounds(ProgramWindow::Scratchpad, -1, 0, 0, 64)
    );
    let error = refused("stdw [r10-4], 0\n mov r0, 0\n exit").1;
    assert_eq!(error, out_of_bounds(ProgramWindow::Stack, -4, 4, -512, 0));
    let error = refused("stb [r10-513], 0\n mov r0, 0\n exit").1;
    assert_eq!(
        error,
        out_of_bounds(ProgramWindow::Stack, -513, -512, -512, 0)
    );
    let number = InstructionRefusal::NotAnAddress {
        register: Register::R3,
    };
    assert_eq!(refused("ldxdw r0, [r3]\n exit"), (0, number));
    let allocation = "stdw [r4+248], 0\n mov r0, 0\n exit";
    assert!(verify(allocation, ALLOCATING).is_ok());
    assert!(verify(&allocation.replace("248", "249"), ALLOCATING).is_err());
}

#[test]
fn the_node_is_one_load_of_256_bytes() {
    let program = accepted("ldxdw r0, [r1-8]\n ldxb r3, [r1+247]\n exit");
    let load = program.node_load();
    assert_eq!((load.start, load.bytes), (-8, 256));
    let error = refused("ldxdw r0, [r1-8]\n ldxb r3, [r1+248]\n exit");
    assert_eq!(
        error,
        (
            1,
            InstructionRefusal::NodeTooLong {
                start: -8,
                end: 249
            }
        )
    );
    let far = "add r1, 40000\n ldxb r0, [r1]\n exit";
    assert_eq!(
        verify(far, PLAIN),
        Err(VerifyError::FarNode { start: 40000 })
    );
}

#[test]
fn computed_places_need_bounds() {
    let text = "ldxdw r6, [r1]\n and r6, 7\n lsh r6, 3\n add r6, r2\n ldxdw r0, [r6]\n exit";
    accepted(text);
    let error = refused(&text.replace("and r6, 7", "and r6, 15")).1;
    assert_eq!(
        error,
        out_of_bounds(ProgramWindow::Scratchpad, 0, 128, 0, 64)
    );
    assert_eq!(
        refused(&text.replace("and r6, 7", "mov r7, 0")).1,
        InstructionRefusal::Unbounded
    );
    // A comparison sets a bound, too, on the path on which it holds.
    let text = "mov r0, 0\n ldxdw r6, [r1]\n jgt r6, 56, end\n add r6, r2\n ldxdw r0, [r6]\n\
                end: exit";
    accepted(text);
    refused(&text.replace("56", "57"));
    let narrow = "mov r0, 0\n ldxw r6, [r1]\n jsgt32 r6, 56, end\n add r6, r2\n ldxb r0, [r6]\n\
                  end: exit";
    // A negative half is a large number, so a signed comparison sets no bound.
    assert_eq!(refused(narrow).1, InstructionRefusal::Unbounded);
    accepted(&narrow.replace("jsgt32", "jgt32"));
}

#[test]
fn addresses_do_not_become_numbers() {
    let arithmetic = |register| InstructionRefusal::AddressArithmetic { register };
    assert_eq!(
        refused("mov r0, r1\n exit"),
        (1, InstructionRefusal::ReturnsAddress)
    );
    assert_eq!(refused("mov32 r0, r1\n exit").1, arithmetic(Register::R1));
    assert_eq!(refused("and r1, 7\n exit").1, arithmetic(Register::R1));
    assert_eq!(refused("sub r1, r2\n exit").1, arithmetic(Register::R1));
    assert_eq!(refused("sub r3, r2\n exit").1, arithmetic(Register::R2));
    assert_eq!(refused("neg r1\n exit").1, arithmetic(Register::R1));
    let stores = |register| InstructionRefusal::StoresAddress { register };
    assert_eq!(refused("stxdw [r2], r1\n exit").1, stores(Register::R1));
    assert_eq!(refused("stxw [r10-8], r1\n exit").1, stores(Register::R1));
    assert_eq!(refused("stxdw [r10-12], r1\n exit").1, stores(Register::R1));
    let compares = InstructionRefusal::ComparesAddress {
        register: Register::R1,
        condition: BranchCondition::Equal,
    };
    assert_eq!(refused("jeq r1, 0, end\nend: exit").1, compares);
}

#[test]
fn the_stack_gives_back_what_was_stored() {
    accepted("stxdw [r10-8], r1\n ldxdw r6, [r10-8]\n ldxdw r0, [r6+16]\n exit");
    let unwritten = |offset| InstructionRefusal::UninitialisedStack { offset };
    assert_eq!(refused("ldxb r0, [r10-8]\n exit").1, unwritten(-8));
    let text = "stw [r10-8], 1\n ldxdw r0, [r10-8]\n exit";
    assert_eq!(refused(text).1, unwritten(-4));
    // No part of an address is a number: not a half, not the rest after a shorter store, not the
    // word that another path may have left.
    let text = "stxdw [r10-8], r1\n ldxw r0, [r10-8]\n exit";
    assert_eq!(refused(text).1, unwritten(-8));
    let text = "stxdw [r10-8], r1\n stb [r10-8], 0\n ldxdw r0, [r10-8]\n exit";
    assert_eq!(refused(text).1, unwritten(-7));
    let text =
        "stdw [r10-8], 0\n jeq r3, 0, end\n stxdw [r10-8], r1\nend: ldxdw r0, [r10-8]\n exit";
    assert_eq!(refused(text).1, unwritten(-8));
    let text = "stxdw [r10-8], r1\n ldxb r6, [r1]\n and r6, 7\n mov r7, r10\n sub r7, 8\n\
                add r7, r6\n stb [r7], 0\n ldxdw r0, [r10-8]\n exit";
    assert_eq!(refused(text).1, unwritten(-8));
}

#[test]
fn sizes_have_limits() {
    let mut text = "mov r0, 0\n".repeat(1023);
    text.push_str("exit");
    assert_eq!(accepted(&text).longest_path(), 1024);
    text.insert_str(0, "mov r0, 0\n");
    assert_eq!(
        verify(&text, PLAIN),
        Err(VerifyError::TooLong { slots: 1025 })
    );
    let long = Declaration::scratchpad(4097);
    let bytes = 4097;
    let error = verify("mov r0, 0\n exit", long);
    assert_eq!(error, Err(VerifyError::Scratchpad { bytes }));
    for (at, is_right) in [(0, true), (48, true), (49, false), (56, false)] {
        let regions = Declaration {
            scratchpad: 64,
            regions_at: Some(at),
        };
        assert_eq!(
            verify("mov r0, 0\n exit", regions).is_ok(),
            is_right,
            "{at}"
        );
    }
}

#[test]
fn findings_are_exact() {
    let text =
        "jeq r3, 0, short\n mov r6, 1\n mov r6, 2\n stxb [r1+3], r6\nshort: mov r0, 0\n exit";
    let program = accepted(text);
    assert_eq!(program.longest_path(), 6);
    assert!(program.stores_into(ProgramWindow::Node) && program.changes_memory());
    assert!(!program.stores_into(ProgramWindow::Scratchpad));
    let bytes = program.encode();
    assert_eq!(TraversalProgram::decode(&bytes).as_ref(), Ok(&program));
    let other = verify(text, ALLOCATING).expect("the same code");
    assert_ne!(other.hash(), program.hash());
}

#[test]
fn errors_name_instruction_and_cause() {
    let error = verify("mov r0, 0\n ldxw r6, [r2+62]\n exit", PLAIN).unwrap_err();
    assert_eq!(
        error.to_string(),
        "slot 1 (ldxw r6, [r2+62]): bytes 62 to 66 are not all within the scratchpad, which has 0 \
         to 64"
    );
}
