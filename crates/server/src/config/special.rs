//! Parameters with a syntax of their own.

use super::events;
use super::options::{BIND_ADDRESSES_MAX, bind_addresses};
use super::parameter::several;
use nearfield_core::byte_size;
use nearfield_tiers::Specification;
use std::borrow::Cow;

/// Error for addresses that cannot be listened on.
pub const NOT_BOUND: &str = "Failed to bind to specified addresses.";

type Shown = Result<String, Cow<'static, str>>;

/// Checks `bind`: addresses to listen on.
pub fn bind(value: &str, _: &str) -> Shown {
    let words: Vec<_> = value.split_whitespace().collect();
    if words.len() > BIND_ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".into());
    }
    bind_addresses(value).map_err(|_| NOT_BOUND)?;
    Ok(words.join(" "))
}

/// Checks `save`: pairs of seconds and changes.
pub fn save(value: &str, _: &str) -> Shown {
    let numbers: Vec<_> = value.split_whitespace().collect();
    let is = |word: &&str| {
        crate::number::parse_integer(word.as_bytes()).is_some_and(|number| number >= 0)
    };
    // As in Redis, the seconds begin at 1 and the changes at 0.
    let seconds_are_positive = numbers.iter().step_by(2).all(|word| *word != "0");
    if !numbers.len().is_multiple_of(2) || !numbers.iter().all(is) || !seconds_are_positive {
        return Err("Invalid save parameters".into());
    }
    Ok(numbers.join(" "))
}

/// Checks `notify-keyspace-events`: letters.
pub fn notified(value: &str, _: &str) -> Shown {
    match events::parse(value) {
        // As in Redis, the letters are shown in one order, with `A` for all classes.
        Some(bits) => Ok(events::letters(bits)),
        None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
    }
}

/// Checks `latency-tracking-info-percentiles`: numbers up to 100.
pub fn percentiles(value: &str, _: &str) -> Shown {
    let name = "latency-tracking-info-percentiles";
    let mut shown = Vec::new();
    for word in value.split_whitespace() {
        match word.parse::<f64>() {
            Ok(number) if (0.0..=100.0).contains(&number) => {
                shown.push(crate::number::format_double(number));
            }
            Ok(number) if number.is_finite() => {
                return Err(format!("{name} parameters should sit between [0.0,100.0]").into());
            }
            _ => return Err(format!("Invalid {name} parameters").into()),
        }
    }
    Ok(shown.join(" "))
}

/// Checks `client-output-buffer-limit`: for some classes of clients, the hard limit, the soft
/// limit, and the seconds for which the soft limit may be exceeded. Other classes keep their
/// limits.
pub fn output_limits(value: &str, old: &str) -> Shown {
    let words: Vec<_> = value.split_whitespace().collect();
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut classes: Vec<Vec<String>> = old
        .split_whitespace()
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .chunks(4)
        .map(<[String]>::to_vec)
        .collect();
    for limit in words.chunks(4) {
        let [class, hard, soft, seconds] = limit else {
            continue;
        };
        let class = match class.to_ascii_lowercase().as_str() {
            // As in Redis, the class is shown under its former name.
            "replica" | "slave" => "slave",
            "normal" => "normal",
            "pubsub" => "pubsub",
            _ => {
                return Err("Invalid client class specified in buffer limit configuration.".into());
            }
        };
        let numbers = (byte_size(hard), byte_size(soft), seconds.parse::<u32>());
        let (Ok(hard), Ok(soft), Ok(seconds)) = numbers else {
            return Err(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.".into(),
            );
        };
        let new = vec![
            class.to_owned(),
            hard.to_string(),
            soft.to_string(),
            seconds.to_string(),
        ];
        debug_assert!(classes.iter().all(|class| class.len() == 4));
        match classes.iter_mut().find(|old| old.first() == new.first()) {
            Some(old) => *old = new,
            None => classes.push(new),
        }
    }
    let classes: Vec<_> = classes.iter().map(|class| class.join(" ")).collect();
    Ok(classes.join(" "))
}

/// Checks `activedefrag`: it must be off, because there is no active defragmentation.
pub fn defragmentation(value: &str, _: &str) -> Shown {
    match value.to_ascii_lowercase().as_str() {
        "no" => Ok("no".into()),
        "yes" => Err("Active defragmentation cannot be enabled: there is none".into()),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}
/// Checks tiers in the form of `--tier`, the fastest first.
pub fn tiers(value: &str, _: &str) -> Shown {
    for word in value.split_whitespace() {
        // The order of the tiers is checked when they are opened.
        let tier: Result<Specification, _> = word.parse();
        tier.map_err(|error| error.to_string())?;
    }
    Ok(value.to_owned())
}

/// Checks `shutdown-on-sigterm` and `shutdown-on-sigint`: the options of SHUTDOWN.
pub fn shutdown(value: &str, _: &str) -> Shown {
    const WORDS: &[&str] = &["default", "save", "nosave", "now", "force"];
    let shown = several(value, WORDS)?;
    let has = |wanted: &str| shown.split(' ').any(|word| word == wanted);
    if has("save") && has("nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    Ok(shown)
}

/// Checks `supervised`: the supervisor that waits for the server. Only systemd can be notified.
pub fn supervised(value: &str, _: &str) -> Shown {
    match value.to_ascii_lowercase().as_str() {
        word @ ("no" | "auto" | "systemd") => Ok(word.to_owned()),
        "upstart" => Err("upstart is not notified of the server's start".into()),
        _ => Err("argument(s) must be one of the following: no, upstart, systemd, auto".into()),
    }
}

/// Checks `tls-protocols`: those of the TLS library, in any order.
pub fn tls_protocols(value: &str, _: &str) -> Shown {
    let mut words: Vec<_> = value
        .split_ascii_whitespace()
        .map(str::to_ascii_lowercase)
        .collect();
    words.sort_unstable();
    words.dedup();
    if words.is_empty() || words == ["tlsv1.2", "tlsv1.3"] {
        return Ok(value.to_owned());
    }
    Err("TLSv1.2 and TLSv1.3 are always supported, and no others".into())
}

/// Checks `oom-score-adj`: off, or the score is added to that of the process, or set.
pub fn oom_score(value: &str, _: &str) -> Shown {
    match value.to_ascii_lowercase().as_str() {
        word @ ("no" | "yes" | "absolute") => Ok(word.to_owned()),
        // `relative` and `yes` have the same meaning.
        "relative" => Ok("yes".into()),
        _ => Err("argument(s) must be one of the following: no, yes, relative, absolute".into()),
    }
}

/// Checks `oom-score-adj-values`: the scores of a primary, a replica and a process that saves.
pub fn oom_scores(value: &str, _: &str) -> Shown {
    let words: Vec<_> = value.split_whitespace().collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    let is = |word: &&str| {
        word.parse()
            .is_ok_and(|score: i32| (-2000..=2000).contains(&score))
    };
    if !words.iter().all(is) {
        return Err(
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into(),
        );
    }
    Ok(words.join(" "))
}
