//! The search of the lower part for many keys at once, such that no node gets many requests.
//!
//! The keys are sorted. Some of them at equal distances, first few, then more and more, are
//! searched and their paths recorded: the node at each level from which the search went down. If
//! the paths of two keys share a node at a level, all keys between them go down from it, too. So
//! the searches of these keys begin below it, at most 16 of them at each node.

use super::host::JumpPushHost;
use super::program::{Floors, JumpPushProgram};
use super::task::{JumpPushTask, QueryStepMode};
use super::tower::{ENTRY_WORDS, LINK_WORDS, Pointer, TowerLink};
use nearfield_core::OperationError;
use nearfield_pim::device::ModuleDevice;
use std::collections::HashMap;

/// Distance of keys with recorded paths: fewer than this many keys lie between two (as published).
const APART_MIN: usize = 16;

/// A search for a key.
#[derive(Clone, Copy, Debug)]
pub struct JumpPushQuery {
    pub key: u64,
    /// True if it searches for the greatest key below its own, not at or below it.
    pub strict: bool,
    /// True if it has failed.
    pub failed: bool,
    /// Number of levels, from 0 on, at which the path is recorded.
    pub recorded: u8,
    /// Number of levels left; with none left the search has ended.
    left: u8,
    /// Index of the first step of its path.
    path: u32,
    /// The node that it has reached.
    pub node: Pointer,
}

/// The step of a path at one level: the node from which a query went down, and its right neighbour,
/// which was too far.
#[derive(Clone, Copy, Debug, Default)]
pub struct TowerPathStep {
    pub node: Pointer,
    pub right: TowerLink,
}

/// The queries in the order of their keys, of equal keys the strict ones first, with their paths
/// and errors.
#[derive(Debug, Default)]
pub struct JumpPushSearch {
    pub queries: Vec<JumpPushQuery>,
    steps: Vec<TowerPathStep>,
    errors: HashMap<u32, OperationError>,
}

impl JumpPushQuery {
    /// Creates a query for a key that records `recorded` levels of its path.
    pub fn new(key: u64, strict: bool, recorded: usize) -> JumpPushQuery {
        JumpPushQuery {
            key,
            strict,
            failed: false,
            recorded: recorded as u8,
            left: 0,
            path: 0,
            node: Pointer::NULL,
        }
    }
}

impl JumpPushSearch {
    /// Searches for sorted keys.
    ///
    /// # Errors
    /// A round was refused.
    pub fn run<D: ModuleDevice>(
        host: &mut JumpPushHost<D>,
        queries: Vec<JumpPushQuery>,
    ) -> Result<JumpPushSearch, OperationError> {
        debug_assert!(queries.is_sorted_by_key(|query| (query.key, !query.strict)));
        let mut search = JumpPushSearch {
            queries,
            ..JumpPushSearch::default()
        };
        let count = search.queries.len();
        let mut steps = 0;
        for (position, query) in search.queries.iter_mut().enumerate() {
            if count > APART_MIN && position % APART_MIN == 0 {
                // These paths tell later queries where to begin, so they are recorded at all
                // levels.
                query.recorded = host.levels as u8;
            }
            query.path = steps;
            steps += u32::from(query.recorded);
        }
        search.steps = vec![TowerPathStep::default(); steps as usize];
        search.search_upper(host)?;
        let mut apart = APART_MIN;
        // The first queries are so few that they cannot gather at a node.
        while apart * 2 < count {
            apart *= 2;
        }
        if count > APART_MIN {
            let first = (0..count).step_by(apart).map(|query| query as u32);
            search.push(host, first.collect())?;
            while apart > APART_MIN {
                apart /= 2;
                let between = (apart..count).step_by(2 * apart);
                let between: Vec<u32> = between.map(|query| query as u32).collect();
                // Each step halves the distance, so between two known paths there is one new query.
                search.begin(host, &between, apart);
                search.push(host, between)?;
            }
        }
        let others = (0..count).filter(|query| count <= APART_MIN || query % APART_MIN != 0);
        let others: Vec<u32> = others.map(|query| query as u32).collect();
        if count > APART_MIN {
            search.begin(host, &others, APART_MIN);
        }
        search.push(host, others)?;
        Ok(search)
    }

    /// Returns the path of a query from level 0 on.
    pub fn path(&self, query: usize) -> &[TowerPathStep] {
        let JumpPushQuery { path, recorded, .. } = self.queries[query];
        &self.steps[path as usize..][..recorded.into()]
    }

