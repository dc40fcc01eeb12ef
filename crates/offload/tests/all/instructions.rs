//! The semantics of each instruction, from RFC 9669, sections 4 and 5. Every case runs on every
//! executor.

use crate::executors::{each, fault, result};
use nearfield_offload::executor::ExecutionFault;

/// Checks cases of one instruction: values of r0 and r2, and the expected r0.
fn check(instruction: &str, cases: &[(u64, u64, u64)]) {
    for &(a, b, expected) in cases {
        let text = format!("lddw r0, {a:#x}\nlddw r2, {b:#x}\n{instruction}\nexit");
        assert_eq!(
            result(&text),
            expected,
            "{instruction} of {a:#x} and {b:#x}"
        );
    }
}

const MIN: u64 = 1 << 63;
const MIN32: u64 = 1 << 31;
const ONES: u64 = u64::MAX;
const ONES32: u64 = u32::MAX as u64;
/// The upper half of an operand of 32 bits, which must have no effect.
const JUNK: u64 = 0xdead_beef << 32;

#[test]
fn sums_differences_and_products_wrap_around() {
    check("add r0, r2", &[(1, 2, 3), (ONES, 1, 0), (MIN, MIN, 0)]);
    check("add r0, -3", &[(1, 0, ONES - 1)]);
    check("add32 r0, r2", &[(JUNK | 1, JUNK | 2, 3), (ONES32, 1, 0)]);
    check("add32 r0, -3", &[(JUNK | 1, 0, ONES32 - 1)]);
    check("sub r0, r2", &[(1, 2, ONES), (MIN, 1, MIN - 1)]);
    check("sub r0, -3", &[(1, 0, 4)]);
    check("sub32 r0, r2", &[(JUNK | 1, 2, ONES32), (JUNK, JUNK, 0)]);
    check("sub32 r0, 3", &[(JUNK | 1, 0, ONES32 - 1)]);
    check(
        "mul r0, r2",
        &[(3, 5, 15), (ONES, ONES, 1), (1 << 32, 1 << 32, 0)],
    );
    check("mul r0, -3", &[(2, 0, ONES - 5)]);
    check(
        "mul32 r0, r2",
        &[(JUNK | 3, JUNK | 5, 15), (ONES32, ONES32, 1)],
    );
    check("mul32 r0, -3", &[(JUNK | 2, 0, ONES32 - 5)]);
    check("neg r0", &[(1, 0, ONES), (0, 0, 0), (MIN, 0, MIN)]);
    check(
        "neg32 r0",
        &[
            (JUNK | 1, 0, ONES32),
            (JUNK, 0, 0),
            (JUNK | MIN32, 0, MIN32),
        ],
    );
}

#[test]
fn division_by_zero_is_zero_and_its_remainder_the_dividend() {
    for name in ["div", "sdiv"] {
        check(&format!("{name} r0, r2"), &[(7, 0, 0), (MIN, 0, 0)]);
        check(&format!("{name} r0, 0"), &[(7, 0, 0)]);
        check(&format!("{name}32 r0, r2"), &[(JUNK | 7, JUNK, 0)]);
        check(&format!("{name}32 r0, 0"), &[(JUNK | 7, 0, 0)]);
    }
    for name in ["mod", "smod"] {
        check(
            &format!("{name} r0, r2"),
            &[(7, 0, 7), (MIN | 1, 0, MIN | 1)],
        );
        check(&format!("{name} r0, 0"), &[(JUNK | 7, 0, JUNK | 7)]);
        // The upper half is cleared in this case, too.
        check(
            &format!("{name}32 r0, r2"),
            &[(JUNK | 7, JUNK, 7), (JUNK | ONES32, 0, ONES32)],
        );
        check(&format!("{name}32 r0, 0"), &[(JUNK | 7, 0, 7)]);
    }
}

