//! The guide's loop: the mean of all ranks' rows by gradient descent.
#![allow(missing_docs)]

use rejoin_communicator::collectives::Reduction;
use rejoin_communicator::launched::Launched;
use rejoin_communicator::protocol::error::Error;
use rejoin_communicator::Limits;

fn main() -> Result<(), Error> {
    let Some(mut ranks) = Launched::from_environment()?.join("mean 1", Limits::default())? else {
        return Ok(()); // the job was over when this process came
    };
    let (version, model) = ranks.load()?; // version 0: begin; else go on from the model
    let mut mean: f64 = model.map_or(0.0, |model| bytemuck::pod_read_unaligned(&model));
    for _ in version.0..20 {
        let rows = (0..1000).map(|i| f64::from(i * (ranks.rank().0 + 1) % 97)); // this rank's part of the data
        let mut sums = [rows.map(|row| mean - row).sum(), 1000.0];
        ranks.allreduce(&mut sums, Reduction::Sum)?; // in place: the sum over all ranks
        mean -= 0.5 * sums[0] / sums[1];
        ranks.checkpoint(&mean.to_ne_bytes())?; // the version ends; the next one begins with this model
    }
    ranks.finish(&mean.to_ne_bytes())?;
    println!("the mean is {mean:.6}");
    Ok(())
}
