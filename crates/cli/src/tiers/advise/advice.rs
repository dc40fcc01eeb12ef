//! The advice derived from a survey: the savings by tiers.

use super::kind::SurveyedValueKind;
use super::survey::Survey;
use nearfield_tiers::Compression;
use serde::Serialize;

/// Bytes that Nearfield keeps in memory for a value in a cold tier, besides the key. *Assumed*: it
/// is the most that Nearfield's tiers are allowed to take.
pub const KEPT_BYTES: u64 = 40;
/// Bytes of a record in a file besides its value.
const RECORD_BYTES: u64 = 16;
/// The parts of the content that may stay in memory.
const SHARES: [f64; 4] = [0.1, 0.2, 0.3, 0.5];
/// Least share of uses served from memory for which a split is suggested.
const ENOUGH_USES: f64 = 0.95;
/// Least share of the memory that must be saved for a suggestion.
const LEAST_SAVING: f64 = 0.1;
/// Least compression ratio for which compressed memory is suggested.
const LEAST_RATIO: f64 = 1.5;
/// Factor by which the suggested memory exceeds the current need. *Assumed*. The factor for files
/// is larger because deleted values stay in a file until their segment is mostly empty.
const ROOM: f64 = 1.1;
const FILE_ROOM: f64 = 1.5;

/// The whole advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Bytes that the server takes for all keys and values.
    pub memory_bytes: u64,
    /// The share of keys whose values would move: those of 64 bytes and more.
    pub movable_keys_share: f64,
    /// The share of the memory that these keys and values take.
    pub movable_bytes_share: f64,
    /// Keys and bytes by type.
    pub kinds: Vec<KindShare>,
    /// Keys and bytes by hotness, the hottest first.
    pub hotness: Vec<KeyHotnessClass>,
    /// Compression ratios; null if no value was read.
    pub compression: Option<Ratios>,
    /// The savings for each share of hot values.
    pub splits: Vec<TierSplitEstimate>,
    /// The suggested flags; null if tiers would save little.
    pub suggestion: Option<Suggestion>,
}

/// The memory that a type takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindShare {
    /// The type.
    pub kind: SurveyedValueKind,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of these keys and their values.
    pub bytes: u64,
}

/// A class of keys of similar hotness.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyHotnessClass {
    /// The name of the class: a range of use counters, or of times since the last use.
    pub heat: &'static str,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of these keys and their values.
    pub bytes: u64,
}

/// Compression ratios of values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Number of values that were compressed.
    pub values: u64,
    /// Original bytes divided by compressed bytes, with each value compressed alone.
    pub alone: f64,
    /// The same ratio with values compressed in blocks, with a dictionary trained on other values
    /// of the server.
    pub trained: f64,
}

/// The effect of moving the coldest values to a tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierSplitEstimate {
    /// The share of the content that stays in memory, the hottest values.
    pub hot_share: f64,
    /// Bytes in the memory tier: the values that stay, with their keys.
    pub hot_bytes: u64,
    /// The estimated share of uses that are served from memory.
    pub uses_in_memory: f64,
    /// Bytes of the cold values, compressed; null if the ratio is unknown.
    pub compressed_bytes: Option<u64>,
    /// Total memory if the cold values are compressed.
    pub memory_with_compressed_bytes: Option<u64>,
    /// Bytes of the cold values in files.
    pub file_bytes: u64,
    /// Total memory if the cold values are in files.
    pub memory_with_file_bytes: u64,
}

/// The flags to start with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// The share of the content that stays in memory.
    pub hot_share: f64,
    /// The estimated share of uses that would read cold values.
    pub cold_uses: f64,
    /// The flags with a tier of compressed memory.
    pub compressed: Option<String>,
    /// The flags with a tier in files.
    pub file: String,
}

/// A key of the sample.
struct AdviceSampleKey {
    key_bytes: u64,
    memory_bytes: u64,
    /// Bytes of the value's content; `None` if it would not move.
    content: Option<u64>,
    heat: u64,
    /// The estimated rate of uses, in a unit that depends on the server.
    uses: f64,
}

