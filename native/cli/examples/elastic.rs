//! A program that trains until the world has been as it is told to, and keeps in its model what each version was made
//! of.
//!
//! Arguments: sizes of worlds, as `2 4 3 4`. It goes on to the next one when the world has had that
//! size, and ends after the last one. The model is a line for each version: how many ranks have
//! made it, and the sum of what they gave. The test that runs it computes the same of those sizes.
//! A process whose number is in `ELASTIC_DIES` ends with status 3 when it comes. With `ELASTIC_OWN` each rank of the
//! first world has a part that only it keeps, as its own model; whoever comes and goes, each part is at one rank.
#![allow(missing_docs)]

use rejoin_agent::protocol::error::{Code, Error};
use rejoin_communicator::collectives::Reduction;
use rejoin_communicator::launched::Launched;
use rejoin_communicator::{Communicator, Limits, Placement};
use std::time::Duration;

/// What a rank gives to a version.
fn given(rank: u32, version: u32) -> f64 {
    f64::from((rank + 1) * 1000 + version)
}

fn text(model: &[u8]) -> String {
    String::from_utf8_lossy(model).into_owned()
}

/// How many of the sizes the world has had, of the versions that the model has.
fn reached(model: &str, sizes: &[u32]) -> usize {
    model.lines().fold(0, |reached, line| {
        let world = line.split(' ').next().and_then(|world| world.parse().ok());
        reached + usize::from(world.is_some() && world == sizes.get(reached).copied())
    })
}

/// The parts that this rank begins with.
fn parts(ranks: &Communicator, version: u32) -> Result<Vec<u8>, Error> {
    if version == 0 {
        return Ok(vec![ranks.rank().0 as u8 + 1]);
    }
    let mut parts = ranks.load_own()?.unwrap_or_default().to_vec();
    for gone in ranks.former().map(|former| former.given).unwrap_or_default() {
        println!("is given the own model of rank {gone}");
        parts.extend(ranks.load_own_of(gone)?.unwrap_or_default());
    }
    Ok(parts)
}

/// All parts are there once, or the job ends.
fn are_whole(ranks: &mut Communicator, parts: &[u8], first: u32) -> Result<(), Error> {
    let mut seen = vec![0_u32; first as usize];
    for part in parts {
        seen[usize::from(*part) - 1] += 1;
    }
    ranks.allreduce(&mut seen, Reduction::Sum)?;
    match seen.iter().all(|times| *times == 1) {
        true => Ok(()),
        false => Err(Error::new(Code::Internal, format!("WRONG RESULT: the parts are there {seen:?} times"))),
    }
}

fn train(ranks: &mut Communicator, sizes: &[u32]) -> Result<String, Error> {
    let (version, model) = ranks.load()?;
    let mut model = model.map(|model| text(&model)).unwrap_or_default();
    let (rank, world) = (ranks.rank().0, ranks.world());
    println!("is rank {rank} of {world} from version {version} on");
    let Placement { local_rank, local_size, cross_rank, cross_size } = ranks.placement();
    println!("of {world}: local {local_rank} of {local_size}, cross {cross_rank} of {cross_size}");
    let has_own = std::env::var_os("ELASTIC_OWN").is_some();
    let parts = if has_own { parts(ranks, version.0)? } else { Vec::new() };
    let mut last = reached(&model, sizes);
    while last < sizes.len() {
        let mut sum = [given(rank, ranks.version().0)];
        ranks.allreduce(&mut sum, Reduction::Sum)?;
        model += &format!("{world} {}\n", sum[0]);
        if has_own {
            are_whole(ranks, &parts, sizes[0])?;
            ranks.checkpoint_with_own(model.as_bytes(), &parts)?;
        } else {
            ranks.checkpoint(model.as_bytes())?;
        }
        if reached(&model, sizes) > last {
            last += 1;
            println!("reached {last}");
        }
        // So that a job waits for slots with some hundreds of versions, and not with millions.
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(model)
}

fn work() -> Result<(), Error> {
    let sizes: Vec<u32> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let launched = Launched::from_environment()?;
    let dies = std::env::var("ELASTIC_DIES").unwrap_or_default();
    if dies.split(',').any(|number| number == launched.rank.to_string()) {
        println!("dies at once");
        std::process::exit(3);
    }
    let limits = Limits { call: Duration::from_secs(40), ..Limits::default() };
    let Some(mut ranks) = launched.join("elastic", limits)? else {
        println!("the job was over");
        return Ok(());
    };
    loop {
        match train(&mut ranks, &sizes).and_then(|model| ranks.end(model.as_bytes()).map(|()| model)) {
            Ok(model) => {
                println!("digest {:032x}", rejoin_agent::digest(model.as_bytes()));
                for line in model.lines().filter(|_| ranks.rank().0 == 0) {
                    println!("made {line}");
                }
                return Ok(());
            }
            Err(error) if error.code.goes_back() => {
                println!("joins again after {error}");
                match ranks.join_again()? {
                    Some(next) => ranks = next,
                    None => return Ok(()),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

fn main() {
    if let Err(error) = work() {
        eprintln!("failed: {error}");
        std::process::exit(9);
    }
}
