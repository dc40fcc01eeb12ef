//! Measures reads of 8 bytes over UCX: one client keeps a given number in flight at one node.
//!
//! ```text
//! nearfield memory-node --listen ucx:127.0.0.1:7000 --size 64mb
//! cargo run --release -p nearfield-fabric --example ucx_reads -- 127.0.0.1:7000
//! ```

use futures_util::future::join_all;
use nearfield_fabric::transport::ucx::UcxEndpoint;
use nearfield_fabric::{Endpoint, GlobalAddress};
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("which HOST:PORT?")?;
    let endpoint = UcxEndpoint::connect([&address])?;
    let node = endpoint.nodes()[0];
    for at_once in [1_u64, 16, 64] {
        let begin = Instant::now();
        let read = |task: u64| {
            let endpoint = &endpoint;
            async move {
                let (mut count, mut longest) = (0_u64, Duration::ZERO);
                while begin.elapsed() < TIME {
                    let from = GlobalAddress::new(node, (task * 64 + count * 8) % 4096);
                    let start = Instant::now();
                    endpoint.read(from, &mut [0; 8]).await?;
                    longest = longest.max(start.elapsed());
                    count += 1;
                }
                Ok::<_, nearfield_fabric::FabricError>((count, longest))
            }
        };
        let done = futures_executor::block_on(join_all((0..at_once).map(read)));
        let seconds = begin.elapsed().as_secs_f64();
        let (mut sum, mut longest) = (0, Duration::ZERO);
        for task in done {
            let (count, slowest) = task?;
            sum += count;
            longest = longest.max(slowest);
        }
        let rate = sum as f64 / seconds;
        println!(
            "{at_once:3} at a time: {rate:8.0} reads/s, {:6.1} us each, {:8.1} us at most",
            1e6 * at_once as f64 / rate,
            longest.as_secs_f64() * 1e6
        );
    }
    Ok(())
}
