//! The invariants of the list.

use super::host::JumpPushHost;
use super::task::JumpPushTask;
use super::tower::{ENTRY_WORDS, LINK_WORDS, Pointer, TowerLink, height, home, words};
use nearfield_pim::device::ModuleDevice;
use nearfield_pim::structures::skip_list;
use std::collections::{HashMap, HashSet};

impl<D: ModuleDevice> JumpPushHost<D> {
    /// Reads the whole list, and checks levels, modules and copies.
    ///
    /// # Panics
    /// If an invariant is broken, or a round is refused.
    pub fn check(&mut self) {
        if self.head.is_null() {
            assert_eq!(self.keys, 0);
            return;
        }
        if self.broken.is_some() {
            // Links may be set only in part.
            return;
        }
        let (levels, modules) = (self.levels, self.device.modules());
        let mut towers = self.read_all();
        let mut tails: Vec<TowerLink> = towers.remove(&self.head).expect("the first tower").1;
        let (mut count, mut bytes) = (0, words(levels) as u64 * 8);
        let mut upper = Vec::new();
        let mut last = None;
        while !tails[0].tower.is_null() {
            let TowerLink { key, tower } = tails[0];
            assert_eq!(tower.module(), home(key, modules), "the place of {key:#x}");
            assert!(last < Some(key), "{key:#x} is in its place");
            let (found, links) = towers.remove(&tower).expect("a tower");
            assert_eq!(found, key, "the key that a link leads to");
            bytes += words(links.len()) as u64 * 8;
            for (level, link) in links.into_iter().enumerate() {
                assert_eq!(tails[level], TowerLink { key, tower }, "level {level}");
                tails[level] = link;
            }
            if height(key) > levels {
                upper.extend([key, tower.word()]);
                bytes += skip_list::bytes(key) * modules as u64;
            }
            last = Some(key);
            count += 1;
        }
        assert!(
            tails.iter().all(|tail| tail.tower.is_null()),
            "all levels end"
        );
        assert!(towers.is_empty(), "the targets of links are at level 0");
        assert_eq!(self.keys, count);
        for module in 0..modules {
            let mut inputs = self.inputs();
            let (from, to, limit, descends) = (0, u64::MAX, u64::MAX, false);
            let task = JumpPushTask::List {
                from,
                to,
                limit,
                descends,
            };
            inputs.add(module, &task);
            let mut answers = self.insist(inputs).expect("a round");
            let found = answers.take(module, 1).expect("a reply")[0] as usize;
            let listed = answers.take(module, found * 2).expect("a reply");
            assert_eq!(listed, upper, "the upper part of module {module}");
        }
        assert!(self.bytes >= bytes, "{} of {bytes} bytes", self.bytes);
    }

    /// Returns keys and links of all towers, by their addresses. Takes a round for each step from
    /// the first tower.
    fn read_all(&mut self) -> HashMap<Pointer, (u64, Vec<TowerLink>)> {
        let mut towers = HashMap::new();
        let mut next = vec![(self.head, self.levels)];
        let mut seen = HashSet::from([self.head]);
        while !next.is_empty() {
            let mut inputs = self.inputs();
            for &(tower, levels) in &next {
                let at = tower.at();
                inputs.add(tower.module(), &JumpPushTask::Visit { at, levels });
            }
            let mut answers = self.insist(inputs).expect("a round");
            for (tower, levels) in std::mem::take(&mut next) {
                let words = answers.take(tower.module(), words(levels));
                let words = words.expect("a reply");
                let links = words[ENTRY_WORDS..].chunks_exact(LINK_WORDS);
                let links = links.map(|pair| TowerLink::from_words(pair[0], pair[1]));
                let links: Vec<TowerLink> = links.collect();
                let behind = links.iter().filter(|link| !link.tower.is_null());
                let behind = behind.filter(|link| seen.insert(link.tower));
                next.extend(behind.map(|link| (link.tower, height(link.key).min(self.levels))));
                towers.insert(tower, (words[0], links));
            }
        }
        towers
    }
}
