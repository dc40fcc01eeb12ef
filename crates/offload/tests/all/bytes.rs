//! Bytes and instructions: every opcode of RFC 9669, appendix A, and malformed ones.

use nearfield_offload::isa::{
    BpfCode, BpfDecodeError, CodeError, InstructionField, UnsupportedGroup, assemble, disassemble,
};

/// Encodes a slot with registers `destination` 1 and `source` 2, if they are used.
fn slot(opcode: u8, registers: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let [a, b] = offset.to_le_bytes();
    let [c, d, e, f] = immediate.to_le_bytes();
    [opcode, registers, a, b, c, d, e, f]
}

/// Decodes slots, followed by exits. Between the slots, jumps of a distance of 1 have a target.
fn decode(slots: &[[u8; 8]]) -> Result<BpfCode, BpfDecodeError> {
    let mut bytes: Vec<u8> = slots.concat();
    bytes.extend(slot(0x95, 0, 0, 0));
    bytes.extend(slot(0x95, 0, 0, 0));
    BpfCode::decode(&bytes)
}

/// The table of appendix A: opcode, registers, offset, immediate, text. The registers are two
/// hexadecimal digits, source and destination.
const TABLE: &[(u8, u8, i16, i32, &str)] = &[
    (0x04, 0x01, 0, -7, "add32 r1, -7"),
    (0x05, 0x00, 1, 0, "ja L2"),
    (0x06, 0x00, 0, 1, "ja32 L2"),
    (0x07, 0x01, 0, -7, "add r1, -7"),
    (0x0c, 0x21, 0, 0, "add32 r1, r2"),
    (0x0f, 0x21, 0, 0, "add r1, r2"),
    (0x14, 0x01, 0, 7, "sub32 r1, 7"),
    (0x15, 0x01, 1, 7, "jeq r1, 7, L2"),
    (0x16, 0x01, 1, 7, "jeq32 r1, 7, L2"),
    (0x17, 0x01, 0, 7, "sub r1, 7"),
    (0x1c, 0x21, 0, 0, "sub32 r1, r2"),
    (0x1d, 0x21, 1, 0, "jeq r1, r2, L2"),
    (0x1e, 0x21, 1, 0, "jeq32 r1, r2, L2"),
    (0x1f, 0x21, 0, 0, "sub r1, r2"),
    (0x24, 0x01, 0, 7, "mul32 r1, 7"),
    (0x25, 0x01, 1, 7, "jgt r1, 7, L2"),
    (0x26, 0x01, 1, 7, "jgt32 r1, 7, L2"),
    (0x27, 0x01, 0, 7, "mul r1, 7"),
    (0x2c, 0x21, 0, 0, "mul32 r1, r2"),
    (0x2d, 0x21, 1, 0, "jgt r1, r2, L2"),
    (0x2e, 0x21, 1, 0, "jgt32 r1, r2, L2"),
    (0x2f, 0x21, 0, 0, "mul r1, r2"),
    (0x34, 0x01, 0, 7, "div32 r1, 7"),
    (0x34, 0x01, 1, 7, "sdiv32 r1, 7"),
    (0x35, 0x01, 1, 7, "jge r1, 7, L2"),
    (0x36, 0x01, 1, 7, "jge32 r1, 7, L2"),
    (0x37, 0x01, 0, 7, "div r1, 7"),
    (0x37, 0x01, 1, 7, "sdiv r1, 7"),
    (0x3c, 0x21, 0, 0, "div32 r1, r2"),
    (0x3c, 0x21, 1, 0, "sdiv32 r1, r2"),
    (0x3d, 0x21, 1, 0, "jge r1, r2, L2"),
    (0x3e, 0x21, 1, 0, "jge32 r1, r2, L2"),
    (0x3f, 0x21, 0, 0, "div r1, r2"),
    (0x3f, 0x21, 1, 0, "sdiv r1, r2"),
    (0x44, 0x01, 0, 7, "or32 r1, 7"),
    (0x45, 0x01, 1, 7, "jset r1, 7, L2"),
    (0x46, 0x01, 1, 7, "jset32 r1, 7, L2"),
    (0x47, 0x01, 0, 7, "or r1, 7"),
    (0x4c, 0x21, 0, 0, "or32 r1, r2"),
    (0x4d, 0x21, 1, 0, "jset r1, r2, L2"),
    (0x4e, 0x21, 1, 0, "jset32 r1, r2, L2"),
    (0x4f, 0x21, 0, 0, "or r1, r2"),
    (0x54, 0x01, 0, 7, "and32 r1, 7"),
    (0x55, 0x01, 1, 7, "jne r1, 7, L2"),
    (0x56, 0x01, 1, 7, "jne32 r1, 7, L2"),
    (0x57, 0x01, 0, 7, "and r1, 7"),
    (0x5c, 0x21, 0, 0, "and32 r1, r2"),
    (0x5d, 0x21, 1, 0, "jne r1, r2, L2"),
    (0x5e, 0x21, 1, 0, "jne32 r1, r2, L2"),
    (0x5f, 0x21, 0, 0, "and r1, r2"),
    (0x61, 0x21, -4, 0, "ldxw r1, [r2-4]"),
    (0x62, 0x01, 4, -7, "stw [r1+4], -7"),
    (0x63, 0x21, 4, 0, "stxw [r1+4], r2"),
    (0x64, 0x01, 0, 7, "lsh32 r1, 7"),
    (0x65, 0x01, 1, 7, "jsgt r1, 7, L2"),
    (0x66, 0x01, 1, 7, "jsgt32 r1, 7, L2"),
    (0x67, 0x01, 0, 7, "lsh r1, 7"),
    (0x69, 0x21, 2, 0, "ldxh r1, [r2+2]"),
    (0x6a, 0x01, 4, -7, "sth [r1+4], -7"),
    (0x6b, 0x21, 4, 0, "stxh [r1+4], r2"),
    (0x6c, 0x21, 0, 0, "lsh32 r1, r2"),
    (0x6d, 0x21, 1, 0, "jsgt r1, r2, L2"),
    (0x6e, 0x21, 1, 0, "jsgt32 r1, r2, L2"),
    (0x6f, 0x21, 0, 0, "lsh r1, r2"),
    (0x71, 0x21, 0, 0, "ldxb r1, [r2+0]"),
    (0x72, 0x01, 4, -7, "stb [r1+4], -7"),
    (0x73, 0x21, 4, 0, "stxb [r1+4], r2"),
    (0x74, 0x01, 0, 7, "rsh32 r1, 7"),
    (0x75, 0x01, 1, 7, "jsge r1, 7, L2"),
    (0x76, 0x01, 1, 7, "jsge32 r1, 7, L2"),
    (0x77, 0x01, 0, 7, "rsh r1, 7"),
    (0x79, 0x21, 8, 0, "ldxdw r1, [r2+8]"),
    (0x7a, 0x01, 4, -7, "stdw [r1+4], -7"),
    (0x7b, 0xa1, 4, 0, "stxdw [r1+4], r10"),
    (0x7c, 0x21, 0, 0, "rsh32 r1, r2"),
    (0x7d, 0x21, 1, 0, "jsge r1, r2, L2"),
    (0x7e, 0x21, 1, 0, "jsge32 r1, r2, L2"),
    (0x7f, 0x21, 0, 0, "rsh r1, r2"),
    (0x81, 0x21, 4, 0, "ldxsw r1, [r2+4]"),
    (0x84, 0x01, 0, 0, "neg32 r1"),
    (0x85, 0x10, 0, 1, "call L2"),
    (0x87, 0x01, 0, 0, "neg r1"),
    (0x89, 0x21, 4, 0, "ldxsh r1, [r2+4]"),
    (0x91, 0x21, 4, 0, "ldxsb r1, [r2+4]"),
    (0x94, 0x01, 0, 7, "mod32 r1, 7"),
    (0x94, 0x01, 1, 7, "smod32 r1, 7"),
    (0x95, 0x00, 0, 0, "exit"),
    (0x97, 0x01, 0, 7, "mod r1, 7"),
    (0x97, 0x01, 1, 7, "smod r1, 7"),
    (0x9c, 0x21, 0, 0, "mod32 r1, r2"),
    (0x9c, 0x21, 1, 0, "smod32 r1, r2"),
    (0x9f, 0x21, 0, 0, "mod r1, r2"),
    (0x9f, 0x21, 1, 0, "smod r1, r2"),
    (0xa4, 0x01, 0, 7, "xor32 r1, 7"),
    (0xa5, 0x01, 1, 7, "jlt r1, 7, L2"),
    (0xa6, 0x01, 1, 7, "jlt32 r1, 7, L2"),
    (0xa7, 0x01, 0, 7, "xor r1, 7"),
    (0xac, 0x21, 0, 0, "xor32 r1, r2"),
    (0xad, 0x21, 1, 0, "jlt r1, r2, L2"),
    (0xae, 0x21, 1, 0, "jlt32 r1, r2, L2"),
    (0xaf, 0x21, 0, 0, "xor r1, r2"),
    (0xb4, 0x01, 0, 7, "mov32 r1, 7"),
    (0xb5, 0x01, 1, 7, "jle r1, 7, L2"),
    (0xb6, 0x01, 1, 7, "jle32 r1, 7, L2"),
    (0xb7, 0x01, 0, 7, "mov r1, 7"),
    (0xbc, 0x21, 0, 0, "mov32 r1, r2"),
    (0xbc, 0x21, 8, 0, "movsx832 r1, r2"),
    (0xbc, 0x21, 16, 0, "movsx1632 r1, r2"),
    (0xbd, 0x21, 1, 0, "jle r1, r2, L2"),
    (0xbe, 0x21, 1, 0, "jle32 r1, r2, L2"),
    (0xbf, 0x21, 0, 0, "mov r1, r2"),
    (0xbf, 0x21, 8, 0, "movsx864 r1, r2"),
    (0xbf, 0x21, 16, 0, "movsx1664 r1, r2"),
    (0xbf, 0x21, 32, 0, "movsx3264 r1, r2"),
    (0xc4, 0x01, 0, 7, "arsh32 r1, 7"),
    (0xc5, 0x01, 1, 7, "jslt r1, 7, L2"),
    (0xc6, 0x01, 1, 7, "jslt32 r1, 7, L2"),
    (0xc7, 0x01, 0, 7, "arsh r1, 7"),
    (0xcc, 0x21, 0, 0, "arsh32 r1, r2"),
    (0xcd, 0x21, 1, 0, "jslt r1, r2, L2"),
    (0xce, 0x21, 1, 0, "jslt32 r1, r2, L2"),
    (0xcf, 0x21, 0, 0, "arsh r1, r2"),
    (0xd4, 0x01, 0, 16, "le16 r1"),
    (0xd4, 0x01, 0, 32, "le32 r1"),
    (0xd4, 0x01, 0, 64, "le64 r1"),
    (0xd5, 0x01, 1, 7, "jsle r1, 7, L2"),
    (0xd6, 0x01, 1, 7, "jsle32 r1, 7, L2"),
    (0xd7, 0x01, 0, 16, "bswap16 r1"),
    (0xd7, 0x01, 0, 32, "bswap32 r1"),
    (0xd7, 0x01, 0, 64, "bswap64 r1"),
    (0xdc, 0x01, 0, 16, "be16 r1"),
    (0xdc, 0x01, 0, 32, "be32 r1"),
    (0xdc, 0x01, 0, 64, "be64 r1"),
    (0xdd, 0x21, 1, 0, "jsle r1, r2, L2"),
    (0xde, 0x21, 1, 0, "jsle32 r1, r2, L2"),
];

