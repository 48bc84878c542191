//! What the examples share: the data set, of which each rank reads its own part, and the digest of what they found.

use rejoin_communicator::protocol::error::{Code, Error};
use std::ops::Range;
use std::path::PathBuf;

/// A table of numbers, row by row.
pub struct Table {
    /// Numbers in a row.
    pub columns: usize,
    /// All rows, one after the other.
    pub values: Vec<f64>,
}

impl Table {
    /// Reads this rank's part of the RAND Health Insurance Experiment (20,190 person-years, 10
    /// columns; the first one is the number of visits to a doctor). The file is the first argument;
    /// without one it is the copy in this repository.
    ///
    /// # Errors
    /// `Io` when it can't be read, `BadArgument` for a line that isn't 10 numbers.
    pub fn part(rank: u32, world: u32) -> Result<Table, Error> {
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integration-tests/data/randhie.csv");
        let path = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| shipped.to_string()));
        let text = std::fs::read_to_string(&path)
            .map_err(|cause| Error::new(Code::Io, format!("{} can't be read: {cause}", path.display())))?;
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let mut values = Vec::new();
        for line in &lines[share(lines.len(), rank, world)] {
            let before = values.len();
            for cell in line.split(',') {
                values.push(cell.trim().parse().unwrap_or(f64::NAN));
            }
            if values.len() != before + 10 || values[before..].iter().any(|value: &f64| value.is_nan()) {
                let text = format!("a line of {} is {line:?}; expected 10 numbers", path.display());
                return Err(Error::new(Code::BadArgument, text));
            }
        }
        Ok(Table { columns: 10, values })
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.columns)
    }
}

/// The part of `count` things that is a rank's.
pub fn share(count: usize, rank: u32, world: u32) -> Range<usize> {
    let (rank, world) = (rank as usize, world as usize);
    count * rank / world..count * (rank + 1) / world
}

/// What two runs are compared by.
pub fn digest(values: &[f64]) -> String {
    format!("{:032x}", rejoin_communicator::digest(bytemuck::cast_slice(values)))
}

/// A model as it was handed to `checkpoint`.
///
/// # Panics
/// When it isn't whole numbers, which can't be: it is what this program has handed over, and its digest was verified.
pub fn numbers(model: &[u8]) -> Vec<f64> {
    assert!(model.len().is_multiple_of(8), "a model of {} bytes is no row of numbers", model.len());
    model.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()
}
