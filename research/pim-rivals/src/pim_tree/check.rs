//! Checks of the content of all modules.

use super::address::{ModuleAddress, height, place};
use super::round::Outbox;
use super::search::PulledChunk;
use super::task::ChunkTaskKind;
use super::{PimTreeHost, PimTreeMemory};
use nearfield_core::OperationError;
use nearfield_pim::device::ModuleDevice;
use nearfield_pim::dispatch::plan::unknown;

/// The address of a chunk of level 1, and the bound and the entries of its shadow.
type Copied = (ModuleAddress, u64, Vec<(u64, u64)>);

impl<D: ModuleDevice> PimTreeHost<D> {
    /// Returns the memory of all parts.
    ///
    /// # Errors
    /// A module failed.
    pub(super) fn memory(&mut self) -> Result<PimTreeMemory, OperationError> {
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        outbox.item(
            0,
            ChunkTaskKind::UpperRange,
            &[0, u64::MAX, u32::MAX.into()],
        );
        for module in 0..modules {
            outbox.item(module, ChunkTaskKind::Measure, &[0]);
        }
        let mut inbox = self.round(outbox)?;
        let mut memory = PimTreeMemory::default();
        let count = inbox.word(0).map_err(|error| unknown(&error))? as usize;
        let words = inbox.take(0, 2 * count).map_err(|error| unknown(&error))?;
        let chunks = words.chunks_exact(2).map(|chunk| ModuleAddress(chunk[1]));
        let chunks: Vec<ModuleAddress> = chunks.collect();
        for module in 0..modules {
            let parts = inbox.take(module, 4).map_err(|error| unknown(&error))?;
            memory.data += parts[0];
            memory.tables += parts[1];
            memory.upper += parts[2];
            memory.chunks += parts[3] - parts[0] - parts[1] - parts[2];
        }
        let mut outbox = Outbox::new(modules);
        for chunk in &chunks {
            outbox.item(
                chunk.module(),
                ChunkTaskKind::Measure,
                &[chunk.local().into()],
            );
        }
        let mut inbox = self.round(outbox)?;
        for chunk in chunks {
            let shadows = inbox.word(chunk.module());
            memory.shadows += shadows.map_err(|error| unknown(&error))?;
        }
        memory.chunks -= memory.shadows;
        Ok(memory)
    }

    /// Checks that chunks follow each other without gaps at every level, that each begins with a
    /// key of the level above, that shadows equal their originals, that all modules have the same
    /// upper part, and that each key has a data node that is in the table of its module.
    ///
    /// # Panics
    /// If an invariant is broken, or a module cannot be read.
    pub(super) fn check(&mut self) {
        if !self.is_built {
            assert_eq!(self.count, 0, "keys and no chunks");
            return;
        }
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        for module in 0..modules {
            let all = [0, u64::MAX, u32::MAX.into()];
            outbox.item(module, ChunkTaskKind::UpperRange, &all);
        }
        let mut inbox = self.round(outbox).expect("a round");
        let mut upper: Vec<(u64, ModuleAddress)> = Vec::new();
        for module in 0..modules {
            let count = inbox.word(module).expect("a reply") as usize;
            let words = inbox.take(module, 2 * count).expect("a reply");
            let words = words.chunks_exact(2);
            let found = words.map(|chunk| (chunk[0], ModuleAddress(chunk[1])));
            let found: Vec<_> = found.collect();
            assert!(module == 0 || found == upper, "modules disagree");
            upper = found;
        }
        for level in [2, 1, 0] {
            upper = self.check_level(level, &upper);
        }
        assert_eq!(upper.len(), self.count, "keys are lost");
        self.check_data(&upper);
    }

