//! `rejoin status`: how a job is, by its tracker's word.

use crate::run::output::say;
use rejoin_agent::ask;
use rejoin_agent::join_file::JoinFile;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::job_status::{JobStatus, RankActivity, RankNow};
use rejoin_agent::protocol::words::times;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// How long an answer is waited for.
const ANSWER: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// To the upper left corner, and all below cleared (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[J";

/// `deaths`: of how many that are survived; `lost`: how long it didn't work with the others because
/// of them; `again`: how many rounds it computed twice.
const HEADS: [&str; 9] = ["rank", "state", "start", "host", "process", "last seen", "deaths", "lost", "again"];

/// Prints it, and says the exit status.
///
/// # Errors
/// What kept the tracker from being asked.
pub fn status(join: &Path, watch: bool, json: bool) -> Result<u8, Error> {
    let out = std::io::stdout();
    let clears = watch && !json && out.is_terminal();
    let mut was_seen = false;
    loop {
        let Some(found) = JoinFile::read(join)? else {
            if was_seen {
                say("rejoin status: the job is over: its join file is gone");
                return Ok(0);
            }
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "there is no join file {}: its job is over, or `rejoin tracker --join` has not been started",
                    join.display()
                ),
            ));
        };
        let text = match ask(&found, ANSWER) {
            Ok(status) if json => line(&found.name, &status)?,
            Ok(status) => table(&found, &status),
            // It may be on its way back, or just over.
            Err(error) if watch && was_seen => {
                say(&format!("rejoin status: {error}"));
                String::new()
            }
            Err(error) => return Err(error),
        };
        was_seen = true;
        if !text.is_empty() {
            print(&text, clears)?;
        }
        if !watch {
            return Ok(0);
        }
        std::thread::sleep(PAUSE);
    }
}

fn print(text: &str, clears: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    let written = write!(out, "{}{text}", if clears { CLEAR } else { "" }).and_then(|()| out.flush());
    written.map_err(|cause| Error::new(Code::Io, format!("standard output can't be written: {cause}")))
}

fn line(job: &str, status: &JobStatus) -> Result<String, Error> {
    let bad = |cause: serde_json::Error| Error::new(Code::Io, format!("the status can't be written as JSON: {cause}"));
    let mut value = serde_json::to_value(status).map_err(bad)?;
    value["job"] = job.into();
    Ok(format!("{value}\n"))
}

fn table(join: &JoinFile, status: &JobStatus) -> String {
    let count = |which: fn(&RankActivity) -> bool| status.ranks.iter().filter(|rank| which(&rank.state)).count();
    let missing = count(|state| matches!(state, RankActivity::Missing { .. }));
    let deaths: u32 = status.ranks.iter().map(|rank| rank.deaths).sum();
    let mut text = format!(
        "job {}: {} ranks, {missing} missing, {deaths} deaths; life {} of its tracker at {}, for {}\n",
        join.name,
        status.world,
        status.life,
        join.tracker,
        seconds(status.millis)
    );
    if status.resizes > 0 || status.most_resizes.is_some() {
        let most = status.most_resizes.map_or_else(String::new, |most| format!(", of {most} that are allowed"));
        text.push_str(&format!("its world has changed {}{most}\n", times(status.resizes)));
    }
    if let Some(over) = &status.over {
        text.push_str(&format!("the job is over: {over}\n"));
    }
    let heads = HEADS.map(String::from);
    let rows: Vec<[String; HEADS.len()]> = std::iter::once(heads).chain(status.ranks.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    for rank in &status.ranks {
        if let RankActivity::Missing { millis, because } = &rank.state {
            let left = seconds(status.members_millis.saturating_sub(*millis));
            let then = match join.max {
                None => format!("the job ends in {left} if it doesn't come"),
                Some(_) => format!(
                    "if no replacement comes, the others go on without it (--elastic-timeout); where they are too few, \
                     the job ends in {left}"
                ),
            };
            text.push_str(&format!("rank {} is missing: {because}; {then}\n", rank.rank));
        }
    }
    text
}

fn row(rank: &RankNow) -> [String; HEADS.len()] {
    let state = match &rank.state {
        RankActivity::Missing { millis, .. } => format!("missing for {}", seconds(*millis)),
        RankActivity::Waits { millis } => format!("waits for {}", seconds(*millis)),
        RankActivity::Trains { version, round } if version.0 == *round => format!("in version {version}"),
        RankActivity::Trains { version, round } => format!("in version {version}, round {round}"),
        RankActivity::Finished { rounds } => format!("finished after {rounds} rounds"),
    };
    let place = rank.place.as_ref();
    let start = rank.incarnation.map_or_else(|| "-".into(), |incarnation| incarnation.to_string());
    let seen = place.map_or_else(
        || "-".into(),
        |place| format!("{} ago{}", seconds(place.seen_millis), if place.is_silent { ", silent" } else { "" }),
    );
    let or_none = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".into());
    [
        rank.rank.to_string(),
        state,
        start,
        or_none(place.map(|place| &place.host)),
        or_none(place.map(|place| &place.process)),
        seen,
        rank.most_deaths.map_or_else(|| rank.deaths.to_string(), |most| format!("{} of {most}", rank.deaths)),
        if rank.lost_millis > 0 { seconds(rank.lost_millis) } else { "-".into() },
        rank.rounds_again.to_string(),
    ]
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}
