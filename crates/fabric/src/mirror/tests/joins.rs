//! Nodes that come back empty and are taken in, while clients work, and clients and nodes die.

use super::*;

/// The client numbers of tasks that are no workers.
const OTHERS: u32 = 1000;

/// Time in which all clients of a life have looked at both nodes. A client that has not cannot tell
/// an empty node, whose partner is lost as well, from the node of a new pair. A pool refuses such a
/// node by its membership record.
const FIRST_LOOK: Duration = Duration::from_micros(100);

/// The end of one run: its acknowledged writes, and true if the node was taken in although clients
/// were working.
#[derive(Debug)]
struct JoinRunEnd {
    acknowledged: u64,
    has_joined: bool,
}

/// Clients of pairs of which the first one loses a node and gets another one.
struct JoinRun {
    simulation: FabricSimulation,
    random: SmallRng,
    rules: MirrorRules,
    seen: Rc<RefCell<MirrorObservations>>,
    life: u16,
    others: u32,
    /// True if a node may be lost whose content no other node has.
    is_lost: Rc<Cell<bool>>,
}

impl JoinRun {
    fn new(seed: u64, delivery: Delivery, rules: MirrorRules) -> JoinRun {
        let mut random = SmallRng::seed_from_u64(seed);
        let (simulation, _) = FabricSimulation::with_nodes(random.random(), delivery, [1 << 17; 4]);
        JoinRun {
            simulation,
            random,
            rules,
            seen: Rc::default(),
            life: 0,
            others: OTHERS,
            is_lost: Rc::default(),
        }
    }

    fn endpoint(&self, client: u32) -> Mirror {
        MirroredEndpoint {
            rules: self.rules,
            ..MirroredEndpoint::new(self.simulation.endpoint(client), &PAIRS, LEASE)
        }
    }

    /// Returns the endpoint of a task that is no worker, and its client number.
    fn other(&mut self) -> (u32, Mirror) {
        self.others += 1;
        (self.others, self.endpoint(self.others))
    }

    /// Returns a time from now on.
    fn within(&mut self, micros: u64) -> Duration {
        self.simulation.now() + Duration::from_micros(self.random.random_range(1..micros))
    }

    /// Begins the next life of the workers. In the last one they write everything once more.
    fn work(&mut self, is_last: bool) {
        for owner in 0..CLIENTS {
            let client = u32::from(self.life * CLIENTS + owner);
            if !is_last && self.random.random_bool(0.3) {
                let verb = self.random.random_range(0..120);
                self.simulation.kill_at_verb(client, verb);
            }
            let id = |number: u64| u64::from(client) << 8 | (number + 1);
            let operations: Vec<MirrorOperation> = match is_last {
                true => (0..=ROOT as u64)
                    .map(|place| MirrorOperation {
                        place: place as usize,
                        id: id(place),
                        kind: 4,
                        pause: Duration::ZERO,
                    })
                    .collect(),
                false => (0..OPERATIONS)
                    .map(|number| MirrorOperation::draw(&mut self.random, id(number)))
                    .collect(),
            };
            let endpoint = self.endpoint(client);
            let seen = Rc::clone(&self.seen);
            let is_lost = Rc::clone(&self.is_lost);
            self.simulation.spawn(client, async move {
                let done = super::work(&endpoint, owner, operations, &seen).await;
                if let Err(error) = done
                    && !is_lost.get()
                {
                    seen.borrow_mut().blame(error.to_string());
                }
            });
        }
        self.life += 1;
    }

    /// Runs until all is done.
    fn settle(&mut self) -> Result<(), String> {
        let end = self.simulation.now() + 200 * LEASE;
        let waiting = self.simulation.run_until(|now| now > end);
        if let Some(wrong) = self.seen.borrow_mut().wrong.take() {
            return Err(wrong);
        }
        match waiting {
            0 => Ok(()),
            _ => Err(format!("{waiting} hang")),
        }
    }

