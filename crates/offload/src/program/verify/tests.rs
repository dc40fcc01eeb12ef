use super::*;
use crate::isa::{BranchCondition, assemble};
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
fn control_makes_no_loops() {
    let back = refused("again: mov r0, 0\n ja again\n exit");
    assert_eq!(back, (1, InstructionRefusal::Loop));
    let back = refused("mov r0, 0\nagain: jeq r0, 0, again\n exit");
    assert_eq!(back, (1, InstructionRefusal::Loop));
    // The named jump is the one that goes back, wherever the loop is entered.
    let entered = "ja there\nagain: mov r0, 0\nthere: jeq r3, 0, again\n mov r0, 0\n exit";
    assert_eq!(refused(entered), (2, InstructionRefusal::Loop));
    let first = refused("mov r0, 0\n mov r0, 1\nagain: jeq r3, 1, end\n ja again\nend: exit");
    assert_eq!(first, (3, InstructionRefusal::Loop));
    let call = refused("mov r0, 0\n call next\nnext: exit");
    assert_eq!(call, (1, InstructionRefusal::Call));
    let dead = refused("mov r0, 0\n exit\n mov r0, 1\n exit");
    assert_eq!(dead, (2, InstructionRefusal::Unreachable));
    accepted("mov r0, 0\n ja32 end\nend: jne r0, 1, last\n exit\nlast: exit");
}

/// Jumps may go back, as long as no path does: compilers lay out merged tails so.
#[test]
fn blocks_may_have_any_order() {
    let text = "mov r0, 0\n jeq r3, 0, late\nend: exit\nlate: mov r0, 1\n ja end";
    assert_eq!(accepted(text).longest_path(), 5);
    // The facts at the end are those of both paths, also where one comes from behind.
    let text = "ldxb r6, [r1]\n and r6, 7\n jeq r3, 0, late\nend: add r6, r2\n\
                ldxb r0, [r6+48]\n exit\nlate: add r6, 8\n ja end";
    accepted(text);
    let error = refused(&text.replace("+48", "+49"));
    assert_eq!(
        error,
        (4, out_of_bounds(ProgramWindow::Scratchpad, 49, 65, 0, 64))
    );
    let unset = InstructionRefusal::Uninitialised {
        register: Register::R0,
    };
    let text = "jeq r3, 0, late\n mov r0, 0\nend: exit\nlate: ja end";
    assert_eq!(refused(text), (2, unset));
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
    // A negative half is a large number, so one signed comparison sets no bound.
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
}

/// A comparison or difference shows how far apart two places of a window are, and nothing else.
#[test]
fn addresses_of_one_window_are_compared_and_subtracted() {
    let compares = |condition| InstructionRefusal::ComparesAddress {
        register: Register::R1,
        condition,
    };
    accepted("mov r0, 0\n mov r6, r1\n add r6, 8\n jge r1, r6, end\nend: exit");
    accepted("mov r0, 0\n jeq r1, 0, end\nend: exit");
    for (text, condition) in [
        ("jeq r1, 1, end", BranchCondition::Equal),
        ("jeq r1, r2, end", BranchCondition::Equal),
        ("jlt r1, 0, end", BranchCondition::Less),
        ("jne32 r1, 0, end", BranchCondition::NotEqual),
        ("jset r1, r1, end", BranchCondition::SharesBits),
        ("jeq r1, r3, end", BranchCondition::Equal),
    ] {
        let text = format!("mov r0, 0\n {text}\nend: exit");
        assert_eq!(refused(&text), (1, compares(condition)));
    }
    let text = "ldxb r6, [r1]\n and r6, 7\n mov r7, r2\n add r7, r6\n sub r7, r2\n\
                add r7, r1\n ldxb r0, [r7+8]\n exit";
    let load = accepted(text).node_load();
    assert_eq!((load.start, load.bytes), (0, 16));
    let other = refused(&text.replace("sub r7, r2", "sub r7, r1")).1;
    let register = Register::R7;
    assert_eq!(other, InstructionRefusal::AddressArithmetic { register });
}

