//! Remote memory as swap space: the rival that pulse calls cache-based (Fastswap).
//!
//! A traversal runs at the caller. A node on a page that the caller has is local; another page is
//! fetched by the network, one after the other, as each address follows from the last node.

use crate::Time;

/// What pages take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The bytes of a page.
    pub page_bytes: u64,
    /// How long a fault takes: the kernel, the network, the page.
    pub fault: Time,
    /// The faults a second that the system can serve, as each has to evict a page, too.
    pub faults_per_second: f64,
    /// How long a local node takes, with its logic.
    pub local: Time,
}

impl Parameters {
    /// *Assumed*: 8 µs for a fault of 4 KiB, 450,000 of them a second (about 15 Gb/s), and 0.1 µs
    /// for a local node. The paper's own figures of its swap system are lost.
    pub const FASTSWAP: Parameters = Parameters {
        page_bytes: 4096,
        fault: Time::from_nanoseconds(8000),
        faults_per_second: 450_000.0,
        local: Time::from_nanoseconds(100),
    };

    /// The network's swap of the paper's figure 2a, an older system. 27 µs for a fault follow from
    /// the artifact's times of a million requests of BTrDB with 2 and with 32 GB at the caller, and
    /// the faults that the lab's model counts; those of WiredTiger give 31 µs. All else as above.
    pub const NETWORK_SWAP: Parameters = Parameters {
        fault: Time::from_nanoseconds(27_000),
        ..Parameters::FASTSWAP
    };

    /// The nanoseconds of a request with so many nodes and faults, on the average.
    pub fn latency_ns(&self, nodes: f64, faults: f64) -> f64 {
        nodes * self.local.as_nanoseconds() + faults * self.fault.as_nanoseconds()
    }

    /// The requests a second with so many faults each, if all else is faster.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::paging::Parameters;
    /// assert_eq!(Parameters::FASTSWAP.rate_max(45.0), 10_000.0);
    /// ```
    pub fn rate_max(&self, faults: f64) -> f64 {
        self.faults_per_second / faults
    }
}
