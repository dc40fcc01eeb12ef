//! Runs of an index, one for each seed.

use crate::history::{RemoteIndexCall, RemoteIndexHistory, RemoteIndexOperation};
use crate::index::{RemoteIndex, RemoteIndexFactory};
use crate::plan::RemoteRunPlan;
use nearfield_fabric::transport::sim::FabricSimulation;
use nearfield_fabric::{FabricError, NodeId};
use nearfield_hardware::network::NetworkPreset;
use nearfield_testkit::linearizability::{DeadEnd, order};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteRunReport {
    /// Number of operations with an outcome.
    pub answered: usize,
    /// Number of writes without one, because their clients died or cannot know it.
    pub unanswered: usize,
    /// Number of keys that a later client could read.
    pub readable: usize,
}

/// The failure of a run.
#[derive(Debug)]
pub enum RemoteRunFailure {
    /// The index could not be created or opened, or an operation was refused.
    Refused(FabricError),
    /// The number of living clients that have not ended in time.
    Hangs(usize),
    /// The operations on a key cannot be linearized.
    NotLinearizable {
        /// The key.
        key: u64,
        /// The longest order that explains the operations, and those that would have to come next,
        /// for messages.
        shown: String,
    },
}

impl fmt::Display for RemoteRunFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteRunFailure::Refused(error) => write!(formatter, "refused: {error}"),
            RemoteRunFailure::Hangs(clients) => write!(formatter, "{clients} clients hang"),
            RemoteRunFailure::NotLinearizable { key, shown } => {
                write!(formatter, "key {key} is not linearizable:\n{shown}")
            }
        }
    }
}

/// Runs `system` with many seeds, as [`each_seed`] does.
///
/// # Panics
/// A run has failed; the message has the command that replays it.
pub fn check(count: u64, plan: &RemoteRunPlan, system: &impl RemoteIndexFactory) {
    each_seed(count, |seed| run(seed, plan, system));
}

/// Calls `test` with many seeds and prints the number of runs and their rate. The seeds are those
/// from 0 up to `count`, or to `NEARFIELD_SEEDS`, or only `NEARFIELD_SEED`, if the environment sets
/// them.
///
/// # Panics
/// A run has failed; the message has the command that replays it.
pub fn each_seed<E: fmt::Display>(
    count: u64,
    mut test: impl FnMut(u64) -> Result<RemoteRunReport, E>,
) {
    let start = Instant::now();
    let (mut runs, mut total) = (0_u64, RemoteRunReport::default());
    let failure = seeds::first_failure(count, |seed| {
        let report = test(seed)?;
        runs += 1;
        total.answered += report.answered;
        total.unanswered += report.unanswered;
        total.readable += report.readable;
        Ok::<(), E>(())
    });
    if let Some(failure) = failure {
        panic!("{failure}");
    }
    // The test harness would capture `println`.
    let _ = writeln!(
        std::io::stderr(),
        "{runs} seeds, {:.0} seeds/s: {} operations with outcomes, {} writes without",
        runs as f64 / start.elapsed().as_secs_f64(),
        total.answered,
        total.unanswered
    );
}

/// Makes one run. Returns its counts.
///
/// # Errors
/// The failure.
pub fn run<S: RemoteIndexFactory>(
    seed: u64,
    plan: &RemoteRunPlan,
    system: &S,
) -> Result<RemoteRunReport, RemoteRunFailure> {
    debug_assert!(
        u32::try_from(plan.operations).is_ok(),
        "values have the number of the operation"
    );
    let mut random = SmallRng::seed_from_u64(seed);
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(random.random(), network, plan.delivery);
    let nodes: Vec<NodeId> = (0..plan.nodes)
        .map(|_| simulation.add_node(plan.node_bytes))
        .collect();
    let history = Rc::new(RemoteIndexHistory::default());
    let refused = Rc::new(RefCell::new(None));

    let (endpoint, failed) = (simulation.endpoint(0), Rc::clone(&refused));
    let made = system.create(endpoint, nodes);
    simulation.spawn(0, async move {
        // Later errors may follow from the first one.
        if let Err(error) = made.await {
            failed.borrow_mut().get_or_insert(error);
        }
    });
    // The index is complete before other clients open it, because they need not wait for it.
    finish(&mut simulation, plan, &refused)?;

    if let Some((node, latest)) = plan.losing {
        let from = latest.mul_f64(random.random_range(0.5..1.0));
        simulation.lose_node(NodeId(node), simulation.now() + from);
    }
    for client in 1..=plan.clients {
        if random.random_bool(plan.dying) {
            // Operations take several verbs. A client survives if its planned death is after its
            // last verb.
            let verbs = plan.operations as u64 * 6;
            simulation.kill_at_verb(client, random.random_range(0..verbs));
        }
        let steps = (0..plan.operations).map(|step| {
            let key = random.random_range(0..plan.keys);
            // No two writes have the same value.
            let value = u64::from(client) << 32 | (step as u64 + 1);
            let asked = if random.random_bool(plan.removing) {
                RemoteIndexOperation::Remove
            } else if random.random_bool(0.5) {
                RemoteIndexOperation::Get
            } else if plan.updating > 0.0 && random.random_bool(plan.updating) {
                if plan.overwriting > 0.0 && random.random_bool(plan.overwriting) {
                    RemoteIndexOperation::Overwrite(value)
                } else {
                    RemoteIndexOperation::Update(value)
                }
            } else if plan.overwriting > 0.0 && random.random_bool(plan.overwriting) {
                RemoteIndexOperation::Put(value)
            } else {
                RemoteIndexOperation::Insert(value)
            };
            (key, asked)
        });
        let steps: Vec<(u64, RemoteIndexOperation)> = steps.collect();
        work(&mut simulation, system, client, steps, &history, &refused);
    }
    finish(&mut simulation, plan, &refused)?;

    // A later client reads all keys as the others have left them.
    let steps = (0..plan.keys)
        .map(|key| (key, RemoteIndexOperation::Get))
        .collect();
    let last = plan.clients + 1;
    work(&mut simulation, system, last, steps, &history, &refused);
    finish(&mut simulation, plan, &refused)?;
    judge(history.calls(), last)
}

