//! Tests of streams: shares, positions, determinism, bad plans.

use std::collections::HashSet;

use super::*;

fn spec(mix: Mix) -> StreamSpec {
    StreamSpec {
        mix,
        distribution: None,
        keys: 100_000,
        threads: 3,
        operations: 200_000,
        seed: 1,
        hot_seed: 1,
    }
}

fn changed(mix: Mix, change: impl FnOnce(&mut StreamSpec)) -> StreamSpec {
    let mut changed = spec(mix);
    change(&mut changed);
    changed
}

fn generated(mix: Mix, change: impl FnOnce(&mut StreamSpec)) -> Streams {
    changed(mix, change).generate().unwrap()
}

/// Counts reads, updates, inserts, scans and read-modify-writes.
fn counts(streams: &Streams) -> [usize; 5] {
    let mut counts = [0; 5];
    for op in streams.threads().iter().flat_map(OpStream::iter) {
        counts[match op {
            Op::Read(_) => 0,
            Op::Update(_) => 1,
            Op::Insert(_) => 2,
            Op::Scan(..) => 3,
            Op::ReadModifyWrite(_) => 4,
        }] += 1;
    }
    counts
}

#[test]
fn mixes_have_their_published_shares() {
    for mix in Mix::ALL.into_iter().filter(|mix| *mix != Mix::Load) {
        let MixShares {
            read,
            update,
            insert,
            scan,
            read_modify_write,
        } = mix.shares();
        let streams = spec(mix).generate().unwrap();
        let counts = counts(&streams);
        for (count, share) in counts
            .iter()
            .zip([read, update, insert, scan, read_modify_write])
        {
            let measured = *count as f64 / 2000.0;
            // Five standard deviations of the widest share.
            assert!(
                (measured - f64::from(share)).abs() < 0.56,
                "{mix}: {measured} {share}"
            );
            assert!(share != 0 || *count == 0, "{mix}");
        }
        assert_eq!(streams.loaded() + counts[2], 100_000, "{mix}");
    }
}

#[test]
fn load_inserts_every_key_in_order() {
    let streams = generated(Mix::Load, |spec| spec.operations = 100_000);
    assert_eq!(streams.loaded(), 0);
    let inserted = streams.threads().iter().flat_map(OpStream::iter);
    assert!(inserted.eq((0..100_000).map(Op::Insert)));
}

