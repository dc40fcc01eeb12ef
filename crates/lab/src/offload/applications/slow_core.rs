//! RPC on a slow core, modelled: the time of a BlueField-2's core for the applications' traversals,
//! relative to that of a Xeon's core, by the models of `nearfield_hardware`.

use nearfield_hardware::Time;
use nearfield_hardware::accelerator::cores::{Cores, Parameters};
use nearfield_hardware::accelerator::{Node, Permission, Range, Table, TableError};
use nearfield_offload::modelled::Offloaded;
use nearfield_offload::node::Rack;
use nearfield_offload::traversal::Query;
use std::rc::Rc;

/// Limit of iterations, more than any query of the applications makes.
const ITERATIONS: u64 = 1 << 20;

/// Computes the factor by which the slow core is slower on these queries; returns `None` without
/// queries.
pub(super) fn slowdown(rack: &Rack<'_>, queries: &[Query]) -> Result<Option<f64>, TableError> {
    let slow = time(Parameters::ARM, rack, queries)?;
    let fast = time(Parameters::XEON, rack, queries)?;
    Ok((fast > 0.0).then(|| slow / fast))
}

/// Computes the nanoseconds that one core takes for queries, one after the other.
fn time(parameters: Parameters, rack: &Rack<'_>, queries: &[Query]) -> Result<f64, TableError> {
    let range = |range: &nearfield_offload::node::Range| Range {
        start: range.start,
        end: range.start + range.bytes,
        permission: Permission::ReadWrite,
    };
    let ranges = rack.nodes().iter().flat_map(|node| node.ranges().iter());
    let table = Table::new(ranges.map(range).collect())?;
    let parameters = Parameters {
        cores: 1,
        // The parts before and after the core are the same for both.
        interface: Time::ZERO,
        ..parameters
    };
    let mut cores = Cores::new(parameters, table);
    let memory = Rc::new(rack.clone());
    let mut departures = Vec::new();
    for query in queries {
        cores.submit(Time::ZERO, Offloaded::new(query, &memory, ITERATIONS));
    }
    while cores.next_event().is_some() {
        cores.step(&mut departures);
    }
    let last = departures.iter().map(|departure| departure.at).max();
    Ok(last.unwrap_or(Time::ZERO).as_nanoseconds())
}
