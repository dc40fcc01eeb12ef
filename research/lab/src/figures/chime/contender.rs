//! The contenders: their names, sizes and techniques.

use super::indexes::PackedTree;
use super::indirect::{Indirect, POINTER_BYTES};
use super::long_keys::LongKeyTree;
use super::scale::ChimeScale;
use super::simulate::{ChimePhase, ChimeSetup, PhaseOutcome, SimulatedIndex};
use super::system::PoolIndexSystem;
use crate::figures::job::PointError;
use crate::figures::result_cache::ResultCache;
use crate::harness::Interrupt;
use nearfield_pool::chime;
use nearfield_pool::layout::{
    Arrangement, Geometry, LeafMetadataPosition, PoolIndexShape, Validation,
};
use nearfield_pool_rivals::{marlin, rolex, smart};

/// Names that claims refer to, too.
pub(super) const CHIME: &str = "chime";
pub(super) const SHERMAN: &str = "sherman";
pub(super) const ROLEX: &str = "rolex";
pub(super) const SMART: &str = "smart";
pub(super) const SMART_OPT: &str = "smart-opt";
pub(super) const CHIME_INDIRECT: &str = "chime-indirect";
pub(super) const SMART_RCU: &str = "smart-rcu";
pub(super) const MARLIN: &str = "marlin";
pub(super) const NEARFIELD: &str = "nearfield";
pub(super) const NEARFIELD_TUNED: &str = "nearfield, tuned";
pub(super) const CHIME_TUNED: &str = "chime, tuned";
pub(super) const CHIME_BACK_OFF: &str = "chime, back-off";
pub(super) const SHERMAN_TUNED: &str = "sherman, tuned";
pub(super) const ROLEX_TUNED: &str = "rolex, tuned";

/// An index with the name that figures show.
#[derive(Clone, Debug)]
pub(super) struct ChimeContender {
    pub name: &'static str,
    pub index: ContenderIndex,
    /// Limit of a compute node's cache, in bytes; `None` for no limit.
    pub cache_bytes: Option<usize>,
    /// True if values are stored outside the index, which has pointers to them.
    pub values_outside: bool,
    /// The share of a tree's nodes that a load in ascending order fills, in percent; `None` if keys
    /// are inserted one by one in random order.
    pub packed_percent: Option<usize>,
}

/// An index with its sizes and techniques.
#[derive(Clone, Debug)]
pub(super) enum ContenderIndex {
    Tree(chime::ChimeOptions),
    /// A tree with long keys outside it.
    LongKeys(LongKeyTree),
    Smart(smart::SmartOptions),
    Rolex(rolex::RolexOptions),
    Marlin(marlin::MarlinOptions),
}

/// The limit of a cache without a limit: more than there is memory, and far from overflow.
const UNLIMITED: usize = 1 << 50;
/// Bytes that SMART allocates from a memory node at once for each client. The paper's megabyte for
/// each of hundreds of clients is more than a small run fills.
const CHUNK_BYTES: u64 = 1 << 16;
/// Number of entries of a leaf of ROLEX that is a hash table, as in the artifact.
const LEARNED_SPAN: usize = 64;

/// Number of entries of a leaf of CHIME and of ours, tuned to the budget of the paper: the inner
/// nodes of smaller leaves do not fit in the cache together with hotspots.
const TUNED_SPAN: usize = 32;
/// Number of entries of a leaf of Sherman, tuned likewise: not all inner nodes fit then, but those
/// above hot keys do.
const SHERMAN_SPAN: usize = 16;
/// Number of entries of a leaf of tuned ROLEX, and the error bound of its predictions in positions.
const TUNED_LEARNED: (usize, u32) = (8, 2);

/// The sizes that a figure chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContenderSizes {
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// Limit of a compute node's cache, in bytes; `None` for no limit.
    pub cache_bytes: Option<usize>,
    /// Bytes of the cache for hotspots.
    pub hotspot_bytes: usize,
}

