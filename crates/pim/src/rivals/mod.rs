//! The indexes that RADAR is compared with, on the same devices.

pub mod jump_push;
pub mod pim_tree;
pub mod range_partition;
