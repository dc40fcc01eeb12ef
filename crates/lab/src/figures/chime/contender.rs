//! The contenders: their names, sizes and techniques.

use super::indirect::{Indirect, POINTER_BYTES};
use super::scale::Scale;
use super::simulate::{Outcome, Phase, Setup, Stage};
use super::system::System;
use crate::figures::job::PointError;
use crate::figures::kept::Kept;
use crate::harness::Interrupt;
use nearfield_pool::chime;
use nearfield_pool::layout::{Arrangement, Geometry, Metadata, Shape, Validation};
use nearfield_pool::rivals::{rolex, smart};

/// An index under the name that figures show.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub name: &'static str,
    pub index: Index,
    /// What a compute node may keep; `None` where there is no limit.
    pub cache_bytes: Option<usize>,
    /// Whether values lie beside the index, which has pointers to them.
    pub values_beside: bool,
}

/// An index with its sizes and techniques.
#[derive(Clone, Debug)]
pub(super) enum Index {
    Tree(chime::Options),
    Smart(smart::Options),
    Rolex(rolex::Options),
    /// Not there, and why.
    Missing(&'static str),
}

/// What a cache may hold that has no limit: more than there is memory, and far from overflow.
const UNLIMITED: usize = 1 << 50;
/// What SMART takes from a memory node at once for each client. The paper's megabyte for each of
/// hundreds of clients is more than a small run fills.
const CHUNK_BYTES: u64 = 1 << 16;
/// Entries of a leaf of ROLEX that is a hash table, as in the artifact.
const LEARNED_SPAN: usize = 64;

/// Entries of a leaf of CHIME and of ours that are tuned to the budget of the paper: inner nodes of
/// smaller leaves do not fit beside hotspots.
const TUNED_SPAN: usize = 32;
/// Those of Sherman, whose inner nodes then do not all fit, but those above hot keys do.
const SHERMAN_SPAN: usize = 16;
/// Entries of a leaf of ROLEX that is tuned, and by how many positions predictions may be wrong.
const TUNED_LEARNED: (usize, u32) = (8, 2);

/// The sizes that a figure chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// What a compute node may keep; `None`: all it wants.
    pub cache_bytes: Option<usize>,
    /// Of that, for hotspots.
    pub hotspot_bytes: usize,
}

impl Sizes {
    /// The paper's: keys and values of 8 bytes, 100 MB at 60 million keys, 30 of them for hotspots.
    pub(super) fn of_paper(scale: &Scale) -> Sizes {
        Sizes {
            key_bytes: 8,
            value_bytes: 8,
            cache_bytes: Some(scale.megabytes(100)),
            hotspot_bytes: scale.megabytes(30),
        }
    }
}

impl Contender {
    fn tree(
        name: &'static str,
        sizes: &Sizes,
        options: chime::Options,
        change: impl FnOnce(&mut chime::Options),
    ) -> Contender {
        let mut options = chime::Options {
            shape: Shape {
                key_bytes: sizes.key_bytes,
                value_bytes: sizes.value_bytes,
                ..options.shape
            },
            cache_bytes: sizes.cache_bytes.unwrap_or(UNLIMITED),
            hotspot_bytes: match options.hotspot_bytes {
                0 => 0,
                _ => sizes.hotspot_bytes,
            },
            ..options
        };
        change(&mut options);
        Contender {
            name,
            index: Index::Tree(options),
            cache_bytes: sizes.cache_bytes,
            values_beside: false,
        }
    }

    fn missing(name: &'static str, why: &'static str) -> Contender {
        Contender {
            name,
            index: Index::Missing(why),
            cache_bytes: None,
            values_beside: false,
        }
    }

    /// CHIME.
    pub(super) fn chime(sizes: &Sizes) -> Contender {
        Contender::tree("chime", sizes, chime::Options::chime(), |_| {})
    }

    pub(super) fn chime_without_speculation(sizes: &Sizes) -> Contender {
        let name = "chime, no speculation";
        Contender::tree(name, sizes, chime::Options::chime(), |options| {
            options.hotspot_bytes = 0;
        })
    }