impl ContenderSizes {
    /// Returns the paper's sizes: keys and values of 8 bytes, a cache of 100 MB at 60 million keys,
    /// 30 of them for hotspots.
    pub(super) fn of_paper(scale: &ChimeScale) -> ContenderSizes {
        ContenderSizes {
            key_bytes: 8,
            value_bytes: 8,
            cache_bytes: Some(scale.megabytes(100)),
            hotspot_bytes: scale.megabytes(30),
        }
    }
}

impl ChimeContender {
    /// Creates an index with values in its leaves, into which keys are inserted one by one.
    fn new(
        name: &'static str,
        index: ContenderIndex,
        cache_bytes: Option<usize>,
    ) -> ChimeContender {
        ChimeContender {
            name,
            index,
            cache_bytes,
            values_outside: false,
            packed_percent: None,
        }
    }

    fn tree(
        name: &'static str,
        sizes: &ContenderSizes,
        options: chime::ChimeOptions,
        change: impl FnOnce(&mut chime::ChimeOptions),
    ) -> ChimeContender {
        let mut options = chime::ChimeOptions {
            shape: PoolIndexShape {
                key_bytes: sizes.key_bytes,
                value_bytes: sizes.value_bytes,
                ..options.shape
            },
            cache_bytes: sizes.cache_bytes.unwrap_or(UNLIMITED),
            hotspot_bytes: match options.hotspot_bytes {
                // A design without speculation has no use for them.
                0 => 0,
                _ => sizes.hotspot_bytes,
            },
            ..options
        };
        // Last, because variants change sizes that are set above.
        change(&mut options);
        ChimeContender::new(name, ContenderIndex::Tree(options), sizes.cache_bytes)
    }

    /// Creates CHIME.
    pub(super) fn chime(sizes: &ContenderSizes) -> ChimeContender {
        ChimeContender::tree(CHIME, sizes, chime::ChimeOptions::chime(), |_| {})
    }

    pub(super) fn chime_without_speculation(sizes: &ContenderSizes) -> ChimeContender {
        let name = "chime, no speculation";
        ChimeContender::tree(name, sizes, chime::ChimeOptions::chime(), |options| {
            options.hotspot_bytes = 0;
        })
    }

    /// Creates CHIME with clients that wait for locks as ours do.
    pub(super) fn chime_backing_off(sizes: &ContenderSizes) -> ChimeContender {
        let name = CHIME_BACK_OFF;
        ChimeContender::tree(name, sizes, chime::ChimeOptions::chime(), |options| {
            options.backs_off = true;
        })
    }

    /// Creates CHIME with the sizes that suit the budget best (figure `tuning`), and back-off.
    pub(super) fn chime_tuned(sizes: &ContenderSizes) -> ChimeContender {
        ChimeContender::chime_backing_off(sizes)
            .of_span(TUNED_SPAN)
            .named(CHIME_TUNED)
    }

    /// Creates our own variant of the tree, with the sizes that suit the budget best.
    pub(super) fn ours_tuned(sizes: &ContenderSizes) -> ChimeContender {
        ChimeContender::ours(sizes)
            .of_span(TUNED_SPAN)
            .named(NEARFIELD_TUNED)
    }

    /// Creates Sherman with the sizes that suit the budget best.
    pub(super) fn sherman_tuned(sizes: &ContenderSizes) -> ChimeContender {
        ChimeContender::sherman(sizes)
            .of_span(SHERMAN_SPAN)
            .named(SHERMAN_TUNED)
    }

    /// Creates ROLEX with the sizes that suit the budget best.
    pub(super) fn rolex_tuned(sizes: &ContenderSizes) -> ChimeContender {
        ChimeContender::rolex(sizes)
            .of_span(TUNED_LEARNED.0)
            .of_error(TUNED_LEARNED.1)
            .named(ROLEX_TUNED)
    }

