//! Changes of the list: the new links, and the rounds that set them.
//!
//! New towers are built with the links of those before them, so that a search that reaches one can
//! continue. Then the upper part is changed in all modules. Then links of new towers to other new
//! ones are set, then links of old towers. Removed towers are freed last. A round of links is tried
//! several times. If a module still fails, no further change is written, so that all reachable
//! towers stay reachable.

use super::host::{Inputs, JumpPushHost};
use super::program::JumpPushProgram;
use super::search::JumpPushSearch;
use super::task::JumpPushTask;
use super::tower::{ENTRY_WORDS, LINK_WORDS, Pointer, TowerLink, height, home, words};
use nearfield_core::OperationError;
use nearfield_pim::device::ModuleDevice;
use nearfield_pim::structures::skip_list;

/// The change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TowerAction {
    /// No change.
    Keep,
    /// The key is present, and gets a value.
    Set(u64),
    /// The key is absent, and is inserted with a value.
    Insert(u64),
    /// The key is present, and is removed.
    Remove,
}

/// A key that is written.
#[derive(Clone, Debug)]
pub struct TowerChange {
    pub key: u64,
    /// Number of the query that searched for the greatest key below it, with the path up to its
    /// height.
    pub query: usize,
    pub action: TowerAction,
    /// The tower of the key.
    pub tower: Pointer,
    /// Index of the links of a tower that is removed.
    links: usize,
    /// The reason of a failure. If there was no room, the key is absent; otherwise its state is
    /// unknown.
    pub error: Option<OperationError>,
}

impl TowerChange {
    pub fn new(key: u64, query: usize) -> TowerChange {
        TowerChange {
            key,
            query,
            action: TowerAction::Keep,
            tower: Pointer::NULL,
            links: 0,
            error: None,
        }
    }

    fn levels(&self, levels: usize) -> usize {
        height(self.key).min(levels)
    }

    fn inserts(&self) -> bool {
        matches!(self.action, TowerAction::Insert(_)) && self.error.is_none()
    }

    fn removes(&self) -> bool {
        self.action == TowerAction::Remove && self.error.is_none()
    }
}

/// A link to set.
#[derive(Clone, Copy, Debug)]
struct TowerLinkUpdate {
    tower: Pointer,
    level: usize,
    link: TowerLink,
    /// Number of the change that needs it.
    change: usize,
}

/// The work for the changes of a batch, which are in the order of their keys.
pub struct TowerBatchUpdate<'c, D> {
    host: &'c mut JumpPushHost<D>,
    search: &'c JumpPushSearch,
    changes: &'c mut [TowerChange],
    /// Links of towers that are removed, for each level.
    links: Vec<TowerLink>,
    /// Numbers of changes with new towers that will not be part of the list.
    unused: Vec<usize>,
}

fn unreachable(what: impl Into<String>) -> OperationError {
    OperationError::Unreachable { what: what.into() }
}

fn full(key: u64, what: &str) -> OperationError {
    OperationError::OutOfMemory {
        what: format!("key {key:#x}: {what} has no room"),
    }
}

impl<'c, D: ModuleDevice> TowerBatchUpdate<'c, D> {
    /// Makes the changes, and records an error in each that was not made.
    ///
    /// # Errors
    /// A round was refused, and nothing was done.
    pub fn run(
        host: &'c mut JumpPushHost<D>,
        search: &'c JumpPushSearch,
        changes: &'c mut [TowerChange],
    ) -> Result<(), OperationError> {
        debug_assert!(changes.is_sorted_by(|one, other| one.key < other.key));
        if let Some(what) = &host.broken {
            for change in changes.iter_mut() {
                // A change that keeps the list is still correct, because reads continue.
                if change.action != TowerAction::Keep && change.error.is_none() {
                    change.error = Some(unreachable(what));
                }
            }
            return Ok(());
        }
        let mut changing = TowerBatchUpdate {
            host,
            search,
            changes,
            links: Vec::new(),
            unused: Vec::new(),
        };
        // Only the first two steps may fail as a whole: they change no link.
        changing.look()?;
        changing.make()?;
        changing.change_upper();
        let (new, old) = changing.plan();
        // A new tower must lead on before any old one leads to it.
        changing.link(&new, false);
        changing.link(&old, true);
        changing.free();
        Ok(())
    }

