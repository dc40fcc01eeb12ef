//! Remote memory as swap space: the rival that pulse calls cache-based (Fastswap).
//!
//! A traversal runs at the caller. A node on a page that the caller has is local. Other pages are
//! fetched over the network, one after another, because each address follows from the last node. A
//! fault takes a free page. One evictor frees pages, and is ahead of the faults by a reserve.

use crate::VirtualTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The costs of pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagingParameters {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Time of a fault: the kernel, the network, the page.
    pub fault: VirtualTime,
    /// The pages per second that the evictor frees, one after another.
    pub evictions_per_second: f64,
    /// The most pages that the evictor frees before faults need them.
    pub free_pages: u32,
    /// Time of a local node, with its logic.
    pub local: VirtualTime,
}

impl PagingParameters {
    /// The parameters of Fastswap. *Assumed*: 8 µs for a fault of 4 KiB, 450,000 evictions per
    /// second (about 15 Gb/s), a reserve of 8 MiB, and 0.1 µs for a local node. The paper's own
    /// figures of its swap system are lost.
    pub const FASTSWAP: PagingParameters = PagingParameters {
        page_bytes: 4096,
        fault: VirtualTime::from_nanoseconds(8000),
        evictions_per_second: 450_000.0,
        free_pages: 2048,
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
        self.evictions_per_second / faults
    }

    /// Runs requests with these means of nodes and faults, of which `callers` are in progress at
    /// the same time.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::paging::PagingParameters;
    /// let one = PagingParameters::FASTSWAP.run(1, 100, 50.0, 40.0);
    /// let expected = PagingParameters::FASTSWAP.latency_ns(50.0, 40.0);
    /// assert!((one.latency_ns / expected - 1.0).abs() < 1e-3);
    /// ```
    pub fn run(&self, callers: usize, requests: u64, nodes: f64, faults: f64) -> PagingOutcome {
        let picoseconds = |value: f64| VirtualTime::from_picoseconds(value.round() as u64);
        let eviction = picoseconds(1e12 / self.evictions_per_second);
        let reserve =
            VirtualTime::from_picoseconds(eviction.as_picoseconds() * u64::from(self.free_pages));
        // The local nodes are spread evenly over the faults.
        let local_all = nodes * self.local.as_picoseconds() as f64;
        let local = picoseconds(local_all / (faults + 1.0));
        // Whole numbers whose mean is `faults`.
        let faults_of =
            |number: u64| ((number + 1) as f64 * faults) as u64 - (number as f64 * faults) as u64;
        let mut events = BinaryHeap::new();
        let mut running = Vec::new();
        let mut begun = requests.min(callers as u64);
        for caller in 0..begun {
            running.push((VirtualTime::ZERO, faults_of(caller)));
            events.push(Reverse((local, caller as usize)));
        }
        let (mut evicted, mut end) = (VirtualTime::ZERO, VirtualTime::ZERO);
        let (mut latency, mut waited, mut faulted) = (0.0, 0.0, 0_u64);
        while let Some(Reverse((now, caller))) = events.pop() {
            let Some((since, left)) = running.get_mut(caller) else {
                continue;
            };
            if *left > 0 {
                *left -= 1;
                // The evictor has stopped while its reserve was full.
                evicted = evicted.max(now - reserve) + eviction;
                let free = now.max(evicted);
                waited += (free - now).as_nanoseconds();
                faulted += 1;
                events.push(Reverse((free + self.fault + local, caller)));
                continue;
            }
            latency += (now - *since).as_nanoseconds();
            end = now;
            if begun < requests {
                (*since, *left) = (now, faults_of(begun));
                begun += 1;
                events.push(Reverse((now + local, caller)));
            }
        }
        PagingOutcome {
            latency_ns: latency / requests as f64,
            waiting_ns: waited / faulted.max(1) as f64,
            requests_per_second: requests as f64 / end.as_seconds(),
        }
    }
}

/// The outcome of requests over pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagingOutcome {
    /// The mean latency of a request in nanoseconds.
    pub latency_ns: f64,
    /// The mean time that a fault waits for a free page, in nanoseconds.
    pub waiting_ns: f64,
    /// Requests per second.
    pub requests_per_second: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evictor_bounds_many_callers_and_not_one() {
        let parameters = PagingParameters::FASTSWAP;
        let one = parameters.run(1, 200, 50.0, 40.5);
        // Only the first fault waits, because no page is free at the start.
        assert!(one.waiting_ns < 1.0, "{one:?}");
        let expected = parameters.latency_ns(50.0, 40.5);
        assert!((one.latency_ns / expected - 1.0).abs() < 1e-3, "{one:?}");
        let many = parameters.run(128, 2000, 50.0, 40.5);
        let bound = parameters.rate_max(40.5);
        let rate = many.requests_per_second;
        assert!(
            rate <= bound * 1.001 && rate > 0.95 * bound,
            "{rate} {bound}"
        );
        // 128 faults in progress, of which one is evicted every 2.2 µs.
        assert!(many.waiting_ns > 200_000.0, "{many:?}");
    }

    #[test]
    fn a_reserve_serves_a_burst_after_a_pause() {
        let parameters = PagingParameters {
            fault: VirtualTime::ZERO,
            ..PagingParameters::FASTSWAP
        };
        let burst = |free_pages| {
            let parameters = PagingParameters {
                free_pages,
                ..parameters
            };
            // A millisecond of local nodes, then one fault, of a hundred callers at once.
            parameters.run(100, 100, 20_000.0, 1.0).waiting_ns
        };
        assert_eq!(burst(100), 0.0);
        assert!(burst(1) > 100_000.0);
    }

    /// A canary: an evictor that is a hundred times as fast would be seen.
    #[test]
    fn a_faster_evictor_would_be_seen() {
        let parameters = PagingParameters {
            evictions_per_second: 45e6,
            ..PagingParameters::FASTSWAP
        };
        let rate = parameters.run(128, 2000, 50.0, 40.5).requests_per_second;
        assert!(rate > 10.0 * PagingParameters::FASTSWAP.rate_max(40.5));
    }
}