    /// Loads a tree in ascending order of keys, and fills this share of its nodes.
    pub(super) fn packed(self, name: &'static str, percent: usize) -> ChimeContender {
        debug_assert!(matches!(self.index, ContenderIndex::Tree(_)));
        ChimeContender {
            name,
            packed_percent: Some(percent),
            ..self
        }
    }

    /// Changes the name.
    pub(super) fn named(self, name: &'static str) -> ChimeContender {
        ChimeContender { name, ..self }
    }

    /// Creates our own variant of the tree.
    pub(super) fn ours(sizes: &ContenderSizes) -> ChimeContender {
        ChimeContender::tree(NEARFIELD, sizes, chime::ChimeOptions::nearfield(), |_| {})
    }

    /// Creates our own variant of the tree, for attached memory.
    pub(super) fn ours_attached(sizes: &ContenderSizes) -> ChimeContender {
        ChimeContender::tree(NEARFIELD, sizes, chime::ChimeOptions::attached(), |_| {})
    }

    /// Creates Sherman as it is in CHIME's figures.
    pub(super) fn sherman(sizes: &ContenderSizes) -> ChimeContender {
        ChimeContender::tree(SHERMAN, sizes, chime::ChimeOptions::sherman(), |_| {})
    }

    pub(super) fn smart(sizes: &ContenderSizes) -> ChimeContender {
        let options = smart::SmartOptions {
            key_bytes: sizes.key_bytes,
            value_bytes: sizes.value_bytes,
            cache_bytes: sizes.cache_bytes.unwrap_or(smart::UNLIMITED),
            chunk_bytes: CHUNK_BYTES,
            scan: smart::SmartScanGuarantee::Cached,
            update: smart::SmartUpdate::InPlace,
            delegates_reads: true,
            combines_writes: true,
        };
        ChimeContender::new(SMART, ContenderIndex::Smart(options), sizes.cache_bytes)
    }

    /// Creates SMART that replaces leaves instead of writing them: its form for keys and values of
    /// any length.
    pub(super) fn smart_rcu(sizes: &ContenderSizes) -> ChimeContender {
        let mut contender = ChimeContender::smart(sizes).named(SMART_RCU);
        if let ContenderIndex::Smart(options) = &mut contender.index {
            options.update = smart::SmartUpdate::Copy;
        }
        contender
    }

    /// Creates Marlin, whose values are in blocks.
    pub(super) fn marlin(sizes: &ContenderSizes) -> ChimeContender {
        let options = marlin::MarlinOptions {
            key_bytes: sizes.key_bytes,
            value_bytes: sizes.value_bytes,
            cache_bytes: sizes.cache_bytes.unwrap_or(UNLIMITED),
            inner: chime::ChimeOptions::chime(),
            // Its rivals do so, too.
            delegates_reads: true,
            combines_writes: true,
            ..marlin::MarlinOptions::default()
        };
        ChimeContender::new(MARLIN, ContenderIndex::Marlin(options), sizes.cache_bytes)
    }

    /// Creates SMART with an unlimited cache.
    pub(super) fn smart_opt(sizes: &ContenderSizes) -> ChimeContender {
        let sizes = ContenderSizes {
            cache_bytes: None,
            ..*sizes
        };
        ChimeContender {
            name: SMART_OPT,
            ..ChimeContender::smart(&sizes)
        }
    }

    /// Creates ROLEX as it is in CHIME's figures.
    pub(super) fn rolex(sizes: &ContenderSizes) -> ChimeContender {
        let options = rolex::RolexOptions::default();
        let shape = PoolIndexShape {
            key_bytes: sizes.key_bytes,
            value_bytes: sizes.value_bytes,
            ..*options.geometry.shape()
        };
        let options = rolex::RolexOptions {
            geometry: Geometry::new(shape).unwrap_or_default(),
            cache_bytes: sizes.cache_bytes.unwrap_or(UNLIMITED),
            // Its rivals do so, too.
            delegates_reads: true,
            combines_writes: true,
            ..options
        };
        ChimeContender::new(ROLEX, ContenderIndex::Rolex(options), sizes.cache_bytes)
    }

