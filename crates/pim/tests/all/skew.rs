//! The loads of modules when operations go to few keys.

use nearfield_core::{Batch, OperationOutcome, OrderedIndex, ScanDirection, Words};
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::device::{HostWork, Model, ModuleDevice};
use nearfield_pim::radar::{Radar, RadarOptions, SubrangeMoveCounts};
use nearfield_pim::testing::full::everything;
use nearfield_pim::testing::skew::{BATCH, KEYS, MODULES, imbalance, key, load, model, words_sent};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;

#[test]
fn subranges_follow_the_load_and_everything_stays_where_it_is_found() {
    // Otherwise reads of a key would be combined, and there would be few.
    let all_count = RadarOptions {
        combines_reads: false,
        ..RadarOptions::nearfield()
    };
    for options in [all_count, RadarOptions::radar(MODULES)] {
        let index = Radar::new(model(), options);
        load(&index);
        assert_eq!(index.len() as u64, KEYS);
        let found = imbalance(&index, || index.device(words_sent), 2000);
        let moves = index.moves();
        assert!(moves.divided > 0, "{moves:?}");
        assert!(found < 2.0, "{found} after {moves:?}");
        assert_eq!(index.len() as u64, KEYS);
        index.check_invariants();
        // All entries are present, in order.
        let entries = everything(&index).expect("executed");
        let expected = (0..KEYS).map(|number| (key(number), number));
        assert!(entries.into_iter().eq(expected));
    }
}

#[test]
fn no_batch_takes_more_than_two_rounds_and_what_is_even_takes_one() {
    let index = Radar::new(model(), RadarOptions::nearfield());
    load(&index);
    let rounds = || index.device(|device| device.counters().rounds);
    let (before, moves) = (rounds(), index.moves());
    let random = &mut SmallRng::seed_from_u64(9);
    for even in [true, false] {
        let mut batch = Batch::<Words>::new();
        for _ in 0..BATCH {
            if even {
                batch.get(key(random.random_range(0..KEYS)));
            } else {
                // Reads of a key would be combined.
                let number = random.random_range(0..20);
                batch.insert(key(number), number);
            }
        }
        let before = rounds();
        index.execute(&mut batch).expect("executed");
        assert_eq!(rounds() - before, if even { 1 } else { 2 });
        if even {
            assert_eq!(index.moves(), moves, "no key was moved");
        }
    }
    assert_eq!(rounds() - before, 3);
}

/// Even the first batch on cold keys is spread: inserts into empty subranges, reads that all find
/// the same key in a wide gap, and reads of gaps between few keys.
#[test]
fn what_becomes_hot_is_spread_in_the_same_batch() {
    let wide = u64::MAX / KEYS;
    let fullest = |what: &str, add: &dyn Fn(&mut Batch<Words>, u64)| {
        let index = Radar::new(model(), RadarOptions::nearfield());
        load(&index);
        let random = &mut SmallRng::seed_from_u64(7);
        let mut batch = Batch::<Words>::new();
        for _ in 0..BATCH {
            add(&mut batch, random.random_range(0..wide));
        }
        index.execute(&mut batch).expect("executed");
        let balance = index.balance();
        let mean = balance.all as f64 / MODULES as f64;
        let found = balance.fullest as f64 / mean;
        assert!(balance.all as usize >= BATCH, "{what}: {balance:?}");
        // Single keys at the gaps have two times the mean load, and can be copied to two modules
        // each.
        assert!(found < 1.75, "{what}: {found} of {balance:?}");
        batch
    };
    fullest("inserts", &|batch, offset| {
        batch.insert(key(50_100) + 5 * (offset / 4), offset);
    });
    let batch = fullest("one gap", &|batch, offset| {
        batch.predecessor(key(50_100) + offset);
    });
    for position in 0..BATCH {
        let found = OperationOutcome::Entry(Some((key(50_100), 50_100)));
        assert_eq!(batch.outcome(position), found);
    }
    fullest("gaps", &|batch, offset| {
        let number = [0, 1, 2, 3, 10, 11, 12, 40][offset as usize % 8];
        batch.predecessor(key(50_100 + number) + offset);
    });
}

