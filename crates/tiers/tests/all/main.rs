//! Tests of the tiers through their public names.
mod map;
mod mounted;
mod opening;
mod policy;
mod still;
