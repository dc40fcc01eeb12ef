//! Reads of ranges of the lower part. A scan begins at the nodes of its query's path, whose links
//! are known. It takes a round for each step away from them, for all ranges of a batch at once.
//!
//! A tower is read with all its links. Each link is followed up to the key to which the link of the
//! level above leads. So each tower is read once, in as many rounds as a search takes, independent
//! of the number of towers. Keys are known one round before their towers are read. So a scan that
//! knows as many keys as it may return drops all later ones.

use super::host::JumpPushHost;
use super::program::JumpPushProgram;
use super::search::JumpPushSearch;
use super::task::JumpPushTask;
use super::tower::{ENTRY_WORDS, LINK_WORDS, Pointer, TowerLink, words};
use nearfield_core::OperationError;
use nearfield_pim::device::ModuleDevice;

/// A range of keys, both ends included, with a limit of at least one entry.
#[derive(Clone, Copy, Debug)]
pub struct JumpPushRange {
    pub from: u64,
    pub to: u64,
    pub limit: u64,
    /// True if entries are counted and listed from the greatest on.
    pub descends: bool,
}

/// A tower to read.
#[derive(Clone, Copy, Debug)]
struct TowerRead {
    tower: Pointer,
    /// The key of the tower, if it is known.
    key: Option<u64>,
    levels: usize,
    /// The greatest key up to which its links are followed.
    last: u64,
}

/// A request to the upper part.
#[derive(Clone, Copy, Debug)]
struct Ask {
    from: u64,
    to: u64,
    limit: u64,
}

/// A scan in progress.
#[derive(Debug)]
struct JumpPushScan {
    range: JumpPushRange,
    /// Number of the query whose path leads to the start of the scan.
    query: usize,
    entries: Vec<(u64, u64)>,
    visits: Vec<TowerRead>,
    ask: Option<Ask>,
    /// For descending scans, the node from which on everything was read, and the least key that was
    /// read.
    begin: Pointer,
    least: u64,
    level: usize,
    error: Option<OperationError>,
}

/// The result of a scan: entries in its direction.
pub type Scanned = Result<Vec<(u64, u64)>, OperationError>;

/// Reads ranges. The query of each must have recorded its whole path: to the greatest key below the
/// range or, for descending scans, to the greatest key within or below it.
///
/// # Errors
/// A round was refused.
pub fn run<D: ModuleDevice>(
    host: &mut JumpPushHost<D>,
    search: &JumpPushSearch,
    ranges: &[(usize, JumpPushRange)],
) -> Result<Vec<Scanned>, OperationError> {
    let mut scans: Vec<JumpPushScan> = Vec::with_capacity(ranges.len());
    for &(query, range) in ranges {
        scans.push(JumpPushScan::begin(host.levels, search, query, range));
    }
    let modules = host.device.modules();
    loop {
        let mut inputs = host.inputs();
        for (number, scan) in scans.iter_mut().enumerate() {
            // All that was begun is read, so a scan that still lacks entries begins farther left.
            if scan.visits.is_empty() && scan.ask.is_none() && scan.error.is_none() {
                scan.go_left(host.head, search);
            }
            if let Some(Ask { from, to, limit }) = scan.ask {
                let task = JumpPushTask::List {
                    from,
                    to,
                    limit,
                    descends: scan.range.descends,
                };
                // All modules have the upper part, so the scans are dealt out.
                inputs.add(number % modules, &task);
            }
            for visit in &scan.visits {
                let (at, levels) = (visit.tower.at(), visit.levels);
                inputs.add(visit.tower.module(), &JumpPushTask::Visit { at, levels });
            }
        }
        if inputs.is_empty() {
            break;
        }
        let mut answers = host.round(JumpPushProgram, inputs)?;
        for (number, scan) in scans.iter_mut().enumerate() {
            if let Some(ask) = scan.ask.take() {
                let module = number % modules;
                let count = answers.take(module, 1).map(|words| words[0] as usize);
                let listed = count.and_then(|count| answers.take(module, 2 * count));
                let listed = listed.map(|words| {
                    let pairs = words.chunks_exact(2);
                    pairs
                        .map(|pair| TowerLink::from_words(pair[0], pair[1]))
                        .collect()
                });
                match listed {
                    Ok(upper) => scan.enter(host.levels, host.head, ask, upper, search),
                    Err(error) => scan.error = Some(error),
                }
                continue;
            }
            for visit in std::mem::take(&mut scan.visits) {
                match answers.take(visit.tower.module(), words(visit.levels)) {
                    Ok(words) => scan.read(visit, words, visit.tower == host.head),
                    Err(error) => scan.error = Some(error),
                }
            }
            scan.forget();
            // A failed scan has no result, so it must not cause further rounds.
            if scan.error.is_some() {
                scan.visits.clear();
            }
        }
    }
    for scan in &scans {
        host.work.sorted += scan.entries.len() as u64;
    }
    Ok(scans.into_iter().map(JumpPushScan::finish).collect())
}