/// Each module has few scans with great weights, so by chance some modules have twice the average
/// load; in the next batch these would be others.
#[test]
fn scans_without_skew_move_nothing() {
    let index = Radar::new(
        Model::new(512, ModulePreset::UpmemMeasured.parameters()),
        RadarOptions::nearfield(),
    );
    load(&index);
    let random = &mut SmallRng::seed_from_u64(3);
    for _ in 0..3 {
        let mut batch = Batch::<Words>::new();
        for _ in 0..5120 {
            let first = random.random_range(0..KEYS - 600);
            let last = first + random.random_range(32..600);
            let (from, to) = (Bound::Included(key(first)), Bound::Excluded(key(last)));
            batch.scan(from, to, u32::MAX, ScanDirection::Ascending);
        }
        let before = index.device(|device| device.counters().rounds);
        index.execute(&mut batch).expect("executed");
        let rounds = index.device(|device| device.counters().rounds) - before;
        assert_eq!((rounds, index.moves()), (1, SubrangeMoveCounts::default()));
    }
}

/// Scans begin in one subrange and read the next one, which is hot, too, although nothing begins
/// there.
#[test]
fn what_scans_go_on_to_is_divided_by_the_paper_too() {
    let index = Radar::new(model(), RadarOptions::radar(MODULES));
    load(&index);
    let random = &mut SmallRng::seed_from_u64(4);
    let mut fullest = Vec::new();
    for _ in 0..3 {
        let mut batch = Batch::<Words>::new();
        // Subranges initially have 391 keys, and one ends at the key of number 30,078.
        for _ in 0..2000 {
            let first = 30_000 + random.random_range(0..50);
            let (from, to) = (key(first), key(first + 400));
            let (from, to) = (Bound::Included(from), Bound::Excluded(to));
            batch.scan(from, to, u32::MAX, ScanDirection::Ascending);
        }
        let before = index.device(words_sent);
        index.execute(&mut batch).expect("executed");
        let after = index.device(words_sent);
        fullest.push((after.0 - before.0) as f64 / (after.1 - before.1));
        assert_eq!(batch.entries(0).count(), 400);
    }
    assert!(fullest[2] < 2.5, "{fullest:?}, {:?}", index.moves());
}

/// The hot keys are a small part of a subrange, as those of a frequent word in many documents. The
/// subrange does not gain from its first division.
#[test]
fn what_is_hot_in_a_narrow_place_is_pulled_by_the_paper_too() {
    const DOCUMENTS: u64 = 30_000;
    for options in [
        RadarOptions::radar(MODULES),
        RadarOptions::by_the_letter(MODULES),
    ] {
        let index = Radar::new(model(), options);
        load(&index);
        let mut batch = Batch::<Words>::new();
        for number in 1..DOCUMENTS {
            batch.insert(key(50_000) + number, number);
        }
        index.execute(&mut batch).expect("executed");
        let random = &mut SmallRng::seed_from_u64(8);
        let mut fullest = Vec::new();
        for _ in 0..5 {
            let mut batch = Batch::<Words>::new();
            for number in 0..BATCH {
                batch.get(match number % 2 {
                    0 => key(random.random_range(0..KEYS)),
                    _ => key(50_000) + random.random_range(1..DOCUMENTS),
                });
            }
            index.execute(&mut batch).expect("executed");
            let balance = index.balance();
            fullest.push(balance.fullest as f64 * MODULES as f64 / balance.all as f64);
        }
        let moves = index.moves();
        assert!(fullest[4] < 2.5, "{fullest:?}, {moves:?}");
        assert!(moves.pulled > 0 && moves.divided > 0, "{moves:?}");
        assert!(index.keys_of_host() as u64 >= DOCUMENTS - 1, "{moves:?}");
    }
}

