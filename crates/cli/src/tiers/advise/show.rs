//! The advice as text for display.

use super::AdviseReport;
use super::advice::{Advice, TierSplitEstimate};
use crate::text::{bytes, number};
use std::fmt::Write;

/// The widest bar of the histogram.
const BAR: f64 = 30.0;

/// Returns the advice as text.
pub fn text(report: &AdviseReport) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(report, &mut out);
    out
}

fn write_all(report: &AdviseReport, out: &mut String) -> std::fmt::Result {
    let advice = &report.advice;
    writeln!(
        out,
        "{} at {}:{}, {} keys, {}; evicts by {}",
        report.server,
        report.host,
        report.port,
        number(report.keys as f64),
        size(advice.memory_bytes),
        report.policy
    )?;
    writeln!(
        out,
        "read {} keys and {} values by {} requests in {:.1} s",
        number(report.keys_seen as f64),
        number(report.values_seen as f64),
        number(report.requests as f64),
        report.seconds
    )?;
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    writeln!(out, "\nmemory by kind of value")?;
    for kind in &advice.kinds {
        let keys = number(kind.keys as f64);
        let name = kind.kind.name();
        writeln!(out, "  {name:<26} {keys:>14} keys {:>12}", size(kind.bytes))?;
    }
    writeln!(
        out,
        "  values of 64 bytes and more: {:.0} % of the keys, {:.0} % of the memory",
        advice.movable_keys_share * 100.0,
        advice.movable_bytes_share * 100.0
    )?;
    writeln!(out, "\nmemory by hotness")?;
    let most = advice.hotness.iter().map(|it| it.bytes).max().unwrap_or(0);
    for heat in &advice.hotness {
        let bar = "█".repeat((heat.bytes as f64 / most.max(1) as f64 * BAR).round() as usize);
        let keys = number(heat.keys as f64);
        let line = format!(
            "  {:<26} {keys:>14} keys {:>12}  {bar}",
            heat.heat,
            size(heat.bytes)
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    if let Some(ratios) = &advice.compression {
        writeln!(
            out,
            "\ncompression of {} sampled values: {:.2}x one by one, {:.2}x in blocks with a \
             trained dictionary",
            number(ratios.values as f64),
            ratios.alone,
            ratios.trained
        )?;
    }
    write_splits(advice, out)?;
    write_suggestion(advice, out)
}

fn write_splits(advice: &Advice, out: &mut String) -> std::fmt::Result {
    let now = advice.memory_bytes;
    writeln!(
        out,
        "\nmemory with tiers, now {}\n{:>8} {:>10} {:>13} {:>22} {:>22} {:>11}",
        size(now),
        "stays",
        "uses",
        "in memory",
        "with compressed",
        "with files",
        "on disk"
    )?;
    for split in &advice.splits {
        writeln!(
            out,
            "{:>6.0} % {:>8.0} % {:>13} {:>22} {:>22} {:>11}",
            split.hot_share * 100.0,
            split.uses_in_memory * 100.0,
            size(split.hot_bytes),
            with_compressed(split, now),
            saved(split.memory_with_file_bytes, now),
            size(split.file_bytes)
        )?;
    }
    writeln!(
        out,
        "  stays: the share of the content that stays in memory, the hottest; uses: the estimated \
         share of all\n  uses that find it there; {} bytes are counted for a cold key besides the \
         key",
        super::advice::KEPT_BYTES
    )
}

fn with_compressed(split: &TierSplitEstimate, now: u64) -> String {
    let bytes = split.memory_with_compressed_bytes;
    bytes.map_or_else(|| "not known".to_owned(), |bytes| saved(bytes, now))
}

fn saved(memory: u64, now: u64) -> String {
    let change = (memory as f64 / now.max(1) as f64 - 1.0) * 100.0;
    format!("{} ({change:+.0} %)", size(memory))
}

fn write_suggestion(advice: &Advice, out: &mut String) -> std::fmt::Result {
    let Some(suggestion) = &advice.suggestion else {
        return writeln!(
            out,
            "\nTiers would save little here: too few bytes are values that can move."
        );
    };
    let share = suggestion.hot_share * 100.0;
    writeln!(
        out,
        "\nas a start, if {share:.0} % of the content stays in memory"
    )?;
    if let Some(flags) = &suggestion.compressed {
        writeln!(out, "  nearfield serve {flags}")?;
    }
    writeln!(out, "  nearfield serve {}", suggestion.file)?;
    if suggestion.cold_uses > 0.0 {
        writeln!(
            out,
            "  About {:.0} % of the uses would read cold values, which take longer.",
            (suggestion.cold_uses * 100.0).ceil()
        )?;
    }
    Ok(())
}

fn size(size: u64) -> String {
    bytes(size as f64)
}
