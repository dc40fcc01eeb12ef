//! Speculative reads, the last step of CHIME's figure 15b: a client reads the one slot in which a
//! key was found before.
//!
//! Leaves are at computed addresses, so a client looks up the key in each leaf that may have it. An
//! entry that has the key is current, in any leaf: a key is in no two leaves, and a leaf is never
//! freed.

use super::Rolex;
use super::hopscotch::neighborhood;
use super::options::Hopscotch;
use nearfield_fabric::{ClientProcessorWork, Endpoint, GlobalAddress};
use nearfield_pool::PoolError;
use nearfield_pool::layout::PoolLeaf;

/// The former slot of a key, where it may still be.
#[derive(Clone, Copy, Debug)]
pub(super) struct RolexGuess {
    pub leaf: GlobalAddress,
    pub slot: usize,
}

impl<E: Endpoint> Rolex<E> {
    /// Reads the entry in which a key was often found, if there is one, and returns its value if it
    /// still has the key.
    pub(super) async fn hopscotch_speculate(
        &self,
        hopscotch: &Hopscotch,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let Some(guess) = self.hopscotch_guess(hopscotch, key, true).await? else {
            return Ok(None);
        };
        let leaf = self.hopscotch_check(hopscotch, guess, key).await?;
        Ok(leaf.map(|leaf| leaf.value(guess.slot).to_vec()))
    }

    /// Returns the leaf and the slot in which a key was found before, if there is one. Synonyms
    /// count only `with_synonyms`.
    pub(super) async fn hopscotch_guess(
        &self,
        hopscotch: &Hopscotch,
        key: &[u8],
        with_synonyms: bool,
    ) -> Result<Option<RolexGuess>, PoolError> {
        let hotspots = &self.node.hotspots;
        if hotspots.bytes() == 0 {
            return Ok(None);
        }
        let table = self.table().await?;
        let candidates = table.candidates(key);
        // Many keys have this prefix: to look all their leaves up takes longer than a round trip.
        if candidates.end() - candidates.start() >= table.candidates_max() {
            return Ok(None);
        }
        self.endpoint.charge(ClientProcessorWork::Speculation).await;
        let known = self.node.synonyms.of_key(key, &candidates);
        let near = neighborhood(hopscotch, key);
        let may_be = |slot: u16| near.contains(usize::from(slot));
        let mut addresses: Vec<GlobalAddress> =
            candidates.map(|leaf| table.address(leaf)).collect();
        if let Some((_, synonyms)) = &known
            && with_synonyms
        {
            addresses.extend(synonyms.iter());
        }
        Ok(addresses.into_iter().find_map(|leaf| {
            let slot = hotspots.guess(leaf.to_bits(), may_be, tag(key))?;
            let slot = usize::from(slot);
            Some(RolexGuess { leaf, slot })
        }))
    }

    /// Reads the entry of a guess, and returns it if it has the key.
    pub(super) async fn hopscotch_check(
        &self,
        hopscotch: &Hopscotch,
        guess: RolexGuess,
        key: &[u8],
    ) -> Result<Option<PoolLeaf>, PoolError> {
        let segments = hopscotch.layout.single_entry(guess.slot);
        let mut leaves = self
            .read_segments(hopscotch, &[(guess.leaf, segments)])
            .await?;
        let leaf = leaves.pop();
        let leaf = leaf.filter(|leaf| leaf.key(guess.slot) == Some(key));
        let (bits, slot, hotspots) = (guess.leaf.to_bits(), guess.slot, &self.node.hotspots);
        match &leaf {
            Some(_) => hotspots.confirm(bits, slot as u16, tag(key)),
            None => hotspots.forget(bits, slot as u16, tag(key)),
        }
        Ok(leaf)
    }

    /// Notes the leaf and the slot of a key that was found without a guess.
    pub(super) fn hopscotch_admit(&self, leaf: GlobalAddress, slot: usize, key: &[u8]) {
        let hotspots = &self.node.hotspots;
        hotspots.admit(leaf.to_bits(), slot as u16, tag(key));
    }
}

/// Returns the tag that distinguishes the keys of a slot in hotspots, as in CHIME: the last two
/// bytes of the key.
fn tag(key: &[u8]) -> u16 {
    let last = key.iter().rev().take(2);
    last.fold(0, |tag, &byte| tag << 8 | u16::from(byte))
}
