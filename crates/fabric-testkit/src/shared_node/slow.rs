//! An endpoint that pauses after reads, and may have a fault.

use crate::faulty::{FaultInterference, FaultySimEndpoint, Interference, SimEndpointFault};
use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, FabricVerb};
use std::cell::Cell;
use std::time::Duration;

/// An endpoint that pauses after reads.
pub type SlowEndpoint = FaultySimEndpoint<SlowInterference>;

/// The pauses of an endpoint, and its fault.
#[derive(Debug)]
pub struct SlowInterference {
    is_slow: bool,
    planted: FaultInterference,
    posts: Cell<u32>,
}

impl SlowInterference {
    pub(super) fn new(is_slow: bool, fault: SimEndpointFault) -> SlowInterference {
        SlowInterference {
            is_slow,
            planted: FaultInterference::new(fault),
            posts: Cell::new(0),
        }
    }
}

impl Interference for SlowInterference {
    async fn post(
        &self,
        endpoint: &SimEndpoint,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<(), FabricError> {
        // The pause comes after the post, so that what was read is old when the client uses it.
        self.planted.post(endpoint, verbs).await?;
        if self.is_slow {
            // From almost nothing to a few round trips.
            let number = self.posts.get() + 1;
            self.posts.set(number);
            let time = (endpoint.client() * 31 + number * 17) % 20;
            endpoint.sleep(Duration::from_micros(time.into())).await;
        }
        Ok(())
    }
}
