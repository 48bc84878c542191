//! Collects the samples, and holds what the tables choose against the fastest of what they don't.

use super::kind::Kind;
use crate::placement::Placement;
use crate::table::{quantile, sorted, Row, Table};
use rejoin_collectives::choice::{Choice, LOOPBACK, NETWORK};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// How much slower than the fastest of the others the chosen one may be: about as much as two runs of the same differ.
const BAR: f64 = 1.15;

/// One sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    pub collective: String,
    pub algorithm: String,
    pub world: usize,
    pub bytes: usize,
    pub round: usize,
    pub micros: f64,
}

/// Samples of one algorithm by round.
type Rounds = BTreeMap<usize, f64>;

/// All samples of a run.
pub struct Judge {
    choice: &'static Choice,
    hosts: usize,
    placement: Placement,
    /// By collective, world and bytes: those of each algorithm.
    samples: BTreeMap<(Kind, usize, usize), BTreeMap<String, Rounds>>,
}

impl Judge {
    /// For ranks on so many hosts; 0 says that they are on this one.
    pub fn new(hosts: usize, placement: Placement) -> Self {
        let choice = if hosts > 1 { &NETWORK } else { &LOOPBACK };
        Judge { choice, hosts: hosts.max(1), placement, samples: BTreeMap::new() }
    }

    /// The host of each rank.
    fn places(&self, world: usize) -> Vec<usize> {
        (0..world).map(|rank| self.placement.host(rank, world, self.hosts)).collect()
    }

    pub fn add(&mut self, sample: Sample) {
        let Some(kind) = Kind::named(&sample.collective) else { return };
        let of = self.samples.entry((kind, sample.world, sample.bytes)).or_default();
        of.entry(sample.algorithm).or_default().insert(sample.round, sample.micros);
    }

    /// Writes and prints all figures, and then the table of choices.
    pub fn finish(&self, folder: &Path, name: &str) -> Result<(), String> {
        let all = self.all();
        let path = folder.join(format!("{name}-all.csv"));
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::write(&path, &all).map_err(failed)?;
        println!("{all}");
        self.table().finish(&folder.join(format!("{name}.csv")))
    }

    fn all(&self) -> String {
        let mut text =
            "collective,algorithm,n,hosts,placement,bytes,samples,median_us,p10_us,p90_us,chosen\n".to_string();
        for (&(kind, world, bytes), algorithms) in &self.samples {
            let chosen = kind.chosen(self.choice, &self.places(world), bytes);
            for (algorithm, rounds) in algorithms {
                let micros = sorted(rounds.values().copied());
                let [median, low, high] = [0.5, 0.1, 0.9].map(|part| quantile(&micros, part));
                let mark = if *algorithm == chosen { "chosen" } else { "" };
                let (name, hosts, count) = (kind.name(), self.hosts, micros.len());
                let placement = format!("{:?}", self.placement).to_lowercase();
                // A String takes whatever is written to it.
                let _ = writeln!(
                    text,
                    "{name},{algorithm},{world},{hosts},{placement},{bytes},{count},\
                     {median:.1},{low:.1},{high:.1},{mark}"
                );
            }
        }
        text
    }

    fn table(&self) -> Table {
        let mut table = Table::default();
        for (&(kind, world, bytes), algorithms) in &self.samples {
            let chosen = kind.chosen(self.choice, &self.places(world), bytes);
            self.judge(&mut table, (kind.name(), world, bytes), &chosen, algorithms.iter().collect());
            if let Some((chosen, among)) = kind.chosen_once(self.choice, &self.places(world), bytes) {
                let among = algorithms.iter().filter(|(algorithm, _)| among.contains(algorithm)).collect();
                self.judge(&mut table, (&format!("{} custom", kind.name()), world, bytes), &chosen, among);
            }
        }
        table
    }

    /// One row: the chosen one, and the fastest of the others as its peer. An algorithm that was
    /// left behind has no samples in later rounds: as the chosen one it is held against the others'
    /// whole.
    fn judge(
        &self,
        table: &mut Table,
        (name, world, bytes): (&str, usize, usize),
        chosen: &str,
        algorithms: Vec<(&String, &Rounds)>,
    ) {
        let median = |rounds: &Rounds| quantile(&sorted(rounds.values().copied()), 0.5);
        let Some((_, ours)) = algorithms.iter().find(|(algorithm, _)| *algorithm == chosen) else { return };
        let others = algorithms.iter().filter(|(algorithm, _)| *algorithm != chosen);
        let best = others.min_by(|left, right| median(left.1).total_cmp(&median(right.1)));
        let peer = best.map(|(algorithm, rounds)| {
            let ratios = ours.iter().filter_map(|(round, micros)| Some(micros / rounds.get(round)?));
            (algorithm.to_string(), sorted(rounds.values().copied()), sorted(ratios))
        });
        table.add(Row {
            name: format!("{name} {chosen},n={world} hosts={} {:?} {bytes} B", self.hosts, self.placement)
                .to_lowercase(),
            unit: "us",
            ours: sorted(ours.values().copied()),
            bar: peer.is_some().then_some(BAR),
            peer,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(figures: &[(&str, f64)]) -> Judge {
        let mut judge = Judge::new(0, Placement::Spread);
        for round in 1..=3 {
            for (algorithm, micros) in figures {
                judge.add(Sample {
                    collective: "barrier".into(),
                    algorithm: algorithm.to_string(),
                    world: 4,
                    bytes: 0,
                    round,
                    micros: *micros,
                });
            }
        }
        judge
    }

    #[test]
    fn a_choice_meets_its_bar_when_nothing_else_is_much_faster() {
        // On one host the star is chosen.
        assert!(judge(&[("star", 11.0), ("doubling", 10.0)])
            .table()
            .csv()
            .contains("doubling,10.00,1.100,1.100,1.100,1.15,true"));
        assert!(judge(&[("star", 20.0), ("doubling", 10.0)]).table().csv().contains(",2.000,2.000,2.000,1.15,false"));
    }

    #[test]
    fn all_figures_say_which_was_chosen() {
        let all = judge(&[("star", 11.0), ("doubling", 10.0)]).all();
        assert!(all.contains("barrier,star,4,1,spread,0,3,11.0,11.0,11.0,chosen\n"), "{all}");
        assert!(all.contains("barrier,doubling,4,1,spread,0,3,10.0,10.0,10.0,\n"), "{all}");
    }
}
