//! The preparation of inserts and removes: the changes of their chunks.

use super::PimTreeHost;
use super::address::{LEVELS, ModuleAddress, height};
use super::plan::{AffectedChunk, ChunkChild, Level, LevelKeyChange, chunks_of};
use super::round::Outbox;
use super::search::{ChunkPath, PulledChunk, lost};
use super::task::ChunkTaskKind;
use nearfield_core::OperationError;
use nearfield_pim::device::ModuleDevice;
use nearfield_pim::dispatch::plan::unknown;
use std::collections::{HashMap, HashSet};

/// The old and the new value of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub key: u64,
    pub before: Option<u64>,
    pub after: Option<u64>,
}

impl Wish {
    pub fn comes(&self) -> bool {
        self.before.is_none() && self.after.is_some()
    }

    pub fn goes(&self) -> bool {
        self.before.is_some() && self.after.is_none()
    }
}

/// Wishes that are executed together.
pub(super) struct Wishes<'w> {
    pub all: &'w [Wish],
    /// The error of each rejected change.
    pub errors: Vec<Option<OperationError>>,
    /// True if chunks whose first key is removed stay without it, because there is no room to merge
    /// them.
    pub stay: bool,
}

impl Wishes<'_> {
    /// Returns the wishes that have not failed, with their numbers.
    pub fn live(&self) -> impl Iterator<Item = (usize, &Wish)> {
        let errors = self.errors.iter();
        let live = self.all.iter().zip(errors).enumerate();
        live.filter_map(|(number, (wish, error))| error.is_none().then_some((number, wish)))
    }

    /// Returns the wishes that have not failed and insert or remove a key.
    pub fn changing(&self) -> impl Iterator<Item = (usize, &Wish)> {
        self.live().filter(|(_, wish)| wish.comes() || wish.goes())
    }

    /// Returns the number of levels above level 0 that a wish changes.
    pub fn height(&self, wish: &Wish) -> u8 {
        if wish.goes() && self.stay {
            0
        } else {
            height(wish.key)
        }
    }

    /// Rejects the wishes for which `of` returns true, unless they have failed already.
    pub fn fail(&mut self, error: &OperationError, of: impl Fn(&Wish) -> bool) {
        for (wish, place) in self.all.iter().zip(&mut self.errors) {
            if place.is_none() && of(wish) {
                *place = Some(error.clone());
            }
        }
    }
}

/// A key whose chunks are searched.
struct ChunkProbe {
    key: u64,
    /// The highest level whose chunk is wanted.
    reach: usize,
}

/// A copy of a chunk of level 1 for the module of a present or future chunk of level 2.
pub(super) struct ChunkShadow {
    /// Number of the outcome of level 2.
    pub of: usize,
    pub first: u64,
    pub bound: u64,
    pub entries: Vec<(u64, ChunkChild)>,
}

/// The work to do in modules.
#[derive(Default)]
pub(super) struct PimTreePlan {
    pub levels: Vec<Level>,
    /// Shadows of the new entries of chunks of level 2, in their order.
    pub shadows: Vec<ChunkShadow>,
    /// Addresses of the shadows of chunks of level 1 that change and stay.
    pub homes: HashMap<ModuleAddress, ModuleAddress>,
    /// Chunks of level 0 of wishes that insert or remove a key, by the numbers of the wishes.
    pub lowest: Vec<ModuleAddress>,
}

/// The content of shadows, as bounds and entries.
type Copies = HashMap<ModuleAddress, (u64, Vec<(u64, ModuleAddress)>)>;

impl<D: ModuleDevice> PimTreeHost<D> {
    /// Executes wishes, which must be in the order of their keys. Returns the errors of those that
    /// failed.
    pub(super) fn grant(&mut self, all: &[Wish]) -> Vec<Option<OperationError>> {
        debug_assert!(all.is_sorted_by(|one, other| one.key < other.key));
        let mut wishes = Wishes {
            all,
            errors: vec![None; all.len()],
            stay: false,
        };
        if !self.is_built
            && let Err(error) = self.build()
        {
            wishes.fail(&error, |_| true);
        }
        // Each try has fewer wishes, because those that failed are left out.
        while let Err(error) = self.prepare(&mut wishes) {
            let before = wishes.live().count();
            if let Some(error) = error {
                wishes.fail(&error, |_| true);
            }
            if before == 0 {
                break;
            }
        }
        wishes.errors
    }

