//! The process of a contestant. It reads orders, replies to them, and ends when its input ends.

use super::contestant::BenchContestant;
use super::engine::{BenchEngine, NearfieldEngine, PeerEngine};
use super::keys::ContestantKeys;
use super::resident::Resident;
use super::runner::{ContestantRunner, EngineRunner};
use super::task::DigestKey;
use super::wire::{
    ContestantOrder, ContestantReply, LoadMemoryGrowth, read_line, read_words, write_line,
};
use crate::workload::OpStream;
use nearfield_core::{ByteStrings, OperationError, Words};
use nearfield_peers::{PeerMap, Visitor};
use nearfield_radix::EngineOptions;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{self, BufRead, Write};

/// Serves the conductor that has started this process, until it closes the pipe or ends.
///
/// # Errors
/// A broken pipe, or input that no conductor sends.
pub fn serve() -> io::Result<()> {
    // A load takes long. If the conductor died, this process would run on unnoticed.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    serve_orders(io::stdin().lock(), io::stdout().lock())
}

fn serve_orders(mut orders: impl BufRead, mut replies: impl Write) -> io::Result<()> {
    let mut runner = None;
    while let Some(order) = read_line(&mut orders)? {
        let reply = execute(order, &mut orders, &mut runner)?;
        write_line(&mut replies, &reply)?;
        replies.flush()?;
    }
    Ok(())
}

fn execute(
    order: ContestantOrder,
    source: &mut impl BufRead,
    runner: &mut Option<Box<dyn ContestantRunner>>,
) -> io::Result<ContestantReply> {
    let reply = match (order, runner) {
        (
            ContestantOrder::Keys {
                contestant,
                form,
                count,
                bytes,
            },
            runner,
        ) => {
            let keys = ContestantKeys::read(source, form, count, bytes)?;
            become_contestant(&contestant, keys).map(|chosen| {
                *runner = Some(chosen);
                ContestantReply::Ready
            })
        }
        (
            ContestantOrder::Load {
                loaded,
                threads,
                batch,
            },
            Some(runner),
        ) => {
            // The memory of threads and their records of durations is not the map's.
            let empty = runner.load(0, threads, batch);
            let before = Resident::now();
            let load = empty.and_then(|_| runner.load(loaded, threads, batch));
            load.map(|slice| {
                let after = Resident::now();
                let memory = LoadMemoryGrowth {
                    growth_bytes: after.bytes.saturating_sub(before.bytes),
                    huge_growth_bytes: after.huge_bytes.saturating_sub(before.huge_bytes),
                };
                ContestantReply::Loaded { slice, memory }
            })
        }
        (ContestantOrder::Streams { lengths, batch }, Some(runner)) => {
            let mut streams = Vec::with_capacity(lengths.len());
            for length in lengths {
                let stream = OpStream::of_words(read_words(source, length)?);
                streams.push(stream.iter().collect());
            }
            runner
                .prepare(&streams, batch)
                .map(|()| ContestantReply::Ready)
        }
        (
            ContestantOrder::Slice {
                part,
                parts,
                version,
            },
            Some(runner),
        ) => runner
            .slice(part, parts, version)
            .map(|slice| ContestantReply::Sliced { slice }),
        (
            ContestantOrder::Count {
                part,
                parts,
                version,
            },
            Some(runner),
        ) => runner
            .count(part, parts, version)
            .map(|counts| ContestantReply::Counted { counts }),
        (order, None) => Err(format!("no keys yet for {order:?}")),
    };
    // A refusal is a reply, too: the conductor reports it with the table.
    Ok(reply.unwrap_or_else(|reason| ContestantReply::Refused { reason }))
}

fn become_contestant(
    name: &str,
    keys: ContestantKeys,
) -> Result<Box<dyn ContestantRunner>, String> {
    let contestant: BenchContestant = name.parse().map_err(|error| format!("{error}"))?;
    match (contestant, keys) {
        (BenchContestant::Nearfield, keys) => nearfield(EngineOptions::default(), keys),
        (BenchContestant::Chosen(techniques), keys) => nearfield(techniques.options(), keys),
        (BenchContestant::Peer(kind), ContestantKeys::Words(keys)) => {
            Ok(kind.visit_words(PeerRunnerVisitor { keys }))
        }
        (BenchContestant::Peer(kind), ContestantKeys::Text(keys)) => kind
            .visit_text(PeerRunnerVisitor { keys })
            .ok_or_else(|| format!("{} takes no strings", kind.name())),
    }
}

