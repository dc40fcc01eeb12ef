//! RPC on a slow core, modelled: what a core of a BlueField-2 takes for the applications'
//! traversals beside a core of a Xeon, by the models of `nearfield_hardware`.

use nearfield_hardware::Time;
use nearfield_hardware::accelerator::cores::{Cores, Parameters};
use nearfield_hardware::accelerator::{Node, Permission, Range, Table, TableError};
use nearfield_offload::modelled::Offloaded;
use nearfield_offload::node::Rack;
use nearfield_offload::traversal::Query;
use std::rc::Rc;

/// More iterations than any query of the applications makes.
const ITERATIONS: u64 = 1 << 20;

/// How many times as long the slow core works on these queries; `None` without queries.
pub(super) fn slowdown(rack: &Rack<'_>, queries: &[Query]) -> Result<Option<f64>, TableError> {
    let slow = time(Parameters::ARM, rack, queries)?;
    let fast = time(Parameters::XEON, rack, queries)?;
    Ok((fast > 0.0).then(|| slow / fast))
}

/// The nanoseconds that one core works on queries, one after the other.
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
        // What is before and behind the core is the same for both.
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