    /// Finds the chunks concerned, plans their changes, and carries them out.
    ///
    /// # Errors
    /// A failure was recorded in `wishes`, and the rest must be tried again; or, if there is an
    /// error, all are rejected.
    fn prepare(&mut self, wishes: &mut Wishes<'_>) -> Result<(), Option<OperationError>> {
        let probes = probes(wishes);
        let mut plan = PimTreePlan::default();
        if !probes.is_empty() {
            let keys: Vec<u64> = probes.iter().map(|probe| probe.key).collect();
            let paths = self.locate(&keys, |number| probes[number].reach > 0)?;
            let paths = known(wishes, &keys, paths)?;
            plan = self.plan(wishes, &probes, &keys, &paths)?;
        }
        self.carry_out(wishes, plan)
    }

    fn plan(
        &mut self,
        wishes: &mut Wishes<'_>,
        probes: &[ChunkProbe],
        keys: &[u64],
        paths: &[ChunkPath],
    ) -> Result<PimTreePlan, Option<OperationError>> {
        let mut plan = PimTreePlan::default();
        // For each level, the numbers of the chunks of the probes that reach it.
        let mut places = Vec::new();
        let mut all_touched: Vec<Vec<AffectedChunk>> = Vec::new();
        for level in 0..LEVELS {
            let here: Vec<usize> = (0..probes.len())
                .filter(|&number| probes[number].reach >= level)
                .collect();
            let chunks = here.iter().map(|&number| paths[number].chunks[level]);
            let (of, ranges) = chunks_of(chunks);
            let touched = ranges.iter().map(|range| AffectedChunk {
                address: paths[here[range.start]].chunks[level],
                content: None,
            });
            all_touched.push(touched.collect());
            if level == 1 {
                // The copy of a chunk of level 1 must be changed with it.
                for &number in &here {
                    let path = &paths[number];
                    let home = ModuleAddress::new(path.chunks[2].module(), path.shadow);
                    plan.homes.insert(path.chunks[1], home);
                }
            }
            // A probe that does not reach the level has no chunk there.
            let mut place = vec![usize::MAX; probes.len()];
            for (number, of) in here.into_iter().zip(of) {
                place[number] = of;
            }
            places.push(place);
        }
        let copies = self.contents(wishes, keys, &places, &mut all_touched)?;
        // The inserted and removed keys of a level, with their children and heights.
        let mut turns: Vec<(u64, Option<ChunkChild>, u8)> = Vec::new();
        for (number, wish) in wishes.changing() {
            let child = wish.comes().then_some(ChunkChild::Data(number as u32));
            turns.push((wish.key, child, wishes.height(wish)));
        }
        plan.lowest = vec![ModuleAddress::NONE; wishes.all.len()];
        let numbers = wishes.changing().map(|(number, _)| number);
        let at = positions(keys, turns.iter().map(|turn| turn.0));
        for (number, &at) in numbers.zip(&at) {
            plan.lowest[number] = paths[at].chunks[0];
        }
        for (level, touched) in all_touched.iter().enumerate() {
            let at = positions(keys, turns.iter().map(|turn| turn.0));
            let turns_here =
                turns
                    .iter()
                    .zip(at)
                    .map(|(&(key, child, height), at)| LevelKeyChange {
                        key,
                        child,
                        is_tall: usize::from(height) > level,
                        chunk: places[level][at],
                    });
            let planned = Level::plan(touched, &turns_here.collect::<Vec<_>>());
            let planned = planned.map_err(|orphan| Some(lost(orphan.0)))?;
            // Chunks that begin or end at this level are the changed keys of the next.
            let above = planned.above.iter();
            turns = above
                .map(|&(key, outcome)| (key, outcome.map(ChunkChild::Chunk), height(key)))
                .collect();
            plan.levels.push(planned);
        }
        plan.shadows = shadows(&plan.levels, &copies).map_err(|key| Some(lost(key)))?;
        let at = |child: &ChunkChild| match child {
            ChunkChild::At(address) => Some(*address),
            _ => None,
        };
        let adds = plan.levels[2]
            .outcomes
            .iter()
            .flat_map(|outcome| &outcome.adds);
        let moved: HashSet<ModuleAddress> = adds.filter_map(|(_, child)| at(child)).collect();
        // These shadows are built again with the chunk that takes their entries.
        plan.homes.retain(|chunk, _| !moved.contains(chunk));
        Ok(plan)
    }

