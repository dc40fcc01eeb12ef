//! What RADAR does in a module: a skip list of subranges (L2), and in each a skip list of keys (L1). Source:
//! RADAR, section IV-A.

use crate::device::{Fault, Meter, Module, Program};
use crate::kernel::{self, Lists};
use crate::towers::Towers;

/// Does tasks in the subranges of a module.
pub(super) struct Tasks;

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
        let subranges = Towers::of_root(module)?;
        kernel::run(module, input, output, &mut Subranges(subranges))
    }
}

/// The list of subranges: where each begins, and the first tower of its own list.
struct Subranges(Towers);

impl Lists for Subranges {
    fn find<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        key: u64,
    ) -> Result<Option<Towers>, Fault> {
        let found = self.0.floor(module, key);
        Ok(found.map(|(_, head)| Towers::at(head as u32)))
    }

    fn build<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        start: u64,
        entries: &[u64],
    ) -> Result<Towers, Fault> {
        let list = Towers::new(module)?;
        let pairs = entries.chunks_exact(2).map(|entry| (entry[0], entry[1]));
        let built = list.build(module, pairs);
        let head = u64::from(list.head());
        match built.and_then(|()| self.0.insert(module, start, head)) {
            Ok(_) => Ok(list),
            Err(fault) => {
                list.take(module);
                Err(fault)
            }
        }
    }

    fn free<M: Meter>(&mut self, module: &mut Module<'_, M>, start: u64) {
        if let Some(head) = self.0.remove(module, start) {
            Towers::at(head as u32).take(module);
        }
    }
}
