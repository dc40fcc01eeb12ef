//! Models that learn how hot subranges of memory modules are, for RADAR's heights (RADAR, section
//! V).
//!
//! [`Gru`] is the paper's: a gated recurrent unit that reads the features of a subrange in the last
//! batches, and predicts its class. It is a
//! [`Predictor`](nearfield_pim::radar::heights::Predictor), so an index accepts it directly:
//!
//! ```
//! use nearfield_core::OrderedIndex;
//! use nearfield_hardware::modules::ModulePreset;
//! use nearfield_learned::Gru;
//! use nearfield_pim::device::Model;
//! use nearfield_pim::radar::heights::LearningWindow;
//! use nearfield_pim::radar::{RadarOptions, Radar};
//!
//! let model = Model::new(64, ModulePreset::UpmemMeasured.parameters());
//! let predictor = Box::new(Gru::new(7)?);
//! let options = RadarOptions::radar(64);
//! let index = Radar::with_predictor(model, options, LearningWindow::default(), predictor);
//! assert_eq!(index.insert(7, 70), Ok(None));
//! # Ok::<(), nearfield_learned::GruError>(())
//! ```
//!
//! # Why candle
//!
//! This is a crate of its own, because only it needs a library for machine learning: tensors,
//! derivatives, Adam. Two libraries are maintained, candle 0.11 and burn 0.21, compared here
//! without optional parts (burn as its parts `burn-core`, `burn-nn`, `burn-optim`, `burn-autodiff`
//! and `burn-flex`, because the crate `burn` brings a graphics stack into the lock file):
//!
//! | | candle-core, candle-nn 0.11.1 | burn 0.21 |
//! |---|---|---|
//! | crates that are compiled, packages in the lock file | 129, 155 | 131, 289 |
//! | compiling them, seconds of a processor | 134 | 595 |
//! | an epoch of 8192 samples with the library's GRU, seconds of a processor | 0.20 | 0.23 |
//!
//! They are equally fast, and candle builds in a quarter of the time. Candle has two drawbacks. It
//! brings an unused tokenizer (`candle-core` depends on `tokenizers` for files of models, whatever
//! its features), and it cannot draw weights from a seed on a processor, so this crate draws them.
//! Candle's own GRU keeps a subrange in a row, so that gates are not contiguous; a cell that keeps
//! it in a column takes 0.13 s for the same epoch.

#![forbid(unsafe_code)]

mod cell;
mod gru;

pub use gru::{Gru, GruError};
