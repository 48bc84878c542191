//! k-means over the RAND data: every rank assigns its own rows, one allreduce an iteration adds up what all have found.
//!
//! ```text
//! rejoin run -n 4 --restart -- target/release/kmeans
//! ```
//!
//! Kill any rank at any moment: it comes back, gets the last centers and the sums that it missed,
//! and the digest is the same.
#![allow(missing_docs)]

use rejoin_communicator::collectives::{Element, Reduction};
use rejoin_communicator::launched::Launched;
use rejoin_communicator::protocol::error::Error;
use rejoin_communicator::protocol::ids::Rank;
use rejoin_communicator::{Boot, Communicator, Folding, Input, Limits, Options};
use rejoin_examples::{digest, numbers, Table};

const CLUSTERS: usize = 8;
const ITERATIONS: u32 = 25;

/// A sum over all ranks that is made once in the life of the job: who restarts is handed the recorded one.
fn sum_at_the_start(ranks: &mut Communicator, values: &mut [f64]) -> Result<(), Error> {
    let options = Options { boot: Boot::BySite, ..Options::default() };
    let sum = Folding::known(Element::F64, Reduction::Sum)?;
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
    bytes.copy_from_slice(&ranks.allreduce_bytes(Input::Ready(bytes), &sum, &options)?);
    Ok(())
}

/// Gives every column mean 0 and deviation 1, over the rows of all ranks.
fn standardize(ranks: &mut Communicator, table: &mut Table) -> Result<(), Error> {
    let columns = table.columns;
    // For each column sum and sum of squares, and at the end the number of rows.
    let mut sums = vec![0.0; 2 * columns + 1];
    for row in table.rows() {
        for (column, value) in row.iter().enumerate() {
            sums[column] += value;
            sums[columns + column] += value * value;
        }
        sums[2 * columns] += 1.0;
    }
    sum_at_the_start(ranks, &mut sums)?;
    let count = sums[2 * columns];
    for row in table.values.chunks_exact_mut(columns) {
        for (column, value) in row.iter_mut().enumerate() {
            let mean = sums[column] / count;
            let deviation = (sums[columns + column] / count - mean * mean).sqrt();
            *value = (*value - mean) / deviation;
        }
    }
    Ok(())
}

/// The nearest center, and how far it is (squared).
fn nearest(row: &[f64], centers: &[f64]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (cluster, center) in centers.chunks_exact(row.len()).enumerate() {
        let distance: f64 = row.iter().zip(center).map(|(x, y)| (x - y) * (x - y)).sum();
        if distance < best.1 {
            best = (cluster, distance);
        }
    }
    best
}

fn train(ranks: &mut Communicator) -> Result<Vec<f64>, Error> {
    let mut table = Table::part(ranks.rank().0, ranks.world())?;
    standardize(ranks, &mut table)?;
    let columns = table.columns;
    let (version, model) = ranks.load()?;
    let mut centers = match model {
        Some(model) => numbers(&model),
        // Version 0: rows of rank 0, far from each other in the file.
        None => {
            let step = table.values.len() / columns / CLUSTERS;
            (0..CLUSTERS).flat_map(|i| table.values[i * step * columns..][..columns].to_vec()).collect()
        }
    };
    if version.0 == 0 {
        ranks.broadcast(&mut centers, Rank(0))?;
    }
    for iteration in version.0..ITERATIONS {
        // For each cluster the sum of its rows, then the numbers of rows, then the sum of all distances.
        let mut sums = vec![0.0; CLUSTERS * columns + CLUSTERS + 1];
        for row in table.rows() {
            let (cluster, distance) = nearest(row, &centers);
            for (sum, value) in sums[cluster * columns..].iter_mut().zip(row) {
                *sum += value;
            }
            sums[CLUSTERS * columns + cluster] += 1.0;
            sums[CLUSTERS * columns + CLUSTERS] += distance;
        }
        ranks.allreduce(&mut sums, Reduction::Sum)?;
        for (cluster, center) in centers.chunks_exact_mut(columns).enumerate() {
            let count = sums[CLUSTERS * columns + cluster];
            if count > 0.0 {
                for (value, sum) in center.iter_mut().zip(&sums[cluster * columns..]) {
                    *value = sum / count;
                }
            }
        }
        ranks.checkpoint(bytemuck::cast_slice(&centers))?;
        if ranks.rank() == Rank(0) {
            println!("iteration {}: inertia {:.3}", iteration + 1, sums[CLUSTERS * columns + CLUSTERS]);
        }
    }
    Ok(centers)
}

fn main() -> Result<(), Error> {
    let launched = Launched::from_environment()?;
    let Some(mut ranks) = launched.join("k-means", Limits::default())? else {
        return Ok(()); // the job was over when this process came
    };
    let centers = train(&mut ranks)?;
    ranks.finish(bytemuck::cast_slice(&centers))?;
    println!("digest {}", digest(&centers));
    Ok(())
}