fn nearfield(
    options: EngineOptions,
    keys: ContestantKeys,
) -> Result<Box<dyn ContestantRunner>, String> {
    match keys {
        ContestantKeys::Words(keys) => run_on(NearfieldEngine::<Words>::new(options), keys),
        ContestantKeys::Text(keys) => run_on(NearfieldEngine::<ByteStrings>::new(options), keys),
    }
}

fn run_on<S: DigestKey, E: BenchEngine<S> + 'static>(
    engine: Result<E, OperationError>,
    keys: Vec<S>,
) -> Result<Box<dyn ContestantRunner>, String> {
    let engine = engine.map_err(|error| error.to_string())?;
    Ok(Box::new(EngineRunner::new(engine, keys)))
}

/// Starts a peer with its keys.
struct PeerRunnerVisitor<S> {
    keys: Vec<S>,
}

impl<S: DigestKey> Visitor<S> for PeerRunnerVisitor<S> {
    type Output = Box<dyn ContestantRunner>;

    fn visit<P: PeerMap<S> + 'static>(self) -> Box<dyn ContestantRunner> {
        Box::new(EngineRunner::new(PeerEngine::<S, P>::new(), self.keys))
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{keys_order, write_keys, write_words};
    use super::*;
    use crate::workload::{Distribution, KeySetSpec, Mix, StreamSpec};

    /// Makes a contestant load and run two parts of a mix, and returns its replies.
    fn replies(
        contestant: BenchContestant,
        keys: &KeySetSpec,
        mix: Mix,
        threads: usize,
    ) -> Vec<ContestantReply> {
        let set = keys.generate(Some(1500), 1).unwrap();
        let spec = StreamSpec {
            mix,
            distribution: Some(Distribution::ZIPF),
            keys: set.len(),
            threads,
            operations: 3000,
            seed: 1,
            hot_seed: 1,
        };
        let streams = spec.generate().unwrap();
        let mut pipe = Vec::new();
        write_line(&mut pipe, &keys_order(contestant.name(), &set)).unwrap();
        write_keys(&mut pipe, &set).unwrap();
        let loaded = streams.loaded();
        write_line(
            &mut pipe,
            &ContestantOrder::Load {
                loaded,
                threads,
                batch: 100,
            },
        )
        .unwrap();
        let lengths = streams
            .threads()
            .iter()
            .map(|stream| stream.len())
            .collect();
        write_line(
            &mut pipe,
            &ContestantOrder::Streams {
                lengths,
                batch: 100,
            },
        )
        .unwrap();
        for stream in streams.threads() {
            write_words(&mut pipe, stream.words().iter().copied()).unwrap();
        }
        for part in 0..2 {
            let order = ContestantOrder::Slice {
                part,
                parts: 2,
                version: 7,
            };
            write_line(&mut pipe, &order).unwrap();
        }
        let mut said = Vec::new();
        serve_orders(&pipe[..], &mut said).unwrap();
        let mut said = &said[..];
        std::iter::from_fn(|| read_line(&mut said).unwrap()).collect()
    }

    #[test]
    fn every_contestant_executes_every_mix_correctly() {
        for contestant in BenchContestant::all() {
            for keys in [KeySetSpec::Sparse, KeySetSpec::Words] {
                if keys == KeySetSpec::Words && !contestant.takes_text() {
                    continue;
                }
                for mix in [Mix::YcsbA, Mix::YcsbD, Mix::YcsbE, Mix::YcsbF] {
                    if mix == Mix::YcsbE && !contestant.is_ordered() {
                        continue;
                    }
                    let threads = if contestant.is_shared() { 2 } else { 1 };
                    let replies = replies(contestant, &keys, mix, threads);
                    assert_eq!(replies.len(), 5, "{contestant} {keys} {mix}: {replies:?}");
                    assert!(
                        matches!(replies[1], ContestantReply::Loaded { .. }),
                        "{replies:?}"
                    );
                    for reply in &replies[3..] {
                        let ContestantReply::Sliced { slice } = reply else {
                            panic!("{contestant} {keys} {mix}: {reply:?}");
                        };
                        assert!(slice.rate_mops > 0.0 && slice.rate_mops < 1000.0);
                    }
                }
            }
        }
    }

    #[test]
    fn orders_out_of_turn_are_refused() {
        let mut said = Vec::new();
        let mut pipe = Vec::new();
        write_line(
            &mut pipe,
            &ContestantOrder::Slice {
                part: 0,
                parts: 1,
                version: 0,
            },
        )
        .unwrap();
        serve_orders(&pipe[..], &mut said).unwrap();
        let reply = read_line::<ContestantReply>(&mut &said[..]).unwrap();
        assert!(
            matches!(reply, Some(ContestantReply::Refused { .. })),
            "{reply:?}"
        );
        assert!(serve_orders(&b"hello\n"[..], Vec::new()).is_err());
    }
}
