//! RADAR's program in a module: a skip list of subranges (L2), and in each a list of keys (L1).
//! Source: RADAR, section IV-A.

use crate::device::{Fault, Meter, Module, Program};
use crate::dispatch::kernel::{self, Lists};
use crate::dispatch::wire::{Runs, Tagged};
use crate::structures::block_tree::Blocks;
use crate::structures::list::List;
use crate::structures::skip_list::SkipList;
use std::marker::PhantomData;

/// The structure for the keys of a subrange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// A skip list. As in the paper.
    SkipList,
    /// A tree of sorted blocks. Not in the paper.
    Blocks,
}

/// The program that executes tasks in the subranges of a module.
pub(super) struct Tasks {
    pub keys: Keys,
    /// True if tasks arrive in runs.
    pub packed: bool,
}

impl Program for Tasks {
    fn run<M: Meter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), Fault> {
        if input.is_empty() {
            return Ok(());
        }
        let subranges = SkipList::of_root(module)?;
        match self.keys {
            Keys::SkipList => {
                let lists = Subranges::<SkipList>(subranges, PhantomData);
                self.run_in(module, input, output, lists)
            }
            Keys::Blocks => {
                let lists = Subranges::<Blocks>(subranges, PhantomData);
                self.run_in(module, input, output, lists)
            }
        }
    }
}

impl Tasks {
    fn run_in<M: Meter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
        mut lists: impl Lists,
    ) -> Result<(), Fault> {
        if self.packed {
            kernel::run(module, input, output, &mut lists, Runs::default())
        } else {
            kernel::run(module, input, output, &mut lists, Tagged)
        }
    }
}

/// The list of a module's subranges. The key is the start of a subrange; the value is one word with
/// the number of bits in which its keys may differ and the address of its list.
struct Subranges<L>(SkipList, PhantomData<L>);

impl<L: List> Lists for Subranges<L> {
    type List = L;

    fn find<M: Meter>(&mut self, module: &mut Module<'_, M>, key: u64) -> Result<Option<L>, Fault> {
        let found = self.0.floor(module, key);
        // A subrange that had no room is not in the list, although one before it may be found.
        let is_in = |&(start, word): &(u64, u64)| {
            let differ = u64::BITS - (key ^ start).leading_zeros();
            differ <= (word >> 32) as u32
        };
        Ok(found.filter(is_in).map(|(_, word)| L::at(word as u32)))
    }

    fn build<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        start: u64,
        bits: u32,
        entries: &[u64],
    ) -> Result<L, Fault> {
        let list = L::new(module)?;
        let pairs = entries.chunks_exact(2).map(|entry| (entry[0], entry[1]));
        let built = list.build(module, pairs);
        let word = u64::from(bits) << 32 | u64::from(list.head());
        match built.and_then(|()| self.0.insert(module, start, word)) {
            Ok(_) => Ok(list),
            Err(fault) => {
                list.free(module);
                Err(fault)
            }
        }
    }

    fn free<M: Meter>(&mut self, module: &mut Module<'_, M>, start: u64) {
        if let Some(head) = self.0.remove(module, start) {
            L::at(head as u32).free(module);
        }
    }

    fn set_height<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        start: u64,
        height: usize,
    ) -> Result<(), Fault> {
        self.0.set_height(module, start, height)?;
        Ok(())
    }
}
