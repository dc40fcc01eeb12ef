//! Memory nodes, a network and thousands of clients in one thread, in virtual time, repeatable from
//! a seed.
//!
//! A [`FabricSimulation`] has nodes, and tasks of clients that post verbs on [`SimEndpoint`]s. The
//! model of a port decides when a verb accesses memory ([`nearfield_hardware::network`]). With
//! [`Delivery::Torn`] each line of a verb is read or written at a moment of its own, and with
//! [`Delivery::TornWords`] each word. Some seed therefore produces any allowed interleaving with
//! other clients. With [`Delivery::Whole`] a verb is done at one moment, which is faster to compute
//! and serves to measure throughput.
//!
//! Clients die at any of their verbs, even in the middle of a post. Nodes are lost and come back.
//! Clocks run too fast or too slowly ([`SkewedClockEndpoint`]).
//!
//! ```
//! use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};
//! use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
//! use nearfield_hardware::network::NetworkPreset;
//!
//! let parameters = NetworkPreset::ConnectX6.parameters();
//! let mut simulation = FabricSimulation::new(7, parameters, Delivery::Torn);
//! simulation.add_node(1 << 20);
//! for client in 0..10 {
//!     let endpoint = simulation.endpoint(client);
//!     simulation.spawn(client, async move {
//!         let counter = GlobalAddress::new(NodeId(0), 64);
//!         endpoint.add(counter, 1).await.expect("a node");
//!     });
//! }
//! simulation.run();
//! assert_eq!(simulation.word(GlobalAddress::new(NodeId(0), 64)), 10);
//! ```

mod endpoint;
mod executor;
mod image;
mod node;
mod request;
mod skewed;
mod state;
#[cfg(test)]
mod tests;

pub use endpoint::SimEndpoint;
pub use executor::FabricSimulation;
pub use image::Image;
pub use skewed::SkewedClockEndpoint;
pub use state::Delivery;
