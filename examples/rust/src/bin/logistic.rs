//! Logistic regression by L-BFGS over the RAND data: who sees a doctor at all? One allreduce for each look at the loss.
//!
//! ```text
//! rejoin run -n 4 --restart -- target/release/logistic
//! ```
//!
//! Kill any rank at any moment: it comes back at the last iteration's state, and the digest is the
//! same, which is the other languages', too.
#![allow(missing_docs)]

use rejoin_communicator::collectives::Reduction;
use rejoin_communicator::launched::Launched;
use rejoin_communicator::protocol::error::Error;
use rejoin_communicator::protocol::ids::Rank;
use rejoin_communicator::{Communicator, Limits};
use rejoin_examples::{digest, numbers, Table};

/// Weights of nine columns and a constant.
const WEIGHTS: usize = 10;
/// Pairs of steps and changes of the gradient that stand for the curvature.
const MEMORY: usize = 6;
const ITERATIONS: u32 = 30;
/// Strength of the penalty on the weights' squares.
const PENALTY: f64 = 1e-3;

/// Between two iterations. As numbers it is the model that is handed to `checkpoint`.
struct State {
    weights: Vec<f64>,
    gradient: Vec<f64>,
    loss: f64,
    /// Newest last: (step, change of the gradient).
    pairs: Vec<(Vec<f64>, Vec<f64>)>,
}

impl State {
    fn to_numbers(&self) -> Vec<f64> {
        let mut all = vec![self.loss];
        all.extend(&self.weights);
        all.extend(&self.gradient);
        for (step, change) in &self.pairs {
            all.extend(step);
            all.extend(change);
        }
        all
    }

    fn from_numbers(all: &[f64]) -> State {
        let (weights, rest) = all[1..].split_at(WEIGHTS);
        let (gradient, pairs) = rest.split_at(WEIGHTS);
        let pairs = pairs.chunks_exact(2 * WEIGHTS).map(|pair| (pair[..WEIGHTS].to_vec(), pair[WEIGHTS..].to_vec()));
        State { loss: all[0], weights: weights.to_vec(), gradient: gradient.to_vec(), pairs: pairs.collect() }
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(x, y)| x * y).sum()
}

fn plus(one: &[f64], factor: f64, other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(x, y)| x + factor * y).collect()
}

/// e^-x and log(1 + e^-x) for an x from 0 on, by sums, products and quotients alone: these have the
/// same bits in all languages, and what their libraries make of exp and log hasn't.
fn decay(x: f64) -> (f64, f64) {
    let small = x.min(40.0) / 64.0; // beyond 40 nothing of it is left
    let mut power = 1.0;
    for n in (1..=16).rev() {
        power = 1.0 + power * small / f64::from(n);
    }
    for _ in 0..6 {
        power *= power;
    }
    let decay = 1.0 / power;
    let z = decay / (2.0 + decay);
    let mut series = 0.0;
    for k in (0..18).rev() {
        series = series * z * z + 1.0 / f64::from(2 * k + 1);
    }
    (decay, 2.0 * z * series)
}

/// Mean loss over the rows of all ranks, and its gradient.
fn evaluate(ranks: &mut Communicator, table: &Table, weights: &[f64]) -> Result<(f64, Vec<f64>), Error> {
    // The gradient's sum, the loss's sum, and the number of rows.
    let mut sums = vec![0.0; WEIGHTS + 2];
    for row in table.rows() {
        let label = if row[0] > 0.0 { 1.0 } else { 0.0 };
        let score = weights[0] + dot(&weights[1..], &row[1..]);
        let (decay, rest) = decay(score.abs());
        let probability = if score > 0.0 { 1.0 / (1.0 + decay) } else { decay / (1.0 + decay) };
        let error = probability - label;
        sums[0] += error;
        for (sum, value) in sums[1..WEIGHTS].iter_mut().zip(&row[1..]) {
            *sum += error * value;
        }
        // log(1 + e^score) - label * score, without overflow.
        sums[WEIGHTS] += score.max(0.0) + rest - label * score;
        sums[WEIGHTS + 1] += 1.0;
    }
    ranks.allreduce(&mut sums, Reduction::Sum)?;
    let count = sums[WEIGHTS + 1];
    let loss = sums[WEIGHTS] / count + 0.5 * PENALTY * dot(weights, weights);
    let gradient = sums[..WEIGHTS].iter().zip(weights).map(|(sum, weight)| sum / count + PENALTY * weight);
    Ok((loss, gradient.collect()))
}

