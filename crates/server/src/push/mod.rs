//! Data that the server sends without a request: messages of channels, events of keys,
//! invalidations of cached keys, and the commands that monitors see.

pub mod monitor;
pub mod notifications;
pub mod prefixes;
pub mod pubsub;
pub mod tracking;

pub use monitor::Monitors;
pub use pubsub::PubSub;
pub use tracking::TrackingTable;
