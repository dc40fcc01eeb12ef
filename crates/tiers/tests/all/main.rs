//! Tests of the tiers through their public names.

mod policy;