impl JumpPushScan {
    fn begin(
        levels: usize,
        search: &JumpPushSearch,
        query: usize,
        range: JumpPushRange,
    ) -> JumpPushScan {
        debug_assert!(range.limit > 0 && range.from <= range.to);
        let mut scan = JumpPushScan {
            range,
            query,
            entries: Vec::new(),
            visits: Vec::new(),
            ask: None,
            begin: Pointer::NULL,
            least: range.to,
            level: 0,
            error: search.error(query).cloned(),
        };
        let path = search.path(query);
        debug_assert_eq!(path.len(), levels, "the whole path was recorded");
        let Some(top) = path.last().filter(|_| scan.error.is_none()) else {
            return scan;
        };
        if range.descends {
            // The level is chosen so that a tower leads to as many keys as are wanted, or twice as
            // many.
            let wanted = range.limit.saturating_mul(2).next_power_of_two();
            scan.level = (wanted.trailing_zeros() as usize).min(levels - 1);
            scan.begin = path[scan.level].node;
            scan.visits.push(TowerRead {
                tower: scan.begin,
                key: None,
                levels: scan.level + 1,
                last: range.to,
            });
        } else if range.limit >> levels > 0 && top.right.precedes(range.to, false) {
            // The wanted keys lie below several upper towers. Listing these first lets all their
            // parts be read at once.
            let JumpPushRange { from, to, .. } = range;
            let limit = scan.towers_wanted(levels);
            scan.ask = Some(Ask { from, to, limit });
        } else {
            scan.follow_path(search, range.to);
        }
        scan
    }

    /// Returns the number of towers of the upper part that lead to as many keys as are wanted.
    fn towers_wanted(&self, levels: usize) -> u64 {
        (self.range.limit >> levels) + 1
    }

    /// Follows the links of the path at all levels.
    fn follow_path(&mut self, search: &JumpPushSearch, last: u64) {
        let links: Vec<TowerLink> = search
            .path(self.query)
            .iter()
            .map(|step| step.right)
            .collect();
        self.follow(&links, last);
        self.forget();
    }

    /// Follows links from the highest level down. Each is followed up to the key of the one above,
    /// the highest up to `last`.
    fn follow(&mut self, links: &[TowerLink], last: u64) {
        let mut last = last.min(self.range.to);
        for (level, link) in links.iter().enumerate().rev() {
            // The levels below lead only to keys before the range.
            if last < self.range.from {
                return;
            }
            if link.precedes(last, false) {
                self.visits.push(TowerRead {
                    tower: link.tower,
                    key: Some(link.key),
                    levels: level + 1,
                    last,
                });
                // The tower reads on from its own key, so the level below stops before it.
                match link.key.checked_sub(1) {
                    Some(before) => last = before,
                    None => return,
                }
            }
        }
    }

    /// Takes the entry and the links from the words of a tower.
    fn read(&mut self, visit: TowerRead, words: &[u64], is_head: bool) {
        let (key, value) = (words[0], words[1]);
        if !is_head {
            // The least key that was read bounds the part to the left, even if it is outside the
            // range.
            self.least = self.least.min(key);
            if (self.range.from..=self.range.to).contains(&key) {
                self.entries.push((key, value));
            }
        }
        let links = words[ENTRY_WORDS..].chunks_exact(LINK_WORDS);
        let links: Vec<TowerLink> = links
            .map(|pair| TowerLink::from_words(pair[0], pair[1]))
            .collect();
        self.follow(&links, visit.last);
    }

