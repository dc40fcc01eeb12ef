//! A gated recurrent unit, and the layer behind it, on tensors with one subrange in each column.
//!
//! ```text
//! z = σ(Wz x + Uz h + bz)    r = σ(Wr x + Ur h + br)    n = tanh(Wn x + bn + r ∘ (Un h + cn))
//! h' = (1 − z) ∘ n + z ∘ h                              scores = Oᵀ h' + o
//! ```

use candle_core::{Device, Result, Tensor, Var};
use candle_nn::ops::sigmoid;
use rand::RngExt;
use rand::rngs::SmallRng;

/// The weights of one gate, for the input and for the state.
#[derive(Debug)]
struct GruGate {
    input: Var,
    state: Var,
    bias: Var,
}

/// The weights of the unit and of the output layer.
#[derive(Debug)]
pub struct GruCell {
    update: GruGate,
    reset: GruGate,
    new: GruGate,
    /// The bias of the new state's gate that the reset gate scales (`cn`).
    reset_bias: Var,
    output: Var,
    output_bias: Var,
}

/// Draws a matrix of weights between plus and minus one over the square root of `states`.
fn weights(rows: usize, columns: usize, states: usize, random: &mut SmallRng) -> Result<Var> {
    // The usual bound for gated units: larger weights saturate the gates before they have learnt.
    let bound = (states as f32).sqrt().recip();
    let values = (0..rows * columns).map(|_| random.random_range(-bound..bound));
    Var::from_vec(values.collect(), (rows, columns), &Device::Cpu)
}

impl GruGate {
    fn new(inputs: usize, states: usize, random: &mut SmallRng) -> Result<GruGate> {
        Ok(GruGate {
            input: weights(states, inputs, states, random)?,
            state: weights(states, states, states, random)?,
            bias: weights(states, 1, states, random)?,
        })
    }

    /// Computes the input's part of the gate.
    fn of_input(&self, input: &Tensor) -> Result<Tensor> {
        self.input
            .matmul(input)?
            .broadcast_add(self.bias.as_tensor())
    }
}

impl GruCell {
    /// Creates a cell with random weights for these numbers of inputs, states and outputs.
    pub fn new([inputs, states, outputs]: [usize; 3], random: &mut SmallRng) -> Result<GruCell> {
        Ok(GruCell {
            update: GruGate::new(inputs, states, random)?,
            reset: GruGate::new(inputs, states, random)?,
            new: GruGate::new(inputs, states, random)?,
            reset_bias: weights(states, 1, states, random)?,
            output: weights(states, outputs, states, random)?,
            output_bias: weights(1, outputs, states, random)?,
        })
    }

    /// Returns all weights, for the trainer.
    pub fn variables(&self) -> Vec<Var> {
        let gates = [&self.update, &self.reset, &self.new];
        let gates = gates
            .into_iter()
            .flat_map(|gate| [&gate.input, &gate.state, &gate.bias]);
        let others = [&self.reset_bias, &self.output, &self.output_bias];
        gates.chain(others).cloned().collect()
    }

    /// Computes scores, one subrange in each row, from the inputs of some steps, one subrange in
    /// each column.
    pub fn scores(&self, steps: &[Tensor]) -> Result<Tensor> {
        // The first step has no state, which saves the products with a matrix of zeros.
        let mut state: Option<Tensor> = None;
        for input in steps {
            state = Some(self.step(input, state)?);
        }
        match state {
            Some(state) => state
                .t()?
                .matmul(self.output.as_tensor())?
                .broadcast_add(self.output_bias.as_tensor()),
            None => Ok(self.output_bias.as_tensor().clone()),
        }
    }

    /// Computes the state after an input. `None` is the zero state before the first input, which
    /// adds nothing to any gate.
    fn step(&self, input: &Tensor, state: Option<Tensor>) -> Result<Tensor> {
        let [update, reset, new] =
            [&self.update, &self.reset, &self.new].map(|gate| gate.of_input(input));
        let Some(state) = state else {
            let reset = sigmoid(&reset?)?.broadcast_mul(self.reset_bias.as_tensor())?;
            let new = (new? + reset)?.tanh()?;
            // With `h = 0` the new state is `(1 - z) n`.
            return &new - (sigmoid(&update?)? * &new)?;
        };
        let of_state = |gate: &GruGate| gate.state.matmul(&state);
        let update = sigmoid(&(update? + of_state(&self.update)?)?)?;
        let reset = sigmoid(&(reset? + of_state(&self.reset)?)?)?;
        // The reset gate scales the bias, too, so it is added before the product.
        let past = of_state(&self.new)?.broadcast_add(self.reset_bias.as_tensor())?;
        let new = (new? + (reset * past)?)?.tanh()?;
        // Equal to `(1 - z) n + z h`, with one product less.
        &new + (update * (state - &new)?)?
    }
}