/// The two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithm 7.4): downhill, bent by the curvature.
fn direction(state: &State) -> Vec<f64> {
    let mut direction = state.gradient.clone();
    let mut factors = Vec::new();
    for (step, change) in state.pairs.iter().rev() {
        let factor = dot(step, &direction) / dot(step, change);
        direction = plus(&direction, -factor, change);
        factors.push(factor);
    }
    if let Some((step, change)) = state.pairs.last() {
        let scale = dot(step, change) / dot(change, change);
        direction.iter_mut().for_each(|value| *value *= scale);
    }
    for ((step, change), factor) in state.pairs.iter().zip(factors.into_iter().rev()) {
        let correction = factor - dot(change, &direction) / dot(step, change);
        direction = plus(&direction, correction, step);
    }
    direction.iter_mut().for_each(|value| *value = -*value);
    direction
}

/// One iteration: a direction, and a step along it that is halved until the loss falls enough (Armijo).
fn improve(ranks: &mut Communicator, table: &Table, state: &mut State) -> Result<(), Error> {
    let direction = direction(state);
    let slope = dot(&state.gradient, &direction);
    let mut length = 1.0;
    for _ in 0..30 {
        let weights = plus(&state.weights, length, &direction);
        let (loss, gradient) = evaluate(ranks, table, &weights)?;
        if loss <= state.loss + 1e-4 * length * slope {
            let step = plus(&weights, -1.0, &state.weights);
            let change = plus(&gradient, -1.0, &state.gradient);
            if dot(&step, &change) > 1e-12 {
                state.pairs.push((step, change));
                if state.pairs.len() > MEMORY {
                    state.pairs.remove(0);
                }
            }
            (state.weights, state.gradient, state.loss) = (weights, gradient, loss);
            return Ok(());
        }
        length *= 0.5;
    }
    Ok(()) // no step is downhill any more: it is as good as it gets
}

fn train(ranks: &mut Communicator) -> Result<Vec<f64>, Error> {
    let mut table = Table::part(ranks.rank().0, ranks.world())?;
    // Columns of about the same size, by numbers that are the same everywhere.
    for row in table.values.chunks_exact_mut(10) {
        for (value, scale) in row[1..].iter_mut().zip([4.6, 1.0, 7.0, 1.0, 1.0, 15.0, 1.0, 1.0, 1.0]) {
            *value /= scale;
        }
    }
    let (version, model) = ranks.load()?;
    let mut state = match model {
        Some(model) => State::from_numbers(&numbers(&model)),
        None => {
            let weights = vec![0.0; WEIGHTS];
            let (loss, gradient) = evaluate(ranks, &table, &weights)?;
            State { weights, gradient, loss, pairs: Vec::new() }
        }
    };
    for iteration in version.0..ITERATIONS {
        improve(ranks, &table, &mut state)?;
        ranks.checkpoint(bytemuck::cast_slice(&state.to_numbers()))?;
        if ranks.rank() == Rank(0) {
            println!("iteration {}: loss {:.6}", iteration + 1, state.loss);
        }
    }
    Ok(state.weights)
}

fn main() -> Result<(), Error> {
    let launched = Launched::from_environment()?;
    let Some(mut ranks) = launched.join("logistic regression", Limits::default())? else {
        return Ok(()); // the job was over when this process came
    };
    let weights = train(&mut ranks)?;
    ranks.finish(bytemuck::cast_slice(&weights))?;
    println!("digest {}", digest(&weights));
    Ok(())
}
