//! RPC on a slow core, modelled: the time of a BlueField-2's core for the applications' traversals,
//! relative to that of a Xeon's core, by the models of `nearfield_hardware`.

use nearfield_hardware::VirtualTime;
use nearfield_hardware::accelerator::cores::{Cores, CoresParameters};
use nearfield_hardware::accelerator::{
    RackNode, TableError, TranslationPermission, TranslationRange, TranslationTable,
};
use nearfield_offload::modelled::OffloadedQuery;
use nearfield_offload::node::RackMemory;
use nearfield_offload::traversal::TraversalQuery;
use std::rc::Rc;

/// Limit of iterations, more than any query of the applications makes.
const ITERATIONS: u64 = 1 << 20;

/// Computes the factor by which the slow core is slower on these queries; returns `None` without
/// queries.
pub(super) fn slowdown(
    rack: &RackMemory<'_>,
    queries: &[TraversalQuery],
) -> Result<Option<f64>, TableError> {
    let slow = time(CoresParameters::ARM, rack, queries)?;
    let fast = time(CoresParameters::XEON, rack, queries)?;
    Ok((fast > 0.0).then(|| slow / fast))
}

/// Computes the nanoseconds that one core takes for queries, one after the other.
fn time(
    parameters: CoresParameters,
    rack: &RackMemory<'_>,
    queries: &[TraversalQuery],
) -> Result<f64, TableError> {
    let range = |range: &nearfield_offload::node::NodeRange| TranslationRange {
        start: range.start,
        end: range.start + range.bytes,
        permission: TranslationPermission::ReadWrite,
    };
    let ranges = rack.nodes().iter().flat_map(|node| node.ranges().iter());
    let table = TranslationTable::new(ranges.map(range).collect())?;
    let parameters = CoresParameters {
        cores: 1,
        // The parts before and after the core are the same for both.
        interface: VirtualTime::ZERO,
        ..parameters
    };
    let mut cores = Cores::new(parameters, table);
    let memory = Rc::new(rack.clone());
    let mut departures = Vec::new();
    for query in queries {
        cores.submit(
            VirtualTime::ZERO,
            OffloadedQuery::new(query, &memory, ITERATIONS),
        );
    }
    while cores.next_event().is_some() {
        cores.step(&mut departures);
    }
    let last = departures.iter().map(|departure| departure.at).max();
    Ok(last.unwrap_or(VirtualTime::ZERO).as_nanoseconds())
}