#[test]
fn every_opcode_of_the_standard_is_read_and_written() {
    for &(opcode, registers, offset, immediate, text) in TABLE {
        let code = decode(&[slot(opcode, registers, offset, immediate)]).unwrap();
        let listing = disassemble(&code);
        assert_eq!(listing.lines().next(), Some(format!("    {text}").as_str()));
        assert_eq!(assemble(&listing).unwrap(), code, "{listing}");
        assert_eq!(BpfCode::decode(&code.encode()).unwrap(), code, "{listing}");
        let bytes = code.encode();
        assert_eq!(bytes[..8], slot(opcode, registers, offset, immediate));
    }
}

/// A slot for each opcode, without operands, decodes as the first slot only if the table has the
/// opcode, or if it needs a second slot or belongs to another group.
#[test]
fn other_opcodes_are_refused() {
    for opcode in 0..=u8::MAX {
        let in_table = TABLE.iter().any(|row| row.0 == opcode);
        let error = decode(&[slot(opcode, 0, 0, 0)]).err();
        let unknown = error == Some(BpfDecodeError::UnknownOpcode { slot: 0, opcode });
        let elsewhere = matches!(error, Some(BpfDecodeError::Unsupported { .. }));
        let known = in_table || elsewhere || opcode == 0x18;
        assert_eq!(unknown, !known, "{opcode:#x}: {error:?}");
    }
    let table: std::collections::BTreeSet<u8> = TABLE.iter().map(|row| row.0).collect();
    // Appendix A has these and 0x18, two atomic and six legacy opcodes.
    assert_eq!(table.len(), 116);
}