#[test]
fn quotients_and_remainders_have_signs_or_not() {
    let minus = |value: u64| value.wrapping_neg();
    let minus32 = |value: u32| u64::from(value.wrapping_neg());
    check(
        "div r0, r2",
        &[
            (13, 4, 3),
            (ONES, 2, MIN - 1),
            (MIN, ONES, 0),
            (ONES, ONES, 1),
        ],
    );
    // The constant is sign-extended to 64 bits, and then read without sign.
    check("div r0, -1", &[(ONES, 0, 1), (ONES - 1, 0, 0)]);
    check(
        "div32 r0, r2",
        &[(JUNK | 13, JUNK | 4, 3), (MIN32, ONES32, 0)],
    );
    check("div32 r0, -1", &[(JUNK | ONES32, 0, 1)]);
    check("mod r0, r2", &[(13, 4, 1), (ONES, 10, 5), (MIN, ONES, MIN)]);
    check("mod r0, -1", &[(ONES, 0, 0), (5, 0, 5)]);
    check(
        "mod32 r0, r2",
        &[(JUNK | 13, JUNK | 4, 1), (MIN32, ONES32, MIN32)],
    );
    check("mod32 r0, -1", &[(JUNK | ONES32, 0, 0), (JUNK | 5, 0, 5)]);
    // The quotient is truncated toward zero. The smallest number divided by -1 does not overflow
    // into a fault.
    check(
        "sdiv r0, r2",
        &[
            (minus(13), 4, minus(3)),
            (13, minus(4), minus(3)),
            (minus(13), minus(4), 3),
        ],
    );
    check(
        "sdiv r0, r2",
        &[(MIN, ONES, MIN), (MIN, 1, MIN), (MIN, MIN, 1)],
    );
    check("sdiv r0, -4", &[(13, 0, minus(3))]);
    check("sdiv r0, -1", &[(MIN, 0, MIN), (5, 0, minus(5))]);
    check(
        "sdiv32 r0, r2",
        &[
            (minus32(13), 4, minus32(3)),
            (JUNK | 13, JUNK | minus32(4), minus32(3)),
        ],
    );
    check(
        "sdiv32 r0, r2",
        &[(JUNK | MIN32, ONES32, MIN32), (JUNK | MIN32, ONES, MIN32)],
    );
    check("sdiv32 r0, -1", &[(JUNK | MIN32, 0, MIN32)]);
    check(
        "smod r0, r2",
        &[
            (minus(13), 4, minus(1)),
            (13, minus(4), 1),
            (minus(13), minus(4), minus(1)),
        ],
    );
    check("smod r0, r2", &[(MIN, ONES, 0), (MIN, 3, minus(2))]);
    check("smod r0, -1", &[(MIN, 0, 0)]);
    check(
        "smod32 r0, r2",
        &[
            (minus32(13), 4, minus32(1)),
            (JUNK | 13, JUNK | minus32(4), 1),
            (MIN32, ONES32, 0),
        ],
    );
    check("smod32 r0, -5", &[(JUNK | minus32(13), 0, minus32(3))]);
}

#[test]
fn bits_are_combined() {
    check("or r0, r2", &[(0b1100, 0b1010, 0b1110), (MIN, 1, MIN | 1)]);
    check("or r0, -16", &[(1, 0, ONES - 14)]);
    check("or32 r0, r2", &[(JUNK | 0b1100, JUNK | 0b1010, 0b1110)]);
    check("or32 r0, -16", &[(JUNK | 1, 0, ONES32 - 14)]);
    check("and r0, r2", &[(0b1100, 0b1010, 0b1000), (ONES, MIN, MIN)]);
    check("and r0, -16", &[(ONES, 0, ONES - 15)]);
    check("and32 r0, r2", &[(ONES, JUNK | 0b1010, 0b1010)]);
    check("and32 r0, -16", &[(ONES, 0, ONES32 - 15)]);
    check(
        "xor r0, r2",
        &[(0b1100, 0b1010, 0b0110), (ONES, MIN, MIN - 1)],
    );
    check("xor r0, -1", &[(1, 0, ONES - 1)]);
    check("xor32 r0, r2", &[(ONES, 0b1010, ONES32 - 0b1010)]);
    check("xor32 r0, -1", &[(JUNK | 1, 0, ONES32 - 1)]);
}

