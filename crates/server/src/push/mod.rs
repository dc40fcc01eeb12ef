//! What clients are sent without having asked for it just now: messages of channels, events of
//! keys, keys that are no longer what they have cached, and commands of others.

pub mod monitor;
pub mod notifications;
pub mod pubsub;
pub mod tracking;

pub use monitor::Monitors;
pub use pubsub::PubSub;
pub use tracking::Tracking;