/// A key that is written continually stays on the host while it is hot.
#[test]
fn what_stays_hot_stays_with_the_host() {
    let options = RadarOptions {
        cools: Some(2),
        ..RadarOptions::nearfield()
    };
    let index = Radar::new(model(), options);
    load(&index);
    let random = &mut SmallRng::seed_from_u64(4);
    let mut batch_of = |hot: u64| {
        let mut batch = Batch::<Words>::new();
        for number in 0..BATCH as u64 {
            match number % 4 {
                0 => batch.insert(key(hot), number),
                _ => batch.get(key(random.random_range(0..KEYS))),
            };
        }
        index.execute(&mut batch).expect("executed");
        index.keys_of_host()
    };
    batch_of(50_000);
    assert!((0..12).all(|_| batch_of(50_000) > 0));
    assert_eq!(index.moves().returned, 0);
    // A few reads of a formerly hot key do not keep it on the host.
    for _ in 0..12 {
        batch_of(70_000);
    }
    assert_eq!((index.moves().returned, index.keys_of_host()), (1, 1));
}

#[test]
fn what_basic_radar_has_stays_in_its_module() {
    let index = Radar::new(model(), RadarOptions::basic(MODULES));
    load(&index);
    imbalance(&index, || index.device(words_sent), 50);
    assert_eq!(index.moves(), SubrangeMoveCounts::default());
    assert_eq!(index.keys_of_host(), 0);
}

/// Without requests, pieces are merged, and the host returns its keys to modules.
#[test]
fn what_was_hot_once_cools() {
    let options = RadarOptions {
        cools: Some(6),
        // Pieces can be neither divided again nor copied, and all reads count.
        levels: 1,
        copies_max: 1,
        combines_reads: false,
        ..RadarOptions::nearfield()
    };
    let index = Radar::new(model(), options);
    load(&index);
    let before = index.subranges();
    imbalance(&index, || index.device(words_sent), 40);
    let (hot, moves) = (index.subranges(), index.moves());
    assert!(hot > before && index.keys_of_host() > 0, "{moves:?}");
    let random = &mut SmallRng::seed_from_u64(1);
    for _ in 0..60 {
        let mut batch = Batch::<Words>::new();
        for _ in 0..1000 {
            batch.get(key(random.random_range(40_000..KEYS)));
        }
        let rounds = || index.device(|device| device.counters().rounds);
        let before = rounds();
        index.execute(&mut batch).expect("executed");
        assert!(rounds() - before <= 2);
        index.check_invariants();
    }
    let moves = index.moves();
    assert!(moves.merged > 0 && moves.returned > 0, "{moves:?}");
    assert_eq!(index.keys_of_host(), 0);
    // Subranges may be as large as the initial ones, and no others are left in pieces.
    assert!(
        index.subranges() <= before + 20,
        "{before}, {}",
        index.subranges()
    );
    let mut batch = Batch::<Words>::new();
    for number in 0..KEYS {
        batch.get(key(number));
    }
    index.execute(&mut batch).expect("executed");
    assert!((0..KEYS).all(|number| batch.value(number as usize) == Some(number)));
}

/// All operations are on one key. Reads share a result if no operation writes the key between them.
#[test]
fn a_key_that_all_read_is_read_once() {
    let index = Radar::new(model(), RadarOptions::nearfield());
    load(&index);
    let sent = || index.device(|device| device.counters().useful_bytes[0]);
    let (before, moves) = (sent(), index.moves());
    let mut batch = Batch::<Words>::new();
    let hot = key(77);
    for number in 0..BATCH as u64 {
        match number % 5000 {
            10 => batch.insert(hot, number),
            20 => batch.update(hot, Some(1), 2),
            30 => batch.remove(hot),
            40 => batch.insert(hot, number),
            _ => batch.get(hot),
        };
    }
    index.execute(&mut batch).expect("executed");
    let mut expected = Some(77);
    for number in 0..BATCH as u64 {
        match number % 5000 {
            10 | 40 => expected = Some(number),
            20 => {}
            30 => expected = None,
            _ => assert_eq!(batch.value(number as usize), expected, "operation {number}"),
        }
    }
    // There are sixteen writes, and a read after each.
    assert!(sent() - before < 34 * 32, "{} bytes", sent() - before);
    assert_eq!(index.moves(), moves);
}

