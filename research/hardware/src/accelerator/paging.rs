//! Remote memory as swap space: the rival that pulse calls cache-based (Fastswap).
//!
//! A traversal runs at the caller. A node on a page that the caller has is local. Other pages are
//! fetched over the network, one after another, because each address follows from the last node.

use crate::VirtualTime;

/// The costs of pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagingParameters {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Time of a fault: the kernel, the network, the page.
    pub fault: VirtualTime,
    /// The faults per second that the system can serve, because each must also evict a page.
    pub faults_per_second: f64,
    /// Time of a local node, with its logic.
    pub local: VirtualTime,
}

impl PagingParameters {
    /// The parameters of Fastswap. *Assumed*: 8 µs for a fault of 4 KiB, 450,000 faults per second
    /// (about 15 Gb/s), and 0.1 µs for a local node. The paper's own figures of its swap system are
    /// lost.
    pub const FASTSWAP: PagingParameters = PagingParameters {
        page_bytes: 4096,
        fault: VirtualTime::from_nanoseconds(8000),
        faults_per_second: 450_000.0,
        local: VirtualTime::from_nanoseconds(100),
    };

    /// The network's swap of the paper's figure 2a, an older system. 27 µs for a fault follow from
    /// the artifact's times of a million requests of BTrDB with 2 and with 32 GB at the caller, and
    /// the faults that the lab's model counts; those of WiredTiger give 31 µs. The rest is as
    /// above.
    pub const NETWORK_SWAP: PagingParameters = PagingParameters {
        fault: VirtualTime::from_nanoseconds(27_000),
        ..PagingParameters::FASTSWAP
    };

    /// Returns the mean nanoseconds of a request with `nodes` nodes and `faults` faults.
    pub fn latency_ns(&self, nodes: f64, faults: f64) -> f64 {
        // Each address follows from the node before it, so nothing overlaps.
        nodes * self.local.as_nanoseconds() + faults * self.fault.as_nanoseconds()
    }

    /// Returns the requests per second with `faults` faults each, if everything else is faster.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::paging::PagingParameters;
    /// assert_eq!(PagingParameters::FASTSWAP.rate_max(45.0), 10_000.0);
    /// ```
    pub fn rate_max(&self, faults: f64) -> f64 {
        self.faults_per_second / faults
    }
}
