//! Tests of the times and the routes of requests.

use super::super::cores::{self, Cores};
use super::super::pulse::{self, PulseAccelerator, PulseDesign};
use super::super::testing::Loop;
use super::super::{
    DepartureReason, RackNode, TranslationPermission, TranslationRefusal, TranslationTable,
};
use super::{RackForwarder, RackParameters, RackReply, RackRequest, RackSimulation};

type Work = RackRequest<Loop>;

fn table(range: &std::ops::Range<u64>) -> TranslationTable {
    let permission = TranslationPermission::ReadWrite;
    let (start, end) = (range.start, range.end);
    let range = super::super::TranslationRange {
        start,
        end,
        permission,
    };
    TranslationTable::new(vec![range]).unwrap()
}

/// Returns ranges of 4 KiB for each node.
fn ranges(nodes: u64) -> Vec<Vec<std::ops::Range<u64>>> {
    let range = |node| std::iter::once(node * 4096..(node + 1) * 4096).collect();
    (0..nodes).map(range).collect()
}

fn accelerators(nodes: u64) -> Vec<PulseAccelerator<Work>> {
    let new = |ranges: &Vec<std::ops::Range<u64>>| {
        let table = table(&ranges[0]);
        // Without banks, whose refresh would delay some requests and not others.
        let parameters = pulse::PulseParameters {
            memory: pulse::PulseMemoryModel::Channels,
            ..pulse::PulseParameters::PAPER
        };
        PulseAccelerator::new(parameters, PulseDesign::PROTOTYPE, table).unwrap()
    };
    ranges(nodes).iter().map(new).collect()
}

fn run<N: RackNode<Work = Work>>(
    nodes: Vec<N>,
    rerouting: RackForwarder,
    works: Vec<Loop>,
    under_way: usize,
) -> Vec<RackReply<Loop>> {
    let ranges = ranges(nodes.len() as u64);
    let mut rack = RackSimulation::new(RackParameters::PAPER, rerouting, nodes, &ranges);
    let mut works = works.into_iter();
    let mut answers = Vec::new();
    rack.run(under_way, || works.next(), |answer| answers.push(answer));
    assert_eq!(rack.summary().answers, answers.len() as u64);
    answers
}

/// Creates a traversal that begins at the end of a node, and takes eight steps of 256 bytes into
/// the next.
fn crossing() -> Loop {
    Loop::new(4096 - 1024, 8)
}

#[test]
fn the_switch_saves_what_the_caller_would_add() {
    let latency = |rerouting| {
        let answers = run(accelerators(2), rerouting, vec![crossing()], 1);
        assert_eq!(answers[0].crossings, 1);
        assert_eq!(answers[0].end, DepartureReason::Returned);
        assert_eq!(answers[0].traversal.left, 0);
        (answers[0].done - answers[0].begun).as_nanoseconds()
    };
    let saved = latency(RackForwarder::Caller) - latency(RackForwarder::Switch);
    // Software twice, interface twice, the switch once more, and two packets on the callers' wire.
    let packets = 2.0 * (128.0 + 130.0) / 12.5;
    let expected = 2000.0 + 800.0 + 500.0 + packets;
    // To an edge of the accelerator's clock.
    assert!((saved - expected).abs() < 4.1, "{saved} {expected}");
}

#[test]
fn both_ways_are_the_same_on_one_node() {
    let works = || (0..20).map(|_| Loop::new(0, 16)).collect::<Vec<_>>();
    let times = |rerouting| -> Vec<_> {
        let answers = run(accelerators(1), rerouting, works(), 4);
        answers.iter().map(|answer| answer.done).collect()
    };
    assert_eq!(times(RackForwarder::Caller), times(RackForwarder::Switch));
}

/// The end of a request whose address no node has.
const MISSED: DepartureReason = DepartureReason::Refused(TranslationRefusal::Miss);

#[test]
fn an_address_of_no_node_goes_back_to_its_caller() {
    // It leaves the second node, and no other node has its address.
    let lost = Loop::new(8192 - 512, 4);
    for rerouting in [RackForwarder::Switch, RackForwarder::Caller] {
        let answers = run(accelerators(2), rerouting, vec![lost.clone()], 1);
        assert_eq!(answers[0].end, MISSED);
        assert_eq!(answers[0].traversal.left, 2);
    }
    let never = Loop::new(1 << 40, 4);
    let answers = run(accelerators(1), RackForwarder::Switch, vec![never], 1);
    assert_eq!(answers[0].crossings, 0);
    assert_eq!(answers[0].end, MISSED);
}

#[test]
fn tables_that_contradict_each_other_do_not_send_a_request_for_ever() {
    // The switch sends to a node whose own table lacks the address.
    let table = table(&(0..256));
    let node = PulseAccelerator::new(pulse::PulseParameters::PAPER, PulseDesign::PROTOTYPE, table)
        .unwrap();
    for rerouting in [RackForwarder::Switch, RackForwarder::Caller] {
        let node = Cores::new(cores::CoresParameters::XEON, self::table(&(0..256)));
        let answers = run(vec![node], rerouting, vec![Loop::new(0, 2)], 1);
        assert_eq!(answers[0].end, MISSED);
        assert_eq!(answers[0].crossings, RackParameters::PAPER.visits_max - 1);
    }
    let answers = run(vec![node], RackForwarder::Switch, vec![Loop::new(0, 2)], 1);
    assert_eq!(answers[0].traversal.left, 1);
}

#[test]
fn as_many_requests_as_allowed_are_under_way() {
    let works: Vec<Loop> = (0..200).map(|_| Loop::new(0, 16)).collect();
    let end = |under_way| {
        let answers = run(
            accelerators(1),
            RackForwarder::Switch,
            works.clone(),
            under_way,
        );
        assert_eq!(answers.len(), 200);
        answers.iter().map(|answer| answer.done).max().unwrap()
    };
    let (one, two) = (end(1).as_seconds(), end(2).as_seconds());
    // Two are nearly twice as fast as one, because they seldom wait for each other.
    assert!((1.8..2.01).contains(&(one / two)), "{}", one / two);
}
