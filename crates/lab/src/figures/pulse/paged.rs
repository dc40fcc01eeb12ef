//! Requests of an application over remote memory as swap space.

use super::applications::{Application, Load};
use super::clock::Clock;
use super::measure::follow;
use super::scale::Scale;
use crate::figures::job::PointError;
use crate::harness::Interrupt;
use nearfield_hardware::accelerator::paging::Parameters;

/// What a request takes on the average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paged {
    pub nodes: f64,
    pub faults: f64,
}

/// The paper's cache, 2 GB.
const CACHE_BYTES: u64 = 2 << 30;

/// Nodes of a traversal that the cache is filled with, and of one that counts.
const NODES_EACH: u64 = 16;

/// Follows traversals over pages. The first half fills the cache.
pub(super) fn paged(
    application: Application,
    memory_nodes: usize,
    scale: &Scale,
    interrupt: &Interrupt,
) -> Result<Paged, PointError> {
    let parameters = Parameters::FASTSWAP;
    let page = parameters.page_bytes;
    let mut load = Load::new(application, memory_nodes, scale)?;
    let mut cache = Clock::new((CACHE_BYTES / page) as usize);
    let (mut nodes, mut faults) = (0_u64, 0_u64);
    // As many nodes for all applications, whose traversals differ in length.
    let warming = scale.traversals as u64 * NODES_EACH;
    let (mut requests, mut is_warm) = (0, false);
    loop {
        if interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        if nodes >= warming {
            if is_warm {
                break;
            }
            (nodes, faults, requests, is_warm) = (0, 0, 0, true);
        }
        requests += 1;
        for fetch in follow(&mut load)?.fetches {
            nodes += 1;
            let last = fetch.address + u64::from(fetch.bytes.max(1)) - 1;
            for page in fetch.address / page..=last / page {
                faults += u64::from(!cache.touch(page));
            }
        }
    }
    let requests = f64::from(requests);
    Ok(Paged {
        nodes: nodes as f64 / requests,
        faults: faults as f64 / requests,
    })
}
