//! The execution of a plan in modules: first the steps that can fail because a module has no room,
//! then the rest in one round.

use super::address::{LEVELS, ModuleAddress, height, place};
use super::plan::{ChunkChild, Level, PlannedChunk};
use super::prepare::{PimTreePlan, Wish, Wishes};
use super::round::{Outbox, PimTreeInbox};
use super::task::{BOUNDS, ChunkTaskKind, TRUNCATES, WIDE};
use super::{Garbage, PimTreeHost};
use nearfield_core::OperationError;
use nearfield_pim::device::ModuleDevice;
use nearfield_pim::dispatch::plan::unknown;
use std::collections::HashSet;

/// The addresses of all new nodes.
#[derive(Default)]
struct NewNodeAddresses {
    /// New data nodes, by the numbers of wishes.
    data: Vec<ModuleAddress>,
    /// Chunks of all outcomes, for each level.
    chunks: [Vec<ModuleAddress>; LEVELS],
    /// New shadows, in the order of the plan.
    shadows: Vec<ModuleAddress>,
}

/// The part that could not be prepared.
enum Cause {
    /// The data node of a key.
    Data(usize),
    /// A chunk of level 0, by its outcome.
    Lowest(usize),
    /// A part that only tall keys need.
    Tall,
}

impl<D: ModuleDevice> PimTreeHost<D> {
    /// Makes room in all modules concerned, and then makes all changes in one round.
    ///
    /// # Errors
    /// As for `prepare`: a part was given up or, if there is an error, everything.
    pub(super) fn carry_out(
        &mut self,
        wishes: &mut Wishes<'_>,
        plan: PimTreePlan,
    ) -> Result<(), Option<OperationError>> {
        let mut places = NewNodeAddresses::default();
        if !plan.levels.is_empty() {
            let outbox = self.requests(wishes, &plan);
            let inbox = self.round(outbox)?;
            let causes = self.take(wishes, &plan, inbox, &mut places);
            // Nothing is linked yet, so the prepared nodes are given up, and the rest of the wishes
            // is tried again.
            if !causes.is_empty() {
                self.give_up(&plan, &places, wishes);
                blame(wishes, &plan, causes);
                return Err(None);
            }
        }
        let outbox = self.orders(wishes, &plan, &places);
        if outbox.is_empty() {
            return Ok(());
        }
        // A module that fails receives the same tasks again.
        let copies = outbox.inputs.clone();
        let inbox = match self.round(outbox) {
            Ok(inbox) => inbox,
            Err(error) => {
                self.give_up(&plan, &places, wishes);
                return Err(Some(error));
            }
        };
        let mut failed = HashSet::new();
        for (module, words) in copies.into_iter().enumerate() {
            // The other modules have made the change, so it can only go forward.
            if !words.is_empty() && inbox.error(module).is_some() {
                self.again.entry(module).or_default().extend(words);
                failed.insert(module);
            }
        }
        for (_, wish) in wishes.live() {
            self.count += usize::from(wish.comes());
            self.count -= usize::from(wish.goes());
            // Its chunk keeps its place without its first key.
            if wish.goes() && wishes.stay && height(wish.key) > 0 {
                self.hollow += 1;
            }
        }
        self.hollow -= plan.levels.iter().map(|level| level.filled).sum::<usize>();
        if !failed.is_empty() {
            self.doubt(wishes, &plan, &places, &inbox, &failed);
        }
        Ok(())
    }

    /// Returns the requests that need room.
    fn requests(&self, wishes: &Wishes<'_>, plan: &PimTreePlan) -> Outbox {
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        for (_, wish) in wishes.live().filter(|(_, wish)| wish.comes()) {
            let item = [wish.key, wish.after.unwrap_or(0)];
            outbox.item(place(wish.key, 0, modules), ChunkTaskKind::NewData, &item);
        }
        for (level, planned) in plan.levels.iter().enumerate() {
            for outcome in &planned.outcomes {
                let more = outcome.adds.len() as u64;
                let (kind, first, chunk) = match outcome.address {
                    Some(chunk) => (ChunkTaskKind::Reserve, u64::from(chunk.local()), chunk),
                    None => (ChunkTaskKind::NewChunk, level as u64, ModuleAddress::NONE),
                };
                match (kind, more) {
                    (ChunkTaskKind::Reserve, 0) => {}
                    (ChunkTaskKind::Reserve, _) => {
                        outbox.item(chunk.module(), kind, &[first, more])
                    }
                    _ => {
                        let module = place(outcome.first, level, modules);
                        outbox.item(module, kind, &[first, outcome.first, more]);
                    }
                }
                // The copy in the module of level 2 grows with the chunk, so it needs room there,
                // too.
                if level == 1
                    && more > 0
                    && let Some(home) = outcome.address.and_then(|chunk| plan.homes.get(&chunk))
                {
                    let item = [home.local().into(), more];
                    outbox.item(home.module(), ChunkTaskKind::Reserve, &item);
                }
            }
        }
        for shadow in &plan.shadows {
            let module = self.module_of(&plan.levels[2].outcomes[shadow.of], 2);
            // A shadow is a chunk of level 1 in the module of its parent.
            let item = [1, shadow.first, shadow.entries.len() as u64];
            outbox.item(module, ChunkTaskKind::NewChunk, &item);
        }
        // The upper part is in all modules, so each must have room for it.
        let upper = rises(plan).count() as u64;
        for module in (0..modules).filter(|_| upper > 0) {
            outbox.item(module, ChunkTaskKind::ReserveUpper, &[upper]);
        }
        outbox
    }