    /// Checks the chunks of a level, and returns their entries.
    fn check_level(
        &mut self,
        level: usize,
        chunks: &[(u64, ModuleAddress)],
    ) -> Vec<(u64, ModuleAddress)> {
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        for (first, chunk) in chunks {
            let kind = [
                ChunkTaskKind::Pull,
                ChunkTaskKind::Pull,
                ChunkTaskKind::PullDeep,
            ][level];
            let item = [chunk.local().into(), 0];
            outbox.item(chunk.module(), kind, &item[..kind.words()]);
            assert_eq!(chunk.module(), place(*first, level, modules));
        }
        let mut inbox = self.round(outbox).expect("a round");
        let mut children = Vec::new();
        let mut copies = Vec::new();
        for (number, &(first, chunk)) in chunks.iter().enumerate() {
            let module = chunk.module();
            let mut content =
                PulledChunk::take_unsorted(&mut inbox, module, level).expect("a reply");
            assert_eq!(content.first, first);
            let bound = chunks.get(number + 1).map_or(0, |next| next.0);
            assert_eq!(
                content.bound, bound,
                "a gap after {first:#x} of level {level}"
            );
            if level == 2 {
                for &(_, of, _) in &content.entries {
                    let head = inbox.take(module, 2).expect("a reply");
                    let (bound, count) = (head[0], head[1] as usize);
                    let words = inbox.take(module, 2 * count).expect("a reply");
                    let entries = words.chunks_exact(2);
                    let mut entries: Vec<_> = entries.map(|entry| (entry[0], entry[1])).collect();
                    entries.sort_unstable();
                    copies.push((of, bound, entries));
                }
            }
            content.entries.sort_unstable();
            let keys = content.entries.iter().map(|entry| entry.0);
            assert!(keys.clone().is_sorted_by(|one, other| one < other));
            assert!(
                keys.clone()
                    .all(|key| key >= first && (bound == 0 || key < bound))
            );
            // The first key of a chunk is removed only with its chunk, unless there was no room to
            // merge it.
            assert!(level == 0 || keys.clone().next() == Some(first));
            let tall = keys.skip(usize::from(level > 0));
            for key in tall.filter(|&key| key != first) {
                assert!(
                    usize::from(height(key)) <= level,
                    "{key:#x} is not the first key of a chunk"
                );
            }
            let entries = content.entries.iter();
            children.extend(entries.map(|&(key, address, _)| (key, address)));
        }
        if level == 2 {
            self.check_copies(copies);
        }
        if level == 0 {
            let firsts = chunks.iter().skip(1).map(|chunk| chunk.0);
            let found = |first: &u64| children.binary_search_by_key(first, |child| child.0);
            let hollow = firsts.filter(|first| found(first).is_err()).count();
            assert_eq!(hollow, self.hollow, "chunks without their first keys");
        }
        children
    }

    /// Checks shadows.
    fn check_copies(&mut self, copies: Vec<Copied>) {
        let mut outbox = Outbox::new(self.modules());
        for (of, ..) in &copies {
            outbox.item(of.module(), ChunkTaskKind::Pull, &[of.local().into()]);
        }
        let mut inbox = self.round(outbox).expect("a round");
        for (of, bound, entries) in copies {
            let original = PulledChunk::take(&mut inbox, of.module(), 1).expect("a reply");
            let found = original.entries.iter().map(|&(key, to, _)| (key, to.0));
            assert_eq!(found.collect::<Vec<_>>(), entries, "a shadow differs");
            assert_eq!(original.bound, bound);
        }
    }

    /// Checks data nodes.
    fn check_data(&mut self, entries: &[(u64, ModuleAddress)]) {
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        for &(key, node) in entries {
            assert_eq!(node.module(), place(key, 0, modules));
            outbox.item(node.module(), ChunkTaskKind::Fetch, &[node.local().into()]);
        }
        for &(key, node) in entries {
            outbox.item(node.module(), ChunkTaskKind::Probe, &[key]);
        }
        let mut inbox = self.round(outbox).expect("a round");
        let nodes = entries.iter().map(|&(key, node)| {
            let words = inbox.take(node.module(), 2).expect("a reply");
            assert_eq!(words[0], key);
            words[1]
        });
        let values: Vec<u64> = nodes.collect();
        for (&(_, node), value) in entries.iter().zip(values) {
            let words = inbox.take(node.module(), 2).expect("a reply");
            assert_eq!(words, [1, value]);
        }
    }
}
