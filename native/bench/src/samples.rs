//! How one line is measured: as the peers' drivers do it.

use std::time::Instant;

/// An allreduce of floats among the ranks of a world, as one of them sees it.
pub trait Allreduce {
    /// Calls of this size that are made before any is counted.
    fn warm_up(&self, _bytes: usize) -> usize {
        WARM_UP
    }

    /// What is done before each call, and not timed.
    fn prepare(&mut self, _input: &[f32], _output: &mut [f32]) -> Result<(), String> {
        Ok(())
    }

    /// The sum over the ranks, into `output`.
    fn sum(&mut self, input: &[f32], output: &mut [f32]) -> Result<(), String>;

    /// Brings the last sum into `output`, for those that leave it elsewhere.
    fn show(&mut self, _output: &mut [f32]) {}

    /// The largest over the ranks, in place.
    fn max(&mut self, values: &mut [f64]) -> Result<(), String>;
}

/// Enough for programs whose buffers are the same in each call.
pub const WARM_UP: usize = 4;

/// What the lines' columns are called.
pub const TITLES: &str = "peer,n,bytes,reps,median_us,min_us,p99_us,busbw_GBps,mean_us";

/// Fewest and most calls that are counted.
const REPETITIONS: (f64, f64) = (7.0, 2000.0);

/// Measures one size at one rank and checks the result; rank 0 gets the line.
pub fn measure(
    peer: &str,
    rank: usize,
    world: usize,
    bytes: usize,
    budget_ms: f64,
    ranks: &mut impl Allreduce,
) -> Result<Option<String>, String> {
    let count = (bytes / size_of::<f32>()).max(1);
    let input = vec![(rank + 1) as f32; count];
    let mut output = vec![0f32; count];
    let timed = |output: &mut [f32], ranks: &mut dyn Allreduce| {
        ranks.prepare(&input, output)?;
        let start = Instant::now();
        ranks.sum(&input, output)?;
        Ok::<f64, String>(start.elapsed().as_secs_f64() * 1e6)
    };
    let mut estimate = [0.0];
    for call in 0..ranks.warm_up(bytes) {
        if call < WARM_UP {
            ranks.max(&mut [0.0])?;
        }
        estimate[0] = timed(&mut output, ranks)?;
    }
    ranks.max(&mut estimate)?;
    let repetitions = (budget_ms * 1e3 / estimate[0].max(0.5)).clamp(REPETITIONS.0, REPETITIONS.1) as usize;
    let mut times = Vec::with_capacity(repetitions);
    output.fill(0.0);
    for _ in 0..repetitions {
        times.push(timed(&mut output, ranks)?);
    }
    ranks.show(&mut output);
    let expected = (world * (world + 1) / 2) as f32;
    if let Some(place) = output.iter().position(|value| *value != expected) {
        return Err(format!("rank {rank}: element {place} of {count} is {}, not {expected}", output[place]));
    }
    let mut mean = [times.iter().sum::<f64>() / repetitions as f64];
    ranks.max(&mut mean)?;
    ranks.max(&mut times)?;
    times.sort_by(f64::total_cmp);
    let median = times[repetitions / 2];
    let busbw = 2.0 * (world - 1) as f64 / world as f64 * bytes as f64 / median / 1e3;
    let p99 = times[(repetitions as f64 * 0.99) as usize];
    let line =
        format!("{peer},{world},{bytes},{repetitions},{median:.1},{:.1},{p99:.1},{busbw:.4},{:.1}", times[0], mean[0]);
    Ok((rank == 0).then_some(line))
}