#[test]
fn other_groups_are_refused_by_name() {
    let refused = |slot: [u8; 8]| decode(&[slot]).unwrap_err();
    let group = |group| BpfDecodeError::Unsupported { slot: 0, group };
    for opcode in [0xc3, 0xdb] {
        assert_eq!(
            refused(slot(opcode, 0x21, 0, 0)),
            group(UnsupportedGroup::Atomic)
        );
    }
    for opcode in [0x20, 0x28, 0x30, 0x40, 0x48, 0x50] {
        assert_eq!(
            refused(slot(opcode, 0, 0, 0)),
            group(UnsupportedGroup::Packet)
        );
    }
    for source in [0, 2] {
        let call = slot(0x85, source << 4, 0, 1);
        assert_eq!(refused(call), group(UnsupportedGroup::HelperCall));
    }
    for source in 1..=6 {
        let map = decode(&[slot(0x18, source << 4, 0, 1), [0; 8]]);
        assert_eq!(map.unwrap_err(), group(UnsupportedGroup::Platform));
    }
    assert_eq!(
        refused(slot(0xdb, 0x21, 0, 0)).to_string(),
        "slot 0: atomic operations are not supported"
    );
}

/// Each unused field of each instruction must be zero: another value in it is refused, or is
/// another instruction of the table.
#[test]
fn reserved_fields_must_be_zero() {
    let listed = |slot: [u8; 8]| {
        let in_table =
            |row: &(u8, u8, i16, i32, &str)| self::slot(row.0, row.1, row.2, row.3) == slot;
        TABLE.iter().any(in_table)
    };
    let mut refused = 0;
    for &(opcode, registers, offset, immediate, text) in TABLE {
        let branches = text.contains(" L2");
        let accesses = text.contains('[');
        let mut check = |changed: [u8; 8]| {
            assert!(
                decode(&[changed]).is_err() || listed(changed),
                "{text}: {changed:x?}"
            );
            refused += 1;
        };
        if !branches && !accesses {
            for other in [2, 3, 4, 64, -1] {
                check(slot(opcode, registers, other, immediate));
            }
        }
        if immediate == 0 {
            for other in [1, -1, 16, i32::MIN] {
                check(slot(opcode, registers, offset, other));
            }
        }
        if registers & 0xf0 == 0 {
            check(slot(opcode, registers | 0x20, offset, immediate));
        }
        if registers == 0 || text.starts_with("call") {
            check(slot(opcode, registers | 0x01, offset, immediate));
        }
    }
    assert!(refused > 600, "{refused}");
    // An unused offset of 1 makes a division signed, but nothing else with it is valid.
    let error = decode(&[slot(0x07, 0x01, 1, 0)]).unwrap_err();
    let field = InstructionField::Offset;
    assert_eq!(
        error,
        BpfDecodeError::Reserved {
            slot: 0,
            opcode: 0x07,
            field,
            value: 1
        }
    );
    // The long jump uses the immediate, the short one the offset.
    assert!(decode(&[slot(0x05, 0, 0, 1)]).is_err());
    assert!(decode(&[slot(0x06, 0, 1, 0)]).is_err());
    for immediate in [0, 8, 15, 24, 128, -16] {
        for opcode in [0xd4, 0xd7, 0xdc] {
            assert!(decode(&[slot(opcode, 1, 0, immediate)]).is_err());
        }
    }
    // An extension of 32 bits to 32 bits is not an instruction, nor is one of a constant.
    for (opcode, registers, offset) in [(0xbc, 0x21, 32), (0xb4, 1, 8), (0xb7, 1, 32)] {
        assert!(decode(&[slot(opcode, registers, offset, 0)]).is_err());
    }
    // Operations of 32 bits do not call, exit, or load 8 bytes with a sign.
    for opcode in [0x86, 0x96, 0x99, 0x8d, 0x9d, 0x0d, 0x0e, 0x8c, 0x8f, 0xdf] {
        assert!(decode(&[slot(opcode, 0, 0, 0)]).is_err(), "{opcode:#x}");
    }
}

