//! The host's tasks for modules with towers, and their results, encoded as words.
//!
//! ```text
//! task | kind 8, level 8, flags 8, 0, at 32 | further words of the kind |
//! ```
//!
//! A module outputs the results of its tasks in order, so results need no tags.

use super::tower::{LINK_WORDS, TowerLink};

/// A task for a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpPushTask<'w> {
    /// A step of a query.
    ///
    /// The result is one word: the number of levels it has gone down 8, the right neighbour to
    /// which it goes 56, or 0. If the path is recorded, the link that was too far follows for each
    /// of those levels.
    Step {
        /// The tower.
        at: u32,
        /// The level of the query.
        level: usize,
        /// The searched key.
        key: u64,
        /// The way in which the query moves.
        way: QueryStepMode,
    },
    /// A read of the link of a level.
    Look {
        /// The tower.
        at: u32,
        /// The level.
        level: usize,
    },
    /// A read of key and value.
    Fetch {
        /// The tower.
        at: u32,
    },
    /// A read of key, value, and the links of `levels` levels.
    Visit {
        /// The tower.
        at: u32,
        /// Number of levels.
        levels: usize,
    },
    /// The construction of a tower. The result is its address, or 0 if there is no room.
    Make {
        /// The key of the tower.
        key: u64,
        /// The value of the tower.
        value: u64,
        /// The links, two words for each level.
        links: &'w [u64],
    },
    /// A change of the link of a level, without a result.
    Link {
        /// The tower.
        at: u32,
        /// The level.
        level: usize,
        /// The new right neighbour.
        link: TowerLink,
    },
    /// A change of a value, without a result.
    Set {
        /// The tower.
        at: u32,
        /// The new value.
        value: u64,
    },
    /// The release of a tower, without a result.
    Free {
        /// The tower.
        at: u32,
        /// Number of levels of the tower.
        levels: usize,
    },
    /// The insertion of a tower into this module's copy of the upper part. The result is 1, or 0 if
    /// there is no room.
    Raise {
        /// The key of the tower.
        key: u64,
        /// The address of its lower levels.
        tower: u64,
    },
    /// The removal of a tower from this module's copy of the upper part, without a result.
    Sink {
        /// The key of the tower.
        key: u64,
    },
    /// A list of towers of the upper part between two keys, both included, from the end where the
    /// list begins. The result is their number, then key and tower of each.
    List {
        /// The least key.
        from: u64,
        /// The greatest key.
        to: u64,
        /// The greatest number of entries.
        limit: u64,
        /// True if towers are listed from the greatest on.
        descends: bool,
    },
}

/// The way in which a query moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryStepMode {
    /// True if the query searches for the greatest key below its own, not at or below it.
    pub strict: bool,
    /// True if its path is recorded.
    pub recorded: bool,
    /// True if it goes down within a tower as far as necessary.
    pub descends: bool,
}

const STEP: u64 = 1;
const LOOK: u64 = 2;
const FETCH: u64 = 3;
const VISIT: u64 = 4;
const MAKE: u64 = 5;
const LINK: u64 = 6;
const SET: u64 = 7;
const FREE: u64 = 8;
const RAISE: u64 = 9;
const SINK: u64 = 10;
const ASCEND: u64 = 11;
const DESCEND: u64 = 12;

const STRICT: u64 = 1;
const RECORDED: u64 = 2;
const DESCENDS: u64 = 4;

fn header(kind: u64, level: usize, flags: u64, at: u32) -> u64 {
    debug_assert!(level <= 0xff && flags <= 0xff);
    kind | (level as u64) << 8 | flags << 16 | u64::from(at) << 32
}

impl<'w> JumpPushTask<'w> {
    /// Appends the encoded task to the input of a module.
    pub fn encode(&self, words: &mut Vec<u64>) {
        match *self {
            JumpPushTask::Step {
                at,
                level,
                key,
                way,
            } => {
                let flag = |set: bool, flag: u64| if set { flag } else { 0 };
                let flags = flag(way.strict, STRICT)
                    | flag(way.recorded, RECORDED)
                    | flag(way.descends, DESCENDS);
                words.extend([header(STEP, level, flags, at), key]);
            }
            JumpPushTask::Look { at, level } => words.push(header(LOOK, level, 0, at)),
            JumpPushTask::Fetch { at } => words.push(header(FETCH, 0, 0, at)),
            JumpPushTask::Visit { at, levels } => words.push(header(VISIT, levels, 0, at)),
            JumpPushTask::Make { key, value, links } => {
                debug_assert!(links.len().is_multiple_of(LINK_WORDS));
                let levels = links.len() / LINK_WORDS;
                words.extend([header(MAKE, levels, 0, 0), key, value]);
                words.extend_from_slice(links);
            }
            JumpPushTask::Link { at, level, link } => {
                words.extend([header(LINK, level, 0, at), link.key, link.tower.word()]);
            }
            JumpPushTask::Set { at, value } => words.extend([header(SET, 0, 0, at), value]),
            JumpPushTask::Free { at, levels } => words.push(header(FREE, levels, 0, at)),
            JumpPushTask::Raise { key, tower } => {
                words.extend([header(RAISE, 0, 0, 0), key, tower])
            }
            JumpPushTask::Sink { key } => words.extend([header(SINK, 0, 0, 0), key]),
            JumpPushTask::List {
                from,
                to,
                limit,
                descends,
            } => {
                let kind = if descends { DESCEND } else { ASCEND };
                words.extend([header(kind, 0, 0, 0), from, to, limit]);
            }
        }
    }

