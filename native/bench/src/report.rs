//! The table of figures that another program measured: trainings with XGBoost and Spark (`make bench`), and in Flink
//! (`make bench-flink`).

use crate::table::{quantile, sorted, Row, Table};
use clap::Args;
use serde::Deserialize;
use std::io::BufRead;
use std::path::PathBuf;

/// Lines of JSON on standard input, one figure each; whatever else stands there is handed on.
#[derive(Args)]
pub struct Reported {
    /// The table goes to this file.
    #[arg(long, default_value = "build/bench/trainings.csv")]
    out: PathBuf,
}

/// One configuration: the values of all pairs, in their order.
#[derive(Deserialize)]
struct Figure {
    bench: String,
    config: String,
    unit: String,
    ours: Vec<f64>,
    /// What is beside ours.
    peer: String,
    /// As many as ours; all 0 where the peer has nothing to compare.
    theirs: Vec<f64>,
    bar: Option<f64>,
}

/// Bars of the medians over all configurations with this in their names.
const MEDIANS: &[(&str, f64)] = &[("hook: ", 0.85), ("8 ranks", 0.75)];

const UNITS: &[&str] = &["ms", "us", "ns", "MB"];

/// Reads to the end, writes the table, prints it and the number of bars met.
pub fn run(reported: &Reported) -> Result<(), String> {
    let mut table = Table::default();
    let mut barred: Vec<(String, f64)> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        if !line.starts_with('{') {
            println!("{line}");
            continue;
        }
        let figure: Figure = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        let peer = figure.peer.clone();
        let (row, ratio) = row(figure)?;
        println!(
            "  {}: {:.1} {}{}",
            row.name,
            quantile(&row.ours, 0.5),
            row.unit,
            ratio.map_or(String::new(), |r| format!(", {r:.3} of {peer}"))
        );
        if let (Some(ratio), Some(_)) = (ratio, row.bar) {
            barred.push((row.name.clone(), ratio));
        }
        table.add(row);
    }
    for (word, bar) in MEDIANS {
        let ratios = sorted(barred.iter().filter(|(name, _)| name.contains(word)).map(|(_, ratio)| *ratio));
        if !ratios.is_empty() {
            let name = format!("xgboost,\"median of {} with '{word}'\"", ratios.len());
            table.add(Row { name, unit: "of stock", ours: ratios, peer: None, bar: Some(*bar) });
        }
    }
    table.finish(&reported.out)
}

/// A figure's row, and the median of its ratios.
fn row(Figure { bench, config, unit, ours, peer, theirs, bar }: Figure) -> Result<(Row, Option<f64>), String> {
    if ours.is_empty() || ours.len() != theirs.len() {
        return Err(format!("{config}: {} values, {} of {peer}; pairs are expected", ours.len(), theirs.len()));
    }
    let unit = *UNITS.iter().find(|known| **known == unit).ok_or(format!("{config}: the unit {unit} isn't known"))?;
    let compared = theirs.iter().all(|value| *value > 0.0);
    let ratios = compared.then(|| sorted(neighbours(&ours, &theirs).into_iter()));
    let median = ratios.as_ref().map(|ratios| quantile(ratios, 0.5));
    let peer = ratios.map(|ratios| (peer, sorted(theirs.into_iter()), ratios));
    let name = format!("{bench},\"{config}\"");
    Ok((Row { name, unit, ours: sorted(ours.into_iter()), peer, bar }, median))
}

/// One ratio for each two pairs in a row, their geometric mean: the one that runs second in a pair finds
/// the machine as the first one left it, and that is worth more (5 to 10 % were seen) than what is
/// to be measured. Of two neighbouring pairs each side begins one.
fn neighbours(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    match ratios.len() {
        1 => ratios,
        _ => ratios.windows(2).map(|two| (two[0] * two[1]).sqrt()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_second_in_a_pair_does_not_count_for_or_against_anybody() {
        // As fast as each other, but each second one takes a tenth longer.
        let (ours, stock) = ([1.0, 1.1, 1.0, 1.1], [1.1, 1.0, 1.1, 1.0]);
        assert!(neighbours(&ours, &stock).iter().all(|ratio| (ratio - 1.0).abs() < 1e-9));
        assert_eq!(neighbours(&[3.0], &[2.0]), [1.5]);
    }

    #[test]
    fn what_the_peer_has_nothing_of_is_told_by_itself() {
        assert!(row(figure(vec![0.0, 0.0])).is_ok_and(|(row, ratio)| row.peer.is_none() && ratio.is_none()));
        assert!(row(figure(vec![4.0, 2.0])).is_ok_and(|(_, ratio)| ratio == Some(1.0)));
        assert!(row(figure(vec![4.0])).is_err());
    }

    #[test]
    fn a_unit_that_the_table_does_not_know_is_refused() {
        let unknown = Figure { unit: "GB".into(), ..figure(vec![4.0, 2.0]) };
        assert!(row(unknown).is_err_and(|error| error.contains("GB")));
    }

    fn figure(theirs: Vec<f64>) -> Figure {
        let ours = vec![4.0, 2.0];
        let [bench, config, unit, peer] = ["xgboost", "c", "MB", "stock"].map(String::from);
        Figure { bench, config, unit, ours, peer, theirs, bar: None }
    }
}