    /// Returns the module that stores a chunk, or will store it.
    fn module_of(&self, outcome: &PlannedChunk, level: usize) -> usize {
        match outcome.address {
            Some(chunk) => chunk.module(),
            None => place(outcome.first, level, self.modules()),
        }
    }

    /// Takes the results of the requests that need room, in the same order.
    fn take(
        &self,
        wishes: &Wishes<'_>,
        plan: &PimTreePlan,
        mut inbox: PimTreeInbox,
        places: &mut NewNodeAddresses,
    ) -> Vec<Cause> {
        let modules = self.modules();
        let mut causes = Vec::new();
        let mut answer = |module: usize, cause: Cause| {
            // A failed module counts as one without room, because its node is unknown.
            let local = inbox.word(module).unwrap_or(0);
            if local == 0 {
                causes.push(cause);
                return ModuleAddress::NONE;
            }
            ModuleAddress::new(module, local as u32)
        };
        places.data = vec![ModuleAddress::NONE; wishes.all.len()];
        for (number, wish) in wishes.live().filter(|(_, wish)| wish.comes()) {
            places.data[number] = answer(place(wish.key, 0, modules), Cause::Data(number));
        }
        for (level, planned) in plan.levels.iter().enumerate() {
            for (number, outcome) in planned.outcomes.iter().enumerate() {
                let cause = match level {
                    0 => Cause::Lowest(number),
                    _ => Cause::Tall,
                };
                let chunk = match outcome.address {
                    Some(chunk) => {
                        if !outcome.adds.is_empty() {
                            answer(chunk.module(), cause);
                        }
                        chunk
                    }
                    None => answer(place(outcome.first, level, modules), cause),
                };
                places.chunks[level].push(chunk);
                if level == 1
                    && !outcome.adds.is_empty()
                    && let Some(home) = outcome.address.and_then(|chunk| plan.homes.get(&chunk))
                {
                    answer(home.module(), Cause::Tall);
                }
            }
        }
        for shadow in &plan.shadows {
            let module = self.module_of(&plan.levels[2].outcomes[shadow.of], 2);
            places.shadows.push(answer(module, Cause::Tall));
        }
        if rises(plan).next().is_some() {
            for module in 0..modules {
                answer(module, Cause::Tall);
            }
        }
        causes
    }

    /// Marks the prepared nodes as unused, so that modules free them.
    fn give_up(&mut self, plan: &PimTreePlan, places: &NewNodeAddresses, wishes: &Wishes<'_>) {
        let data = places.data.iter().zip(wishes.all);
        let data = data.map(|(&node, wish)| Garbage::Data(node, wish.key));
        let mut garbage: Vec<Garbage> = data.collect();
        for (planned, chunks) in plan.levels.iter().zip(&places.chunks) {
            let outcomes = planned.outcomes.iter().zip(chunks);
            // Existing chunks have only room that they do not use.
            let new = outcomes.filter(|(outcome, _)| outcome.address.is_none());
            garbage.extend(new.map(|(outcome, &chunk)| Garbage::Chunk(chunk, outcome.first)));
        }
        let shadows = plan.shadows.iter().zip(&places.shadows);
        garbage.extend(shadows.map(|(shadow, &chunk)| Garbage::Chunk(chunk, shadow.first)));
        garbage.retain(|garbage| match garbage {
            Garbage::Chunk(address, _) | Garbage::Data(address, _) => {
                *address != ModuleAddress::NONE
            }
        });
        self.garbage.extend(garbage);
    }

