//! A loop over the [`TraversalLane`]s of many traversals, around a verified program that only
//! reads. It makes one iteration of each, and adds only a few instructions to an iteration.

use super::verified::{VerifiedAccesses, body};
use super::{Translation, enter, finish};
use crate::executor::lane::{Near, TraversalLane};
use crate::program::TraversalProgram;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, Function, InstBuilder, MemFlags, Signature, Type, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::mem::offset_of;

/// Sets the signature of the loop. Its parameters are the first lane, the end of the last one, the
/// list for pointers to lanes that stop, and the number of iterations that lanes may make beyond
/// their first, from the first lane on. Its result is the number of lanes that stop.
pub fn signature(signature: &mut Signature, pointer: Type) {
    // All fields of a lane that the loop uses, pointers too, are loaded as words of 64 bits.
    debug_assert_eq!(pointer, types::I64);
    let kinds = [pointer, pointer, pointer, types::I64];
    signature.params.extend(kinds.map(AbiParam::new));
    signature.returns.push(AbiParam::new(types::I64));
}

const NODE: usize = offset_of!(TraversalLane, node);
const SCRATCHPAD: usize = offset_of!(TraversalLane, scratchpad);
const LEFT: usize = offset_of!(TraversalLane, left);
const FIRST: usize = offset_of!(TraversalLane, near) + offset_of!(Near, first);
const ROOM: usize = offset_of!(TraversalLane, near) + offset_of!(Near, room);
const ORIGIN: usize = offset_of!(TraversalLane, near) + offset_of!(Near, origin);
const NEXT: usize = offset_of!(TraversalLane, next);

/// Translates a program into the body of a function.
pub fn translate(program: &TraversalProgram, function: &mut Function) {
    let mut frontend = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(function, &mut frontend);
    let [lanes, end, stops, repeats] = enter(&mut builder);
    let head = builder.create_block();
    let lane = builder.append_block_param(head, types::I64);
    let count = builder.append_block_param(head, types::I64);
    let left = builder.append_block_param(head, types::I64);
    let none = builder.ins().iconst(types::I64, 0);
    builder.ins().jump(head, &arguments([lanes, none, repeats]));

    builder.switch_to_block(head);
    let done = builder.create_block();
    let next = builder.append_block_param(done, types::I64);
    let node = field(&mut builder, lane, NODE);
    let start = i64::from(program.node_load().start);
    let current = builder.ins().iadd_imm(node, -start);
    let scratchpad = field(&mut builder, lane, SCRATCHPAD);
    // If a program does not use the address, Cranelift removes this computation.
    let (first, origin) = (
        field(&mut builder, lane, FIRST),
        field(&mut builder, lane, ORIGIN),
    );
    let distance = builder.ins().isub(node, origin);
    let address = builder.ins().iadd(first, distance);
    let accesses = VerifiedAccesses {
        program,
        node: current,
        // Such a program has no allocation, and no stores are noted.
        allocation: none,
        stores: none,
        exit: Some(done),
    };
    let mut translation = Translation::new(builder, program.code(), accesses);
    body(&mut translation, [current, scratchpad, address, none, none]);
    let mut builder = translation.builder;

    builder.switch_to_block(done);
    let rest = LaneEpilogue {
        lane,
        end,
        stops,
        repeats: left,
        head,
    };
    rest.translate(&mut builder, next, count);
    finish(builder);
}

/// The code after the program: the lane continues or stops, and the next one follows, unless the
/// lane continues and repeats are left.
struct LaneEpilogue {
    lane: Value,
    end: Value,
    stops: Value,
    repeats: Value,
    head: Block,
}

impl LaneEpilogue {
    fn translate(&self, builder: &mut FunctionBuilder<'_>, next: Value, count: Value) {
        let lane = self.lane;
        let (within, goes_on) = (builder.create_block(), builder.create_block());
        let (stops, behind) = (builder.create_block(), builder.create_block());
        let counted = builder.append_block_param(behind, types::I64);
        let left = field(builder, lane, LEFT);
        // The iteration is counted before the lane may stop, because it was made in each case.
        let left = builder.ins().iadd_imm(left, -1);
        set_field(builder, lane, LEFT, left);
        let first = field(builder, lane, FIRST);
        let distance = builder.ins().isub(next, first);
        let room = field(builder, lane, ROOM);
        // Zero, the end of a traversal, is in no part of memory. So one comparison finds ends and
        // nodes elsewhere.
        let is_near = builder.ins().icmp(IntCC::UnsignedLessThan, distance, room);
        builder.ins().brif(is_near, within, &[], stops, &[]);

        builder.switch_to_block(within);
        builder.ins().brif(left, goes_on, &[], stops, &[]);

        builder.switch_to_block(goes_on);
        let origin = field(builder, lane, ORIGIN);
        let node = builder.ins().iadd(origin, distance);
        set_field(builder, lane, NODE, node);
        let repeats = builder.create_block();
        let one = arguments([count]);
        // Repeats are left only if the lane is alone. Otherwise others run while its node is
        // fetched.
        builder.ins().brif(self.repeats, repeats, &[], behind, &one);

        builder.switch_to_block(repeats);
        // The fence keeps the loads of the next iteration from returning older bytes than this one
        // loaded. x86 keeps the order of loads without it.
        if !cfg!(target_arch = "x86_64") {
            builder.ins().fence();
        }
        let less = builder.ins().iadd_imm(self.repeats, -1);
        builder
            .ins()
            .jump(self.head, &arguments([lane, count, less]));

        builder.switch_to_block(stops);
        set_field(builder, lane, NEXT, next);
        let place = builder.ins().ishl_imm(count, 3);
        let place = builder.ins().iadd(self.stops, place);
        builder.ins().store(MemFlags::trusted(), lane, place, 0);
        let more = builder.ins().iadd_imm(count, 1);
        builder.ins().jump(behind, &arguments([more]));

        builder.switch_to_block(behind);
        let following = builder
            .ins()
            .iadd_imm(lane, size_of::<TraversalLane>() as i64);
        // The check is after the lane: the caller passes at least one.
        let is_last = builder.ins().icmp(IntCC::Equal, following, self.end);
        let ends = builder.create_block();
        let again = arguments([following, counted, self.repeats]);
        builder.ins().brif(is_last, ends, &[], self.head, &again);
        builder.switch_to_block(ends);
        builder.ins().return_(&[counted]);
    }
}

fn arguments<const N: usize>(values: [Value; N]) -> [BlockArg; N] {
    values.map(BlockArg::Value)
}

fn field(builder: &mut FunctionBuilder<'_>, lane: Value, offset: usize) -> Value {
    let flags = MemFlags::trusted();
    builder.ins().load(types::I64, flags, lane, offset as i32)
}

fn set_field(builder: &mut FunctionBuilder<'_>, lane: Value, offset: usize, value: Value) {
    let flags = MemFlags::trusted();
    builder.ins().store(flags, value, lane, offset as i32);
}