    /// Returns the error of a query that failed.
    pub fn error(&self, query: usize) -> Option<&OperationError> {
        self.errors.get(&(query as u32))
    }

    /// Records that a query failed.
    pub fn fail(&mut self, query: usize, error: OperationError) {
        self.queries[query].failed = true;
        self.errors.insert(query as u32, error);
    }

    /// Finds the node of the lower part at which each query begins. Each module searches the same
    /// number of queries.
    fn search_upper<D: ModuleDevice>(
        &mut self,
        host: &mut JumpPushHost<D>,
    ) -> Result<(), OperationError> {
        let modules = host.device.modules();
        let each = self.queries.len().div_ceil(modules).max(1);
        let mut inputs = host.inputs();
        for (module, queries) in self.queries.chunks(each).enumerate() {
            // For a strict query at the least key, the result is ignored.
            let keys = queries.iter();
            let keys = keys.map(|query| query.key.saturating_sub(query.strict.into()));
            inputs.extend(module, keys);
        }
        let mut answers = host.round(Floors, inputs)?;
        for query in 0..self.queries.len() {
            match answers.take(query / each, 1).map(|words| words[0]) {
                Ok(word) => {
                    let query = &mut self.queries[query];
                    let is_none = word == 0 || query.strict && query.key == 0;
                    let tower = Pointer::from_word(word);
                    query.node = if is_none { host.head } else { tower };
                    query.left = host.levels as u8;
                }
                Err(error) => self.fail(query, error),
            }
        }
        Ok(())
    }

    /// Lets queries begin at the lowest node that the paths of their neighbours share. The
    /// neighbours are the nearest queries at positions divisible by `apart`; for a query at such a
    /// position, those at positions divisible by twice that.
    fn begin<D: ModuleDevice>(
        &mut self,
        host: &mut JumpPushHost<D>,
        queries: &[u32],
        apart: usize,
    ) {
        for &query in queries {
            let query = query as usize;
            let (before, behind) = match query % apart {
                0 => (query - apart, query + apart),
                over => (query - over, query - over + apart),
            };
            let failed = |query: usize| self.queries.get(query).is_none_or(|query| query.failed);
            // Such a query begins at its node of the upper part, as the first ones do.
            if failed(before) || failed(behind) {
                continue;
            }
            host.work.probes += 2;
            let before = self.queries[before].path as usize;
            let behind = self.queries[behind].path as usize;
            let is_common =
                |level: usize| self.steps[before + level].node == self.steps[behind + level].node;
            let mut common = host.levels;
            while common > 0 && is_common(common - 1) {
                common -= 1;
            }
            // The neighbours share no node, so the upper part leads nearer.
            if common == host.levels {
                continue;
            }
            let JumpPushQuery { path, recorded, .. } = self.queries[query];
            self.queries[query].node = self.steps[before + common].node;
            self.queries[query].left = common as u8;
            // The steps above are those of both neighbours.
            for level in common..recorded.into() {
                self.steps[path as usize + level] = self.steps[before + level];
            }
        }
    }