    /// Returns the tasks that make the changes, once there is room for them.
    fn orders(&self, wishes: &Wishes<'_>, plan: &PimTreePlan, places: &NewNodeAddresses) -> Outbox {
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        let child = |level: usize, child: ChunkChild| match child {
            ChunkChild::At(address) => address,
            ChunkChild::Data(number) => places.data[number as usize],
            ChunkChild::Chunk(number) => places.chunks[level - 1][number as usize],
        };
        let mut shadows = places.shadows.iter();
        for (level, planned) in plan.levels.iter().enumerate() {
            debug_assert_eq!(planned.outcomes.len(), places.chunks[level].len());
            for (outcome, &chunk) in planned.outcomes.iter().zip(&places.chunks[level]) {
                if outcome.is_empty() {
                    continue;
                }
                let adds = outcome.adds.iter();
                let adds: Vec<[u64; 3]> = adds
                    .map(|&(key, to)| {
                        let shadow = match level {
                            2 => shadows.next().map_or(0, |shadow| shadow.local()),
                            _ => 0,
                        };
                        [key, child(level, to).0, shadow.into()]
                    })
                    .collect();
                change(&mut outbox, chunk, outcome, &adds, level == 2);
                if level == 1
                    && let Some(&home) = outcome.address.and_then(|chunk| plan.homes.get(&chunk))
                {
                    change(&mut outbox, home, outcome, &adds, false);
                }
            }
            for &(chunk, first) in &planned.freed {
                let item = [chunk.local().into(), first];
                outbox.item(chunk.module(), ChunkTaskKind::FreeChunk, &item);
            }
        }
        debug_assert_eq!(shadows.len(), 0, "each new entry of level 2 has a shadow");
        for (shadow, &chunk) in plan.shadows.iter().zip(&places.shadows) {
            let entries = shadow.entries.iter();
            let adds: Vec<[u64; 3]> = entries.map(|&(key, to)| [key, child(1, to).0, 0]).collect();
            let outcome = PlannedChunk {
                bound: Some(shadow.bound),
                ..PlannedChunk::new(None, shadow.first)
            };
            change(&mut outbox, chunk, &outcome, &adds, false);
        }
        for (number, wish) in wishes.live() {
            let module = place(wish.key, 0, modules);
            match wish.after {
                None => outbox.item(module, ChunkTaskKind::Delete, &[wish.key]),
                Some(_) if wish.comes() => {
                    let node = places.data[number].local();
                    outbox.item(module, ChunkTaskKind::Put, &[node.into()]);
                }
                Some(value) => outbox.item(module, ChunkTaskKind::Set, &[wish.key, value]),
            }
        }
        if let Some(Level { above, .. }) = plan.levels.get(2) {
            let rises = rises(plan).next().is_some();
            for module in (0..modules).filter(|_| !above.is_empty()) {
                for &(key, outcome) in above {
                    match outcome {
                        None => outbox.item(module, ChunkTaskKind::UpperRemove, &[key]),
                        Some(number) => {
                            let chunk = places.chunks[2][number as usize];
                            outbox.item(module, ChunkTaskKind::UpperInsert, &[key, chunk.0]);
                        }
                    }
                }
                // The spare nodes that were not needed return to the bank.
                if rises {
                    outbox.item(module, ChunkTaskKind::Release, &[0]);
                }
            }
        }
        outbox
    }

    /// Records an error for changes in modules that failed, because their state is unknown.
    fn doubt(
        &self,
        wishes: &mut Wishes<'_>,
        plan: &PimTreePlan,
        places: &NewNodeAddresses,
        inbox: &PimTreeInbox,
        failed: &HashSet<usize>,
    ) {
        let modules = self.modules();
        let mut lowest: Vec<usize> = plan.lowest.iter().map(|chunk| chunk.module()).collect();
        if let Some(level) = plan.levels.first() {
            for (outcome, chunk) in level.outcomes.iter().zip(&places.chunks[0]) {
                for &(_, to) in &outcome.adds {
                    if let ChunkChild::Data(number) = to {
                        lowest[number as usize] = chunk.module();
                    }
                }
            }
        }
        let any = failed.iter().next().and_then(|&module| inbox.error(module));
        for (number, wish) in wishes.all.iter().enumerate() {
            let changes = wish.comes() || wish.goes();
            let own = [
                Some(place(wish.key, 0, modules)),
                lowest.get(number).copied(),
            ];
            // A new value concerns only the data node. An insert or a removal also concerns the
            // chunk that leads to it.
            let own = own.into_iter().flatten().take(if changes { 2 } else { 1 });
            let mut errors = own.filter_map(|module| inbox.error(module));
            // A tall key changes chunks of many modules, each of which may be the failed one.
            let is_tall = changes && wishes.height(wish) > 0;
            let error = errors.next().or(if is_tall { any } else { None });
            if wishes.errors[number].is_none() {
                wishes.errors[number] = error.map(unknown);
            }
        }
    }

