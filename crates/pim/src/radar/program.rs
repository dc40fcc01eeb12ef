//! RADAR's program in a module: a skip list of subranges (L2), and in each a list of keys (L1).
//! Source: RADAR, section IV-A.

use crate::device::{Module, ModuleProgram, ProgramFault, WorkMeter};
use crate::dispatch::kernel::{self, PartitionLists};
use crate::dispatch::wire::{RunEncoding, TaggedEncoding};
use crate::structures::block_tree::PimBlockTree;
use crate::structures::list::OrderedKeyList;
use crate::structures::skip_list::PimSkipList;
use std::marker::PhantomData;

/// The structure for the keys of a subrange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubrangeStructure {
    /// A skip list. As in the paper.
    SkipList,
    /// A tree of sorted blocks. Not in the paper.
    Blocks,
}

/// The program that executes tasks in the subranges of a module.
pub(super) struct RadarProgram {
    pub keys: SubrangeStructure,
    /// True if tasks arrive in runs.
    pub packed: bool,
}

impl ModuleProgram for RadarProgram {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        if input.is_empty() {
            return Ok(());
        }
        let subranges = PimSkipList::of_root(module)?;
        match self.keys {
            SubrangeStructure::SkipList => {
                let lists = Subranges::<PimSkipList>(subranges, PhantomData);
                self.run_in(module, input, output, lists)
            }
            SubrangeStructure::Blocks => {
                let lists = Subranges::<PimBlockTree>(subranges, PhantomData);
                self.run_in(module, input, output, lists)
            }
        }
    }
}

impl RadarProgram {
    fn run_in<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
        mut lists: impl PartitionLists,
    ) -> Result<(), ProgramFault> {
        if self.packed {
            kernel::run(module, input, output, &mut lists, RunEncoding::default())
        } else {
            kernel::run(module, input, output, &mut lists, TaggedEncoding)
        }
    }
}

/// The list of a module's subranges. The key is the start of a subrange; the value is one word with
/// the number of bits in which its keys may differ and the address of its list.
struct Subranges<L>(PimSkipList, PhantomData<L>);

impl<L: OrderedKeyList> PartitionLists for Subranges<L> {
    type List = L;

    fn find<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        key: u64,
    ) -> Result<Option<L>, ProgramFault> {
        let found = self.0.floor(module, key);
        // A subrange that had no room is not in the list, although one before it may be found.
        let is_in = |&(start, word): &(u64, u64)| {
            let differ = u64::BITS - (key ^ start).leading_zeros();
            differ <= (word >> 32) as u32
        };
        Ok(found.filter(is_in).map(|(_, word)| L::at(word as u32)))
    }

    fn build<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        start: u64,
        bits: u32,
        entries: &[u64],
    ) -> Result<L, ProgramFault> {
        let list = L::new(module)?;
        let pairs = entries.chunks_exact(2).map(|entry| (entry[0], entry[1]));
        let built = list.build(module, pairs);
        let word = u64::from(bits) << 32 | u64::from(list.head());
        // The subrange is listed only when its keys are complete, so a full bank leaves no part of
        // one.
        match built.and_then(|()| self.0.insert(module, start, word)) {
            Ok(_) => Ok(list),
            Err(fault) => {
                list.free(module);
                Err(fault)
            }
        }
    }

    fn free<M: WorkMeter>(&mut self, module: &mut Module<'_, M>, start: u64) {
        if let Some(head) = self.0.remove(module, start) {
            L::at(head as u32).free(module);
        }
    }

    fn set_height<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        start: u64,
        height: usize,
    ) -> Result<(), ProgramFault> {
        self.0.set_height(module, start, height)?;
        Ok(())
    }
}