    /// Reads the chunks that are divided or removed, in one round if there are any. Returns the
    /// content of the shadows of chunks of level 1 that move with them.
    fn contents(
        &mut self,
        wishes: &mut Wishes<'_>,
        keys: &[u64],
        places: &[Vec<usize>],
        touched: &mut [Vec<AffectedChunk>],
    ) -> Result<Copies, Option<OperationError>> {
        // Level, number, and least changed key that begins a chunk, of each wanted chunk.
        let mut wanted: Vec<(usize, usize, u64)> = Vec::new();
        let mut probe = 0;
        for (_, wish) in wishes.changing() {
            // Probes contain all changed keys in the same order, so one pass finds them.
            while keys[probe] != wish.key {
                probe += 1;
            }
            let height = usize::from(wishes.height(wish));
            for (level, place) in places.iter().enumerate().take(height) {
                wanted.push((level, place[probe], wish.key));
            }
        }
        wanted.sort_unstable();
        // The least key comes first, and decides from where on the shadows are read.
        wanted.dedup_by_key(|&mut (level, number, _)| (level, number));
        let mut outbox = Outbox::new(self.modules());
        for &(level, number, from) in &wanted {
            let chunk = touched[level][number].address;
            let local = u64::from(chunk.local());
            match level {
                2 => outbox.item(chunk.module(), ChunkTaskKind::PullDeep, &[local, from]),
                _ => outbox.item(chunk.module(), ChunkTaskKind::Pull, &[local]),
            }
        }
        if wanted.is_empty() {
            return Ok(Copies::new());
        }
        let mut inbox = self.round(outbox)?;
        let mut copies = Copies::new();
        let mut failed = false;
        for (level, number, from) in wanted {
            let place = &mut touched[level][number];
            let module = place.address.module();
            let mut read = || {
                let mut content = PulledChunk::take_unsorted(&mut inbox, module, level)?;
                if level == 2 {
                    // The shadows of moving entries come in the order of the entries as the module
                    // has them, so these are sorted only afterwards.
                    for &(_, chunk, _) in content.entries.iter().filter(|entry| entry.0 >= from) {
                        let head = inbox.take(module, 2)?;
                        let (bound, count) = (head[0], head[1] as usize);
                        let words = inbox.take(module, 2 * count)?.chunks_exact(2);
                        let entries = words.map(|entry| (entry[0], ModuleAddress(entry[1])));
                        copies.insert(chunk, (bound, entries.collect()));
                    }
                }
                content.entries.sort_unstable();
                Ok(content)
            };
            match read() {
                Ok(content) => place.content = Some(content),
                Err(error) => {
                    // The other results are still taken, because each is behind those before it.
                    failed = true;
                    let of = &places[level];
                    let is_there = |key: u64| {
                        let probe = keys.binary_search(&key);
                        probe.is_ok_and(|probe| of[probe] == number)
                    };
                    wishes.fail(&unknown(&error), |wish| {
                        height(wish.key) > 0 && is_there(wish.key)
                    });
                }
            }
        }
        if failed { Err(None) } else { Ok(copies) }
    }
}

