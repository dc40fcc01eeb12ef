//! A hash whose values are in several tiers. Small hashes have no nodes.

use super::super::node::{
    ColdNodeError, Met, ObjectNodeCopy, ObjectNodeUse, ObjectPart, TieredObject, WHOLE_BYTES_MAX,
};
use super::super::table::ByteStringTable;
use super::super::{FrozenObjectError, ObjectLimits};
use super::Hash;
use allocator_api2::alloc::Allocator;
use nearfield_tiers::ColdPlace;
use nearfield_tiers::cold::ColdTiers;
use std::sync::Arc;

impl<A: Allocator + Clone> TieredObject for Hash<A> {
    fn is_attended(&self) -> bool {
        self.large().is_some_and(ByteStringTable::is_seen)
    }

    fn moves_by_nodes(&self) -> bool {
        let is_large = |table: &ByteStringTable<A>| {
            self.memory_bytes() > WHOLE_BYTES_MAX && table.has_large_values()
        };
        self.large()
            .is_some_and(|table| table.has_cold() || is_large(table))
    }

    fn is_parted(&self) -> bool {
        self.large().is_some_and(ByteStringTable::has_cold)
    }

    fn places(&self, part: &ObjectPart<'_>, visit: &mut dyn FnMut(ColdPlace)) {
        if let Some(table) = self.large() {
            table.places(part, visit);
        }
    }

    fn lend(
        &mut self,
        part: &ObjectPart<'_>,
        is_use: bool,
        met: &mut Met,
    ) -> Result<bool, ColdNodeError> {
        match self.large_mut() {
            Some(table) => table.lend(part, is_use, met),
            None => Ok(false),
        }
    }

    fn end_loan(&mut self) {
        if let Some(table) = self.large_mut() {
            table.end_loan();
        }
    }

    fn warm(
        &mut self,
        part: &ObjectPart<'_>,
        _: &ObjectLimits,
        warmed: &mut dyn FnMut(ColdPlace, usize),
    ) -> Result<(), ColdNodeError> {
        match self.large_mut() {
            Some(table) => table.warm(part, warmed),
            None => Ok(()),
        }
    }

    fn see(
        &mut self,
        from: usize,
        count: usize,
        visit: &mut dyn FnMut(ObjectNodeUse),
    ) -> Option<usize> {
        self.large_mut()?.see(from, count, visit)
    }

    fn nodes(&self) -> Vec<(u64, Option<ColdPlace>)> {
        self.large().map_or_else(Vec::new, ByteStringTable::nodes)
    }

    fn cold_bytes(&self) -> usize {
        self.large().map_or(0, ByteStringTable::cold_bytes)
    }

    fn cold_tiers(&self, visit: &mut dyn FnMut(usize)) {
        if let Some(table) = self.large() {
            table.cold_tiers(visit);
        }
    }

    fn copy_node(&self, number: u64, _: usize, out: &mut Vec<u8>) -> Option<ObjectNodeCopy> {
        self.large()?.copy_node(number, out)
    }

    fn move_node(
        &mut self,
        copied: &ObjectNodeCopy,
        to: Option<ColdPlace>,
        cold: &Arc<ColdTiers>,
        frozen: &[u8],
    ) -> Result<bool, FrozenObjectError> {
        let table = self.large_mut();
        Ok(table.is_some_and(|table| table.move_node(copied, to, cold, frozen)))
    }
}
