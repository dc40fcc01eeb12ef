//! Assembler and disassembler.

use nearfield_offload::isa::{
    AssembleError, BpfBuildError, BpfBuilder, BpfCode, Instruction, Register, assemble, disassemble,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[test]
fn lines_may_have_comments_labels_and_distances() {
    let text = "
        # A comment.
        start: mov r0, 0x10     # Another.
        again: also:
            sub r0, 1
            jne r0, 0, again
            jeq r0, 1, +1
            ja32 -2
            exit
    ";
    let listing = disassemble(&assemble(text).unwrap());
    let expected = [
        "    mov r0, 16",
        "L1:",
        "    sub r0, 1",
        "    jne r0, 0, L1",
        "L3:",
        "    jeq r0, 1, L5",
        "    ja32 L3",
        "L5:",
        "    exit",
    ];
    assert_eq!(listing.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn numbers_have_the_range_of_their_fields() {
    let bytes = |text: &str| assemble(&format!("{text}\nexit")).map(|code| code.encode());
    assert_eq!(
        bytes("mov r0, 0xffffffff").unwrap(),
        bytes("mov r0, -1").unwrap()
    );
    assert!(bytes("mov r0, -2147483648").is_ok());
    assert!(bytes("lddw r0, 0xffffffffffffffff").unwrap() == bytes("lddw r0, -1").unwrap());
    for text in [
        "mov r0, 0x100000000",
        "mov r0, -2147483649",
        "lddw r0, 0x10000000000000000",
        "ldxb r0, [r1+32768]",
        "ja +32768",
        "mov r0, 0x-1",
        "mov r0, --1",
        "mov r0, ",
    ] {
        let error = bytes(text).unwrap_err();
        assert!(
            matches!(error, AssembleError::Operand { line: 1, .. }),
            "{text}: {error}"
        );
    }
}

#[test]
fn errors_name_line_and_word() {
    let message = |text: &str| assemble(text).unwrap_err().to_string();
    assert_eq!(
        message("\nadd64 r1, r2"),
        "line 2: there is no instruction \"add64\""
    );
    assert_eq!(message("add r1"), "line 1: add has 2 operands, not 1");
    assert_eq!(message("exit r0"), "line 1: exit has 0 operands, not 1");
    assert_eq!(
        message("ldxsdw r1, [r2]"),
        "line 1: there is no instruction \"ldxsdw\""
    );
    assert_eq!(
        message("ldxw r1, r2"),
        "line 1: \"r2\" is not a place such as [r1+8]"
    );
    assert_eq!(message("stxw [r1], 5"), "line 1: \"5\" is not a register");
    assert_eq!(
        message("stw [r1], r5"),
        "line 1: \"r5\" is not a number of 32 bits"
    );
    assert_eq!(message("ja end\nexit"), "line 1: there is no label \"end\"");
    assert_eq!(
        message("a:\na: exit"),
        "line 2: the label \"a\" is already placed"
    );
    assert_eq!(
        message("1a: exit"),
        "line 1: \"1a\" is not the name of a label"
    );
    assert_eq!(
        message("mov r10, 1\nexit"),
        "slot 0: the frame pointer r10 is written"
    );
    assert_eq!(message(""), "there are no instructions");
}

#[test]
fn a_builder_refuses_labels_without_place_and_far_jumps() {
    let mut builder = BpfBuilder::new();
    let label = builder.label();
    builder.jump(label);
    assert_eq!(
        builder.clone().build(),
        Err(BpfBuildError::Unplaced { slot: 0 })
    );
    for _ in 0..40_000 {
        builder.set(Register::R0, 0);
    }
    builder.place(label);
    builder.exit();
    let distance = 40_000;
    assert_eq!(
        builder.build(),
        Err(BpfBuildError::TooFar { slot: 0, distance })
    );

    let mut builder = BpfBuilder::new();
    let label = builder.label();
    builder.jump_by(Instruction::LongJump { distance: 0 }, label);
    for _ in 0..40_000 {
        builder.set(Register::R0, 0);
    }
    builder.place(label);
    builder.exit();
    assert_eq!(builder.build().unwrap().target(0), Some(40_001));
}

/// All code that decodes has a text that assembles to the same bytes.
#[test]
fn random_code_survives_text_and_bytes() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut decoded = 0;
    while decoded < 20_000 {
        let mut bytes = Vec::new();
        for _ in 0..random.random_range(1..4) {
            let offset = random.random_range(-3..4_i16).to_le_bytes();
            let immediate: i32 = match random.random_range(0..3) {
                0 => 0,
                1 => [1, 16, 32, 64, -1][random.random_range(0..5)],
                _ => random.random(),
            };
            let registers = match random.random_range(0..3) {
                0 => 0,
                1 => random.random_range(0..16),
                _ => random.random(),
            };
            bytes.extend([random.random(), registers]);
            bytes.extend(if random.random() { offset } else { [0; 2] });
            bytes.extend(immediate.to_le_bytes());
        }
        bytes.extend([0x95, 0, 0, 0, 0, 0, 0, 0]);
        let Ok(code) = BpfCode::decode(&bytes) else {
            continue;
        };
        decoded += 1;
        assert_eq!(code.encode(), bytes);
        assert_eq!(assemble(&disassemble(&code)).unwrap(), code);
    }
}