    /// CHIME whose clients wait for locks as ours do.
    pub(super) fn chime_backing_off(sizes: &Sizes) -> Contender {
        let name = "chime, back-off";
        Contender::tree(name, sizes, chime::Options::chime(), |options| {
            options.backs_off = true;
        })
    }

    /// CHIME with the sizes that suit the budget best (figure `tuning`), and back-off.
    pub(super) fn chime_tuned(sizes: &Sizes) -> Contender {
        Contender::chime_backing_off(sizes)
            .of_span(TUNED_SPAN)
            .named("chime, tuned")
    }

    /// Our own variant of the tree, with the sizes that suit the budget best.
    pub(super) fn ours_tuned(sizes: &Sizes) -> Contender {
        Contender::ours(sizes)
            .of_span(TUNED_SPAN)
            .named("nearfield, tuned")
    }

    /// Sherman with the sizes that suit the budget best.
    pub(super) fn sherman_tuned(sizes: &Sizes) -> Contender {
        Contender::sherman(sizes)
            .of_span(SHERMAN_SPAN)
            .named("sherman, tuned")
    }

    /// ROLEX with the sizes that suit the budget best.
    pub(super) fn rolex_tuned(sizes: &Sizes) -> Contender {
        Contender::rolex(sizes)
            .of_span(TUNED_LEARNED.0)
            .of_error(TUNED_LEARNED.1)
            .named("rolex, tuned")
    }

    /// Under another name.
    pub(super) fn named(self, name: &'static str) -> Contender {
        Contender { name, ..self }
    }

    /// Our own variant of the tree.
    pub(super) fn ours(sizes: &Sizes) -> Contender {
        Contender::tree("nearfield", sizes, chime::Options::nearfield(), |_| {})
    }

    /// Our own variant of the tree, for attached memory.
    pub(super) fn ours_attached(sizes: &Sizes) -> Contender {
        Contender::tree("nearfield", sizes, chime::Options::attached(), |_| {})
    }

    /// Sherman as it is in CHIME's figures.
    pub(super) fn sherman(sizes: &Sizes) -> Contender {
        Contender::tree("sherman", sizes, chime::Options::sherman(), |_| {})
    }

    pub(super) fn smart(sizes: &Sizes) -> Contender {
        let options = smart::Options {
            key_bytes: sizes.key_bytes,
            value_bytes: sizes.value_bytes,
            cache_bytes: sizes.cache_bytes.unwrap_or(smart::UNLIMITED),
            chunk_bytes: CHUNK_BYTES,
            scan: smart::Scan::Cached,
            delegates_reads: true,
            combines_writes: true,
        };
        Contender {
            name: "smart",
            index: Index::Smart(options),
            cache_bytes: sizes.cache_bytes,
            values_beside: false,
        }
    }

    /// SMART with as large a cache as it wants.
    pub(super) fn smart_opt(sizes: &Sizes) -> Contender {
        let sizes = Sizes {
            cache_bytes: None,
            ..*sizes
        };
        Contender {
            name: "smart-opt",
            ..Contender::smart(&sizes)
        }
    }

    /// ROLEX as it is in CHIME's figures.
    pub(super) fn rolex(sizes: &Sizes) -> Contender {
        let options = rolex::Options::default();
        let shape = Shape {
            key_bytes: sizes.key_bytes,
            value_bytes: sizes.value_bytes,
            ..*options.geometry.shape()
        };
        let options = rolex::Options {
            geometry: Geometry::new(shape).unwrap_or_default(),
            cache_bytes: sizes.cache_bytes.unwrap_or(UNLIMITED),
            // As its rivals do.
            delegates_reads: true,
            combines_writes: true,
            ..options
        };
        Contender {
            name: "rolex",
            index: Index::Rolex(options),
            cache_bytes: sizes.cache_bytes,
            values_beside: false,
        }
    }