    /// Replaces a node by an empty one, after a client has noticed its loss.
    fn replace(&mut self, node: NodeId) -> Result<(), String> {
        let soon = self.within(2);
        self.simulation.lose_node(node, soon);
        let (number, witness) = self.other();
        self.simulation.spawn(number, async move {
            while witness.view(PAIRS[0].number) == Ok(PairView::Both) {
                // Its outcome shows in the view.
                let _ = witness.fence(0, false, Duration::MAX).await;
                witness.sleep(LEASE / 4).await;
            }
        });
        self.settle()?;
        let soon = self.within(2);
        self.simulation.restore_node(node, soon, true);
        // Nobody may meet the node while it is away.
        self.settle()
    }

    /// Spawns a client that takes a node in, after a time. Returns its outcome, if it does not die.
    fn take_in(
        &mut self,
        node: NodeId,
        dies: bool,
    ) -> Rc<RefCell<Option<Result<u64, PairJoinError>>>> {
        let outcome = Rc::new(RefCell::new(None));
        let pause = self.within(3000) - self.simulation.now();
        let (number, endpoint) = self.other();
        if dies {
            let verb = self.random.random_range(0..60);
            self.simulation.kill_at_verb(number, verb);
        }
        let noted = Rc::clone(&outcome);
        self.simulation.spawn(number, async move {
            endpoint.sleep(pause).await;
            let taken = endpoint.take_in(node).await;
            *noted.borrow_mut() = Some(taken);
        });
        outcome
    }

    /// Returns true if a node has been taken in as the other one's backup, and may have taken over
    /// since.
    fn is_in(&self, node: NodeId, other: NodeId) -> bool {
        let word = |node| ViewWord(self.simulation.word(view_word(node)));
        let is_left = word(other).is_left();
        match word(node).kind() {
            ViewKind::Both => word(node).count() > 0 && !is_left,
            ViewKind::Announced | ViewKind::Alone => true,
            _ => false,
        }
    }
}

/// Loses a node and takes a new one in, while clients work and the copying client or either node
/// may die. Then the other node is lost, so that the copy must have everything.
fn run_joined(seed: u64, delivery: Delivery, rules: MirrorRules) -> Result<JoinRunEnd, String> {
    let mut run = JoinRun::new(seed, delivery, rules);
    let nodes = PAIRS[0];
    let (joins, stays) = match run.random.random_bool(0.5) {
        true => (nodes.primary, nodes.backup),
        false => (nodes.backup, nodes.primary),
    };
    let at = run.within(8000);
    run.simulation.lose_node(joins, at);
    run.work(false);
    run.settle()?;
    run.replace(joins)?;

    let (dies, loss) = (run.random.random_bool(0.3), run.random.random_range(0..6));
    let outcome = run.take_in(joins, dies);
    let at = run.within(12_000);
    match loss {
        0 => {
            run.is_lost.set(true);
            run.simulation.lose_node(stays, at + FIRST_LOOK);
        }
        1 => run.simulation.lose_node(joins, at),
        _ => {}
    }
    run.work(false);
    run.settle()?;
    let is_taken_in = matches!(*outcome.borrow(), Some(Ok(_)));
    if !dies && loss > 1 && !is_taken_in {
        return Err(format!("{:?}", outcome.borrow()));
    }
    // A client completes what a dead one has begun.
    if loss > 1 {
        let (number, endpoint) = run.other();
        run.simulation.spawn(number, async move {
            // The check of the words follows.
            let _ = endpoint.fence(0, false, Duration::MAX).await;
        });
        run.settle()?;
    }
    let mut has_joined = loss != 1 && run.is_in(joins, stays);
    let joined_at_once = has_joined;
    if loss == 0 && !has_joined {
        let acknowledged = run.seen.borrow().acknowledged;
        return Ok(JoinRunEnd {
            acknowledged,
            has_joined,
        });
    }
    if !has_joined {
        run.replace(joins)?;
        let outcome = run.take_in(joins, false);
        run.settle()?;
        has_joined = matches!(*outcome.borrow(), Some(Ok(_)));
        if !has_joined {
            return Err(format!("the second attempt: {:?}", outcome.borrow()));
        }
    }
    if loss != 0 {
        let at = run.within(4000);
        run.simulation.lose_node(stays, at);
    }
    run.is_lost.set(false);
    run.work(true);
    run.settle()?;
    let acknowledged = run.seen.borrow().acknowledged;
    Ok(JoinRunEnd {
        acknowledged,
        has_joined: joined_at_once,
    })
}

