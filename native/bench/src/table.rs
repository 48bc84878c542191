//! The table of figures: one row each, in the columns that all benchmarks of the project have.

use std::fmt::Write as _;
use std::path::Path;

const TITLES: &str = "bench,config,unit,ours,ours_p10,ours_p90,peer_name,peer,ratio,ratio_low,ratio_high,bar,met\n";

/// What was measured for one configuration.
pub struct Row {
    /// Bench and configuration, with a comma between.
    pub name: String,
    pub unit: &'static str,
    /// Sorted.
    pub ours: Vec<f64>,
    /// The peer beside us, with its values and the pairs' ratios, both sorted.
    pub peer: Option<(String, Vec<f64>, Vec<f64>)>,
    /// The most that the median may be: of the ratios if there is a peer, else of ours.
    pub bar: Option<f64>,
}

/// Rows, and how many bars they meet.
#[derive(Default)]
pub struct Table {
    text: String,
    met: usize,
    of: usize,
}

impl Table {
    pub fn add(&mut self, row: Row) {
        let judged = row.peer.as_ref().map_or(&row.ours, |(_, _, ratios)| ratios);
        let met = row.bar.map(|bar| quantile(judged, 0.5) <= bar);
        self.of += usize::from(met.is_some());
        self.met += usize::from(met == Some(true));
        let peer = row.peer.as_ref().map_or(",,,,".to_string(), |(name, values, ratios)| {
            let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(ratios, part));
            format!("{name},{:.2},{median:.3},{low:.3},{high:.3}", quantile(values, 0.5))
        });
        let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(&row.ours, part));
        let bar = row.bar.map(|bar| bar.to_string()).unwrap_or_default();
        let met = met.map(|met| met.to_string()).unwrap_or_default();
        // A String takes whatever is written to it.
        let _ = writeln!(self.text, "{},{},{median:.2},{low:.2},{high:.2},{peer},{bar},{met}", row.name, row.unit);
    }

    /// Writes the table, prints it and the number of bars met.
    pub fn finish(&self, path: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        std::fs::write(path, self.csv()).map_err(failed)?;
        print!("{}", self.csv());
        println!("bars met: {} of {}", self.met, self.of);
        Ok(())
    }

    pub fn csv(&self) -> String {
        format!("{TITLES}{}", self.text)
    }
}

/// Smallest first.
pub fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Of sorted values, at least one.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], peer: Option<&[f64]>, bar: Option<f64>) -> Table {
        let mut table = Table::default();
        let peer = peer.map(|peer| {
            let ratios = sorted(ours.iter().zip(peer).map(|(ours, peer)| ours / peer));
            ("openmpi-shm".to_string(), sorted(peer.iter().copied()), ratios)
        });
        table.add(Row { name: "allreduce,n=2 8 B".into(), unit: "us", ours: sorted(ours.iter().copied()), peer, bar });
        table
    }

    #[test]
    fn a_bar_is_met_when_the_median_of_the_pairs_ratios_is() {
        // The peer's median is the smaller one, but two pairs of three are ours.
        let table = row(&[9.0, 4.0, 30.0], Some(&[10.0, 5.0, 3.0]), Some(1.0));
        assert_eq!((table.met, table.of), (1, 1), "{}", table.csv());
        assert!(table.csv().contains("0.900,0.800,10.000,1,true"), "{}", table.csv());
        let table = row(&[11.0], Some(&[10.0]), Some(1.0));
        assert_eq!((table.met, table.of), (0, 1));
    }

    #[test]
    fn without_a_peer_the_median_itself_is_held_against_the_bar() {
        assert_eq!(row(&[9.0, 20.0, 8.0], None, Some(10.0)).met, 1);
        assert_eq!(row(&[9.0, 20.0, 18.0], None, Some(10.0)).met, 0);
        assert_eq!(row(&[9.0], None, None).of, 0);
    }

    #[test]
    fn every_row_has_all_columns() {
        for table in [row(&[9.0], None, Some(1.0)), row(&[9.0], Some(&[1.0]), None)] {
            let csv = table.csv();
            let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
            assert_eq!(columns, [13, 13], "{csv}");
        }
    }
}