/// A null pointer of C: one path has an address, the other zero.
#[test]
fn an_address_or_zero_is_compared_before_it_is_used() {
    let text = "mov r6, 0\n jne r3, 5, found\n ja check\nfound: mov r6, r2\n\
                check: mov r7, r6\n mov r0, 0\n jeq r6, 0, end\n ldxdw r0, [r7+8]\nend: exit";
    accepted(text);
    let register = Register::R7;
    let may_be_zero = InstructionRefusal::MayBeZero { register };
    let zero = InstructionRefusal::NotAnAddress { register };
    assert_eq!(refused(&text.replace("jeq r6, 0", "jne r6, 0")).1, zero);
    assert_eq!(
        refused(&text.replace("jeq r6, 0, end", "jeq r3, 0, end")).1,
        may_be_zero
    );
    let unset = InstructionRefusal::Uninitialised {
        register: Register::R6,
    };
    assert_eq!(refused(&text.replace("mov r6, 0", "mov r6, 1")).1, unset);
    let moved = text.replace("ldxdw r0, [r7+8]", "add r7, 8");
    accepted(&moved);
    let moved = moved.replace("jeq r6, 0, end", "jeq r3, 0, end");
    assert_eq!(refused(&moved).1, may_be_zero);
    // It keeps its kind on the stack, and no part of it is a number.
    let spilled = text.replace("mov r7, r6", "stxdw [r10-8], r6\n ldxdw r7, [r10-8]");
    accepted(&spilled);
    let part = spilled.replace("ldxdw r7, [r10-8]", "ldxw r7, [r10-8]");
    let unwritten = InstructionRefusal::UninitialisedStack { offset: -8 };
    assert_eq!(refused(&part).1, unwritten);
}

/// Bounds of numbers with signs, as compilers write them for `int` and for `x % 12`.
#[test]
fn indices_may_have_signs_and_be_remainders() {
    for bounds in [
        // Two tests, of 64 and of 32 bits.
        "ldxdw r6, [r1]\n jslt r6, 0, end\n jsgt r6, 7, end",
        "ldxw r6, [r1]\n jslt32 r6, 0, end\n jsgt32 r6, 7, end",
        // Both signs, then a sum that has one.
        "ldxdw r6, [r1]\n and r6, 7\n sub r6, 4\n add r6, 4",
        "ldxdw r6, [r1]\n jslt r6, -4, end\n jsgt r6, 3, end\n add r6, 4",
        "ldxdw r6, [r1]\n and r6, 7\n neg r6\n add r6, 7",
        // The sign is extended by shifts, and the copy is compared.
        "ldxw r6, [r1]\n mov r7, r6\n lsh r7, 32\n arsh r7, 32\n jslt r7, 0, end\n\
         jsgt r7, 7, end",
        // One comparison of a sum bounds both ends of the other number.
        "ldxw r6, [r1]\n mov32 r7, r6\n add32 r7, -1\n jgt32 r7, 6, end",
        "ldxdw r6, [r1]\n mov r7, r6\n add r7, 5\n jgt r7, 12, end\n jslt r6, 0, end",
        // Remainders by a constant, with and without an instruction for them.
        "ldxdw r6, [r1]\n mod r6, 8",
        "ldxdw r6, [r1]\n mov r7, r6\n div r7, 8\n mul r7, 8\n sub r6, r7",
        "ldxdw r6, [r1]\n mov32 r7, r6\n div32 r7, 8\n mul32 r7, 8\n sub32 r6, r7",
        "ldxdw r6, [r1]\n ldxb r8, [r1]\n jgt r8, 8, end\n jeq r8, 0, end\n mov r7, r6\n\
         div r7, r8\n mul r7, r8\n sub r6, r7",
        "ldxdw r6, [r1]\n smod r6, 4\n add r6, 4",
        "ldxdw r6, [r1]\n and r6, 63\n sdiv r6, 8",
        // Bits.
        "ldxdw r6, [r1]\n jset r6, -8, end",
        "ldxb r7, [r1]\n and r7, 1\n mov r6, 3\n lsh r6, r7\n or r6, 1",
        "ldxb r7, [r1]\n and r7, 3\n mov r6, -1\n lsh r6, r7\n xor r6, -1",
        "ldxdw r6, [r1]\n and r6, 7\n le16 r6",
        "ldxdw r6, [r1]\n be64 r6\n rsh r6, 61",
        "ldxdw r7, [r1]\n and r7, 7\n movsx864 r6, r7",
    ] {
        let text = format!("mov r0, 0\n {bounds}\n add r6, r2\n ldxb r0, [r6+PLACE]\nend: exit");
        // The last byte of the scratchpad is 63, and the index is 7 at most.
        accepted(&text.replace("PLACE", "56"));
        let found = refused(&text.replace("PLACE", "57")).1;
        assert!(
            matches!(found, InstructionRefusal::OutOfBounds { end: 65, .. }),
            "{bounds}: {found:?}"
        );
    }
}

