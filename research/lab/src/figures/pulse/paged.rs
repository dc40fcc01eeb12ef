//! Requests of an application over remote memory as swap space.

use super::applications::{PulseApplication, PulseRequestGenerator};
use super::clock::ClockPageCache;
use super::data::NODE_BYTES;
use super::measure::follow;
use super::scale::PulseScale;
use crate::figures::job::PointError;
use crate::harness::Interrupt;
use nearfield_hardware::accelerator::paging::PagingParameters;

/// Mean numbers of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestPagingMeans {
    pub nodes: f64,
    /// Pages of nodes and of objects.
    pub pages: f64,
    /// Faults on pages of nodes and of objects.
    pub faults: f64,
    /// Faults on pages of objects, which are included above.
    pub object_faults: f64,
}

impl RequestPagingMeans {
    /// Returns the faults on pages of nodes.
    pub(super) fn traversal_faults(&self) -> f64 {
        self.faults - self.object_faults
    }

    /// Returns the faults if this share of the pages is cached. Without a share these are the
    /// counted ones.
    pub(super) fn faults_at(&self, hit_rate: Option<f64>) -> f64 {
        hit_rate.map_or(self.faults, |hits| self.pages * (1.0 - hits))
    }

    /// Returns the share of the pages that was cached.
    pub(super) fn hit_rate(&self) -> f64 {
        1.0 - self.faults / self.pages
    }
}

/// Returns the paper's cache of 2 GB, independent of the bytes of data.
pub(super) fn paper_cache(_: u64) -> u64 {
    2 << 30
}

/// Nodes for each traversal of the scale that fill the cache, and as many that count.
const NODES_EACH: u64 = 16;

/// Follows traversals over pages. The first half fills the cache. `cache` returns its size for the
/// bytes of all data.
pub(super) fn paged(
    application: PulseApplication,
    memory_nodes: usize,
    cache: impl Fn(u64) -> u64,
    scale: &PulseScale,
    interrupt: &Interrupt,
) -> Result<RequestPagingMeans, PointError> {
    let page = PagingParameters::FASTSWAP.page_bytes;
    let mut load = PulseRequestGenerator::new(application, memory_nodes, scale)?;
    let bytes = load.ranges().iter().map(|range| range.end - range.start);
    let mut cache = ClockPageCache::new((cache(bytes.sum()) / page) as usize);
    let (mut nodes, mut pages, mut faults, mut object_faults) = (0_u64, 0_u64, 0_u64, 0_u64);
    // The same number of nodes for all applications, because their traversals differ in length.
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
            (nodes, pages, faults, object_faults) = (0, 0, 0, 0);
            (requests, is_warm) = (0, true);
        }
        requests += 1;
        for fetch in follow(&mut load)?.fetches {
            nodes += 1;
            let last = fetch.address + u64::from(fetch.bytes.max(1)) - 1;
            for page in fetch.address / page..=last / page {
                pages += 1;
                let is_fault = u64::from(!cache.touch(page));
                faults += is_fault;
                if u64::from(fetch.bytes) > NODE_BYTES {
                    object_faults += is_fault;
                }
            }
        }
    }
    debug_assert!(object_faults <= faults);
    let requests = f64::from(requests);
    Ok(RequestPagingMeans {
        nodes: nodes as f64 / requests,
        pages: pages as f64 / requests,
        faults: faults as f64 / requests,
        object_faults: object_faults as f64 / requests,
    })
}