    /// Advances queries by one step in each round, until all have ended.
    fn push<D: ModuleDevice>(
        &mut self,
        host: &mut JumpPushHost<D>,
        mut active: Vec<u32>,
    ) -> Result<(), OperationError> {
        let options = host.options;
        let mut groups: Vec<u32> = Vec::new();
        loop {
            active.retain(|&query| {
                let query = &self.queries[query as usize];
                query.left > 0 && !query.failed
            });
            if active.is_empty() {
                return Ok(());
            }
            let at = |query: &u32| {
                let query = &self.queries[*query as usize];
                (query.node, query.left)
            };
            // Queries are sorted, so those at one node are adjacent.
            groups.clear();
            let mut inputs = host.inputs();
            for group in active.chunk_by(|one, next| options.pulls && at(one) == at(next)) {
                groups.push(group.len() as u32);
                let query = self.queries[group[0] as usize];
                let (level, at) = (usize::from(query.left) - 1, query.node.at());
                let task = if group.len() > 1 {
                    // One link serves all queries at the node, which the host compares itself.
                    host.pulled += 1;
                    JumpPushTask::Look { at, level }
                } else {
                    let (key, way) = (query.key, self.way(query, options.descends));
                    JumpPushTask::Step {
                        at,
                        level,
                        key,
                        way,
                    }
                };
                inputs.add(query.node.module(), &task);
            }
            let mut answers = host.round(JumpPushProgram, inputs)?;
            let mut rest = &active[..];
            for &group in &groups {
                let (group, others) = rest.split_at(group as usize);
                rest = others;
                let module = self.queries[group[0] as usize].node.module();
                if let [query] = *group {
                    let query = query as usize;
                    let way = self.way(self.queries[query], options.descends);
                    let word = answers.take(module, 1).map(|words| words[0]);
                    let moved = word.and_then(|word| {
                        for _ in 0..if way.recorded { word >> 56 } else { 0 } {
                            let words = answers.take(module, LINK_WORDS)?;
                            self.go_down(query, TowerLink::from_words(words[0], words[1]));
                        }
                        // Recorded levels were counted by `go_down`.
                        if !way.recorded {
                            self.queries[query].left -= (word >> 56) as u8;
                        }
                        Ok(Pointer::from_word(word & ((1 << 56) - 1)))
                    });
                    match moved {
                        Ok(Pointer::NULL) => {}
                        Ok(right) => self.queries[query].node = right,
                        Err(error) => self.fail(query, error),
                    }
                    continue;
                }
                // Each query of the group reads the link that was sent once.
                host.work.words += group.len() as u64;
                match answers.take(module, LINK_WORDS) {
                    Ok(words) => {
                        let right = TowerLink::from_words(words[0], words[1]);
                        for &query in group {
                            let JumpPushQuery { key, strict, .. } = self.queries[query as usize];
                            if right.precedes(key, strict) {
                                self.queries[query as usize].node = right.tower;
                            } else {
                                self.go_down(query as usize, right);
                            }
                        }
                    }
                    Err(error) => {
                        for &query in group {
                            self.fail(query as usize, error.clone());
                        }
                    }
                }
            }
            debug_assert!(rest.is_empty(), "each query is in a group");
        }
    }

    fn way(&self, query: JumpPushQuery, descends: bool) -> QueryStepMode {
        QueryStepMode {
            strict: query.strict,
            // A step that goes down several levels records all of them or none. Levels above the
            // recorded ones are dropped by `go_down`.
            recorded: query.recorded >= query.left || descends && query.recorded > 0,
            descends,
        }
    }

    /// Records that a query went down, because `right` was too far.
    fn go_down(&mut self, query: usize, right: TowerLink) {
        let JumpPushQuery {
            path,
            recorded,
            node,
            ref mut left,
            ..
        } = self.queries[query];
        *left -= 1;
        if *left < recorded {
            self.steps[path as usize + usize::from(*left)] = TowerPathStep { node, right };
        }
    }

    /// Reads keys and values of the nodes that `wanted` returns for queries, in the order of keys.
    /// A null node is not read.
    ///
    /// # Errors
    /// The round was refused.
    pub fn fetch<D: ModuleDevice>(
        &mut self,
        host: &mut JumpPushHost<D>,
        wanted: impl Fn(&JumpPushSearch, usize) -> Pointer,
    ) -> Result<Vec<Option<(u64, u64)>>, OperationError> {
        let mut inputs = host.inputs();
        let pulls = host.options.pulls;
        let mut towers: Vec<Pointer> = Vec::with_capacity(self.queries.len());
        let mut was_pulled = false;
        for query in 0..self.queries.len() {
            let tower = match self.queries[query].failed {
                true => Pointer::NULL,
                false => wanted(self, query),
            };
            // Queries are in the order of keys, so equal nodes are adjacent.
            let is_again = pulls && !tower.is_null() && towers.last() == Some(&tower);
            host.pulled += u64::from(is_again && !was_pulled);
            was_pulled = is_again;
            towers.push(tower);
            if !is_again && !tower.is_null() {
                inputs.add(tower.module(), &JumpPushTask::Fetch { at: tower.at() });
            }
        }
        let mut entries: Vec<Option<(u64, u64)>> = Vec::with_capacity(towers.len());
        if inputs.is_empty() {
            entries.resize(towers.len(), None);
            return Ok(entries);
        }
        let mut answers = host.round(JumpPushProgram, inputs)?;
        for (query, &tower) in towers.iter().enumerate() {
            let again = query
                .checked_sub(1)
                .filter(|&last| pulls && !tower.is_null() && towers[last] == tower);
            let entry = match again {
                _ if tower.is_null() => None,
                Some(last) => {
                    // The result that it shares is missing, too.
                    if let Some(error) = self.error(last).cloned() {
                        self.fail(query, error);
                    }
                    entries[last]
                }
                None => match answers.take(tower.module(), ENTRY_WORDS) {
                    Ok(words) => Some((words[0], words[1])),
                    Err(error) => {
                        self.fail(query, error);
                        None
                    }
                },
            };
            entries.push(entry);
        }
        Ok(entries)
    }
}