/// Distance of session numbers. A client has a session of its own, and another one each time that
/// it cannot know if an operation was executed.
const SESSIONS: u32 = 1 << 16;

/// Makes a client execute operations one after the other.
fn work<S: RemoteIndexFactory>(
    simulation: &mut FabricSimulation,
    system: &S,
    client: u32,
    steps: Vec<(u64, RemoteIndexOperation)>,
    history: &Rc<RemoteIndexHistory>,
    refused: &Rc<RefCell<Option<FabricError>>>,
) {
    debug_assert!(client < SESSIONS, "no session belongs to two clients");
    let opened = system.open(simulation.endpoint(client));
    let (history, refused) = (Rc::clone(history), Rc::clone(refused));
    simulation.spawn(client, async move {
        let done = async {
            let index = opened.await?;
            let mut session = client;
            for (key, asked) in steps {
                let call = history.begin(session, key, asked);
                let met = match asked {
                    RemoteIndexOperation::Get => index.get(key).await,
                    RemoteIndexOperation::Insert(value) => index.insert(key, value).await,
                    RemoteIndexOperation::Put(value) => index.put(key, value).await.map(|()| None),
                    RemoteIndexOperation::Update(value) => index.update(key, value).await,
                    // The outcome reports only the presence of a value.
                    RemoteIndexOperation::Overwrite(value) => {
                        let was_there = index.overwrite(key, value).await;
                        was_there.map(|was_there| was_there.then_some(value))
                    }
                    RemoteIndexOperation::Remove => index.remove(key).await,
                };
                match met {
                    Ok(met) => history.end(call, met),
                    // The operation may still take effect, even after later ones.
                    Err(FabricError::NodeLost { .. }) => session += SESSIONS,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        if let Err(error) = done.await {
            refused.borrow_mut().get_or_insert(error);
        }
    });
}

/// Runs until all are done.
fn finish(
    simulation: &mut FabricSimulation,
    plan: &RemoteRunPlan,
    refused: &RefCell<Option<FabricError>>,
) -> Result<(), RemoteRunFailure> {
    // Clients that wait for a lock may try forever, so virtual time ends the run.
    let end: Duration = simulation.now() + plan.patience;
    let waiting = simulation.run_until(|now| now > end);
    // Errors come first: a client that failed may have left a lock for which the others hang.
    if let Some(error) = refused.borrow_mut().take() {
        return Err(RemoteRunFailure::Refused(error));
    }
    if waiting > 0 {
        return Err(RemoteRunFailure::Hangs(waiting));
    }
    Ok(())
}

/// Checks that the calls on each key can be linearized. `last` is the client that reads all keys.
fn judge(mut calls: Vec<RemoteIndexCall>, last: u32) -> Result<RemoteRunReport, RemoteRunFailure> {
    calls.sort_by_key(|call| call.key);
    // Linearizability is local, so each key is judged alone, which keeps the searches small.
    for of_key in calls.chunk_by(|one, other| one.key == other.key) {
        if let Err(end) = order(of_key.to_vec()) {
            let key = of_key.first().map_or(0, |call| call.key);
            let shown = show(&end);
            return Err(RemoteRunFailure::NotLinearizable { key, shown });
        }
    }
    let answered = calls.iter().filter(|call| call.met.is_some());
    // A client has further sessions after operations without an outcome.
    let of_last = |call: &&RemoteIndexCall| call.session % SESSIONS == last;
    let readable = answered.clone().filter(of_last).count();
    let answered = answered.count();
    Ok(RemoteRunReport {
        answered,
        unanswered: calls.len() - answered,
        readable,
    })
}

fn show(end: &DeadEnd<RemoteIndexCall>) -> String {
    let lines = |calls: &[RemoteIndexCall]| {
        let lines = calls.iter().map(|call| format!("  {call}\n"));
        lines.collect::<String>()
    };
    let (before, state, stuck) = (lines(&end.before), end.state, lines(&end.stuck));
    format!("after\n{before}the state is {state:?}, and none of these can be next:\n{stuck}")
}