/// Overlapping scans share reads if no operation writes the range between them. Scans with limits
/// share them only if together they would read more entries than exist.
#[test]
fn a_range_that_all_scan_is_read_once() {
    const FIRST: u64 = 30_000;
    const HOT: u64 = 500;
    let index = Radar::new(model(), RadarOptions::nearfield());
    load(&index);
    let mut expected: BTreeMap<u64, u64> = (FIRST..FIRST + 2 * HOT)
        .map(|number| (key(number), number))
        .collect();
    let random = &mut SmallRng::seed_from_u64(5);
    for limit in [u32::MAX, 100] {
        let answered = || index.device(|device| device.counters().useful_bytes[1]);
        let before = answered();
        let mut batch = Batch::<Words>::new();
        let mut found = Vec::new();
        for number in 0..2000 {
            let first = FIRST + random.random_range(0..HOT - 100);
            if number % 500 == 250 {
                let written = key(FIRST + HOT / 2);
                batch.insert(written, number);
                expected.insert(written, number);
                found.push(Vec::new());
                continue;
            }
            let from = key(first);
            let to = match limit {
                u32::MAX => key(first + 99),
                _ => key(FIRST + 2 * HOT - 1),
            };
            batch.scan(
                Bound::Included(from),
                Bound::Included(to),
                limit,
                ScanDirection::Ascending,
            );
            let entries = expected.range(from..=to).take(100);
            found.push(entries.map(|(&key, &value)| (key, value)).collect());
        }
        index.execute(&mut batch).expect("executed");
        for (position, expected) in found.into_iter().enumerate() {
            if let OperationOutcome::Entries(entries) = batch.outcome(position) {
                assert_eq!(entries, expected, "operation {position}, at most {limit}");
            }
        }
        // Each hot entry is read once between two of the four writes, instead of 2000 times 100
        // entries.
        let most = 5 * (2 * HOT + 400) * 16;
        let answered = answered() - before;
        assert!(answered < most, "{answered} bytes, {most} at most");
    }
}

/// The host must search its own keys, as modules do.
#[test]
fn what_the_host_does_itself_takes_time() {
    let options = RadarOptions {
        levels: 0,
        copies_max: 1,
        combines_reads: false,
        ..RadarOptions::nearfield()
    };
    let index = Radar::new(model(), options);
    load(&index);
    for _ in 0..2 {
        let before = index.device(|device| device.counters().host);
        let mut batch = Batch::<Words>::new();
        for _ in 0..BATCH {
            batch.get(key(30_007));
        }
        index.execute(&mut batch).expect("executed");
        let after = index.device(|device| device.counters().host);
        let (balance, subrange) = (index.balance(), index.keys_of_host());
        assert_eq!((balance.all, balance.host), (0, BATCH as u64));
        assert!(subrange > 64);
        // The host probes the directory and at least three levels.
        let least = HostWork {
            probes: 4 * BATCH as u64,
            ..HostWork::default()
        };
        let least = index.device(|device| least.time(&device.parameters().host));
        assert!(after - before >= least, "{:?}", after - before);
    }
}

/// A part that is only read and cannot be divided is in several modules, until an operation writes
/// it.
#[test]
fn what_is_read_much_is_copied_and_stays_the_same_everywhere() {
    let options = RadarOptions {
        levels: 0,
        combines_reads: false,
        ..RadarOptions::nearfield()
    };
    let index = Radar::new(model(), options);
    load(&index);
    let loaded = index.moves();
    let found = imbalance(&index, || index.device(words_sent), 40);
    let moves = index.moves();
    assert!(
        moves.copied > 4 && moves.pulled == loaded.pulled,
        "{moves:?}"
    );
    let balance = index.balance();
    assert_eq!((balance.all, balance.host), (BATCH as u64, 0));
    assert!(found < 1.3 && balance.fullest < 1700, "{found} {balance:?}");
    for round in 0..3 {
        // There is a write in the middle of reads. Those after it see it in any module.
        let mut batch = Batch::<Words>::new();
        for number in 0..1000 {
            batch.get(key(30_007));
            if number == 500 {
                batch.insert(key(30_007), round);
            }
        }
        index.execute(&mut batch).expect("executed");
        let before = if round == 0 { 30_007 } else { round - 1 };
        for position in 0..=1000 {
            let expected = if position > 501 { round } else { before };
            assert_eq!(batch.value(position), Some(expected), "{position}");
        }
        index.check_invariants();
    }
    assert_eq!(index.len() as u64, KEYS);
}