    /// Drops the keys after the wanted number of keys, and the towers after these.
    fn forget(&mut self) {
        let JumpPushRange { limit, .. } = self.range;
        if limit > (self.entries.len() + self.visits.len()) as u64 {
            return;
        }
        let within = self.range.from..=self.range.to;
        // Keys of towers that are yet to be read count, too, because their links have named them.
        let known = self.visits.iter().filter_map(|visit| visit.key);
        let known = known.chain(self.entries.iter().map(|entry| entry.0));
        let mut known: Vec<u64> = known.filter(|key| within.contains(key)).collect();
        // The limit is at most the number of known keys, so it fits.
        let Some(last) = (limit as usize)
            .checked_sub(1)
            .filter(|&last| last < known.len())
        else {
            return;
        };
        if self.range.descends {
            // The wanted keys are the greatest.
            let last = known.len() - 1 - last;
            self.range.from = *known.select_nth_unstable(last).1;
        } else {
            self.range.to = *known.select_nth_unstable(last).1;
        }
        // The range shrinks to the wanted keys, which also stops the links that lead beyond.
        let JumpPushRange { from, to, .. } = self.range;
        self.entries.retain(|&(key, _)| (from..=to).contains(&key));
        let descends = self.range.descends;
        self.visits.retain(|visit| match visit.key {
            Some(key) if !descends => key <= to,
            // A tower whose key is unknown or below the range may still lead into it.
            _ => visit.last >= from,
        });
    }

    /// Lets a descending scan continue farther left after it has read everything from a node on, if
    /// it wants more entries and there may be more.
    fn go_left(&mut self, head: Pointer, search: &JumpPushSearch) {
        let JumpPushRange {
            from,
            limit,
            descends,
            ..
        } = self.range;
        // At the first tower, or with the least key of the range read, nothing is left.
        let is_done = self.begin == head || self.least <= from;
        if !descends || is_done || self.entries.len() as u64 >= limit {
            return;
        }
        let path = search.path(self.query);
        let higher = path.iter().enumerate().skip(self.level + 1);
        // A higher level at the same node adds nothing to the left.
        let mut higher = higher.filter(|(_, step)| step.node != self.begin);
        let to = self.least - 1;
        match higher.next() {
            Some((level, step)) => {
                self.level = level;
                self.enter_left(step.node, None, level + 1, to);
            }
            None => {
                self.level = path.len();
                let limit = self.towers_wanted(path.len());
                self.ask = Some(Ask { from, to, limit });
            }
        }
    }

    fn enter_left(&mut self, tower: Pointer, key: Option<u64>, levels: usize, last: u64) {
        self.begin = tower;
        self.visits.push(TowerRead {
            tower,
            key,
            levels,
            last,
        });
    }

    /// Continues a scan with the list of upper towers.
    fn enter(
        &mut self,
        levels: usize,
        head: Pointer,
        ask: Ask,
        mut upper: Vec<TowerLink>,
        search: &JumpPushSearch,
    ) {
        if self.range.descends {
            if upper.is_empty() && ask.from > 0 {
                // The rest of the range follows the last tower before it.
                self.ask = Some(Ask {
                    from: 0,
                    limit: 1,
                    ..ask
                });
                return;
            }
            let mut last = Some(ask.to);
            // Each tower is followed up to the key of the one to its right.
            for link in &upper {
                let Some(to) = last else {
                    break;
                };
                self.enter_left(link.tower, Some(link.key), levels, to);
                last = link.key.checked_sub(1);
            }
            if upper.is_empty() {
                // No upper tower is before the range, so the rest follows the first tower.
                self.enter_left(head, None, levels, ask.to);
            }
        } else {
            let mut last = Some(self.range.to);
            while let (Some(to), Some(link)) = (last, upper.pop()) {
                self.visits.push(TowerRead {
                    tower: link.tower,
                    key: Some(link.key),
                    levels,
                    last: to,
                });
                last = link.key.checked_sub(1);
            }
            if let Some(to) = last {
                self.follow_path(search, to);
            }
        }
        self.forget();
    }

    fn finish(self) -> Scanned {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut entries = self.entries;
        // Towers arrive round by round, not by keys.
        entries.sort_unstable_by_key(|entry| entry.0);
        debug_assert!(entries.is_sorted_by(|one, other| one.0 < other.0));
        if self.range.descends {
            entries.reverse();
        }
        entries.truncate(usize::try_from(self.range.limit).unwrap_or(usize::MAX));
        Ok(entries)
    }
}