    /// Builds the chunks that begin with the least key, and the upper part.
    ///
    /// # Errors
    /// There is no room, or a module failed.
    pub(super) fn build(&mut self) -> Result<(), OperationError> {
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        // The last of the four chunks is the shadow of the one of level 1.
        let at = [0, 1, 2, 2].map(|level| place(0, level, modules));
        for (module, level) in at.into_iter().zip([0, 1, 2, 1]) {
            outbox.item(module, ChunkTaskKind::NewChunk, &[level, 0, 1]);
        }
        for module in 0..modules {
            outbox.item(module, ChunkTaskKind::ReserveUpper, &[1]);
        }
        let mut inbox = self.round(outbox)?;
        let mut full = Vec::new();
        // All results are taken before the first failure is returned, so that the chunks that were
        // made can be freed.
        let mut take = |module: usize| {
            let word = inbox.word(module);
            if let Err(error) = &word {
                full.push(unknown(error));
            } else if word == Ok(0) {
                full.push(no_room());
            }
            ModuleAddress::new(module, word.map_or(0, |word| word as u32))
        };
        let chunks = at.map(&mut take);
        (0..modules).for_each(|module| _ = take(module));
        let garbage = chunks.into_iter().filter(|chunk| chunk.local() != 0);
        let garbage = garbage.map(|chunk| Garbage::Chunk(chunk, 0));
        if let Some(error) = full.pop() {
            self.garbage.extend(garbage);
            return Err(error);
        }
        let mut outbox = Outbox::new(modules);
        let [lowest, middle, upper, shadow] = chunks;
        let outcome = PlannedChunk::new(None, 0);
        change(&mut outbox, middle, &outcome, &[[0, lowest.0, 0]], false);
        change(&mut outbox, shadow, &outcome, &[[0, lowest.0, 0]], false);
        let entry = [0, middle.0, shadow.local().into()];
        change(&mut outbox, upper, &outcome, &[entry], true);
        for module in 0..modules {
            outbox.item(module, ChunkTaskKind::UpperInsert, &[0, upper.0]);
            outbox.item(module, ChunkTaskKind::Release, &[0]);
        }
        let copies = outbox.inputs.clone();
        match self.round(outbox) {
            Ok(inbox) => {
                for (module, words) in copies.into_iter().enumerate() {
                    if inbox.error(module).is_some() {
                        self.again.entry(module).or_default().extend(words);
                    }
                }
                self.is_built = true;
                Ok(())
            }
            Err(error) => {
                self.garbage.extend(garbage);
                Err(error)
            }
        }
    }
}

/// Returns the keys that enter the upper part.
fn rises(plan: &PimTreePlan) -> impl Iterator<Item = u64> {
    let above = plan
        .levels
        .get(2)
        .into_iter()
        .flat_map(|level| &level.above);
    above.filter_map(|&(key, outcome)| outcome.map(|_| key))
}

fn no_room() -> OperationError {
    OperationError::OutOfMemory {
        what: "a module has no room for a chunk".to_owned(),
    }
}

/// Adds the task that changes a chunk.
fn change(
    outbox: &mut Outbox,
    chunk: ModuleAddress,
    outcome: &PlannedChunk,
    adds: &[[u64; 3]],
    is_wide: bool,
) {
    let words = outbox.at(
        chunk.module(),
        ChunkTaskKind::Change,
        adds.len(),
        chunk.local(),
    );
    let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    words.push(
        outcome.removes.len() as u64
            | bit(outcome.truncate.is_some(), TRUNCATES)
            | bit(outcome.bound.is_some(), BOUNDS)
            | bit(is_wide, WIDE),
    );
    words.extend(outcome.truncate);
    words.extend(outcome.bound);
    words.extend_from_slice(&outcome.removes);
    let width = if is_wide { 3 } else { 2 };
    words.extend(adds.iter().flat_map(|add| &add[..width]));
}

/// Finds the wishes that made the preparation fail, and rejects them. If only tall keys are the
/// cause, chunks whose first key is removed also stay from now on.
fn blame(wishes: &mut Wishes<'_>, plan: &PimTreePlan, causes: Vec<Cause>) {
    let mut blamed = HashSet::new();
    let mut is_tall = false;
    for cause in causes {
        match cause {
            Cause::Data(number) => _ = blamed.insert(wishes.all[number].key),
            Cause::Lowest(number) => {
                let adds = plan.levels[0].outcomes[number].adds.iter();
                let own = adds.filter(|(_, to)| matches!(to, ChunkChild::Data(_)));
                let before = blamed.len();
                blamed.extend(own.map(|&(key, _)| key));
                // The chunk has no new keys of its own. It grows because another one is merged into
                // it.
                is_tall |= blamed.len() == before;
            }
            Cause::Tall => is_tall = true,
        }
    }
    let tall = |wish: &Wish| is_tall && wish.comes() && height(wish.key) > 0;
    for (place, wish) in wishes.errors.iter_mut().zip(wishes.all) {
        if place.is_none() && (blamed.contains(&wish.key) || tall(wish)) {
            let what = format!("key {:#x}: its modules have no room", wish.key);
            *place = Some(OperationError::OutOfMemory { what });
        }
    }
    wishes.stay |= is_tall;
}
