//! Checks a setup and says how many states it has: `rejoin-model two-versions --crashes 2`.
#![forbid(unsafe_code)]

use rejoin_model::{check, Setup, Verdict};
use rejoin_protocol::start::{JobStart, Origin};
use rejoin_sim::ranks::Defect;
use std::process::ExitCode;

const USAGE: &str = "usage: rejoin-model JOB [--world N] [--crashes N] [--victims PROCESS,...] [--zombies N] [--cuts N]
                    [--leaves N] [--least N]
                    [--tracker-deaths N] [--ends] [--rendezvous] [--defect NAME]
                    [--start durable|handed-over] [--threads N] [--reduced]
  JOB     one-collective, two-collectives, two-versions, five-versions, boot-and-one, root-ahead, both-lanes,
          with-a-spare, shrinking, growing
  --least       the world may shrink to so many ranks, and processes that die aren't started again
  --ends        processes end when they have the end; the tracker may die after it has said it
  --rendezvous  faults may be injected before all have joined
  --victims     processes that may die, by number: 0 is rank 0, from the number of ranks on restarts; else any
  --defect      a defect of the driver, by its name in rejoin_sim::ranks::Defect
  --start       the job goes on from version 1 of an earlier one
  --reduced     orders are left out of which docs/testing.md says that they make no difference";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| arguments.iter().position(|one| one == name).and_then(|at| arguments.get(at + 1));
    let number = |name: &str, otherwise: u8| after(name).map_or(Some(otherwise), |text| text.parse().ok());
    let job = match arguments.first().map(String::as_str) {
        Some("two-collectives") => Some(Setup::two_collectives()),
        Some("one-collective") => Some(Setup::one_collective()),
        Some("two-versions") => Some(Setup::two_versions()),
        Some("five-versions") => Some(Setup::five_versions()),
        Some("boot-and-one") => Some(Setup::boot_and_one()),
        Some("root-ahead") => Some(Setup::root_ahead()),
        Some("with-a-spare") => Some(Setup::with_a_spare()),
        Some("shrinking") => Some(Setup::shrinking()),
        Some("growing") => Some(Setup::growing()),
        Some("both-lanes") => Some(Setup::both_lanes()),
        _ => None,
    };
    let defect = match after("--defect") {
        None => Some(None),
        Some(name) => Defect::ALL.into_iter().find(|defect| format!("{defect:?}") == *name).map(Some),
    };
    let start: Option<fn(Origin) -> JobStart> = match after("--start").map(String::as_str) {
        Some("durable") => Some(JobStart::Durable),
        Some("handed-over") => Some(JobStart::HandedOver),
        _ => None,
    };
    let parsed = (|| {
        let setup = Setup {
            crashes: number("--crashes", 0)?,
            victims: after("--victims").map(|text| text.split(',').map(str::parse).collect()).transpose().ok()?,
            zombies: number("--zombies", 0)?,
            cuts: number("--cuts", 0)?,
            leaves: number("--leaves", 0)?,
            tracker_deaths: number("--tracker-deaths", 0)?,
            ends: arguments.iter().any(|one| one == "--ends"),
            from_rendezvous: arguments.iter().any(|one| one == "--rendezvous"),
            world: u32::from(number("--world", 3)?),
            least: match after("--least") {
                Some(text) => Some(text.parse().ok()?),
                None => job.as_ref()?.least,
            },
            defect: defect?,
            reduced: arguments.iter().any(|one| one == "--reduced"),
            ..job?
        };
        Some((start.map_or(setup.clone(), |start| setup.goes_on(start)), usize::from(number("--threads", 2)?)))
    })();
    let Some((setup, threads)) = parsed else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!("{setup:?}");
    let verdict = check(setup, threads);
    let Verdict { states, ends, took, .. } = &verdict;
    println!(
        "{states} states in {:.1} s, {} ends, {} MB of memory",
        took.as_secs_f64(),
        ends.len(),
        memory_peak() >> 20
    );
    match verdict.broken {
        None => ExitCode::SUCCESS,
        Some((promise, trace)) => {
            println!("{promise} is broken:");
            trace.iter().for_each(|step| println!("  {step}"));
            ExitCode::FAILURE
        }
    }
}

/// The most bytes of memory that this process had so far, as the system says; 0 where it doesn't.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() << 10
}