    /// Returns CHIME's techniques step by step, starting from Sherman; each contender has all steps
    /// before it.
    pub(super) fn steps_from_sherman(sizes: &ContenderSizes) -> Vec<ChimeContender> {
        let hopscotch = chime::ChimeOptions {
            shape: PoolIndexShape {
                arrangement: Arrangement::Hopscotch,
                metadata: LeafMetadataPosition::Single,
                validation: Validation::Fences,
                ..PoolIndexShape::default()
            },
            ..chime::ChimeOptions::sherman()
        };
        // Each step starts from the one before, so that its gain is that of one technique.
        let vacancy = chime::ChimeOptions {
            vacancy_bitmap: true,
            ..hopscotch
        };
        let with_shape = |options: chime::ChimeOptions, change: fn(&mut PoolIndexShape)| {
            let mut options = options;
            change(&mut options.shape);
            options
        };
        let replicated = with_shape(vacancy, |shape| {
            shape.metadata = LeafMetadataPosition::Replicated
        });
        let sibling = with_shape(replicated, |shape| shape.validation = Validation::Sibling);
        let speculative = chime::ChimeOptions {
            hotspot_bytes: chime::ChimeOptions::chime().hotspot_bytes,
            ..sibling
        };
        let steps = [
            (SHERMAN, chime::ChimeOptions::sherman()),
            ("+ hopscotch leaves", hopscotch),
            ("+ vacancy bitmap", vacancy),
            ("+ replicated metadata", replicated),
            ("+ sibling validation", sibling),
            ("+ speculative reads", speculative),
        ];
        let step = |(name, options)| ChimeContender::tree(name, sizes, options, |_| {});
        steps.map(step).into()
    }

    /// Returns CHIME's techniques that suit a learned index step by step, starting from ROLEX.
    /// Leaves have 64 entries, as the tree's, once they are hash tables.
    pub(super) fn steps_from_rolex(sizes: &ContenderSizes) -> Vec<ChimeContender> {
        let step = |name, metadata, vacancy_piggyback, hotspot_bytes| {
            let mut contender = ChimeContender::rolex(sizes);
            contender.name = name;
            if let ContenderIndex::Rolex(options) = &mut contender.index {
                let shape = PoolIndexShape {
                    leaf_span: LEARNED_SPAN,
                    metadata,
                    ..*options.geometry.shape()
                };
                options.geometry = Geometry::new(shape).unwrap_or_default();
                options.leaves = rolex::RolexLeafKind::Hopscotch { vacancy_piggyback };
                options.hotspot_bytes = hotspot_bytes;
            }
            contender
        };
        vec![
            ChimeContender::rolex(sizes),
            step("+ hopscotch leaves", LeafMetadataPosition::Single, false, 0),
            step("+ vacancy bitmap", LeafMetadataPosition::Single, true, 0),
            step(
                "+ replicated metadata",
                LeafMetadataPosition::Replicated,
                true,
                0,
            ),
            step(
                "+ speculative reads",
                LeafMetadataPosition::Replicated,
                true,
                sizes.hotspot_bytes,
            ),
        ]
    }

    /// Returns the contenders that figure 12 compares by six workloads.
    pub(super) fn of_workloads(sizes: &ContenderSizes) -> [ChimeContender; 11] {
        [
            ChimeContender::chime(sizes),
            ChimeContender::chime_backing_off(sizes),
            ChimeContender::chime_tuned(sizes),
            ChimeContender::ours(sizes),
            ChimeContender::ours_tuned(sizes),
            ChimeContender::sherman(sizes),
            ChimeContender::sherman_tuned(sizes),
            ChimeContender::rolex(sizes),
            ChimeContender::rolex_tuned(sizes),
            ChimeContender::smart(sizes),
            ChimeContender::smart_opt(sizes),
        ]
    }