#[test]
fn there_are_eleven_registers() {
    for registers in [0xb1, 0xf1, 0x1b, 0x1f] {
        let error = decode(&[slot(0x0f, registers, 0, 0)]).unwrap_err();
        assert!(matches!(error, BpfDecodeError::NoSuchRegister { .. }));
    }
    let error = decode(&[slot(0x0f, 0x1a, 0, 0)]).unwrap_err();
    assert_eq!(error, CodeError::WritesFramePointer { slot: 0 }.into());
    // The frame pointer may be the base of a store.
    assert!(decode(&[slot(0x7b, 0x1a, -8, 0)]).is_ok());
}

#[test]
fn constants_have_two_slots() {
    let first = slot(0x18, 0x03, 0, 0x55667788);
    let second = slot(0, 0, 0, 0x11223344);
    let code = decode(&[first, second]).unwrap();
    assert!(disassemble(&code).starts_with("    lddw r3, 0x1122334455667788\n"));
    assert_eq!(code.encode()[..16], [first, second].concat());

    let error = BpfCode::decode(&first).unwrap_err();
    assert_eq!(error, BpfDecodeError::HalfConstant { slot: 0 });
    for wrong in [
        slot(1, 0, 0, 0),
        slot(0, 1, 0, 0),
        slot(0, 0x10, 0, 0),
        slot(0, 0, 1, 0),
    ] {
        let error = decode(&[first, wrong]).unwrap_err();
        let field = InstructionField::SecondSlot;
        assert!(matches!(error, BpfDecodeError::Reserved { field: found, .. } if found == field));
    }
    assert!(decode(&[slot(0x18, 3, 1, 0), second]).is_err());
    assert!(decode(&[slot(0x18, 0x73, 0, 0), second]).is_err());
}