    /// Decodes the first task and removes it from `words`. Returns `None` if it is invalid.
    pub fn decode(words: &mut &'w [u64]) -> Option<JumpPushTask<'w>> {
        let (&first, rest): (&u64, &'w [u64]) = words.split_first()?;
        let (kind, level, flags) = (first & 0xff, (first >> 8 & 0xff) as usize, first >> 16);
        let at = (first >> 32) as u32;
        let (task, rest): (JumpPushTask<'w>, &'w [u64]) = match (kind, rest) {
            (STEP, &[key, ref rest @ ..]) => {
                let way = QueryStepMode {
                    strict: flags & STRICT != 0,
                    recorded: flags & RECORDED != 0,
                    descends: flags & DESCENDS != 0,
                };
                let task = JumpPushTask::Step {
                    at,
                    level,
                    key,
                    way,
                };
                (task, rest)
            }
            (LOOK, rest) => (JumpPushTask::Look { at, level }, rest),
            (FETCH, rest) => (JumpPushTask::Fetch { at }, rest),
            (VISIT, rest) => (JumpPushTask::Visit { at, levels: level }, rest),
            (MAKE, &[key, value, ref rest @ ..]) => {
                let (links, rest) = rest.split_at_checked(level * LINK_WORDS)?;
                (JumpPushTask::Make { key, value, links }, rest)
            }
            (LINK, &[key, tower, ref rest @ ..]) => {
                let link = TowerLink::from_words(key, tower);
                (JumpPushTask::Link { at, level, link }, rest)
            }
            (SET, &[value, ref rest @ ..]) => (JumpPushTask::Set { at, value }, rest),
            (FREE, rest) => (JumpPushTask::Free { at, levels: level }, rest),
            (RAISE, &[key, tower, ref rest @ ..]) => (JumpPushTask::Raise { key, tower }, rest),
            (SINK, &[key, ref rest @ ..]) => (JumpPushTask::Sink { key }, rest),
            (ASCEND | DESCEND, &[from, to, limit, ref rest @ ..]) => {
                let descends = kind == DESCEND;
                let task = JumpPushTask::List {
                    from,
                    to,
                    limit,
                    descends,
                };
                (task, rest)
            }
            _ => return None,
        };
        *words = rest;
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tower::Pointer;
    use super::*;

    #[test]
    fn tasks_come_back_as_they_were() {
        let way = QueryStepMode {
            strict: true,
            recorded: false,
            descends: true,
        };
        let (at, level, key) = (u32::MAX, 11, u64::MAX);
        let link = TowerLink {
            key: 5,
            tower: Pointer::new(7, 8),
        };
        let list = |descends| JumpPushTask::List {
            from: 0,
            to: u64::MAX,
            limit: 9,
            descends,
        };
        let tasks = [
            JumpPushTask::Step {
                at,
                level,
                key,
                way,
            },
            JumpPushTask::Look { at, level },
            JumpPushTask::Fetch { at },
            JumpPushTask::Visit { at, levels: 12 },
            JumpPushTask::Make {
                key,
                value: 3,
                links: &[1, 2, 3, 4],
            },
            JumpPushTask::Link { at, level, link },
            JumpPushTask::Set { at, value: 4 },
            JumpPushTask::Free { at, levels: 3 },
            JumpPushTask::Raise { key, tower: 6 },
            JumpPushTask::Sink { key },
            list(true),
            list(false),
        ];
        let mut words = Vec::new();
        tasks.iter().for_each(|task| task.encode(&mut words));
        let rest = &mut &words[..];
        for task in tasks {
            assert_eq!(JumpPushTask::decode(rest), Some(task));
        }
        assert!(rest.is_empty());
        assert_eq!(JumpPushTask::decode(&mut &[0_u64][..]), None);
        assert_eq!(
            JumpPushTask::decode(&mut &[header(MAKE, 2, 0, 0), 1, 2, 3][..]),
            None
        );
    }
}