    /// Reads the links of towers that are removed.
    fn look(&mut self) -> Result<(), OperationError> {
        let mut inputs = self.host.inputs();
        for change in self.changes.iter().filter(|change| change.removes()) {
            let (at, levels) = (change.tower.at(), change.levels(self.host.levels));
            inputs.add(change.tower.module(), &JumpPushTask::Visit { at, levels });
        }
        if inputs.is_empty() {
            return Ok(());
        }
        let mut answers = self.host.round(JumpPushProgram, inputs)?;
        for change in self.changes.iter_mut().filter(|change| change.removes()) {
            let count = words(change.levels(self.host.levels));
            match answers.take(change.tower.module(), count) {
                Ok(words) => {
                    change.links = self.links.len();
                    // The links replace those of the tower before it.
                    let links = words[ENTRY_WORDS..].chunks_exact(LINK_WORDS);
                    let links = links.map(|pair| TowerLink::from_words(pair[0], pair[1]));
                    self.links.extend(links);
                }
                Err(error) => change.error = Some(unreachable(error.to_string())),
            }
        }
        Ok(())
    }

    /// Builds towers for keys that are inserted.
    fn make(&mut self) -> Result<(), OperationError> {
        let modules = self.host.device.modules();
        let mut inputs = self.host.inputs();
        let mut links = Vec::new();
        for change in self.changes.iter().filter(|change| change.inserts()) {
            if let TowerAction::Insert(value) = change.action {
                links.clear();
                let levels = change.levels(self.host.levels);
                // A new tower points to the old right neighbours. Where others are inserted
                // between, the links are set later.
                for step in self.search.path(change.query).iter().take(levels) {
                    links.extend([step.right.key, step.right.tower.word()]);
                }
                let (key, links) = (change.key, &links[..]);
                inputs.add(
                    home(key, modules),
                    &JumpPushTask::Make { key, value, links },
                );
            }
        }
        if inputs.is_empty() {
            return Ok(());
        }
        let mut answers = self.host.round(JumpPushProgram, inputs)?;
        for change in self.changes.iter_mut().filter(|change| change.inserts()) {
            let module = home(change.key, modules);
            match answers.take(module, 1).map(|words| words[0]) {
                Ok(0) => change.error = Some(full(change.key, "its module")),
                Ok(at) => {
                    change.tower = Pointer::new(module, at as u32);
                    self.host.bytes += words(change.levels(self.host.levels)) as u64 * 8;
                }
                Err(error) => change.error = Some(unreachable(error.to_string())),
            }
        }
        Ok(())
    }

