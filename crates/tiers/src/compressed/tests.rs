use super::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Creates a value that looks like a record of an application.
fn record(random: &mut SmallRng) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "harbour", "lantern", "violet", "summit", "meadow", "anchor", "copper", "willow", "ember",
        "glacier", "orchard", "saffron",
    ];
    let mut word = || WORDS[random.random_range(0..WORDS.len())];
    let mut text = format!(
        "{{\"name\":\"{} {}\",\"city\":\"{}\",\"tags\":[",
        word(),
        word(),
        word()
    );
    for _ in 0..10 {
        text.push_str(&format!("\"{}\",", word()));
    }
    text.push_str(&format!("\"id\":{}]}}", random.random::<u32>()));
    text.into_bytes()
}

fn read(tier: &CompressedTier, place: ColdPlace) -> Vec<u8> {
    let mut value = Vec::new();
    tier.read(place, &mut value).unwrap();
    value
}

#[test]
fn values_are_read_as_they_were_put_and_all_bytes_come_back() {
    let tier = CompressedTier::new(1, 64 << 20);
    let mut random = SmallRng::seed_from_u64(1);
    let mut kept: Vec<(ColdPlace, Vec<u8>)> = Vec::new();
    for round in 0..2000 {
        let values: Vec<Vec<u8>> = (0..8).map(|_| record(&mut random)).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let places = tier.put(&values).unwrap();
        kept.extend(
            places
                .into_iter()
                .zip(values.iter().map(|value| value.to_vec())),
        );
        tier.tend();
        if round % 3 == 2 {
            for _ in 0..12 {
                let (place, value) = kept.swap_remove(random.random_range(0..kept.len()));
                assert_eq!(read(&tier, place), value);
                tier.release(place);
            }
        }
        let usage = tier.usage();
        assert_eq!(usage.values as usize, kept.len());
        let bytes: usize = kept.iter().map(|(_, value)| value.len()).sum();
        assert_eq!(usage.value_bytes as usize, bytes);
    }
    for (place, value) in kept {
        assert_eq!(read(&tier, place), value);
        tier.release(place);
    }
    let usage = tier.usage();
    assert_eq!((usage.values, usage.value_bytes), (0, 0));
    // One dictionary is left, for later values.
    assert_eq!(usage.used_bytes, tier.dictionaries.bytes());
    assert!(tier.dictionaries.newest().is_some());
}

#[test]
fn dictionaries_make_blocks_smaller_and_old_blocks_ask_to_be_put_again() {
    let tier = CompressedTier::new(1, 64 << 20);
    let mut random = SmallRng::seed_from_u64(2);
    let mut put = || {
        let values: Vec<Vec<u8>> = (0..8).map(|_| record(&mut random)).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let before = tier.usage().used_bytes;
        let places = tier.put(&values).unwrap();
        (places[0], tier.usage().used_bytes - before)
    };
    let (first, plain_bytes) = put();
    assert!(!tier.wants_rewrite(first));
    while tier.dictionaries.newest().is_none() {
        put();
        tier.tend();
    }
    assert!(tier.wants_rewrite(first));
    let (place, bytes) = put();
    assert!(!tier.wants_rewrite(place));
    assert!(
        bytes * 4 < plain_bytes * 3,
        "{bytes} and {plain_bytes} without"
    );
}

#[test]
fn what_is_put_in_haste_is_read_takes_more_and_asks_to_be_put_again() {
    let tier = CompressedTier::new(1, 64 << 20);
    let random = &mut SmallRng::seed_from_u64(7);
    for has_dictionary in [false, true] {
        if has_dictionary {
            put_for(&tier, random, 300 << 10);
            tier.tend();
        }
        assert_eq!(tier.dictionaries.newest().is_some(), has_dictionary);
        let values: Vec<Vec<u8>> = (0..800).map(|_| record(random)).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let mut bytes = Vec::new();
        for is_hasty in [false, true] {
            let before = tier.usage().used_bytes;
            for block in values.chunks(8) {
                let places = match is_hasty {
                    true => tier.put_in_haste(block).unwrap(),
                    false => tier.put(block).unwrap(),
                };
                for (&place, &value) in places.iter().zip(block) {
                    assert_eq!(read(&tier, place), value);
                    assert_eq!(tier.wants_rewrite(place), is_hasty);
                    // It frees no room at once.
                    assert!(!tier.is_sparse(place));
                }
            }
            bytes.push(tier.usage().used_bytes - before);
        }
        assert!(bytes[0] < bytes[1], "{bytes:?}");
    }
}

