//! An endpoint that pauses after reads, and may have a fault.

use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, FabricVerb};
use nearfield_fabric_testkit::{
    FaultInterference, FaultySimEndpoint, Interference, SimEndpointFault,
};
use std::cell::Cell;
use std::time::Duration;

pub type Slow = FaultySimEndpoint<Slowness>;

#[derive(Debug)]
pub struct Slowness {
    is_slow: bool,
    planted: FaultInterference,
    posts: Cell<u32>,
}

impl Slowness {
    pub fn new(is_slow: bool, fault: SimEndpointFault) -> Slowness {
        Slowness {
            is_slow,
            planted: FaultInterference::new(fault),
            posts: Cell::new(0),
        }
    }
}

impl Interference for Slowness {
    async fn post(
        &self,
        endpoint: &SimEndpoint,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<(), FabricError> {
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