#[test]
fn shifts_use_the_lower_bits_of_the_distance() {
    check(
        "lsh r0, r2",
        &[
            (1, 63, MIN),
            (1, 64, 1),
            (1, 65, 2),
            (3, ONES, MIN),
            (1, 1 << 32, 1),
        ],
    );
    check("lsh r0, 4", &[(ONES, 0, ONES - 15)]);
    check("lsh r0, 68", &[(1, 0, 16)]);
    check(
        "lsh32 r0, r2",
        &[
            (JUNK | 1, 31, MIN32),
            (1, 32, 1),
            (1, 33, 2),
            (3, ONES, MIN32),
        ],
    );
    check("lsh32 r0, 4", &[(ONES, 0, ONES32 - 15)]);
    check("lsh32 r0, 36", &[(JUNK | 1, 0, 16)]);
    check(
        "rsh r0, r2",
        &[(MIN, 63, 1), (MIN, 64, MIN), (ONES, 65, ONES >> 1)],
    );
    check("rsh r0, 4", &[(MIN, 0, MIN >> 4)]);
    check(
        "rsh32 r0, r2",
        &[
            (JUNK | MIN32, 31, 1),
            (JUNK | MIN32, 32, MIN32),
            (JUNK | 4, 33, 2),
        ],
    );
    check("rsh32 r0, 4", &[(ONES, 0, ONES32 >> 4)]);
    check(
        "arsh r0, r2",
        &[(MIN, 63, ONES), (MIN, 64, MIN), (MIN >> 1, 62, 1)],
    );
    check("arsh r0, 4", &[(MIN, 0, 0xf8 << 56)]);
    check(
        "arsh32 r0, r2",
        &[
            (JUNK | MIN32, 31, ONES32),
            (MIN32, 32, MIN32),
            (JUNK | 4, 1, 2),
        ],
    );
    check("arsh32 r0, 4", &[(JUNK | MIN32, 0, 0xf800_0000)]);
}

#[test]
fn moves_extend_signs_or_clear() {
    check("mov r0, r2", &[(1, JUNK | 2, JUNK | 2)]);
    check("mov r0, -2", &[(1, 0, ONES - 1)]);
    check("mov32 r0, r2", &[(ONES, JUNK | 2, 2)]);
    check("mov32 r0, -2", &[(ONES, 0, ONES32 - 1)]);
    check(
        "movsx864 r0, r2",
        &[(0, 0x1280, ONES - 0x7f), (0, 0xff7f, 0x7f)],
    );
    check(
        "movsx1664 r0, r2",
        &[(0, 0x12_8000, ONES - 0x7fff), (0, 0xff_7fff, 0x7fff)],
    );
    check(
        "movsx3264 r0, r2",
        &[(0, MIN32, ONES - (MIN32 - 1)), (0, JUNK | 5, 5)],
    );
    check(
        "movsx832 r0, r2",
        &[(ONES, 0x1280, ONES32 - 0x7f), (ONES, 0xff7f, 0x7f)],
    );
    check(
        "movsx1632 r0, r2",
        &[(ONES, 0x12_8000, ONES32 - 0x7fff), (ONES, 0x7fff, 0x7fff)],
    );
    check("lddw r0, 0x8000000000000001", &[(0, 0, MIN | 1)]);
}