    /// The techniques of CHIME, each with those before it, from Sherman on.
    pub(super) fn steps_from_sherman(sizes: &Sizes) -> Vec<Contender> {
        let hopscotch = chime::Options {
            shape: Shape {
                arrangement: Arrangement::Hopscotch,
                metadata: Metadata::Single,
                validation: Validation::Fences,
                ..Shape::default()
            },
            ..chime::Options::sherman()
        };
        let vacancy = chime::Options {
            vacancy_bitmap: true,
            ..hopscotch
        };
        let with_shape = |options: chime::Options, change: fn(&mut Shape)| {
            let mut options = options;
            change(&mut options.shape);
            options
        };
        let replicated = with_shape(vacancy, |shape| shape.metadata = Metadata::Replicated);
        let sibling = with_shape(replicated, |shape| shape.validation = Validation::Sibling);
        let speculative = chime::Options {
            hotspot_bytes: chime::Options::chime().hotspot_bytes,
            ..sibling
        };
        let steps = [
            ("sherman", chime::Options::sherman()),
            ("+ hopscotch leaves", hopscotch),
            ("+ vacancy bitmap", vacancy),
            ("+ replicated metadata", replicated),
            ("+ sibling validation", sibling),
            ("+ speculative reads", speculative),
        ];
        let step = |(name, options)| Contender::tree(name, sizes, options, |_| {});
        steps.map(step).into()
    }

    /// The techniques of CHIME that suit a learned index, from ROLEX on. Leaves have 64 entries as
    /// the tree's once they are hash tables.
    pub(super) fn steps_from_rolex(sizes: &Sizes) -> Vec<Contender> {
        let step = |name, metadata, vacancy_piggyback| {
            let mut contender = Contender::rolex(sizes);
            contender.name = name;
            if let Index::Rolex(options) = &mut contender.index {
                let shape = Shape {
                    leaf_span: LEARNED_SPAN,
                    metadata,
                    ..*options.geometry.shape()
                };
                options.geometry = Geometry::new(shape).unwrap_or_default();
                options.leaves = rolex::Leaves::Hopscotch { vacancy_piggyback };
            }
            contender
        };
        vec![
            Contender::rolex(sizes),
            step("+ hopscotch leaves", Metadata::Single, false),
            step("+ vacancy bitmap", Metadata::Single, true),
            step("+ replicated metadata", Metadata::Replicated, true),
            Contender::missing(
                "+ speculative reads",
                "the pool's ROLEX has no hotspot buffer",
            ),
        ]
    }

    /// Those that figure 12 compares by six workloads.
    pub(super) fn of_workloads(sizes: &Sizes) -> [Contender; 11] {
        [
            Contender::chime(sizes),
            Contender::chime_backing_off(sizes),
            Contender::chime_tuned(sizes),
            Contender::ours(sizes),
            Contender::ours_tuned(sizes),
            Contender::sherman(sizes),
            Contender::sherman_tuned(sizes),
            Contender::rolex(sizes),
            Contender::rolex_tuned(sizes),
            Contender::smart(sizes),
            Contender::smart_opt(sizes),
        ]
    }

    /// The indexes whose values lie beside their leaves.
    pub(super) fn of_variable_length(sizes: &Sizes) -> Vec<Contender> {
        let sizes = Sizes {
            value_bytes: POINTER_BYTES,
            ..*sizes
        };
        let beside = |name, contender: Contender| Contender {
            name,
            values_beside: true,
            ..contender
        };
        vec![
            beside("chime-indirect", Contender::chime(&sizes)),
            beside("nearfield-indirect", Contender::ours(&sizes)),
            beside("sherman-indirect", Contender::sherman(&sizes)),
            beside("rolex-indirect", Contender::rolex(&sizes)),
            Contender::missing("smart-rcu", "the pool's SMART writes values in place only"),
            Contender::missing(
                "marlin",
                "the pool has none; Sherman with values beside its leaves is the nearest",
            ),
        ]
    }

    /// With leaves of this number of entries.
    pub(super) fn of_span(mut self, span: usize) -> Contender {
        let of_span = |shape: Shape| Shape {
            leaf_span: span,
            neighborhood: shape.neighborhood.min(span),
            ..shape
        };
        match &mut self.index {
            Index::Tree(options) => options.shape = of_span(options.shape),
            Index::Rolex(options) => {
                let shape = of_span(*options.geometry.shape());
                options.geometry = Geometry::new(shape).unwrap_or_default();
                // As the artifact: predictions may be wrong by a leaf.
                options.error = span as u32;
            }
            Index::Smart(_) | Index::Missing(_) => {}
        }
        self
    }

    /// Whose predictions may be wrong by this number of positions.
    pub(super) fn of_error(mut self, error: u32) -> Contender {
        if let Index::Rolex(options) = &mut self.index {
            options.error = error;
        }
        self
    }

