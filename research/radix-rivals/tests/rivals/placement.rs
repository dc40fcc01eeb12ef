//! The tests that every placement passes, for each rival.

use nearfield_core::{ByteStrings, OrderedIndex, Words};
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
use nearfield_testkit::keys::SampleForm;
use nearfield_testkit::model;

fn is_as_the_model<F: SampleForm, I: OrderedIndex<F>>(new: fn() -> I) {
    model::check::<F, _>(30, |_seed| new());
}

fn is_linearizable<F: SampleForm, I: OrderedIndex<F>>(new: fn() -> I) {
    concurrent::check::<F, _>(6, &ConcurrentTestConfig::default(), |_seed| new());
}

/// The tests of a design.
macro_rules! tests {
    ($name:ident, $index:ident) => {
        mod $name {
            use super::*;
            use nearfield_radix_rivals::$index;

            #[test]
            fn words_are_as_the_model() {
                is_as_the_model(<$index<Words>>::new);
            }

            #[test]
            fn bytes_are_as_the_model() {
                is_as_the_model(<$index<ByteStrings>>::new);
            }

            #[test]
            fn words_are_linearizable() {
                is_linearizable(<$index<Words>>::new);
            }

            #[test]
            fn bytes_are_linearizable() {
                is_linearizable(<$index<ByteStrings>>::new);
            }
        }
    };
}

tests!(art, Art);
tests!(art_rowex, ArtRowex);
tests!(smart, Smart);
tests!(heart, Heart);