#[test]
fn bytes_change_their_order() {
    const VALUE: u64 = 0x0102_0304_0506_0708;
    check("le16 r0", &[(VALUE, 0, 0x0708)]);
    check("le32 r0", &[(VALUE, 0, 0x0506_0708)]);
    check("le64 r0", &[(VALUE, 0, VALUE)]);
    for name in ["be", "bswap"] {
        check(&format!("{name}16 r0"), &[(VALUE, 0, 0x0807)]);
        check(&format!("{name}32 r0"), &[(VALUE, 0, 0x0807_0605)]);
        check(
            &format!("{name}64 r0"),
            &[(VALUE, 0, 0x0807_0605_0403_0201)],
        );
    }
}

/// Checks cases of a branch: both operands, and true if it jumps.
fn check_branch(name: &str, cases: &[(u64, u64, bool)]) {
    for &(a, b, expected) in cases {
        let tail = "mov r0, 0\nexit\nyes: mov r0, 1\nexit";
        let text = format!("lddw r1, {a:#x}\nlddw r2, {b:#x}\n{name} r1, r2, yes\n{tail}");
        assert_eq!(
            result(&text),
            u64::from(expected),
            "{name} of {a:#x} and {b:#x}"
        );
        // If a constant of 32 bits extends to the operand, test it as a constant, too.
        let constant = b as i32;
        let narrow = name.ends_with("32");
        if narrow || i64::from(constant) as u64 == b {
            let text = format!("lddw r1, {a:#x}\n{name} r1, {constant}, yes\n{tail}");
            assert_eq!(
                result(&text),
                u64::from(expected),
                "{name} of {a:#x} and {constant}"
            );
        }
    }
}

#[test]
fn branches_compare_with_and_without_sign() {
    check_branch(
        "jeq",
        &[
            (5, 5, true),
            (5, 6, false),
            (JUNK | 5, 5, false),
            (ONES, ONES, true),
        ],
    );
    check_branch("jne", &[(5, 5, false), (5, 6, true), (JUNK | 5, 5, true)]);
    check_branch(
        "jgt",
        &[
            (6, 5, true),
            (5, 5, false),
            (ONES, 5, true),
            (5, ONES, false),
        ],
    );
    check_branch(
        "jge",
        &[(6, 5, true), (5, 5, true), (4, 5, false), (5, ONES, false)],
    );
    check_branch(
        "jlt",
        &[
            (4, 5, true),
            (5, 5, false),
            (5, ONES, true),
            (ONES, 5, false),
        ],
    );
    check_branch(
        "jle",
        &[(4, 5, true), (5, 5, true), (6, 5, false), (5, ONES, true)],
    );
    check_branch(
        "jsgt",
        &[
            (6, 5, true),
            (5, 5, false),
            (ONES, 5, false),
            (5, ONES, true),
        ],
    );
    check_branch(
        "jsge",
        &[
            (5, 5, true),
            (MIN, 5, false),
            (5, MIN, true),
            (ONES, ONES, true),
        ],
    );
    check_branch(
        "jslt",
        &[
            (ONES, 5, true),
            (5, 5, false),
            (5, ONES, false),
            (MIN, ONES, true),
        ],
    );
    check_branch(
        "jsle",
        &[
            (ONES, 5, true),
            (5, 5, true),
            (5, ONES, false),
            (ONES, ONES, true),
        ],
    );
    check_branch(
        "jset",
        &[
            (6, 2, true),
            (6, 1, false),
            (MIN, MIN, true),
            (MIN, ONES, true),
        ],
    );
}