#[test]
fn a_node_that_was_taken_in_has_everything() {
    for delivery in [Delivery::Torn, Delivery::TornWords] {
        let (mut runs, mut joined, mut acknowledged) = (0, 0, 0);
        let failure = seeds::first_failure(1000, |seed| {
            let end = run_joined(seed, delivery, ALL_RULES)?;
            runs += 1;
            joined += u64::from(end.has_joined);
            acknowledged += end.acknowledged;
            Ok::<(), String>(())
        });
        assert_eq!(failure, None, "{delivery:?}");
        assert!(joined >= runs / 4, "{joined} in {runs} runs");
        assert!(acknowledged >= 20 * runs, "{acknowledged} in {runs} runs");
    }
}

fn is_join_found(rules: MirrorRules) -> bool {
    (0..4000).any(|seed| run_joined(seed, Delivery::Torn, rules).is_err())
}

#[test]
fn writers_that_do_not_wait_for_the_copy_are_found() {
    assert!(is_join_found(MirrorRules {
        pauses: false,
        ..ALL_RULES
    }));
}

#[test]
fn copies_that_do_not_wait_for_writers_are_found() {
    assert!(is_join_found(MirrorRules {
        settles: false,
        ..ALL_RULES
    }));
}

/// Loses a node of the first pair, and takes a new one in at 10 ms.
fn taken_in<F: Future<Output = ()> + 'static>(
    lost: u16,
    act: impl FnOnce(MirroredEndpoint<CountingEndpoint<SimEndpoint>>) -> F,
) -> FabricSimulation {
    alone(
        move |simulation| {
            simulation.lose_node(NodeId(lost), Duration::from_millis(2));
            simulation.restore_node(NodeId(lost), Duration::from_millis(8), true);
            let endpoint = MirroredEndpoint::new(simulation.endpoint(1), &PAIRS, LEASE);
            simulation.spawn(1, async move {
                endpoint.sleep(Duration::from_millis(10)).await;
                let copied = endpoint.take_in(NodeId(lost)).await;
                assert!(copied.is_ok_and(|copied| copied >= 4088));
                // It has content by then.
                let node = NodeId(lost);
                let again = endpoint.take_in(node).await;
                assert_eq!(again, Err(PairJoinError::NotEmpty { node }));
            });
        },
        act,
    )
}

#[test]
fn allocated_memory_is_the_same_after_a_node_was_taken_in() {
    for lost in 0..2 {
        let simulation = taken_in(lost, move |endpoint| async move {
            let pair = PAIRS[0].number;
            let mut held = Vec::new();
            for round in 0..60_u64 {
                // The node is lost, comes back, and is taken in meanwhile.
                endpoint.sleep(Duration::from_micros(400)).await;
                if round % 3 == 2 {
                    endpoint.free(held.remove(0), 640).await.unwrap();
                }
                let piece = endpoint.allocate(pair, 640).await.unwrap();
                endpoint.write(piece, &[round as u8; 640]).await.unwrap();
                held.push(piece);
            }
            let view = endpoint.view(pair);
            assert_eq!(view, Ok(PairView::Both));
            let nodes = endpoint.endpoint();
            for &piece in &held {
                let (mut one, mut other) = ([0; 640], [1; 640]);
                let from = single(0, piece.offset());
                nodes.read(from, &mut one).await.unwrap();
                let from = single(1, piece.offset());
                nodes.read(from, &mut other).await.unwrap();
                assert_eq!(one, other, "{piece}");
            }
            held.sort();
            let apart = |pair: &[GlobalAddress]| pair[0].plus(640) <= pair[1];
            assert!(held.windows(2).all(apart));
            for piece in held {
                endpoint.free(piece, 640).await.unwrap();
            }
        });
        let left = [0, 1].map(|node| simulation.allocated_bytes(NodeId(node)));
        assert_eq!(left[0], left[1], "bytes after node {lost} was taken in");
    }
}