    /// Returns the indexes for values of any length: with values stored outside their leaves, or
    /// with leaves that are replaced.
    pub(super) fn of_variable_length(sizes: &ContenderSizes) -> Vec<ChimeContender> {
        let of_any_length = [
            ChimeContender::smart_rcu(sizes),
            ChimeContender::marlin(sizes),
        ];
        let sizes = ContenderSizes {
            // The index itself has pointers as values.
            value_bytes: POINTER_BYTES,
            ..*sizes
        };
        let outside = |name, contender: ChimeContender| ChimeContender {
            name,
            values_outside: true,
            ..contender
        };
        let mut contenders = vec![
            outside(CHIME_INDIRECT, ChimeContender::chime(&sizes)),
            outside("nearfield-indirect", ChimeContender::ours(&sizes)),
            outside("sherman-indirect", ChimeContender::sherman(&sizes)),
            outside("rolex-indirect", ChimeContender::rolex(&sizes)),
        ];
        contenders.extend(of_any_length);
        contenders
    }

    /// Lets the slots of a tree hold keys of up to `kept` bytes only.
    pub(super) fn with_long_keys_apart(
        mut self,
        kept: usize,
        name: &'static str,
    ) -> ChimeContender {
        if let ContenderIndex::Tree(options) = self.index {
            self.index = ContenderIndex::LongKeys(LongKeyTree::new(options, kept));
        }
        self.named(name)
    }

    /// Sets the number of entries of a leaf.
    pub(super) fn of_span(mut self, span: usize) -> ChimeContender {
        debug_assert!(span > 0);
        let of_span = |shape: PoolIndexShape| PoolIndexShape {
            leaf_span: span,
            // A neighborhood lies within its leaf.
            neighborhood: shape.neighborhood.min(span),
            ..shape
        };
        match &mut self.index {
            ContenderIndex::Tree(options) => options.shape = of_span(options.shape),
            ContenderIndex::LongKeys(tree) => tree.set_span(span),
            ContenderIndex::Rolex(options) => {
                let shape = of_span(*options.geometry.shape());
                options.geometry = Geometry::new(shape).unwrap_or_default();
                // As in the artifact: predictions may be wrong by a leaf.
                options.error = span as u32;
            }
            ContenderIndex::Marlin(options) => options.leaf_span = span,
            // Leaves of SMART have one entry.
            ContenderIndex::Smart(_) => {}
        }
        self
    }

    /// Sets the error bound of predictions, in positions.
    pub(super) fn of_error(mut self, error: u32) -> ChimeContender {
        if let ContenderIndex::Rolex(options) = &mut self.index {
            options.error = error;
        }
        self
    }

    /// Returns true if the content of its cache depends on which keys are hot.
    pub(super) fn learns(&self) -> bool {
        match &self.index {
            // Only a cache with a limit has to choose among nodes.
            ContenderIndex::Smart(_) => self.cache_bytes.is_some(),
            _ => self.speculates(),
        }
    }

    /// Returns true if its clients look up the last known position of a key.
    pub(super) fn speculates(&self) -> bool {
        match &self.index {
            ContenderIndex::Tree(options) => options.hotspot_bytes > 0,
            ContenderIndex::LongKeys(tree) => tree.speculates(),
            ContenderIndex::Rolex(options) => options.hotspot_bytes > 0,
            ContenderIndex::Smart(_) | ContenderIndex::Marlin(_) => false,
        }
    }

    /// Sets the number of slots of a neighborhood.
    pub(super) fn of_neighborhood(mut self, slots: usize) -> ChimeContender {
        debug_assert!(slots > 0);
        if let ContenderIndex::Tree(options) = &mut self.index {
            options.shape.neighborhood = slots;
        }
        self
    }

    /// Returns true if it cannot grow to many times its loaded size, as ROLEX, which is trained
    /// once.
    pub(super) fn cannot_load(&self) -> bool {
        matches!(self.index, ContenderIndex::Rolex(_))
    }

