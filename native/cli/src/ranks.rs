//! Which ranks a run starts, as they are written on the command line.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Where launchers say which of their tasks a process is: Slurm, Open MPI, other MPIs and PMI,
/// Kubernetes (an indexed Job), torchrun.
const OF_LAUNCHERS: [&str; 5] = ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX", "RANK"];

/// `--ranks`: how many, or which ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// So many, from 0 on.
    Count(u32),
    /// Those that are listed.
    These(BTreeSet<u32>),
}

/// `--rank`: one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneRank {
    /// Of the launcher that has started this one.
    Auto,
    /// This one.
    Number(u32),
}

/// What was written, and what is expected.
#[derive(Debug)]
pub struct BadRanks(String);

impl fmt::Display for BadRanks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRanks {}

fn number(text: &str, most: u32) -> Option<u32> {
    // A sign is read as a part of the number, too.
    let is_plain = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten().filter(|number| *number <= most)
}

impl FromStr for Ranks {
    type Err = BadRanks;

    fn from_str(text: &str) -> Result<Ranks, BadRanks> {
        let most = rejoin_agent::event_log::MOST_RANKS;
        let bad = || {
            BadRanks(format!(
                "expected a number of ranks from 1 to {most}, or with --join the ranks that are started here, as 0-3 \
                 or 0,2,5-7"
            ))
        };
        if let Some(count) = number(text, most).filter(|count| *count > 0) {
            return Ok(Ranks::Count(count));
        }
        let mut these = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first, most - 1).ok_or_else(bad)?, number(last, most - 1).ok_or_else(bad)?);
            if first > last || !(first..=last).all(|rank| these.insert(rank)) {
                return Err(bad());
            }
        }
        if these.len() == 1 && !text.contains('-') {
            return Err(bad());
        }
        Ok(Ranks::These(these))
    }
}

impl FromStr for OneRank {
    type Err = BadRanks;

    fn from_str(text: &str) -> Result<OneRank, BadRanks> {
        if text == "auto" {
            return Ok(OneRank::Auto);
        }
        let most = rejoin_agent::event_log::MOST_RANKS - 1;
        let bad = || BadRanks(format!("expected a rank's number from 0 to {most}, or auto"));
        number(text, most).map(OneRank::Number).ok_or_else(bad)
    }
}

impl OneRank {
    /// The rank.
    ///
    /// # Errors
    /// When no launcher's variable says it, or what it says is no rank.
    pub fn number(self, variable: impl Fn(&str) -> Option<String>) -> Result<u32, BadRanks> {
        let OneRank::Auto = self else {
            let OneRank::Number(rank) = self else { unreachable!("there are two kinds") };
            return Ok(rank);
        };
        let said = OF_LAUNCHERS.iter().find_map(|name| Some((name, variable(name)?)));
        let Some((name, value)) = said else {
            return Err(BadRanks(format!(
                "--rank auto reads the rank from {}, of which none is set; name it, as --rank 3",
                OF_LAUNCHERS.join(", ")
            )));
        };
        number(&value, rejoin_agent::event_log::MOST_RANKS - 1).ok_or_else(|| {
            BadRanks(format!("--rank auto found {name}={value}, which is no rank; name it, as --rank 3"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn these(ranks: &[u32]) -> Ranks {
        Ranks::These(ranks.iter().copied().collect())
    }

    #[test]
    fn a_number_is_how_many_and_a_range_or_a_list_is_which() {
        assert_eq!("4".parse::<Ranks>().expect("a number"), Ranks::Count(4));
        assert_eq!("0-3".parse::<Ranks>().expect("a range"), these(&[0, 1, 2, 3]));
        assert_eq!("5-5".parse::<Ranks>().expect("a range of one"), these(&[5]));
        assert_eq!("0,2,5-7".parse::<Ranks>().expect("a list"), these(&[0, 2, 5, 6, 7]));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["", "0", "-1", "3-1", "1,1", "0-3,2", "a", "1-", "+2", "0-4096", "4097", "1,,2"] {
            let error = text.parse::<Ranks>().expect_err(text).to_string();
            assert!(error.contains("as 0-3"), "{text}: {error}");
        }
        assert!("four".parse::<OneRank>().is_err());
    }

    #[test]
    fn the_rank_that_a_launcher_has_said_is_found_whichever_launcher_it_is() {
        for name in OF_LAUNCHERS {
            let rank = OneRank::Auto.number(|asked| (asked == name).then(|| "7".to_string()));
            assert_eq!(rank.expect("it is said"), 7, "{name}");
        }
        assert_eq!(OneRank::Number(3).number(|_| Some("7".into())).expect("it is named"), 3);
        let none = OneRank::Auto.number(|_| None).expect_err("nobody says it").to_string();
        assert!(none.contains("SLURM_PROCID") && none.contains("--rank 3"), "{none}");
        let odd = OneRank::Auto.number(|name| (name == "RANK").then(|| "x".into())).expect_err("no number");
        assert!(odd.to_string().contains("RANK=x"), "{odd}");
    }
}