/// A regression: the release of a lock waited for the whole copy, and the client's reads behind it.
#[test]
fn reads_go_on_while_a_release_waits_for_a_copy() {
    alone(
        |simulation| {
            simulation.lose_node(NodeId(1), Duration::from_millis(1));
            let copier = simulation.endpoint(1);
            simulation.spawn(1, async move {
                copier.sleep(Duration::from_millis(10)).await;
                let word_at = view_word(NodeId(0));
                let mut word = ViewWord::NEW.with(ViewKind::Alone);
                // A copy that takes 30 leases.
                for _ in 0..240 {
                    let next = word.next(ViewKind::Joining);
                    let found = copier.compare_swap(word_at, word.0, next.0).await;
                    assert_eq!(found, Ok(word.0));
                    word = next;
                    copier.sleep(LEASE / 8).await;
                }
                let alone = word.with(ViewKind::Alone);
                let found = copier.compare_swap(word_at, word.0, alone.0).await;
                assert_eq!(found, Ok(word.0));
            });
        },
        |endpoint| async move {
            endpoint.sleep(Duration::from_millis(2)).await;
            // It notices the loss of the backup.
            endpoint.write(at(0, 704), &[1; 8]).await.unwrap();
            endpoint.sleep(Duration::from_millis(12)).await;
            let mut bytes = [0; 8];
            endpoint.read(at(0, 704), &mut bytes).await.unwrap();
            let deadline = endpoint.now() + LEASE / 2;
            let put_off = endpoint.write_unsignalled_by(deadline, at(0, 8192), &[2; 8]);
            assert_eq!(put_off, Ok(true));
            let began = endpoint.now();
            endpoint.read(at(0, 704), &mut bytes).await.unwrap();
            assert!(endpoint.now() - began < 2 * LEASE);
            assert_eq!(bytes, [1; 8]);
        },
    );
}

#[test]
fn a_client_that_connects_later_finds_the_roles() {
    let mut simulation = taken_in(0, |endpoint| async move {
        endpoint.write(at(0, 704), &[1; 8]).await.unwrap();
        endpoint.sleep(Duration::from_millis(30)).await;
        endpoint.write(at(0, 704), &[2; 8]).await.unwrap();
    });
    let endpoint = MirroredEndpoint::new(simulation.endpoint(2), &PAIRS, LEASE);
    simulation.lose_node(NodeId(1), simulation.now() + Duration::from_millis(5));
    simulation.spawn(2, async move {
        let mut bytes = [0; 8];
        endpoint.read(at(0, 704), &mut bytes).await.unwrap();
        assert_eq!(bytes, [2; 8]);
        let roles = endpoint.nodes_of(0);
        assert_eq!((roles.primary, roles.backup), (NodeId(1), NodeId(0)));
        endpoint.write(at(0, 704), &[3; 8]).await.unwrap();
        // The node that was taken in has the content when the other one is lost.
        endpoint.sleep(Duration::from_millis(10)).await;
        endpoint.read(at(0, 704), &mut bytes).await.unwrap();
        assert_eq!(bytes, [3; 8]);
        assert_eq!(endpoint.view(PAIRS[0].number), Ok(PairView::Backup));
    });
    assert_eq!(simulation.run(), 0);
    assert_eq!(simulation.word(single(0, 704)), 0x0303_0303_0303_0303);
}