    /// Inserts towers into the upper part of all modules, and removes others. A tower for which a
    /// module has no room is removed again from the other modules.
    fn change_upper(&mut self) {
        let (levels, modules) = (self.host.levels, self.host.device.modules());
        let changes = self.changes.iter().enumerate();
        // Few keys are tall, but each of them changes all copies.
        let upper = changes.filter(|(_, change)| {
            (change.inserts() || change.removes()) && height(change.key) > levels
        });
        let upper: Vec<usize> = upper.map(|(number, _)| number).collect();
        if upper.is_empty() {
            return;
        }
        let mut inputs = self.host.inputs();
        for module in 0..modules {
            for &number in &upper {
                let TowerChange { key, tower, .. } = self.changes[number];
                let task = match self.changes[number].inserts() {
                    true => JumpPushTask::Raise {
                        key,
                        tower: tower.word(),
                    },
                    false => JumpPushTask::Sink { key },
                };
                inputs.add(module, &task);
            }
        }
        // The copies must agree, so the tasks are repeated until each module has executed them.
        // They are idempotent.
        let answers = self.host.insist(inputs);
        let mut undone = Vec::new();
        let mut answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                for number in upper {
                    if self.changes[number].inserts() {
                        // The tower was built, but no copy and no link leads to it.
                        self.unused.push(number);
                    }
                    self.changes[number].error = Some(error.clone());
                }
                return;
            }
        };
        for module in 0..modules {
            for &number in &upper {
                let change = &mut self.changes[number];
                let raises = matches!(change.action, TowerAction::Insert(_));
                let error = match answers.take(module, usize::from(raises)) {
                    Ok([0]) => full(change.key, "a copy of the upper part"),
                    Ok(_) => continue,
                    Err(error) => {
                        // The module may have executed the task or not, so its copy may differ from
                        // the others.
                        self.host.broken = Some(error.to_string());
                        error
                    }
                };
                if raises && change.error.is_none() {
                    undone.push(number);
                }
                change.error = Some(error);
            }
        }
        let key_bytes = |key| skip_list::bytes(key) * modules as u64;
        for number in upper {
            let change = &self.changes[number];
            if change.inserts() {
                self.host.bytes += key_bytes(change.key);
            } else if change.removes() {
                self.host.bytes = self.host.bytes.saturating_sub(key_bytes(change.key));
            }
        }
        self.undo(undone);
    }

    /// Removes towers from the upper part that were inserted into only some of its copies.
    fn undo(&mut self, undone: Vec<usize>) {
        if undone.is_empty() {
            return;
        }
        let modules = self.host.device.modules();
        let mut inputs = self.host.inputs();
        for module in 0..modules {
            for &number in &undone {
                let key = self.changes[number].key;
                inputs.add(module, &JumpPushTask::Sink { key });
            }
        }
        let sunk = self.host.insist(inputs).and_then(|mut answers| {
            let mut all = (0..modules).map(|module| answers.take(module, 0).map(|_| ()));
            all.try_for_each(|sunk| sunk)
        });
        match sunk {
            Ok(()) => self.unused.extend(undone),
            // The towers stay in some copies, and still lead to the list.
            Err(error) => self.host.broken = Some(error.to_string()),
        }
    }

    /// Returns the links to set, of new towers and of old ones.
    fn plan(&self) -> (Vec<TowerLinkUpdate>, Vec<TowerLinkUpdate>) {
        let (mut new, mut old) = (Vec::new(), Vec::new());
        let changes = self.changes.iter().enumerate();
        let changes = changes.filter(|(_, change)| change.inserts() || change.removes());
        let mut numbers: Vec<usize> = changes.map(|(number, _)| number).collect();
        for level in 0..self.host.levels {
            numbers.retain(|&number| height(self.changes[number].key) > level);
            // Each level is planned apart, because a tower has another left neighbour at each.
            let mut gap: Option<TowerGap> = None;
            for &number in &numbers {
                let change = &self.changes[number];
                let step = self.search.path(change.query)[level];
                // Changes with the same old neighbour belong to one gap. Its end is known only when
                // the last of them is.
                let mut here = match gap.take() {
                    Some(gap) if gap.last_old == step.node => gap,
                    former => {
                        former
                            .iter()
                            .for_each(|gap| gap.close(level, &mut new, &mut old));
                        TowerGap {
                            last_old: step.node,
                            before: step.node,
                            is_new: false,
                            has: step.right,
                            next: step.right,
                            change: number,
                        }
                    }
                };
                if change.inserts() {
                    let link = TowerLink {
                        key: change.key,
                        tower: change.tower,
                    };
                    // The part up to the new tower is complete. The gap continues from it.
                    TowerGap { next: link, ..here }.close(level, &mut new, &mut old);
                    here.before = change.tower;
                    here.is_new = true;
                    here.has = step.right;
                } else {
                    // The removed tower is skipped: the gap ends at its neighbour.
                    here.last_old = change.tower;
                    here.next = self.links[change.links + level];
                }
                here.change = number;
                gap = Some(here);
            }
            gap.iter()
                .for_each(|gap| gap.close(level, &mut new, &mut old));
        }
        (new, old)
    }

    /// Sets links and, if `sets`, values of old towers.
    fn link(&mut self, settings: &[TowerLinkUpdate], sets: bool) {
        let mut inputs = self.host.inputs();
        // After a failure nothing new is linked.
        let settings = if self.host.broken.is_some() {
            for change in self.changes.iter_mut() {
                if change.inserts() || change.removes() {
                    let what = self.host.broken.clone().unwrap_or_default();
                    change.error = Some(OperationError::Unknown { what });
                }
            }
            &[]
        } else {
            settings
        };
        // A link that is set twice has the same value, so these tasks may be repeated, too.
        for setting in settings {
            let (at, level, link) = (setting.tower.at(), setting.level, setting.link);
            inputs.add(
                setting.tower.module(),
                &JumpPushTask::Link { at, level, link },
            );
        }
        // Values are set in the last round of links, which saves a round of their own.
        let changes = if sets { &self.changes[..] } else { &[] };
        for change in changes {
            if let (TowerAction::Set(value), None) = (change.action, &change.error) {
                add_set(&mut inputs, change.tower, value);
            }
        }
        if inputs.is_empty() {
            return;
        }
        let mut answers = self.host.insist(inputs);
        let mut check = |tower: Pointer| match &mut answers {
            // The task has no result, but the module replies only if it has executed it.
            Ok(answers) => answers.take(tower.module(), 0).map(|_| ()),
            Err(error) => Err(OperationError::Unknown {
                what: error.to_string(),
            }),
        };
        for setting in settings {
            if let Err(error) = check(setting.tower) {
                self.host.broken = Some(error.to_string());
                self.changes[setting.change].error = Some(error);
            }
        }
        for change in self.changes.iter_mut().filter(|_| sets) {
            if let (TowerAction::Set(_), None) = (change.action, &change.error)
                && let Err(error) = check(change.tower)
            {
                change.error = Some(error);
            }
        }
    }

    /// Frees the memory of towers that are not part of the list, and counts those that are.
    fn free(&mut self) {
        let levels = self.host.levels;
        let mut inputs = self.host.inputs();
        let mut gone = Vec::new();
        for change in self.changes.iter() {
            if change.inserts() {
                self.host.keys += 1;
            } else if change.removes() {
                self.host.keys = self.host.keys.saturating_sub(1);
                gone.push(change);
            }
        }
        gone.extend(self.unused.iter().map(|&number| &self.changes[number]));
        // After a failure old links may still lead to removed towers.
        if self.host.broken.is_some() || gone.is_empty() {
            return;
        }
        let mut bytes = 0;
        for change in gone {
            debug_assert!(!change.tower.is_null(), "a tower was built or found");
            let levels = change.levels(levels);
            let at = change.tower.at();
            inputs.add(change.tower.module(), &JumpPushTask::Free { at, levels });
            bytes += words(levels) as u64 * 8;
        }
        // If the round fails, memory is lost, but nothing else.
        if self.host.round(JumpPushProgram, inputs).is_ok() {
            self.host.bytes = self.host.bytes.saturating_sub(bytes);
        }
    }
}

fn add_set(inputs: &mut Inputs, tower: Pointer, value: u64) {
    let at = tower.at();
    inputs.add(tower.module(), &JumpPushTask::Set { at, value });
}

/// A gap at one level: consecutive old towers that are removed, and new ones between them.
#[derive(Clone, Copy, Debug)]
struct TowerGap {
    /// The last old tower, even if it is removed.
    last_old: Pointer,
    /// The last tower that stays or is new.
    before: Pointer,
    /// True if `before` is new.
    is_new: bool,
    /// The current link of `before`.
    has: TowerLink,
    /// The next old tower.
    next: TowerLink,
    change: usize,
}

impl TowerGap {
    /// Links the last tower to the next one.
    fn close(&self, level: usize, new: &mut Vec<TowerLinkUpdate>, old: &mut Vec<TowerLinkUpdate>) {
        let setting = TowerLinkUpdate {
            tower: self.before,
            level,
            link: self.next,
            change: self.change,
        };
        match self.is_new {
            // The new tower was built with this link.
            true if self.has == self.next => {}
            true => new.push(setting),
            false => old.push(setting),
        }
    }
}