#[test]
fn short_branches_ignore_the_upper_half() {
    let negative = ONES32;
    check_branch(
        "jeq32",
        &[(JUNK | 5, 5, true), (5, 6, false), (ONES, negative, true)],
    );
    check_branch("jne32", &[(JUNK | 5, 5, false), (JUNK | 5, 6, true)]);
    check_branch(
        "jgt32",
        &[
            (JUNK | 5, JUNK | 5, false),
            (negative, 5, true),
            (JUNK, 1, false),
        ],
    );
    check_branch(
        "jge32",
        &[(JUNK | 5, 5, true), (JUNK, 1, false), (negative, 5, true)],
    );
    check_branch(
        "jlt32",
        &[
            (JUNK | 4, 5, true),
            (negative, 5, false),
            (5, JUNK | 5, false),
        ],
    );
    check_branch(
        "jle32",
        &[
            (JUNK | 5, 5, true),
            (negative, 5, false),
            (5, negative, true),
        ],
    );
    check_branch(
        "jsgt32",
        &[
            (JUNK | 5, negative, true),
            (negative, 5, false),
            (5, 5, false),
        ],
    );
    check_branch(
        "jsge32",
        &[(JUNK | 5, negative, true), (MIN32, 0, false), (5, 5, true)],
    );
    check_branch(
        "jslt32",
        &[(JUNK | MIN32, 0, true), (5, negative, false), (5, 5, false)],
    );
    check_branch(
        "jsle32",
        &[(JUNK | MIN32, 0, true), (5, negative, false), (5, 5, true)],
    );
    check_branch(
        "jset32",
        &[(JUNK | 4, JUNK | 2, false), (JUNK | 6, 2, true)],
    );
}

#[test]
fn jumps_go_forward_and_backward() {
    for jump in ["ja", "ja32"] {
        let text = format!(
            "mov r0, 1
             {jump} over
             mov r0, 2
             exit
             over: add r0, 10
             jgt r0, 20, end
             {jump} over
             end: exit"
        );
        assert_eq!(result(&text), 21, "{jump}");
    }
}

#[test]
fn memory_is_little_endian() {
    let load = |instruction: &str| {
        let memory = [0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x07];
        each(&format!("{instruction}\nexit"), &memory, |run| {
            run.result.unwrap()
        })
    };
    assert_eq!(load("ldxb r0, [r1]"), 0x80);
    assert_eq!(load("ldxh r0, [r1+1]"), 0x8281);
    assert_eq!(load("ldxw r0, [r1+1]"), 0x8483_8281);
    assert_eq!(load("ldxdw r0, [r1+1]"), 0x0787_8685_8483_8281);
    assert_eq!(load("ldxsb r0, [r1]"), ONES - 0x7f);
    assert_eq!(load("ldxsb r0, [r1+8]"), 7);
    assert_eq!(load("ldxsh r0, [r1]"), 0xffff_ffff_ffff_8180);
    assert_eq!(load("ldxsw r0, [r1]"), 0xffff_ffff_8382_8180);
    // The destination may be the base.
    assert_eq!(load("mov r0, r1\nldxb r0, [r0+3]"), 0x83);
    assert_eq!(load("mov r0, r1\nadd r0, 5\nldxb r0, [r0-5]"), 0x80);
    assert_eq!(load("mov r0, r2"), 9);
}

#[test]
fn stores_change_their_bytes_only() {
    let store = |instruction: &str| {
        let text = format!("lddw r3, 0x1122334455667788\n{instruction}\nmov r0, 0\nexit");
        each(&text, &[0xaa; 10], |run| run.memory)
    };
    let expect = |bytes: &[u8]| {
        let mut memory = vec![0xaa; 10];
        memory[1..1 + bytes.len()].copy_from_slice(bytes);
        memory
    };
    assert_eq!(store("stxb [r1+1], r3"), expect(&[0x88]));
    assert_eq!(store("stxh [r1+1], r3"), expect(&[0x88, 0x77]));
    assert_eq!(store("stxw [r1+1], r3"), expect(&[0x88, 0x77, 0x66, 0x55]));
    let all = [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];
    assert_eq!(store("stxdw [r1+1], r3"), expect(&all));
    assert_eq!(store("stb [r1+1], 0x1234"), expect(&[0x34]));
    assert_eq!(store("sth [r1+1], -2"), expect(&[0xfe, 0xff]));
    assert_eq!(store("stw [r1+1], -2"), expect(&[0xfe, 0xff, 0xff, 0xff]));
    // The constant is extended to 8 bytes.
    let minus_two = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(store("stdw [r1+1], -2"), expect(&minus_two));
}

