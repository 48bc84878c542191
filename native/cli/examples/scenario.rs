//! The program of the scenario tests: collectives of every kind, each result checked for its value on each rank.
//!
//! Arguments: iterations (default 3), floats (default 10,000), the most ranks that an earlier job
//! had (default: those of this one), then `big` for iterations of one allreduce alone, `lazy` for
//! checkpoints whose bytes are made when a rank needs them, `own` for a model of each rank's own
//! beside the common one, `empty` for a common one without bytes, `again` for ranks that join again
//! in the same process when they are sent back. Before the first checkpoint a boot collective; an
//! iteration is max (call 0), 8 broadcasts from different roots (calls 1 to 8), sum (call 9),
//! allgather (call 10), and a checkpoint of the sum.
#![allow(missing_docs)]

use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::Rank;
use rejoin_communicator::collectives::{Element, Reduction};
use rejoin_communicator::launched::Launched;
use rejoin_communicator::{Boot, Communicator, Folding, Former, Input, Limits, Options};
use std::time::Duration;

/// Number of the boot collective's inputs, among the kinds of inputs.
const BOOT: u32 = 99;

/// Inputs repeat after so many elements, so that what is expected of millions is quickly known.
const PERIOD: usize = 1009;

/// What a rank puts into a call: whole numbers, so that sums are exact.
fn input(rank: u32, iteration: u32, call: u32, floats: usize) -> Vec<f32> {
    let first = rank * 131 + iteration * 29 + call * 31;
    let pattern: Vec<f32> = (0..PERIOD as u32).map(|i| ((first + i * 7) % PERIOD as u32) as f32).collect();
    repeated(&pattern, floats)
}

fn repeated(pattern: &[f32], floats: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(floats);
    while values.len() < floats {
        values.extend_from_slice(&pattern[..pattern.len().min(floats - values.len())]);
    }
    values
}

fn folded(world: u32, iteration: u32, call: u32, floats: usize, fold: fn(f32, f32) -> f32) -> Vec<f32> {
    let mut result = input(0, iteration, call, PERIOD);
    for rank in 1..world {
        for (sum, value) in result.iter_mut().zip(input(rank, iteration, call, PERIOD)) {
            *sum = fold(*sum, value);
        }
    }
    repeated(&result, floats)
}

fn expect(what: &str, seen: &[f32], wanted: &[f32]) -> Result<(), Error> {
    let wrong = || seen.iter().zip(wanted).position(|(seen, wanted)| seen != wanted);
    let equal = bytemuck::cast_slice::<f32, u8>(seen) == bytemuck::cast_slice::<f32, u8>(wanted);
    match if equal { None } else { wrong() } {
        None if seen.len() == wanted.len() => Ok(()),
        place => {
            let place = place.unwrap_or_default();
            let text = format!(
                "WRONG RESULT of {what}: element {place} is {}, expected {} ({} and {} elements)",
                seen[place],
                wanted[place],
                seen.len(),
                wanted.len()
            );
            Err(Error::new(Code::Internal, text))
        }
    }
}

/// What only this rank has at a version: of another length at each rank, nothing at rank 7.
fn own_model(rank: u32, version: u32) -> Vec<f32> {
    input(rank, version, 11, if rank == 7 { 0 } else { 1000 * (rank as usize + 1) })
}

/// What a rank starts with: the own model that it had in the world that made the version, and those that it is given of
/// ranks that are gone.
fn own_models(ranks: &Communicator, version: u32) -> Result<(), Error> {
    let here = Former { rank: Some(ranks.rank()), world: ranks.world(), given: Vec::new() };
    let former = ranks.former().unwrap_or(here);
    let expect_own = |owner: Rank, own: &[u8]| {
        let own: Vec<f32> = own.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        expect(&format!("the own model of rank {owner}"), &own, &own_model(owner.0, version))
    };
    match (former.rank, ranks.load_own()?) {
        (Some(was), Some(own)) => expect_own(was, &own)?,
        (None, None) => println!("has no own model at version {version}"),
        (was, own) => {
            let text = format!("WRONG RESULT of load: was {was:?}, has an own model: {}", own.is_some());
            return Err(Error::new(Code::Internal, text));
        }
    }
    for gone in former.given {
        let said = match ranks.load_own_of(gone)? {
            Some(own) => expect_own(gone, &own).map(|()| "is given")?,
            None => "lacks",
        };
        println!("{said} the own model of rank {gone} of {} as of version {version}", former.world);
    }
    Ok(())
}

struct Scenario {
    /// The number of ranks that the job began with.
    largest: u32,
    iterations: u32,
    floats: usize,
    big: bool,
    lazy: bool,
    own: bool,
    empty: bool,
}