#[test]
fn jumps_stay_inside() {
    let exit = slot(0x95, 0, 0, 0);
    let of = |slots: &[[u8; 8]]| BpfCode::decode(&slots.concat());
    let outside = |slot, target| Err(CodeError::TargetOutside { slot, target }.into());
    assert_eq!(of(&[slot(0x05, 0, 1, 0), exit]), outside(0, 2));
    assert_eq!(of(&[slot(0x05, 0, -2, 0), exit]), outside(0, -1));
    assert_eq!(of(&[slot(0x06, 0, 0, i32::MAX), exit]), outside(0, 1 << 31));
    assert_eq!(of(&[exit, slot(0x85, 0x10, 0, -3), exit]), outside(1, -1));
    let (first, second) = (slot(0x18, 3, 0, 0), [0; 8]);
    let inside = CodeError::TargetInside { slot: 0, target: 2 };
    assert_eq!(
        of(&[slot(0x05, 0, 1, 0), first, second, exit]),
        Err(inside.into())
    );
    // A jump to itself is inside.
    assert!(of(&[slot(0x05, 0, -1, 0)]).is_ok());
}

#[test]
fn code_has_an_end() {
    assert_eq!(BpfCode::decode(&[]), Err(CodeError::Empty.into()));
    let error = BpfCode::decode(&[0x95, 0, 0, 0]).unwrap_err();
    assert_eq!(error, BpfDecodeError::PartialSlot { bytes: 4 });
    let unterminated = |slot| Err(CodeError::Unterminated { slot }.into());
    assert_eq!(BpfCode::decode(&slot(0xb7, 0, 0, 1)), unterminated(0));
    let branch = [slot(0x95, 0, 0, 0), slot(0x15, 0, -2, 0)].concat();
    assert_eq!(BpfCode::decode(&branch), unterminated(1));
    let long = slot(0xb7, 0, 0, 1).repeat(1_000_001);
    let error = CodeError::TooLong { slots: 1_000_001 };
    assert_eq!(BpfCode::decode(&long), Err(error.into()));
}