#[test]
fn the_stack_has_512_bytes() {
    assert_eq!(result("stdw [r10-512], 7\nldxdw r0, [r10-512]\nexit"), 7);
    assert_eq!(result("ldxdw r0, [r10-8]\nexit"), 0);
    let access = |text: &str| match fault(text) {
        ExecutionFault::Access { slot, bytes, .. } => (slot, bytes),
        other => panic!("{other}"),
    };
    assert_eq!(access("mov r0, 0\nstdw [r10-513], 7\nexit"), (1, 8));
    assert_eq!(access("ldxb r0, [r10-513]\nexit"), (0, 1));
}

#[test]
fn accesses_outside_of_memory_fault() {
    for (text, slot, bytes) in [
        ("ldxb r0, [r1-1]\nexit", 0, 1),
        ("ldxb r0, [r1+4]\nexit", 0, 1),
        ("ldxw r0, [r1+1]\nexit", 0, 4),
        ("ldxdw r0, [r1]\nexit", 0, 8),
        ("stb [r1+4], 1\nexit", 0, 1),
        ("stxh [r1+3], r2\nexit", 0, 2),
        ("lddw r3, 0xffffffffffffffff\nldxdw r0, [r3]\nexit", 2, 8),
        ("lddw r3, 0xfffffffffffffff8\nldxb r0, [r3+8]\nexit", 2, 1),
        ("mov r3, 0\nldxb r0, [r3]\nexit", 1, 1),
    ] {
        each(text, &[1, 2, 3, 4], |run| match run.result {
            Err(ExecutionFault::Access {
                slot: found,
                bytes: found_bytes,
                ..
            }) => assert_eq!((found, found_bytes), (slot, bytes), "{text}"),
            other => panic!("{text}: {other:?}"),
        });
    }
    let message = fault("lddw r3, 0x123\nldxw r0, [r3-3]\nexit").to_string();
    assert_eq!(message, "slot 2: 4 bytes at 0x120 are not in memory");
}

#[test]
fn calls_keep_registers_and_have_stacks_of_their_own() {
    let text = "
            mov r1, 1
            mov r6, 6
            mov r7, 7
            mov r8, 8
            mov r9, 9
            stdw [r10-8], 100
            mov r2, r10
            call function
            add r0, r6
            add r0, r7
            add r0, r8
            add r0, r9
            ldxdw r1, [r10-8]
            add r0, r1
            exit
        function:
            mov r6, 0
            mov r7, 0
            mov r8, 0
            mov r9, 0
            stdw [r10-8], 0
            sub r2, r10
            mov r0, r2
            add r0, 1000
            call inner
            exit
        inner:
            add r0, 10000
            exit
    ";
    // The difference of the frame pointers is 512.
    assert_eq!(result(text), 10_000 + 1000 - 512 + 30 + 100);
}

#[test]
fn recursion_and_loops_have_an_end() {
    let descend = |depth: u32| {
        format!(
            "mov r1, {depth}
             call down
             exit
             down: mov r0, 77
             sub r1, 1
             jeq r1, 0, +1
             call down
             exit"
        )
    };
    assert_eq!(result(&descend(7)), 77);
    assert_eq!(fault(&descend(8)), ExecutionFault::CallDepth { slot: 6 });
    assert_eq!(fault("again: ja again"), ExecutionFault::Budget { slot: 0 });
    let count = |times| format!("mov r0, 0\nmore: add r0, 1\njne r0, {times}, more\nexit");
    assert_eq!(
        result(&count(crate::executors::BUDGET + 1)),
        crate::executors::BUDGET + 1
    );
    assert_eq!(
        fault(&count(crate::executors::BUDGET + 2)),
        ExecutionFault::Budget { slot: 2 }
    );
}