/// Puts blocks of records that have `bytes` bytes in total.
fn put_for(tier: &CompressedTier, random: &mut SmallRng, bytes: u64) -> Vec<ColdPlace> {
    let mut places = Vec::new();
    let mut put = 0;
    while put < bytes {
        let values: Vec<Vec<u8>> = (0..8).map(|_| record(random)).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        put += values.iter().map(|value| value.len() as u64).sum::<u64>();
        places.extend(tier.put(&values).unwrap());
    }
    places
}

#[test]
fn an_old_dictionary_is_freed_when_all_its_blocks_were_put_again() {
    let tier = CompressedTier::new(1, 64 << 20);
    let random = &mut SmallRng::seed_from_u64(5);
    let first = put_for(&tier, random, 300 << 10);
    tier.tend();
    let one = tier.dictionaries.bytes();
    let second = put_for(&tier, random, 300 << 10);
    assert!(one > 0 && second.iter().all(|&place| !tier.wants_rewrite(place)));
    put_for(&tier, random, 3 << 20);
    tier.tend();
    let both = tier.dictionaries.bytes();
    assert!(both > one, "{both}");
    assert_eq!(tier.usage().dictionary_bytes, both);
    let third = put_for(&tier, random, 1 << 10);
    assert!(third.iter().all(|&place| !tier.wants_rewrite(place)));
    for &place in first.iter().chain(&second) {
        assert!(tier.wants_rewrite(place));
        tier.release(place);
    }
    assert_eq!(tier.dictionaries.bytes(), both, "other blocks need it");
}

#[test]
fn a_dictionary_for_which_there_is_no_room_is_not_kept() {
    let tier = CompressedTier::new(1, 200 << 10);
    let random = &mut SmallRng::seed_from_u64(6);
    put_for(&tier, random, 300 << 10);
    // Most of the capacity is in use, and the dictionary needs more than the rest.
    let full = loop {
        if let Err(error) = tier.put(&[&record(random)]) {
            break error;
        }
    };
    assert!(matches!(full, TierRefusal::Full));
    tier.tend();
    let usage = tier.usage();
    assert_eq!(usage.dictionary_bytes, 0);
    assert!(usage.used_bytes <= usage.capacity_bytes);
}

#[test]
fn a_full_tier_and_random_bytes_are_refused_and_change_nothing() {
    let tier = CompressedTier::new(1, 16 << 10);
    let mut random = SmallRng::seed_from_u64(3);
    let noise: Vec<u8> = (0..4000).map(|_| random.random()).collect();
    assert!(matches!(
        tier.put(&[&noise]),
        Err(TierRefusal::Incompressible)
    ));
    assert_eq!(tier.usage().used_bytes, 0);
    let mut places = Vec::new();
    let error = loop {
        let value = record(&mut random);
        match tier.put(&[&value]) {
            Ok(place) => places.push((place[0], value)),
            Err(error) => break error,
        }
        assert!(tier.usage().used_bytes <= 16 << 10);
    };
    assert!(matches!(error, TierRefusal::Full));
    assert_eq!(tier.usage().values as usize, places.len());
    for (place, value) in &places {
        assert_eq!(&read(&tier, *place), value);
    }
    let absent = ColdPlace::new(1, 1 << 40);
    assert!(matches!(
        tier.read(absent, &mut Vec::new()),
        Err(ReadError::Absent)
    ));
}

