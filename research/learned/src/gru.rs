//! The predictor of RADAR.

use crate::cell::GruCell;
use candle_core::{Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, loss};
use nearfield_pim::radar::heights::{
    HotnessSample, HotnessScale, INPUTS, Predictor, STEPS, Sequence,
};
use nearfield_pim::structures::skip_list::HEIGHT_MAX;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use std::fmt;

/// Number of states, as in the paper.
const STATES: usize = 32;
/// Number of subranges that the unit learns from at once.
const AT_ONCE: usize = 256;
const LEARNING_RATE: f64 = 1e-3;

/// Error of the library for machine learning.
#[derive(Debug)]
pub struct GruError(candle_core::Error);

impl fmt::Display for GruError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for GruError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// A gated recurrent unit of 32 states with one layer behind it, over the hexadecimal digits of the
/// features of the last 4 batches. It learns by cross entropy and Adam with a rate of 0.001, 256
/// subranges at once, in an order drawn from its seed: the same seed and the same samples give the
/// same predictions. Source: RADAR, section V-A. An epoch of 8192 samples takes about 0.13 s of one
/// processor.
///
/// It has an output for each possible height. Outputs of classes that do not exist at present are
/// ignored, so it need not be built again when the number of classes changes.
pub struct Gru {
    cell: GruCell,
    adam: AdamW,
    random: SmallRng,
}

impl fmt::Debug for Gru {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = &self.cell;
        f.debug_struct("Gru")
            .field("cell", cell)
            .finish_non_exhaustive()
    }
}

impl Gru {
    /// Creates a unit that has learnt nothing.
    ///
    /// # Errors
    /// The library cannot allocate its memory.
    pub fn new(seed: u64) -> Result<Gru, GruError> {
        let random = SmallRng::seed_from_u64(seed);
        Gru::drawn(random).map_err(GruError)
    }

    fn drawn(mut random: SmallRng) -> candle_core::Result<Gru> {
        let cell = GruCell::new([INPUTS, STATES, HEIGHT_MAX], &mut random)?;
        // Without weight decay this is Adam.
        let parameters = ParamsAdamW {
            lr: LEARNING_RATE,
            weight_decay: 0.0,
            ..ParamsAdamW::default()
        };
        let adam = AdamW::new(cell.variables(), parameters)?;
        Ok(Gru { cell, adam, random })
    }

    /// Learns from some samples in one step.
    fn learn(&mut self, samples: &[&HotnessSample]) -> candle_core::Result<()> {
        debug_assert!(samples.iter().all(|sample| sample.label < HEIGHT_MAX));
        let labels: Vec<u32> = samples.iter().map(|sample| sample.label as u32).collect();
        let labels = Tensor::new(labels, &Device::Cpu)?;
        let sequences: Vec<&Sequence> = samples.iter().map(|sample| &sample.sequence).collect();
        let scores = self.cell.scores(&inputs(&sequences)?)?;
        self.adam
            .backward_step(&loss::cross_entropy(&scores, &labels)?)
    }
}

/// Returns the digits of subranges, one subrange in each column, for each batch.
fn inputs(sequences: &[&Sequence]) -> candle_core::Result<Vec<Tensor>> {
    let count = sequences.len();
    // Each batch is one matrix, so the unit computes all subranges of a step together.
    let step = |step: usize| {
        let mut columns = vec![0.0; INPUTS * count];
        for (column, sequence) in sequences.iter().enumerate() {
            for (row, digit) in sequence[step].digits().into_iter().enumerate() {
                columns[row * count + column] = digit;
            }
        }
        Tensor::from_vec(columns, (INPUTS, count), &Device::Cpu)
    };
    (0..STEPS).map(step).collect()
}

impl Predictor for Gru {
    fn train(&mut self, samples: &[HotnessSample], _: &HotnessScale) {
        let mut order: Vec<&HotnessSample> = samples.iter().collect();
        // The samples are in the order of keys. Neighbours are alike, and would pull the weights
        // one way.
        order.shuffle(&mut self.random);
        for samples in order.chunks(AT_ONCE) {
            let learnt = self.learn(samples);
            learnt.expect("shapes are constants, and labels below the number of outputs");
        }
    }

    fn scores(&mut self, sequences: &[Sequence], scale: &HotnessScale) -> Vec<f32> {
        debug_assert!(scale.classes <= HEIGHT_MAX);
        let mut scores = Vec::with_capacity(sequences.len() * scale.classes);
        // Parts bound the memory of the matrices between the steps.
        for part in sequences.chunks(AT_ONCE) {
            let part: Vec<&Sequence> = part.iter().collect();
            let found = inputs(&part)
                .and_then(|steps| self.cell.scores(&steps))
                .and_then(|found| found.to_vec2::<f32>())
                .expect("shapes are constants");
            for row in found {
                scores.extend(row.into_iter().take(scale.classes));
            }
        }
        debug_assert_eq!(scores.len(), sequences.len() * scale.classes);
        scores
    }
}
