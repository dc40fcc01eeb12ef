//! The division of a leaf, by freezing its slots.

use super::Marlin;
use super::layout::{MarlinDivision, MarlinLeaf, MarlinSlot};
use super::locate::MarlinPlacedLeaf;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::PoolError;

impl<E: Endpoint> Marlin<E> {
    /// Replaces a leaf by two halves, or by one leaf if few of its keys are left. Several clients
    /// may do this at once: one of them succeeds, and the leaves of the others stay unused.
    pub(super) async fn divide(&self, place: &MarlinPlacedLeaf) -> Result<(), PoolError> {
        let slots = self.freeze(place.address).await?;
        let live: Vec<MarlinSlot> = slots.into_iter().filter(|slot| slot.is_live()).collect();
        let entries = self.read_blocks(&live).await?;
        let keys = entries.into_iter().map(|(key, _)| key);
        let mut keys: Vec<(Vec<u8>, MarlinSlot)> =
            keys.zip(live.into_iter().map(MarlinSlot::thawed)).collect();
        keys.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let leaf = &place.leaf;
        let (low, high) = (&*leaf.low, leaf.high.as_deref());
        let of = |keys: &[(Vec<u8>, MarlinSlot)]| -> Vec<MarlinSlot> {
            keys.iter().map(|(_, slot)| *slot).collect()
        };
        let half = self.layout.span() / 2;
        let division = if keys.len() > half {
            let (left, right) = keys.split_at(keys.len() / 2);
            let bound: Box<[u8]> = right.first().map_or(low, |(key, _)| &key[..]).into();
            let right = MarlinLeaf::new(&bound, high, of(right));
            let left = MarlinLeaf::new(low, Some(&bound[..]), of(left));
            MarlinDivision {
                left: self.store_leaf(&left).await?,
                right: Some((bound, self.store_leaf(&right).await?)),
            }
        } else {
            MarlinDivision {
                left: self
                    .store_leaf(&MarlinLeaf::new(low, high, of(&keys)))
                    .await?,
                right: None,
            }
        };
        let image = self.layout.encode_record(&division);
        let bytes = image.len() as u64;
        let record = self.arena.allocate(self.endpoint(), bytes).await?;
        self.endpoint().write(record, &image).await?;
        // The successor is the first word of the leaf.
        let successor = self
            .endpoint()
            .compare_swap(place.address, 0, record.to_bits());
        if successor.await? == 0 {
            self.publish_own_division(place, &division).await?;
        }
        Ok(())
    }

    /// Freezes the slots of a leaf, and returns their last contents.
    async fn freeze(&self, leaf: GlobalAddress) -> Result<Vec<MarlinSlot>, PoolError> {
        let numbers = 0..self.layout.span();
        let mut verbs: Vec<FabricVerb<'_>> = numbers
            .map(|number| FabricVerb::Swap {
                at: leaf.plus(self.layout.slot_offset(number)),
                swap: MarlinSlot::freeze(),
                found: 0,
            })
            .collect();
        self.endpoint().post(&mut verbs).await?;
        let words = verbs.iter().map(|verb| verb.found().unwrap_or_default());
        Ok(words.map(MarlinSlot::from_word).collect())
    }
}