/// A divisor that another path may have made zero leaves the dividend.
#[test]
fn a_remainder_by_zero_is_the_dividend() {
    let text = "ldxdw r6, [r1]\n ldxb r8, [r1]\n and r8, 7\n mov r7, r6\n div r7, r8\n\
                mul r7, r8\n sub r6, r7\n add r6, r2\n ldxb r0, [r6]\n exit";
    assert_eq!(refused(text).1, InstructionRefusal::Unbounded);
    accepted(&text.replace("and r8, 7", "and r8, 7\n or r8, 1"));
    // Another dividend, and another divisor, leave anything.
    let text = text.replace("and r8, 7", "and r8, 7\n or r8, 1");
    for (from, to) in [
        ("sub r6, r7", "ldxdw r6, [r1]\n sub r6, r7"),
        ("mul r7, r8", "ldxb r8, [r1]\n mul r7, r8"),
        ("mul r7, r8", "mul r7, 3"),
        ("mov r7, r6", "mov r7, r6\n add r6, 1"),
    ] {
        let other = text.replace(from, to);
        assert_eq!(refused(&other).1, InstructionRefusal::Unbounded, "{to}");
    }
}

/// A bound that is learned of a copy holds for the original, and for nothing else.
#[test]
fn copies_share_their_bounds() {
    let text = "mov r0, 0\n ldxdw r6, [r1]\n COPY\n jgt r7, 7, end\n add r6, r2\n\
                ldxb r0, [r6+56]\nend: exit";
    for copy in [
        "mov r7, r6",
        "stxdw [r10-8], r6\n ldxdw r7, [r10-8]",
        "mov r7, r6\n mov r8, r7\n mov r7, r8",
    ] {
        accepted(&text.replace("COPY", copy));
    }
    for other in [
        "mov r7, r6\n add r7, 1\n add r7, -1",
        "mov r7, r6\n ldxdw r6, [r1+8]",
        "stxdw [r10-8], r6\n stb [r10-8], 0\n ldxdw r7, [r10-8]",
        "mov32 r7, r6",
        "mov r7, r6\n jeq r3, 0, join\n mov r7, r3\njoin: mov r8, r7",
    ] {
        let found = refused(&text.replace("COPY", other)).1;
        assert_eq!(found, InstructionRefusal::Unbounded, "{other}");
    }
    // Spills of all sizes keep their bounds.
    for size in ["b", "h", "w", "dw"] {
        let text = format!(
            "ldxdw r6, [r1]\n and r6, 7\n stx{size} [r10-8], r6\n mov r6, 0\n\
             ldx{size} r6, [r10-8]\n add r6, r2\n ldxb r0, [r6+56]\n exit"
        );
        accepted(&text);
        let overwritten = text.replace("mov r6, 0", "mov r6, 0\n stb [r10-8], 99");
        let found = refused(&overwritten).1;
        assert!(
            matches!(
                found,
                InstructionRefusal::OutOfBounds { .. } | InstructionRefusal::Unbounded
            ),
            "{found:?}"
        );
    }
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
        "stdw [r10-8], 1\n jeq r3, 0, end\n stxdw [r10-8], r1\nend: ldxdw r0, [r10-8]\n exit";
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
