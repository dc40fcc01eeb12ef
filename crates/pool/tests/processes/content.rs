//! The tree's first content, and the check of its final content.

use crate::journal::{self, ProcessHistory, ProcessJournalEntry};
use crate::keys::{
    NUMBERS, PROCESSES, initial, is_shared, key, scanned, value, version_of, writer,
};
use crate::run::ProcessRunParameters;
use crate::turns::block_on_all;
use nearfield_fabric::Endpoint;
use nearfield_pool::PoolIndexClient;
use nearfield_testkit::polling::block_on;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Number of operations in flight at once, if none depends on another.
const AT_ONCE: u64 = 8;
/// Maximum time of an operation in leases. Two dead clients may block it, one after the other, and
/// a busy machine needs more time.
const LEASES_PER_OPERATION: u32 = 10;
const SLACK: Duration = Duration::from_secs(60);

/// Creates a tree with all even numbers.
pub fn fill(run: &ProcessRunParameters, endpoint: impl Endpoint) {
    let tree = block_on(run.create(endpoint)).expect("a tree");
    let tree = &tree;
    block_on_all((0..AT_ONCE).map(|task| async move {
        let own = (0..NUMBERS).filter(|number| number / 2 % AT_ONCE == task);
        for number in own.filter(|number| initial(*number).is_some()) {
            let mut is_repeated = false;
            let before = loop {
                match tree.insert(&key(number), &value(number, 0)).await {
                    Err(error) if run.is_unknown(&error) => is_repeated = true,
                    done => break done.expect("the nodes live"),
                }
            };
            let is_own = before.as_deref() == Some(&value(number, 0)[..]);
            assert!(before.is_none() || is_repeated && is_own, "{before:?}");
        }
    }));
}

/// Checks, as a later client, that all acknowledged writes exist, and prints a summary.
pub fn check(run: &ProcessRunParameters, incarnations: &[u64], endpoint: impl Endpoint) {
    let mut histories = Vec::new();
    let mut shared = BTreeSet::from([0]);
    for (process, incarnations) in (0..).zip(incarnations) {
        histories.push(run.history(process, incarnations + 1));
        for incarnation in 1..=*incarnations {
            let entries = journal::read(&run.journal(process, incarnation));
            shared.extend(entries.iter().filter_map(|entry| match entry {
                ProcessJournalEntry::Put { number, version } if is_shared(*number) => {
                    Some(*version)
                }
                _ => None,
            }));
        }
    }
    let tree = block_on(run.open(endpoint)).expect("a tree");
    let tree = &tree;
    let all = &RefCell::new(BTreeMap::new());
    block_on_all((0..AT_ONCE).map(|task| async move {
        for number in (0..NUMBERS).filter(|number| number % AT_ONCE == task) {
            let found = tree.get(&key(number)).await.expect("the nodes live");
            let found = found.map(|value| version_of(number, &value));
            if let Some(version) = found {
                all.borrow_mut().insert(number, version);
            }
        }
    }));
    let all = all.take();
    for number in 0..NUMBERS {
        let found = all.get(&number).copied();
        if is_shared(number) {
            let begun = found.is_some_and(|version| shared.contains(&version));
            assert!(begun, "{number} is {found:x?}, which no thread wrote");
            continue;
        }
        let possible = histories[writer(number).0 as usize].of(number);
        assert!(
            possible.allows(found),
            "{number} is {found:x?}, and not of {possible:x?}"
        );
    }
    let count = NUMBERS as usize;
    let whole = block_on(tree.scan(&[0; 8], count)).expect("the nodes live");
    let found = scanned(&whole, 0, count).into_iter();
    assert_eq!(found.collect::<BTreeMap<_, _>>(), all);
    let mut back = block_on(tree.scan_back(&[255; 8], count)).expect("the nodes live");
    back.reverse();
    assert_eq!(back, whole);
    // All entries can be changed: no lock is left behind.
    let all = &all;
    block_on_all((0..AT_ONCE).map(|task| async move {
        for (number, version) in all.iter().filter(|(number, _)| *number % AT_ONCE == task) {
            let before = loop {
                match tree.update(&key(*number), &value(*number, *version)).await {
                    Err(error) if run.is_unknown(&error) => {}
                    done => break done.expect("the nodes live").expect("it exists"),
                }
            };
            assert_eq!(version_of(*number, &before), *version);
        }
    }));
    report(run, incarnations, &histories);
}

fn report(run: &ProcessRunParameters, incarnations: &[u64], histories: &[ProcessHistory]) {
    let sum = |of: fn(&ProcessHistory) -> u64| histories.iter().map(of).sum::<u64>();
    let longest = histories.iter().map(|history| history.longest).max();
    let longest = longest.unwrap_or_default();
    let opening = histories.iter().map(|history| history.opening).max();
    let restarts: u64 = incarnations.iter().sum::<u64>() - PROCESSES;
    eprintln!(
        "{restarts} kills; {} operations; {} writes acknowledged, {} not; \
         longest operation {longest:?}, lease {:?}; longest start {:?}",
        sum(|history| history.operations),
        sum(|history| history.acknowledged),
        sum(|history| history.unacknowledged),
        run.lease,
        opening.unwrap_or_default(),
    );
    assert!(longest < run.lease * LEASES_PER_OPERATION + SLACK);
}