/// Three quarters are enough, and a half while threads wait and the tier has room. Bytes count, and
/// not values.
#[test]
fn a_block_with_many_released_bytes_asks_to_be_put_again() {
    let tier = CompressedTier::new(1, 1 << 20);
    let value = [b'x'; 300];
    let places = tier.put(&[&value[..]; 8]).unwrap();
    let asks = || (tier.wants_rewrite(places[7]), tier.is_sparse(places[7]));
    for (number, expected) in [(false, false), (false, false), (true, false), (true, false)]
        .into_iter()
        .enumerate()
    {
        tier.release(places[number]);
        assert_eq!(asks(), expected, "{number}");
    }
    tier.release(places[4]);
    assert_eq!(asks(), (true, true));
    for &place in &places[5..] {
        tier.release(place);
    }
    assert_eq!(tier.usage().used_bytes, 0);
    // One of eight values has almost all bytes.
    let long = [b'x'; 20_000];
    let mut values = [&value[..10]; 8];
    values[3] = &long;
    let places = tier.put(&values).unwrap();
    tier.release(places[0]);
    assert!(!tier.wants_rewrite(places[7]));
    tier.release(places[3]);
    assert!(tier.wants_rewrite(places[7]) && tier.is_sparse(places[7]));
}

#[test]
fn in_a_tier_that_is_nearly_full_a_quarter_of_a_block_is_room() {
    let tier = CompressedTier::new(1, 64 << 10);
    let mut random = SmallRng::seed_from_u64(8);
    let values: Vec<Vec<u8>> = (0..8).map(|_| record(&mut random)).collect();
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let first = tier.put(&values).unwrap();
    for &place in &first[..3] {
        tier.release(place);
    }
    assert!(!tier.is_sparse(first[7]));
    while tier.put(&values).is_ok() {}
    assert!(tier.is_sparse(first[7]));
}

/// Values that are overwritten at random leave few released bytes to the tier, if the store puts
/// those again that the tier names.
#[test]
fn values_that_are_overwritten_at_random_stay_small() {
    let tier = CompressedTier::new(1, 64 << 20);
    let random = &mut SmallRng::seed_from_u64(9);
    const VALUES: usize = 4000;
    let mut places = Vec::new();
    while places.len() < VALUES {
        let values: Vec<Vec<u8>> = (0..16).map(|_| record(random)).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        places.extend(tier.put(&values).unwrap());
    }
    let before = tier.usage();
    for _ in 0..2 * VALUES / 16 {
        // A walk over the values puts those again that the tier names, in whole blocks.
        let named: Vec<usize> = (0..places.len())
            .filter(|&number| tier.wants_rewrite(places[number]))
            .collect();
        let written: Vec<usize> = (0..16).map(|_| random.random_range(0..VALUES)).collect();
        for numbers in named.chunks_exact(16).chain([&written[..]]) {
            let values: Vec<Vec<u8>> = numbers.iter().map(|_| record(random)).collect();
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let put = tier.put(&values).unwrap();
            for (&number, place) in numbers.iter().zip(put) {
                tier.release(std::mem::replace(&mut places[number], place));
            }
        }
    }
    let after = tier.usage();
    assert_eq!(after.values as usize, places.len());
    let grown = after.used_bytes as f64 / before.used_bytes as f64;
    // With a bound of a half it is 1.4.
    assert!(grown < 1.3, "{grown}");
}

#[test]
fn threads_put_read_and_release_at_once() {
    let tier = CompressedTier::new(1, 64 << 20);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let tier = &tier;
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                let mut kept = Vec::new();
                for round in 0..1500 {
                    if seed == 0 && round % 50 == 0 {
                        tier.tend();
                    }
                    let values: Vec<Vec<u8>> = (0..4).map(|_| record(&mut random)).collect();
                    let borrowed: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                    let places = tier.put(&borrowed).unwrap();
                    kept.extend(places.into_iter().zip(values));
                    let (place, value) = kept.swap_remove(random.random_range(0..kept.len()));
                    assert_eq!(read(tier, place), value);
                    tier.release(place);
                }
                for (place, value) in kept {
                    assert_eq!(read(tier, place), value);
                    tier.release(place);
                }
            });
        }
    });
    assert_eq!(tier.usage().used_bytes, tier.dictionaries.bytes());
}