    /// Whether what it keeps depends on which keys are hot.
    pub(super) fn learns(&self) -> bool {
        match &self.index {
            Index::Smart(_) => self.cache_bytes.is_some(),
            _ => self.speculates(),
        }
    }

    /// Whether its clients look up where a key was found before.
    pub(super) fn speculates(&self) -> bool {
        matches!(&self.index, Index::Tree(options) if options.hotspot_bytes > 0)
    }

    /// With neighborhoods of this number of slots.
    pub(super) fn of_neighborhood(mut self, slots: usize) -> Contender {
        if let Index::Tree(options) = &mut self.index {
            options.shape.neighborhood = slots;
        }
        self
    }

    /// Why it cannot take part, if it cannot.
    pub(super) fn is_missing(&self) -> Option<&'static str> {
        match self.index {
            Index::Missing(why) => Some(why),
            _ => None,
        }
    }

    /// Whether it cannot grow to many times what it was loaded with, as ROLEX, which is trained
    /// once.
    pub(super) fn cannot_load(&self) -> bool {
        matches!(self.index, Index::Rolex(_))
    }

    /// Loads it and runs phases; `report` gets each outcome as it comes.
    ///
    /// # Errors
    /// As [`Stage::run`], or that the contender is missing.
    pub(super) fn perform(
        &self,
        setup: &Setup,
        phases: &[Phase],
        interrupt: &Interrupt,
        kept: &Kept,
        report: impl FnMut(usize, Outcome),
    ) -> Result<(), PointError> {
        let value_bytes = setup.value_bytes;
        match &self.index {
            Index::Tree(options) if self.values_beside => {
                let index = *options;
                let index = Indirect { index, value_bytes };
                perform(&index, setup, phases, interrupt, kept, report)
            }
            Index::Rolex(options) if self.values_beside => {
                let index = options.clone();
                let index = Indirect { index, value_bytes };
                perform(&index, setup, phases, interrupt, kept, report)
            }
            Index::Tree(options) => perform(options, setup, phases, interrupt, kept, report),
            Index::Smart(options) => perform(options, setup, phases, interrupt, kept, report),
            Index::Rolex(options) => perform(options, setup, phases, interrupt, kept, report),
            Index::Missing(why) => Err(PointError::Missing((*why).to_owned())),
        }
    }
}

fn perform<S: System>(
    system: &S,
    setup: &Setup,
    phases: &[Phase],
    interrupt: &Interrupt,
    kept: &Kept,
    mut report: impl FnMut(usize, Outcome),
) -> Result<(), PointError> {
    let mut stage = Stage::load(system, setup, interrupt, kept)?;
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

    /// So jobs may take what others have loaded.
    #[test]
    fn an_index_is_the_same_whatever_the_caches() {
        let scale = Scale::tiny();
        let of_paper = Sizes::of_paper(&scale);
        let mut images: HashMap<String, Arc<Image>> = HashMap::new();
        let mut again = 0;
        let caches = [
            (0, 0),
            (of_paper.cache_bytes.unwrap(), 0),
            (1 << 20, 1 << 18),
        ];
        for (cache_bytes, hotspot_bytes) in caches {
            let sizes = Sizes {
                cache_bytes: Some(cache_bytes),
                hotspot_bytes,
                ..of_paper
            };
            let setup = Setup::of_paper(&scale, &sizes);
            let beside = Contender::of_variable_length(&sizes).into_iter();
            let beside = beside.filter(|contender| contender.is_missing().is_none());
            let attached = [Contender::ours_attached(&sizes)];
            let all = beside.chain(attached);
            for contender in all.chain(Contender::of_workloads(&sizes)) {
                let (interrupt, kept) = (Interrupt::default(), Kept::new(usize::MAX));
                let loaded = contender.perform(&setup, &[], &interrupt, &kept, |_, _| {});
                loaded.unwrap();
                let (what, image) = kept.only();
                let Some(before) = images.get(&what) else {
                    images.insert(what, image);
                    continue;
                };
                assert!(*before == image, "{}: {what}", contender.name);
                again += 1;
            }
        }
        assert_eq!((images.len(), again), (13, 35));
    }
}
