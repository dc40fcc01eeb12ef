//! The adapter of a compute node.

use crate::VirtualTime;

/// The parameters of the model of an [`NetworkAdapter`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdapterParameters {
    /// The source of the figures.
    pub source: &'static str,
    /// Numbers of requests in flight, in ascending order, and the requests that the adapter sends
    /// per second with as many.
    pub per_second: &'static [(f64, f64)],
}

impl AdapterParameters {
    /// Returns the requests that it sends per second with this number in flight: on the lines
    /// between the known numbers. Few requests are proportional to their number, because each waits
    /// for its reply.
    pub fn rate(&self, in_flight: usize) -> f64 {
        let wanted = in_flight as f64;
        let (mut before, mut rate) = (0.0, 0.0);
        for &(count, per_second) in self.per_second {
            if wanted <= count {
                return rate + (per_second - rate) * (wanted - before) / (count - before);
            }
            (before, rate) = (count, per_second);
        }
        rate
    }
}

/// The network adapter of a compute node, which sends its requests one after another. It is slow
/// with few in flight, which hardly overlap, and again with thousands, whose state its cache cannot
/// hold.
///
/// ```
/// use nearfield_hardware::VirtualTime;
/// use nearfield_hardware::network::{NetworkAdapter, NetworkPreset, Port, PortAccess};
///
/// let preset = NetworkPreset::ConnectX6;
/// let (parameters, mut port) = (preset.adapter().unwrap(), Port::new(preset.parameters()));
/// let mut adapter = NetworkAdapter::new(parameters);
/// let sent = adapter.send(VirtualTime::ZERO);
/// let done = port.serve(sent, PortAccess::Read, 8);
/// adapter.receive();
/// assert!(done > sent);
/// ```
#[derive(Clone, Debug)]
pub struct NetworkAdapter {
    parameters: AdapterParameters,
    /// The time at which it takes the next request.
    free: VirtualTime,
    in_flight: usize,
}

impl NetworkAdapter {
    /// Creates an adapter without requests in flight.
    pub fn new(parameters: AdapterParameters) -> NetworkAdapter {
        NetworkAdapter {
            parameters,
            free: VirtualTime::ZERO,
            in_flight: 0,
        }
    }

    /// Returns the number of requests that were posted and have no reply yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Posts a request, and returns the time at which it leaves.
    pub fn send(&mut self, posted: VirtualTime) -> VirtualTime {
        self.in_flight += 1;
        let sent = posted.max(self.free);
        self.free = sent + VirtualTime::per_second(self.parameters.rate(self.in_flight));
        sent
    }

    /// Notes the reply to a request.
    pub fn receive(&mut self) {
        debug_assert!(self.in_flight > 0, "a reply belongs to a request");
        self.in_flight = self.in_flight.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NetworkPreset, Port, PortAccess};
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn rates_are_on_the_lines_between_known_numbers() {
        let parameters = AdapterParameters {
            source: "",
            per_second: &[(10.0, 100.0), (30.0, 200.0), (40.0, 50.0)],
        };
        let expected = [
            (1, 10.0),
            (10, 100.0),
            (20, 150.0),
            (30, 200.0),
            (35, 125.0),
        ];
        for (in_flight, rate) in expected {
            assert!(
                (parameters.rate(in_flight) - rate).abs() < 1e-9,
                "{in_flight}"
            );
        }
        assert_eq!((parameters.rate(40), parameters.rate(4000)), (50.0, 50.0));
    }

    /// Returns the millions of reads of 8 bytes a second of a compute node with this number in
    /// flight.
    fn reads_in_flight(count: usize) -> f64 {
        const EACH: usize = 500;
        let preset = NetworkPreset::ConnectX6;
        let mut port = Port::new(preset.parameters());
        let mut adapter = NetworkAdapter::new(preset.adapter().expect("an adapter"));
        // Replies come in the order of the requests.
        let mut replies = VecDeque::new();
        let mut end = VirtualTime::ZERO;
        for number in 0..EACH * count {
            let posted = if number < count {
                VirtualTime::ZERO
            } else {
                adapter.receive();
                replies.pop_front().expect("a read is in flight")
            };
            let sent = adapter.send(posted);
            end = port.serve(sent, PortAccess::Read, 8);
            replies.push_back(end);
        }
        assert_eq!(adapter.in_flight(), count);
        (EACH * count) as f64 / end.as_seconds() / 1e6
    }

    /// The model reproduces the figures of its source (Smart's artifact, figure 4a), except where
    /// the port, whose rate is assumed, is the limit: this is calibration, not validation.
    #[test]
    fn calibration_to_published_figures() {
        for (count, published, expected) in [
            (12, 5.103, 1.0),
            (24, 10.020, 1.0),
            (48, 18.520, 1.0),
            (96, 32.969, 1.0),
            (192, 48.747, 1.0),
            (384, 81.563, 1.0),
            (768, 110.982, 0.81),
            (1152, 111.123, 0.81),
            (1536, 78.111, 1.0),
            (3072, 55.161, 1.0),
        ] {
            let ratio = reads_in_flight(count) / published;
            assert!((ratio / expected - 1.0).abs() < 0.03, "{count}: {ratio}");
        }
    }

    /// One read at a time takes 2.35 µs: the published time without load, and no parameter.
    #[test]
    fn validation_by_one_read_in_flight() {
        let microseconds = 1.0 / reads_in_flight(1);
        assert!((microseconds - 2.35).abs() < 0.03, "{microseconds}");
    }
}
