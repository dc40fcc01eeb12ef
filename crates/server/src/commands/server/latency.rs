//! `LATENCY`: events that took long, and the duration of commands.

use crate::command::help::help;
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags};
use crate::commands::TABLE;
use crate::error::CommandError;
use crate::observe::latency::LatencyEventHistory;
use crate::observe::statistics::CommandCounts;
use std::fmt::Write;

const GROUP: CommandGroup = CommandGroup::Server;
const ADMIN: Flags =
    Flags(Flags::NO_PHASE.0 | Flags::LOADING.0 | Flags::ADMIN.0 | Flags::NOSCRIPT.0);

/// The subcommands.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("doctor", 2, doctor)
        .flag(ADMIN)
        .about(GROUP, "2.8.13", "O(1)")
        .summary("Returns a report in plain text."),
    CommandDefinition::new("graph", 3, graph)
        .flag(ADMIN)
        .about(GROUP, "2.8.13", "O(1)")
        .summary("Draws the samples of an event."),
    CommandDefinition::new("histogram", -2, histogram)
        .flag(ADMIN)
        .about(GROUP, "7.0.0", "O(N) for N commands")
        .summary("Returns histograms of the duration of commands.")
        .differs("times are counted in powers of two of nanoseconds"),
    CommandDefinition::new("history", 3, history)
        .flag(ADMIN)
        .about(GROUP, "2.8.13", "O(1)")
        .summary("Returns the samples of an event."),
    CommandDefinition::new("latest", 2, latest)
        .flag(ADMIN)
        .about(GROUP, "2.8.13", "O(1)")
        .summary("Returns the last samples of all events."),
    CommandDefinition::new("reset", -2, reset)
        .flag(ADMIN)
        .about(GROUP, "2.8.13", "O(1)")
        .summary("Deletes the samples of events."),
    CommandDefinition::help(GROUP, "2.8.13", show_help),
];

fn latest(call: &mut CommandCall<'_>) -> Answer {
    let all = call.server.latency.all();
    call.reply.array(all.len());
    for (event, history) in all {
        let last = history.samples.back();
        call.reply.array(4);
        call.reply.bulk(event.as_bytes());
        call.reply.integer(last.map_or(0, |last| last.at_s as i64));
        call.reply
            .integer(last.map_or(0, |last| last.took_ms as i64));
        call.reply.integer(history.longest_ms as i64);
    }
    Ok(())
}

fn history(call: &mut CommandCall<'_>) -> Answer {
    let history = call.server.latency.of(call.args[2]).unwrap_or_default();
    call.reply.array(history.samples.len());
    for sample in &history.samples {
        call.reply.array(2);
        call.reply.integer(sample.at_s as i64);
        call.reply.integer(sample.took_ms as i64);
    }
    Ok(())
}

fn reset(call: &mut CommandCall<'_>) -> Answer {
    let count = call.server.latency.reset(call.rest(2));
    call.reply.count(count);
    Ok(())
}

fn graph(call: &mut CommandCall<'_>) -> Answer {
    let Some(history) = call.server.latency.of(call.args[2]) else {
        let event = crate::error::shown(call.args[2]);
        return Err(CommandError::owned(format!(
            "ERR No samples available for event '{event}'"
        )));
    };
    let text = draw(call.args[2], &history);
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// Draws a bar for each sample, the latest last.
fn draw(event: &[u8], history: &LatencyEventHistory) -> String {
    const BAR: usize = 40;
    let event = crate::error::shown(event);
    let mut text = format!("{event} - longest {} ms\n", history.longest_ms);
    let longest = history.longest_ms.max(1);
    for sample in &history.samples {
        debug_assert!(sample.took_ms <= longest, "the longest of all samples");
        let length = (sample.took_ms * BAR as u64 / longest) as usize;
        let bar = "#".repeat(length.clamp(1, BAR));
        // Writing to a string never fails.
        let _ = writeln!(text, "{} {:>8} ms {bar}", sample.at_s, sample.took_ms);
    }
    text
}

fn doctor(call: &mut CommandCall<'_>) -> Answer {
    let threshold = call.server.config.integer("latency-monitor-threshold");
    let all = call.server.latency.all();
    let text = if threshold == 0 {
        "Latency is not monitored. To monitor it: CONFIG SET latency-monitor-threshold \
         <milliseconds>."
            .to_owned()
    } else if all.is_empty() {
        format!("No event has taken {threshold} milliseconds or more.")
    } else {
        let mut text = String::from("Slow events:\n");
        for (event, history) in all {
            let count = history.samples.len();
            let sum: u64 = history.samples.iter().map(|sample| sample.took_ms).sum();
            // Writing to a string never fails.
            let _ = writeln!(
                text,
                "{event}: {count} times, {} ms on average, {} ms at most",
                sum / (count as u64).max(1),
                history.longest_ms
            );
        }
        text + "See SLOWLOG GET for the commands.\n"
    };
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn histogram(call: &mut CommandCall<'_>) -> Answer {
    let wanted: Vec<String> = call
        .rest(2)
        .iter()
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .collect();
    let is_wanted = |name: &str| {
        wanted.is_empty()
            || wanted.iter().any(|wanted| {
                let is_container = || {
                    TABLE
                        .find(wanted.as_bytes())
                        .is_some_and(|it| !it.subcommands().is_empty())
                };
                // As in Redis, a container stands for its subcommands.
                name == wanted || (is_container() && name.split('|').next() == Some(wanted))
            })
    };
    let mut commands = call.server.statistics.commands();
    // Commands that were only executed while durations were not recorded are left out.
    let timed = |counts: &CommandCounts| counts.durations.iter().sum::<u64>();
    commands.retain(|counts| timed(counts) > 0 && is_wanted(counts.name));
    call.reply.map(commands.len());
    for counts in commands {
        let calls = timed(&counts);
        debug_assert!(calls > 0, "commands without durations are left out");
        call.reply.bulk(counts.name.as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.integer(calls as i64);
        call.reply.bulk(b"histogram_usec");
        let mark = call.reply.begin();
        let (mut sum, mut length) = (0, 0);
        for (power, count) in counts.durations.iter().enumerate() {
            sum += count;
            // The buckets are powers of two of nanoseconds, beginning with a microsecond.
            let is_last = sum == calls && *count > 0;
            if *count > 0 && (power >= 10 || is_last) {
                let micros = 1_i64 << power.saturating_sub(10);
                call.reply.integer(micros);
                call.reply.integer(sum as i64);
                length += 1;
            }
        }
        debug_assert_eq!(sum, calls, "the buckets count each call once");
        call.reply.end_map(mark, length);
    }
    Ok(())
}

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "DOCTOR",
            "    A report in plain text.",
            "GRAPH <event>",
            "    A drawing of an event's samples.",
            "HISTOGRAM [<command> ...]",
            "    Histograms of the duration of commands.",
            "HISTORY <event>",
            "    The samples of an event.",
            "LATEST",
            "    The last samples of all events.",
            "RESET [<event> ...]",
            "    Delete the samples of events.",
        ],
    )
}
