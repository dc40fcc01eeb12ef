//! Tests of the tiers through their public names.
mod mounted;
mod opening;
mod policy;