impl Advice {
    /// Derives the advice from a survey, which sampled `keys` keys of the server.
    pub fn of(survey: &Survey, keys: u64, hot_by: HotBy) -> Advice {
        let scale = keys as f64 / survey.seen.len().max(1) as f64;
        let scaled = |number: u64| (number as f64 * scale) as u64;
        let contents = survey.contents();
        debug_assert_eq!(contents.len(), survey.seen.len(), "one for each key");
        let sampled = survey
            .seen
            .iter()
            .zip(&contents)
            .map(|(seen, content)| AdviceSampleKey {
                key_bytes: seen.key_bytes,
                memory_bytes: seen.memory_bytes,
                content: *content,
                heat: seen.heat,
                uses: match hot_by {
                    HotBy::RedisCounter => uses_of_counter(seen.heat),
                    HotBy::NearfieldCounter => seen.heat as f64,
                    HotBy::IdleSeconds => uses_of_idle_seconds(seen.heat),
                },
            });
        let mut sampled: Vec<AdviceSampleKey> = sampled.collect();
        // The hottest key has the greatest counter, or the shortest time.
        sampled.sort_by_key(|it| match hot_by {
            HotBy::IdleSeconds => it.heat,
            _ => u64::MAX - it.heat,
        });
        let memory: u64 = sampled.iter().map(|it| it.memory_bytes).sum();
        let movable = || sampled.iter().filter(|it| it.content.is_some());
        let movable_bytes: u64 = movable().map(|it| it.memory_bytes).sum();
        let ratios = ratios(&survey.values);
        let splits = SHARES.map(|share| split(&sampled, share, ratios, scaled));
        let kinds = SurveyedValueKind::ALL.map(|kind| {
            let of = survey.seen.iter().filter(|seen| seen.kind == kind);
            KindShare {
                kind,
                keys: scaled(of.clone().count() as u64),
                bytes: scaled(of.map(|seen| seen.memory_bytes).sum()),
            }
        });
        let memory_bytes = scaled(memory);
        Advice {
            memory_bytes,
            movable_keys_share: movable().count() as f64 / sampled.len().max(1) as f64,
            movable_bytes_share: movable_bytes as f64 / memory.max(1) as f64,
            kinds: kinds.into_iter().filter(|it| it.keys > 0).collect(),
            hotness: histogram(&sampled, hot_by, scaled),
            compression: ratios,
            suggestion: suggest(&splits, memory_bytes, ratios),
            splits: splits.into(),
        }
    }
}

/// The measure by which a server reports how hot a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HotBy {
    /// Redis's counter, from 0 to 255, which grows ever more slowly.
    RedisCounter,
    /// Nearfield's counter, from 0 to 15: recent uses, halved periodically.
    NearfieldCounter,
    /// The seconds since the last use.
    IdleSeconds,
}

/// Returns the uses per minute at which a key's counter stays constant. With Redis's default
/// settings, it decreases by one a minute.
fn uses_of_counter(counter: u64) -> f64 {
    // Redis creates keys with the counter 5 (`LFU_INIT_VAL`).
    match counter.checked_sub(5) {
        // A use increments a counter `c` above 5 with a probability of one in `10 (c - 5) + 1`.
        Some(above) => 10.0 * above as f64 + 1.0,
        // A smaller counter grows with each use, so the key has fewer than one a minute. *Assumed*:
        // the number is proportional.
        None => counter as f64 / 5.0,
    }
}

/// Returns the estimated uses per second of a key.
fn uses_of_idle_seconds(seconds: u64) -> f64 {
    // *Assumed*: the time since the last use is the average time between uses. This overestimates
    // the uses of cold keys.
    1.0 / (seconds as f64 + 1.0)
}