/// Returns the positions of some keys among all. Both are in order.
fn positions(keys: &[u64], some: impl Iterator<Item = u64>) -> Vec<usize> {
    let mut at = 0;
    some.map(|key| {
        while keys[at] != key {
            at += 1;
        }
        at
    })
    .collect()
}

/// Returns the keys whose chunks must be known: the changed ones, and for removed chunks the last
/// key before them.
fn probes(wishes: &Wishes<'_>) -> Vec<ChunkProbe> {
    let mut probes: Vec<ChunkProbe> = Vec::new();
    for (_, wish) in wishes.changing() {
        let height = usize::from(wishes.height(wish));
        if wish.goes() && height > 0 {
            // The chunk that takes over the entries is the one that has the next lesser key.
            let (key, reach) = (wish.key - 1, height - 1);
            match probes.last_mut() {
                Some(last) if last.key == key => last.reach = last.reach.max(reach),
                _ => probes.push(ChunkProbe { key, reach }),
            }
        }
        let reach = height.min(LEVELS - 1);
        probes.push(ChunkProbe {
            key: wish.key,
            reach,
        });
    }
    debug_assert!(probes.is_sorted_by(|one, other| one.key < other.key));
    probes
}

/// Returns the paths, if all are known.
///
/// # Errors
/// Changes of keys with unknown paths are rejected.
fn known(
    wishes: &mut Wishes<'_>,
    keys: &[u64],
    paths: Vec<Result<ChunkPath, OperationError>>,
) -> Result<Vec<ChunkPath>, Option<OperationError>> {
    let mut known = Vec::with_capacity(paths.len());
    let mut lost: HashMap<u64, OperationError> = HashMap::new();
    for (path, &key) in paths.into_iter().zip(keys) {
        match path {
            Ok(path) => known.push(path),
            Err(error) => _ = lost.insert(key, error),
        }
    }
    for (wish, place) in wishes.all.iter().zip(&mut wishes.errors) {
        let error = lost.get(&wish.key);
        // A removal also depends on the probe of the key below its own.
        let error = error.or_else(|| lost.get(&wish.key.checked_sub(1)?));
        if place.is_none() {
            *place = error.cloned();
        }
    }
    if lost.is_empty() {
        Ok(known)
    } else {
        Err(None)
    }
}

/// Returns the content of the shadows that move with entries to chunks of level 2.
///
/// # Errors
/// The first key of a shadow whose content is unknown.
fn shadows(levels: &[Level], copies: &Copies) -> Result<Vec<ChunkShadow>, u64> {
    let lower = &levels[1].outcomes;
    let existing = lower
        .iter()
        .filter_map(|outcome| Some((outcome.address?, outcome)));
    let existing: HashMap<_, _> = existing.collect();
    let mut shadows = Vec::new();
    for (of, outcome) in levels[2].outcomes.iter().enumerate() {
        for &(first, child) in &outcome.adds {
            let (bound, entries) = match child {
                ChunkChild::Chunk(number) => {
                    let lower = &lower[number as usize];
                    (lower.bound.unwrap_or(0), lower.adds.clone())
                }
                ChunkChild::At(chunk) => {
                    let (bound, entries) = copies.get(&chunk).ok_or(first)?;
                    let change = existing.get(&chunk);
                    // The content was read before the changes of this batch, so they are applied
                    // here.
                    let stays = |key: u64| {
                        change.is_none_or(|change| {
                            change.truncate.is_none_or(|from| key < from)
                                && !change.removes.contains(&key)
                        })
                    };
                    let entries = entries.iter().filter(|entry| stays(entry.0));
                    let entries = entries.map(|&(key, address)| (key, ChunkChild::At(address)));
                    let mut entries: Vec<_> = entries.collect();
                    let mut bound = *bound;
                    if let Some(change) = change {
                        entries.extend_from_slice(&change.adds);
                        bound = change.bound.unwrap_or(bound);
                    }
                    (bound, entries)
                }
                ChunkChild::Data(_) => return Err(first),
            };
            shadows.push(ChunkShadow {
                of,
                first,
                bound,
                entries,
            });
        }
    }
    Ok(shadows)
}