#[test]
fn streams_name_only_keys_that_are_there() {
    for mix in Mix::ALL.into_iter().filter(|mix| *mix != Mix::Load) {
        for distribution in [
            Distribution::Uniform,
            Distribution::Zipf(1.2),
            Distribution::Latest,
        ] {
            let streams = generated(mix, |spec| spec.distribution = Some(distribution));
            let mut inserted_by_anyone = HashSet::new();
            for stream in streams.threads() {
                let mut present = HashSet::new();
                for op in stream.iter() {
                    match op {
                        Op::Insert(position) => {
                            assert!((streams.loaded()..100_000).contains(&position));
                            assert!(inserted_by_anyone.insert(position));
                            present.insert(position);
                        }
                        Op::Read(position)
                        | Op::Update(position)
                        | Op::Scan(position, _)
                        | Op::ReadModifyWrite(position) => {
                            assert!(position < streams.loaded() || present.contains(&position));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn scans_have_uniform_lengths_from_1_to_100() {
    let streams = spec(Mix::YcsbE).generate().unwrap();
    let mut counts = [0u32; 101];
    for op in streams.threads().iter().flat_map(OpStream::iter) {
        if let Op::Scan(_, length) = op {
            counts[length] += 1;
        }
    }
    assert_eq!(counts[0], 0);
    let expected = f64::from(counts.iter().sum::<u32>()) / 100.0;
    let chi_square: f64 = counts[1..]
        .iter()
        .map(|&count| (f64::from(count) - expected).powi(2) / expected)
        .sum();
    // 99 degrees of freedom: mean 99, standard deviation 14.
    assert!(chi_square < 99.0 + 5.0 * 14.0, "{chi_square}");
}

#[test]
fn hot_keys_are_the_same_for_all_threads() {
    let streams = spec(Mix::YcsbC).generate().unwrap();
    let hottest = |stream: &OpStream| {
        let mut counts = vec![0u32; 100_000];
        for op in stream.iter() {
            let Op::Read(position) = op else {
                panic!("{op:?}")
            };
            counts[position] += 1;
        }
        (0..counts.len()).max_by_key(|&position| counts[position])
    };
    let [first, second, third] = streams.threads() else {
        panic!("three threads")
    };
    assert_eq!(hottest(first), hottest(second));
    assert_eq!(hottest(first), hottest(third));
    assert_ne!(first, second);
}

#[test]
fn workload_d_reads_the_latest_insertions() {
    let streams = generated(Mix::YcsbD, |spec| spec.threads = 1);
    let mut latest = streams.loaded() - 1;
    let (mut reads, mut hits) = (0, 0);
    for op in streams.threads()[0].iter() {
        match op {
            Op::Insert(position) => latest = position,
            Op::Read(position) => {
                reads += 1;
                hits += usize::from(position == latest);
            }
            _ => panic!("{op:?}"),
        }
    }
    // Rank 1 of Zipf 0.99 over 90,000 to 100,000 keys: 8 %.
    let share = f64::from(hits as u32) / f64::from(reads);
    assert!((0.075..0.085).contains(&share), "{share}");
}

#[test]
fn the_seed_determines_the_streams() {
    for mix in Mix::ALL {
        let spec = StreamSpec {
            operations: 30_000,
            ..spec(mix)
        };
        let streams = spec.generate().unwrap();
        assert_eq!(streams, spec.generate().unwrap());
        if mix != Mix::Load {
            assert_ne!(streams, StreamSpec { seed: 2, ..spec }.generate().unwrap());
        }
    }
}

#[test]
fn hot_keys_depend_on_a_seed_of_their_own() {
    let hottest = |spec: StreamSpec| {
        let streams = spec.generate().unwrap();
        let mut counts = std::collections::HashMap::new();
        for operation in streams.threads().iter().flat_map(OpStream::iter) {
            if let Op::Read(position) = operation {
                *counts.entry(position).or_insert(0) += 1;
            }
        }
        let mut counts: Vec<(usize, u32)> = counts.into_iter().collect();
        counts.sort_by_key(|&(position, count)| (std::cmp::Reverse(count), position));
        counts[..3].iter().map(|pair| pair.0).collect::<Vec<_>>()
    };
    let spec = spec(Mix::YcsbC);
    let others = StreamSpec { seed: 2, ..spec };
    assert_eq!(hottest(spec), hottest(others));
    assert_ne!(
        hottest(spec),
        hottest(StreamSpec {
            hot_seed: 2,
            ..spec
        })
    );
}

#[test]
fn operations_are_dealt_evenly_and_found_by_index() {
    let streams = generated(Mix::YcsbE, |spec| {
        (spec.operations, spec.threads) = (11, 4);
    });
    let lengths: Vec<usize> = streams.threads().iter().map(OpStream::len).collect();
    assert_eq!(lengths, [3, 3, 3, 2]);
    let stream = &streams.threads()[0];
    assert!(stream.range(1..3).eq([stream.get(1), stream.get(2)]));
    let idle = generated(Mix::YcsbC, |spec| spec.operations = 1);
    assert!(idle.threads()[2].is_empty());
}

#[test]
fn packing_keeps_all_parts() {
    let last = (1 << POSITION_BITS) - 1;
    for position in [0, 1, 12_345, last] {
        for (kind, length, op) in [
            (MixOperationKind::Read, 0, Op::Read(position)),
            (MixOperationKind::Update, 0, Op::Update(position)),
            (MixOperationKind::Insert, 0, Op::Insert(position)),
            (
                MixOperationKind::ReadModifyWrite,
                0,
                Op::ReadModifyWrite(position),
            ),
            (MixOperationKind::Scan, 1, Op::Scan(position, 1)),
            (MixOperationKind::Scan, 100, Op::Scan(position, 100)),
        ] {
            assert_eq!(unpack(pack(kind, length, position)), op);
        }
    }
}

#[test]
fn bad_plans_name_the_number() {
    let refused = |change: fn(&mut StreamSpec)| {
        let spec = changed(Mix::YcsbC, change);
        spec.generate().unwrap_err()
    };
    let negative = refused(|spec| spec.distribution = Some(Distribution::Zipf(-1.0)));
    for (error, expected) in [
        (refused(|spec| spec.keys = 0), "keys"),
        (refused(|spec| spec.threads = 0), "threads"),
        (refused(|spec| spec.threads = usize::MAX), "threads"),
        (refused(|spec| spec.operations = 0), "operations"),
        (negative, "skew"),
    ] {
        assert!(matches!(error, LabError::OutOfRange { .. }), "{error}");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let huge = refused(|spec| spec.operations = 1_000_000_000_000);
    assert!(matches!(huge, LabError::OutOfMemory { .. }), "{huge}");
}

#[test]
fn more_insertions_than_can_be_held_out_are_refused() {
    for (mix, operations, inserts_max) in [(Mix::Load, 101, 100), (Mix::YcsbD, 2000, 50)] {
        let spec = StreamSpec {
            keys: 100,
            operations,
            ..spec(mix)
        };
        match spec.generate() {
            Err(LabError::TooFewKeys {
                keys: 100,
                inserts_max: max,
                inserts,
                ..
            }) => {
                assert!(
                    max == inserts_max && inserts > max,
                    "{mix}: {inserts} {max}"
                );
            }
            other => panic!("{mix}: {other:?}"),
        }
    }
}
