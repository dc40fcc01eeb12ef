//! A hash whose values are in several tiers. Small hashes have no nodes.

use super::super::node::{Copied, Met, Part, Parted, Seen, Unread, WHOLE_BYTES_MAX};
use super::super::table::Table;
use super::super::{Damaged, Limits};
use super::Hash;
use allocator_api2::alloc::Allocator;
use nearfield_tiers::Place;
use nearfield_tiers::cold::Cold;
use std::sync::Arc;

impl<A: Allocator + Clone> Parted for Hash<A> {
    fn is_attended(&self) -> bool {
        self.large().is_some_and(Table::is_seen)
    }

    fn moves_by_nodes(&self) -> bool {
        let is_large =
            |table: &Table<A>| self.memory_bytes() > WHOLE_BYTES_MAX && table.has_large_values();
        self.large()
            .is_some_and(|table| table.has_cold() || is_large(table))
    }

    fn is_parted(&self) -> bool {
        self.large().is_some_and(Table::has_cold)
    }

    fn places(&self, part: &Part<'_>, visit: &mut dyn FnMut(Place)) {
        if let Some(table) = self.large() {
            table.places(part, visit);
        }
    }

    fn lend(&mut self, part: &Part<'_>, is_use: bool, met: &mut Met) -> Result<bool, Unread> {
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
        part: &Part<'_>,
        _: &Limits,
        warmed: &mut dyn FnMut(Place, usize),
    ) -> Result<(), Unread> {
        match self.large_mut() {
            Some(table) => table.warm(part, warmed),
            None => Ok(()),
        }
    }

    fn see(&mut self, from: usize, count: usize, visit: &mut dyn FnMut(Seen)) -> Option<usize> {
        self.large_mut()?.see(from, count, visit)
    }

    fn nodes(&self) -> Vec<(u64, Option<Place>)> {
        self.large().map_or_else(Vec::new, Table::nodes)
    }

    fn cold_bytes(&self) -> usize {
        self.large().map_or(0, Table::cold_bytes)
    }

    fn cold_tiers(&self, visit: &mut dyn FnMut(usize)) {
        if let Some(table) = self.large() {
            table.cold_tiers(visit);
        }
    }

    fn copy_node(&self, number: u64, _: usize, out: &mut Vec<u8>) -> Option<Copied> {
        self.large()?.copy_node(number, out)
    }

    fn move_node(
        &mut self,
        copied: &Copied,
        to: Option<Place>,
        cold: &Arc<Cold>,
        frozen: &[u8],
    ) -> Result<bool, Damaged> {
        let table = self.large_mut();
        Ok(table.is_some_and(|table| table.move_node(copied, to, cold, frozen)))
    }
}