/// A class of hotness: its name, and the largest counter or time in it.
type Class = (&'static str, u64);

const COUNTERS: [Class; 7] = [
    ("counter 100 to 255", u64::MAX),
    ("counter 50 to 99", 99),
    ("counter 20 to 49", 49),
    ("counter 10 to 19", 19),
    ("counter 6 to 9", 9),
    ("counter 1 to 5", 5),
    ("counter 0", 0),
];
const NEARFIELD_COUNTERS: [Class; 5] = [
    ("counter 15", u64::MAX),
    ("counter 8 to 14", 14),
    ("counter 3 to 7", 7),
    ("counter 1 to 2", 2),
    ("counter 0", 0),
];
const IDLE_SECONDS: [Class; 7] = [
    ("used in the last minute", 59),
    ("1 to 10 minutes ago", 599),
    ("10 to 60 minutes ago", 3599),
    ("1 to 6 hours ago", 6 * 3600 - 1),
    ("6 to 24 hours ago", 24 * 3600 - 1),
    ("1 to 7 days ago", 7 * 24 * 3600 - 1),
    ("7 days ago and more", u64::MAX),
];

fn histogram(
    sampled: &[AdviceSampleKey],
    hot_by: HotBy,
    scaled: impl Fn(u64) -> u64,
) -> Vec<KeyHotnessClass> {
    let classes: &[Class] = match hot_by {
        HotBy::RedisCounter => &COUNTERS,
        HotBy::NearfieldCounter => &NEARFIELD_COUNTERS,
        HotBy::IdleSeconds => &IDLE_SECONDS,
    };
    // The classes begin with the hottest, so the bounds of counters descend and those of times
    // ascend. The least bound that is not exceeded is right for both.
    let class_of = |heat: u64| {
        let fitting = classes.iter().filter(|(_, bound)| heat <= *bound);
        fitting.min_by_key(|(_, bound)| *bound).map(|it| it.0)
    };
    let heats = classes.iter().map(|&(name, _)| {
        let here = sampled.iter().filter(|it| class_of(it.heat) == Some(name));
        KeyHotnessClass {
            heat: name,
            keys: scaled(here.clone().count() as u64),
            bytes: scaled(here.map(|it| it.memory_bytes).sum()),
        }
    });
    heats.collect()
}

/// Returns the compression ratios of values.
fn ratios(values: &[Vec<u8>]) -> Option<Ratios> {
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let compressed = Compression::of(&values);
    (compressed.values > 0).then(|| Ratios {
        values: compressed.values,
        // At least one byte, so that no ratio is infinite.
        alone: compressed.bytes as f64 / compressed.alone_bytes.max(1) as f64,
        trained: compressed.bytes as f64 / compressed.trained_bytes.max(1) as f64,
    })
}

/// Returns the effect of keeping a `share` of the content in memory. `sampled` is sorted, the
/// hottest first.
fn split(
    sampled: &[AdviceSampleKey],
    share: f64,
    ratios: Option<Ratios>,
    scaled: impl Fn(u64) -> u64,
) -> TierSplitEstimate {
    debug_assert!(sampled.is_sorted_by(|one, next| one.uses >= next.uses));
    debug_assert!((0.0..=1.0).contains(&share));
    let all: u64 = sampled.iter().filter_map(|it| it.content).sum();
    let limit = (all as f64 * share) as u64;
    let (mut hot_content, mut hot, mut kept) = (0, 0, 0);
    let (mut cold, mut records) = (0, 0);
    let (mut uses, mut all_uses) = (0.0, 0.0);
    for it in sampled {
        all_uses += it.uses;
        match it.content {
            Some(content) if hot_content + content > limit => {
                kept += it.key_bytes + KEPT_BYTES;
                cold += content;
                records += content + RECORD_BYTES;
                // The following values are not hotter, so they are cold, too.
                hot_content = limit;
            }
            // Keys without a movable value stay, however cold they are.
            content => {
                hot_content += content.unwrap_or(0);
                hot += it.memory_bytes;
                uses += it.uses;
            }
        }
    }
    debug_assert!(hot_content <= limit);
    let compressed = ratios.map(|ratios| (cold as f64 / ratios.trained) as u64);
    TierSplitEstimate {
        hot_share: share,
        hot_bytes: scaled(hot),
        uses_in_memory: if all_uses > 0.0 { uses / all_uses } else { 0.0 },
        compressed_bytes: compressed.map(&scaled),
        memory_with_compressed_bytes: compressed.map(|bytes| scaled(hot + kept + bytes)),
        file_bytes: scaled(records),
        memory_with_file_bytes: scaled(hot + kept),
    }
}

/// Returns the flags for the smallest split that serves most uses from memory, or for the largest.
fn suggest(
    splits: &[TierSplitEstimate],
    memory_bytes: u64,
    ratios: Option<Ratios>,
) -> Option<Suggestion> {
    // If no split serves enough uses from memory, the largest one comes closest.
    let enough = splits.iter().find(|it| it.uses_in_memory >= ENOUGH_USES);
    let split = enough.or(splits.last())?;
    let saves = |bytes: u64| 1.0 - bytes as f64 / memory_bytes.max(1) as f64 >= LEAST_SAVING;
    // Files save the most memory. If they do not pay off, no tier does.
    if !saves(split.memory_with_file_bytes) {
        return None;
    }
    let size = |bytes: u64, room: f64| {
        let mebibytes = (bytes as f64 * room / f64::from(1 << 20)).ceil() as u64;
        format!("{}mb", mebibytes.max(1))
    };
    let memory = size(split.hot_bytes, ROOM);
    let small = ratios.is_some_and(|ratios| ratios.trained >= LEAST_RATIO);
    let compressed = split
        .compressed_bytes
        .filter(|_| small && split.memory_with_compressed_bytes.is_some_and(saves));
    Some(Suggestion {
        hot_share: split.hot_share,
        cold_uses: 1.0 - split.uses_in_memory,
        compressed: compressed.map(|bytes| {
            let bytes = size(bytes, ROOM);
            format!("--tier memory={memory} --tier compressed={bytes}")
        }),
        file: {
            let bytes = size(split.file_bytes, FILE_ROOM);
            format!("--tier memory={memory} --tier file:FOLDER={bytes}")
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::server::SurveyedKeyFacts;
    use super::*;

    fn survey(seen: impl IntoIterator<Item = (u64, u64)>) -> Survey {
        let seen = seen
            .into_iter()
            .map(|(memory_bytes, heat)| SurveyedKeyFacts {
                kind: SurveyedValueKind::String,
                key_bytes: 10,
                memory_bytes,
                heat,
            });
        Survey {
            seen: seen.collect(),
            values: vec![b"similar text becomes small ".repeat(20); 20],
            ..Survey::default()
        }
    }

    #[test]
    fn the_hottest_stay_and_the_rest_is_counted_in_tiers() {
        // A tenth of the values has nearly all uses. The server has ten times the keys of the
        // sample.
        let keys = (0..1000).map(|n| (1010, if n % 10 == 0 { 200 } else { 0 }));
        let advice = Advice::of(&survey(keys), 10_000, HotBy::RedisCounter);
        assert_eq!(advice.memory_bytes, 10_100_000);
        assert_eq!(advice.movable_keys_share, 1.0);
        let split = &advice.splits[0];
        assert_eq!(split.hot_bytes, 1_010_000);
        assert_eq!(split.uses_in_memory, 1.0);
        assert_eq!(split.memory_with_file_bytes, 1_010_000 + 9000 * 50);
        assert_eq!(split.file_bytes, 9000 * 1016);
        let compressed = split.compressed_bytes.unwrap();
        assert!(compressed < 1_000_000, "{compressed}");
        let with = split.memory_with_compressed_bytes.unwrap();
        assert_eq!(with, split.memory_with_file_bytes + compressed);
        let suggestion = advice.suggestion.unwrap();
        assert_eq!(suggestion.hot_share, 0.1);
        assert_eq!(suggestion.cold_uses, 0.0);
        assert_eq!(suggestion.file, "--tier memory=2mb --tier file:FOLDER=14mb");
        let hottest = &advice.hotness[0];
        assert_eq!((hottest.keys, hottest.bytes), (1000, 1_010_000));
        assert_eq!(advice.hotness[6].keys, 9000);
    }

    #[test]
    fn even_uses_and_small_values_are_named() {
        let even = Advice::of(
            &survey((0..100).map(|_| (1010, 8))),
            100,
            HotBy::RedisCounter,
        );
        let suggestion = even.suggestion.unwrap();
        assert_eq!(suggestion.hot_share, 0.5);
        assert!((suggestion.cold_uses - 0.5).abs() < 0.01);
        let small = Advice::of(&survey((0..100).map(|_| (70, 8))), 100, HotBy::RedisCounter);
        assert_eq!(small.movable_keys_share, 0.0);
        assert_eq!(small.suggestion, None);
        assert_eq!(small.splits[0].memory_with_file_bytes, small.memory_bytes);
    }

    #[test]
    fn every_time_and_counter_has_one_class() {
        for (heat, hot_by, name) in [
            (0, HotBy::RedisCounter, "counter 0"),
            (1, HotBy::RedisCounter, "counter 1 to 5"),
            (255, HotBy::RedisCounter, "counter 100 to 255"),
            (0, HotBy::NearfieldCounter, "counter 0"),
            (15, HotBy::NearfieldCounter, "counter 15"),
            (0, HotBy::IdleSeconds, "used in the last minute"),
            (60, HotBy::IdleSeconds, "1 to 10 minutes ago"),
            (604_800, HotBy::IdleSeconds, "7 days ago and more"),
        ] {
            let advice = Advice::of(&survey([(1000, heat)]), 1, hot_by);
            let found: Vec<_> = advice.hotness.iter().filter(|it| it.keys > 0).collect();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].heat, name);
        }
    }

    #[test]
    fn recent_keys_are_hotter_where_the_server_notes_times() {
        let keys = (0..100).map(|n| (1010, if n < 20 { 1 } else { 100_000 }));
        let advice = Advice::of(&survey(keys), 100, HotBy::IdleSeconds);
        assert!(advice.splits[1].uses_in_memory > 0.99);
        assert_eq!(advice.suggestion.unwrap().hot_share, 0.2);
    }
}