    /// Loads it and runs phases; calls `report` with each outcome as soon as it is known.
    ///
    /// # Errors
    /// As [`SimulatedIndex::run`].
    pub(super) fn perform(
        &self,
        setup: &ChimeSetup,
        phases: &[ChimePhase],
        interrupt: &Interrupt,
        results: &ResultCache,
        report: impl FnMut(usize, PhaseOutcome),
    ) -> Result<(), PointError> {
        let value_bytes = setup.value_bytes;
        match &self.index {
            ContenderIndex::Tree(options) if self.values_outside => {
                let index = *options;
                let index = Indirect { index, value_bytes };
                perform(&index, setup, phases, interrupt, results, report)
            }
            ContenderIndex::Rolex(options) if self.values_outside => {
                let index = options.clone();
                let index = Indirect { index, value_bytes };
                perform(&index, setup, phases, interrupt, results, report)
            }
            ContenderIndex::Tree(options) => match self.packed_percent {
                Some(percent) => {
                    let options = chime::ChimeOptions {
                        occupancy_percent: percent,
                        ..*options
                    };
                    let index = PackedTree { options, percent };
                    perform(&index, setup, phases, interrupt, results, report)
                }
                None => perform(options, setup, phases, interrupt, results, report),
            },
            ContenderIndex::LongKeys(tree) => {
                perform(tree, setup, phases, interrupt, results, report)
            }
            ContenderIndex::Smart(options) => {
                perform(options, setup, phases, interrupt, results, report)
            }
            ContenderIndex::Rolex(options) => {
                perform(options, setup, phases, interrupt, results, report)
            }
            ContenderIndex::Marlin(options) => {
                perform(options, setup, phases, interrupt, results, report)
            }
        }
    }
}

fn perform<S: PoolIndexSystem>(
    system: &S,
    setup: &ChimeSetup,
    phases: &[ChimePhase],
    interrupt: &Interrupt,
    results: &ResultCache,
    mut report: impl FnMut(usize, PhaseOutcome),
) -> Result<(), PointError> {
    let mut stage = SimulatedIndex::load(system, setup, interrupt, results)?;
    for (number, phase) in phases.iter().enumerate() {
        report(number, stage.run(phase)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::transport::sim::Image;
    use std::collections::HashMap;
    use std::sync::Arc;

    /// The image does not depend on the caches, so a job may use an index that another has loaded.
    #[test]
    fn an_index_is_the_same_whatever_the_caches() {
        let scale = ChimeScale::tiny();
        let of_paper = ContenderSizes::of_paper(&scale);
        let mut images: HashMap<String, Arc<Image>> = HashMap::new();
        let mut repeated = 0;
        let caches = [
            (0, 0),
            (of_paper.cache_bytes.unwrap(), 0),
            (1 << 20, 1 << 18),
        ];
        for (cache_bytes, hotspot_bytes) in caches {
            let sizes = ContenderSizes {
                cache_bytes: Some(cache_bytes),
                hotspot_bytes,
                ..of_paper
            };
            let setup = ChimeSetup::of_paper(&scale, &sizes);
            let outside = ChimeContender::of_variable_length(&sizes).into_iter();
            let attached = [ChimeContender::ours_attached(&sizes)];
            let all = outside.chain(attached);
            for contender in all.chain(ChimeContender::of_workloads(&sizes)) {
                let (interrupt, results) = (Interrupt::default(), ResultCache::new(usize::MAX));
                let loaded = contender.perform(&setup, &[], &interrupt, &results, |_, _| {});
                loaded.unwrap();
                let (description, image) = results.only();
                let Some(before) = images.get(&description) else {
                    images.insert(description, image);
                    continue;
                };
                assert!(*before == image, "{}: {description}", contender.name);
                repeated += 1;
            }
        }
        assert_eq!((images.len(), repeated), (15, 39));
    }
}
