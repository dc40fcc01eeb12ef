//! The order in which the verifier visits instructions.

use super::refusal::InstructionRefusal;
use crate::isa::{BpfCode, Instruction};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The progress of the search for loops at an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchProgress {
    New,
    /// An instruction on the path that is being followed.
    Open,
    Done,
}

/// An instruction of a path, with those that may follow it and were not tried yet.
type PathStep = (usize, [Option<usize>; 2]);

/// Returns the instructions in an order in which each follows all that can lead to it. If all jumps
/// go forward, it is the order of the code.
///
/// Such an order exists if and only if the code has no loop. Then no execution visits an
/// instruction twice, so each terminates after at most the number of instructions in the code.
///
/// # Errors
/// Code with a call, a loop, or an instruction that no path reaches; with that instruction's index.
pub fn visiting_order(code: &BpfCode) -> Result<Vec<usize>, (usize, InstructionRefusal)> {
    let instructions = code.instructions();
    let is_call = |instruction: &Instruction| matches!(instruction, Instruction::Call { .. });
    // A called function would be reached by its call only, and its end leads to many places.
    if let Some(index) = instructions.iter().position(is_call) {
        return Err((index, InstructionRefusal::Call));
    }
    check_paths(code)?;
    let count = instructions.len();
    // Number of ways that lead to each instruction and were not visited yet.
    let mut open_ways = vec![0; count];
    for index in 0..count {
        for next in successors(code, index).into_iter().flatten() {
            open_ways[next] += 1;
        }
    }
    let mut order = Vec::with_capacity(count);
    let mut ready = BinaryHeap::from([Reverse(0)]);
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for next in successors(code, index).into_iter().flatten() {
            open_ways[next] -= 1;
            if open_ways[next] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    debug_assert_eq!(order.len(), count, "without loops, each gets its turn");
    Ok(order)
}

/// Returns the instructions that may be executed next.
fn successors(code: &BpfCode, index: usize) -> [Option<usize>; 2] {
    let continues = code.instructions()[index].continues();
    // Code ends with an exit or a jump, so there is an instruction after one that continues.
    [continues.then_some(index + 1), code.target(index)]
}

/// Follows all paths once, to find loops and instructions that no path reaches.
fn check_paths(code: &BpfCode) -> Result<(), (usize, InstructionRefusal)> {
    let mut progress = vec![SearchProgress::New; code.instructions().len()];
    let mut path: Vec<PathStep> = vec![(0, successors(code, 0))];
    progress[0] = SearchProgress::Open;
    while let Some((index, untried)) = path.last_mut() {
        let index = *index;
        let Some(next) = untried.iter_mut().find_map(Option::take) else {
            progress[index] = SearchProgress::Done;
            path.pop();
            continue;
        };
        match progress[next] {
            SearchProgress::New => {
                progress[next] = SearchProgress::Open;
                path.push((next, successors(code, next)));
            }
            SearchProgress::Open => {
                return Err((backward_jump(&path, next), InstructionRefusal::Loop));
            }
            SearchProgress::Done => {}
        }
    }
    let is_new = |progress: &SearchProgress| *progress == SearchProgress::New;
    match progress.iter().position(is_new) {
        Some(index) => Err((index, InstructionRefusal::Unreachable)),
        None => Ok(()),
    }
}

/// Returns the jump that goes back in the loop from `first` to the end of the path, and on to
/// `first`.
fn backward_jump(path: &[PathStep], first: usize) -> usize {
    let indices = path.iter().map(|&(index, _)| index);
    let circle: Vec<usize> = indices.skip_while(|&index| index != first).collect();
    let following = circle.iter().cycle().skip(1);
    // Not every step of a circle can go forward.
    let back = circle.iter().zip(following).find(|(from, to)| to <= from);
    back.map_or(first, |(&from, _)| from)
}