impl Scenario {
    fn iteration(&self, ranks: &mut Communicator, iteration: u32) -> Result<Vec<f32>, Error> {
        let (rank, world, floats) = (ranks.rank().0, ranks.world(), self.floats);
        let mut call = 0;
        if !self.big {
            let mut values = input(rank, iteration, call, floats);
            ranks.allreduce(&mut values, Reduction::Max)?;
            expect("max", &values, &folded(world, iteration, call, floats, f32::max))?;
            for broadcast in 0..8 {
                call = 1 + broadcast;
                let root = (iteration + broadcast) % world;
                let mut values =
                    if rank == root { input(root, iteration, call, floats) } else { vec![f32::NAN; floats] };
                ranks.broadcast(&mut values, Rank(root))?;
                expect(&format!("broadcast {broadcast}"), &values, &input(root, iteration, call, floats))?;
            }
            call = 9;
        }
        let mut sum = input(rank, iteration, call, floats);
        ranks.allreduce(&mut sum, Reduction::Sum)?;
        expect("sum", &sum, &folded(world, iteration, call, floats, |x, y| x + y))?;
        if !self.big {
            let own = input(rank, iteration, 10, floats / world as usize);
            let mut all = vec![0.0; own.len() * world as usize];
            ranks.allgather(&own, &mut all)?;
            let wanted: Vec<f32> = (0..world).flat_map(|rank| input(rank, iteration, 10, own.len())).collect();
            expect("allgather", &all, &wanted)?;
        }
        Ok(sum)
    }

    /// The model after so many iterations.
    fn model(&self, world: u32, iterations: u32) -> Vec<f32> {
        let call = if self.big { 0 } else { 9 };
        folded(world, iterations - 1, call, self.floats, |x, y| x + y)
    }

    fn checkpoint(&self, ranks: &mut Communicator, model: &[f32]) -> Result<(), Error> {
        let model = if self.empty { &[] } else { model };
        if self.lazy {
            let (snapshot, rank, version) = (model.to_vec(), ranks.rank(), ranks.version());
            let supplier = move || {
                println!("rank {rank} makes its model after version {version}");
                Ok(bytemuck::cast_slice(&snapshot).to_vec())
            };
            return ranks.checkpoint_lazy(supplier).map(drop);
        }
        if self.own {
            let own = own_model(ranks.rank().0, ranks.version().0 + 1);
            return ranks.checkpoint_with_own(bytemuck::cast_slice(model), bytemuck::cast_slice(&own)).map(drop);
        }
        ranks.checkpoint(bytemuck::cast_slice(model)).map(drop)
    }

    fn run(&self, ranks: &mut Communicator) -> Result<Vec<f32>, Error> {
        let (rank, world) = (ranks.rank().0, ranks.world());
        let mut boot = input(rank, 0, BOOT, 100);
        let options = Options { boot: Boot::BySite, ..Options::default() };
        let (bytes, least): (&mut [u8], _) =
            (bytemuck::cast_slice_mut(&mut boot), Folding::known(Element::F32, Reduction::Min)?);
        bytes.copy_from_slice(&ranks.allreduce_bytes(Input::Ready(bytes), &least, &options)?);
        expect("the boot collective", &boot, &folded(world, 0, BOOT, 100, f32::min))?;
        let (version, model) = ranks.load()?;
        println!("starts at version {version} as incarnation {}", ranks.incarnation());
        println!("is rank {rank} of {world} from version {version} on");
        let here = ranks.placement();
        println!(
            "is local rank {} of {}, cross rank {} of {}",
            here.local_rank, here.local_size, here.cross_rank, here.cross_size
        );
        if self.own && version.0 > 0 {
            own_models(ranks, version.0)?;
        }
        let mut last = Vec::new();
        match model {
            Some(model) => {
                last = model.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
                // The world may have shrunk since it was made.
                let of = |world: &u32| last.is_empty() || self.model(*world, version.0) == last;
                let whole = self.model((world..=self.largest).find(of).unwrap_or(world), version.0);
                if self.empty {
                    expect("load of nothing", &last, &[])?;
                    last = whole;
                } else {
                    expect("load", &last, &whole)?;
                }
            }
            None if version.0 > 0 => {
                return Err(Error::new(Code::Internal, format!("WRONG RESULT of load: no model at version {version}")))
            }
            None => {}
        }
        for iteration in version.0..self.iterations {
            last = self.iteration(ranks, iteration)?;
            self.checkpoint(ranks, &last)?;
        }
        Ok(last)
    }
}

fn work() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let is_wanted = |word: &str| arguments.iter().any(|argument| argument == word);
    let launched = Launched::from_environment()?;
    let scenario = Scenario {
        largest: launched.world.max(number(2, 0) as u32),
        iterations: number(0, 3) as u32,
        floats: number(1, 10_000),
        big: is_wanted("big"),
        lazy: is_wanted("lazy"),
        own: is_wanted("own"),
        empty: is_wanted("empty"),
    };
    let limits = Limits { call: Duration::from_secs(70), ..Limits::default() };
    let Some(mut ranks) = launched.join("scenario", limits)? else {
        println!("the job was over");
        return Ok(());
    };
    loop {
        let ended = scenario.run(&mut ranks).and_then(|model| {
            let bytes: &[u8] = bytemuck::cast_slice(&model);
            ranks.end(bytes).map(|()| rejoin_agent::digest(bytes))
        });
        match ended {
            Ok(digest) => {
                println!("digest {digest:032x}");
                return Ok(());
            }
            Err(error) if error.code.goes_back() && is_wanted("again") => {
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
