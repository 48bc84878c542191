//! One rank's collectives as its own thread makes them, whichever counts its versions: a
//! [`Communicator`](super::Communicator), or a trainer by its [`Operations`](super::Operations).
//! [`running`] is what happens in each of them.

mod catch_up;
mod input;
mod moments;
mod running;

pub use input::{Input, Prepare};

use super::call_log::CallLog;
use super::local_rank::LocalRank;
use super::memory::Memory;
use super::peer_links::PeerLinks;
use super::placement::Placement;
use super::plane::CollectivePlane;
use super::rank_profile::RankProfile;
use super::shape::Shapes;
use catch_up::CatchUp;
use mio::Poll;
use rejoin_collectives::{Element, Reducer};
use rejoin_protocol::collective::{frame::Expected, sharing, Call, CollectiveId, Operation, Site};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Phase, Rank, Version};
use rejoin_protocol::report::Report;
use rejoin_transport::Backoff;
use std::sync::Arc;
use std::time::Duration;

/// What the owner of a rank's calls may choose.
pub(super) struct Choices {
    /// How long one call may take.
    pub(super) at_most: Duration,
    pub(super) rank_profile: RankProfile,
    pub(super) log: CallLog,
    /// Whether the owner promises that every incarnation gives the same to the same calls: then it
    /// is found out if one doesn't.
    pub(super) repeats: bool,
}

/// The collectives of one rank in one incarnation. They belong to one thread at a time.
pub(super) struct Calls {
    pub(super) plane: Arc<CollectivePlane>,
    pub(super) local_rank: Arc<LocalRank>,
    pub(super) rank_profile: RankProfile,
    pub(super) log: CallLog,
    poll: Poll,
    /// How to wait for the others, as the last waits were.
    backoff: Backoff,
    peer_links: PeerLinks,
    memory: Memory,
    /// Ranks without a member under the generation that was decided about last.
    vacant: Vec<Rank>,
    at_most: Duration,
    shapes: Shapes,
    scratch: Vec<u8>,
    failed: Option<Error>,
    /// A call has begun, and has not come back.
    pub(super) is_in_call: bool,
    pub(super) repeats: bool,
    /// The first round of the version, where the owner has rounds; for errors.
    pub(super) round: Option<u32>,
    /// The last round that the owner has begun.
    begun: Option<u32>,
    /// Whether the last call had to be run: its result wasn't a recorded one.
    has_run: bool,
    /// How a restarted rank catches up, until it is reported.
    catch_up: Option<CatchUp>,
    /// Bytes that collectives of this phase have sent, for fault rules.
    left: (Phase, u64),
}

impl Calls {
    /// # Errors
    /// `BadState` when this incarnation's calls are made elsewhere already.
    pub(super) fn new(
        plane: Arc<CollectivePlane>,
        local_rank: Arc<LocalRank>,
        memory: Memory,
        choices: Choices,
    ) -> Result<Calls, Error> {
        let member = local_rank.member;
        let Some(poll) = local_rank.take_poll() else {
            let text = format!("rank {}'s collectives are in use already", member.rank);
            return Err(Error::new(Code::BadState, text));
        };
        let Choices { at_most, rank_profile, log, repeats } = choices;
        let sent_back_in = local_rank.was.and_then(|was| plane.goes_on(was));
        Ok(Calls {
            peer_links: PeerLinks::new(member, local_rank.world),
            shapes: Shapes::new(member.rank.0 as usize, local_rank.world as usize),
            plane,
            local_rank,
            rank_profile,
            log,
            poll,
            backoff: Backoff::default(),
            memory,
            vacant: Vec::new(),
            at_most,
            scratch: Vec::new(),
            failed: None,
            is_in_call: false,
            repeats,
            round: None,
            begun: None,
            has_run: false,
            catch_up: CatchUp::of(member, sent_back_in),
            left: (Phase::Boot, 0),
        })
    }

    pub(super) fn rank(&self) -> Rank {
        self.local_rank.member.rank
    }

    /// By the newest plan, which may come a moment later than the start.
    pub(super) fn placement(&self) -> Placement {
        let state = self.local_rank.lock();
        let hosts = Some(state.participant.hosts()).filter(|hosts| hosts.len() == self.world() as usize);
        Placement::of(self.rank().0 as usize, hosts.unwrap_or(&self.local_rank.hosts))
    }

    pub(super) fn world(&self) -> u32 {
        self.local_rank.world
    }

    /// The version that this rank is in.
    pub(super) fn version(&self) -> Version {
        self.local_rank.lock().participant.version()
    }

    /// # Errors
    /// `BadState` after a failure.
    pub(super) fn usable(&self) -> Result<(), Error> {
        if self.is_in_call {
            let text = format!("rank {}'s communicator is of no more use since a call of it has panicked", self.rank());
            return Err(Error::new(Code::BadState, text));
        }
        match &self.failed {
            Some(error) => Err(Error::new(
                Code::BadState,
                format!("rank {}'s communicator is of no more use since a call failed: {error}", self.rank()),
            )),
            None => Ok(()),
        }
    }

    /// Notes that a call has failed, and ends the job where trying again would fail again.
    pub(super) fn fails(&mut self, error: Error) -> Error {
        let mut state = self.local_rank.lock();
        if error.code != Code::Mismatch {
            // After a mismatch the other rank asks what was called.
            state.participant.give_up();
        }
        let reported = state.error.is_some();
        // A world that has finished nothing starts the next one from what a former one has made.
        let in_no_new_version = state.participant.version() == self.local_rank.starts_at;
        drop(state);
        if error.code.goes_back() {
            let before = self.catch_up.as_ref().and_then(CatchUp::sent_back_in);
            let rank = if in_no_new_version { self.local_rank.was } else { Some(self.rank()) };
            if let (Some(rank), Some(round)) = (rank, self.begun.max(before)) {
                self.plane.is_sent_back(rank, round);
            }
        }
        let ends_the_job = [Code::BadState, Code::Mismatch, Code::OutOfSpace, Code::Internal, Code::TrainingFailed]
            .contains(&error.code);
        if !reported && ends_the_job {
            if let Some(agent) = self.plane.agent() {
                agent.report(self.local_rank.member, Report::Broken(error.clone()));
            }
        }
        self.failed = Some(error.clone());
        error
    }

    /// Whether the newest call's result was a recorded one.
    pub(crate) fn was_replayed(&self) -> bool {
        !self.has_run
    }

    /// The owner begins a round, after so many calls of the version.
    pub(super) fn begins(&mut self, round: u32, calls_before: u32) {
        self.begun = Some(round);
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.begins(round, calls_before);
        }
    }

    /// A call has a result. The first one that no rank had before shows that this one has caught up.
    fn has_result(&mut self, bytes: usize) {
        match self.catch_up.take() {
            Some(mut catch_up) if !self.has_run => {
                catch_up.replayed(bytes as u64);
                self.catch_up = Some(catch_up);
            }
            Some(catch_up) if catch_up.is_before_its_rounds() => self.catch_up = Some(catch_up),
            Some(catch_up) => {
                let calls = self.local_rank.lock().participant.seqno();
                if let Some(agent) = self.plane.agent() {
                    agent.report_event(catch_up.caught_up(self.local_rank.member, calls));
                }
            }
            None => {}
        }
    }

    /// Why a call has failed.
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// The same, to be kept by another owner.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// It was abandoned by its owner for this reason.
    pub(super) fn failed_with(&mut self, error: Error) {
        self.failed = Some(error);
    }

    /// Whether a barrier has to be made before this version may end: it may only when it is certain
    /// that all ranks have entered it.
    pub(super) fn needs_barrier(&self) -> bool {
        self.local_rank.lock().participant.needs_barrier()
    }

    /// Ends the version, and begins the next one. `entered` reports it to others, under one lock with
    /// the logs, so that a status report has both or neither.
    ///
    /// # Errors
    /// `Mismatch` when this incarnation has made fewer collectives of the version than were made
    /// before; why its calls end.
    pub(super) fn enter(&mut self, version: Version, entered: impl FnOnce()) -> Result<(), Error> {
        let mut state = self.local_rank.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        state.participant.enter(version)?;
        entered();
        Ok(())
    }

    /// No rank is served any more by this rank's calls: those that wait for one are notified at once, on
    /// the segment and by a frame of an id that no call has, and those that begin one under a
    /// later plan by the plan.
    ///
    /// # Errors
    /// As [`Calls::enter`].
    pub(super) fn end(&mut self) -> Result<(), Error> {
        let mut state = self.local_rank.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        state.participant.end()?;
        let lineage = self.local_rank.lineage;
        let phase = Phase::Version(Version(state.participant.version().0 + 1));
        self.peer_links.refresh(&mut state, &self.poll)?;
        if let Some(generation) = state.participant.generation() {
            let collective_id = CollectiveId { lineage, phase, seqno: 0 };
            let expected = Expected { generation, collective_id, digest: 0, inputs: 0 };
            self.memory.say_goodbye(&sharing::identity(&expected));
            self.peer_links.begin(expected);
            self.peer_links.say_goodbye();
        }
        Ok(())
    }
}

/// Nothing is folded: bytes only.
pub(super) fn plain() -> Reducer<'static> {
    Reducer::custom(1, |_, _| Ok(()))
}

/// How many elements these bytes are.
///
/// # Errors
/// `BadArgument` when they aren't whole ones.
pub(super) fn count(length: usize, element: Element) -> Result<u64, Error> {
    if length.is_multiple_of(element.size()) {
        return Ok((length / element.size()) as u64);
    }
    Err(Error::new(
        Code::BadArgument,
        format!("a buffer of {length} bytes isn't a whole number of {element} of {} bytes each", element.size()),
    ))
}

/// A call in which nothing is reduced.
pub(super) fn moving(operation: Operation, element: &'static str, count: u64, root: Option<Rank>, site: Site) -> Call {
    Call { operation, element: element.into(), count, reduction: "".into(), root, site }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_agent::logs::{Budget, LogLimits};
    use rejoin_agent::DataPlane;
    use rejoin_protocol::former::Former;
    use rejoin_protocol::host::Start;
    use rejoin_protocol::ids::{Incarnation, Lineage, MemberId};

    fn calls(plane: &Arc<CollectivePlane>, member: MemberId, hosts: &[usize]) -> Calls {
        started(plane, member, hosts, None)
    }

    fn started(plane: &Arc<CollectivePlane>, member: MemberId, hosts: &[usize], former: Option<Box<Former>>) -> Calls {
        let (incarnation, lineage, version) = (member.incarnation, Lineage(0), Version(0));
        let (checkpoint, own, local) = (None, None, None);
        let start = Start { incarnation, lineage, version, checkpoint, own, former, local, hooked: false };
        plane.start(member, hosts, &start);
        let choices = Choices {
            at_most: Duration::from_secs(1),
            rank_profile: RankProfile::new(false),
            log: CallLog::new(None),
            repeats: false,
        };
        let local_rank = plane.local_rank(member).expect("it was started");
        Calls::new(plane.clone(), local_rank, Memory::new(member, None), choices).expect("nobody else has its calls")
    }

    fn plane() -> Arc<CollectivePlane> {
        Arc::new(CollectivePlane::new(Budget::new(LogLimits::default(), "a test's limits")))
    }

    #[test]
    fn a_rank_knows_where_it_is_as_soon_as_it_has_started_and_before_a_plan_has_come() {
        let member = MemberId { rank: Rank(3), incarnation: Incarnation::nth(0) };
        let Placement { local_rank, local_size, cross_rank, cross_size } =
            calls(&plane(), member, &[0, 0, 1, 1]).placement();
        assert_eq!((local_rank, local_size, cross_rank, cross_size), (1, 2, 1, 2));
    }

    #[test]
    fn a_version_that_a_rank_was_sent_back_from_before_it_entered_it_is_no_round_that_it_has_begun() {
        let (plane, rank) = (plane(), Rank(0));
        let mut first = calls(&plane, MemberId { rank, incarnation: Incarnation::nth(0) }, &[0, 0]);
        first.begins(5, 0);
        first.local_rank.lock().error = Some(Error::new(Code::Resized, "the world has changed"));
        let error = first.enter(Version(6), || ()).expect_err("it was sent back");
        let _ = first.fails(error);
        // Another rank of the process takes nothing of that.
        let other = MemberId { rank: Rank(1), incarnation: Incarnation::nth(1) };
        assert_eq!(calls(&plane, other, &[0, 0]).catch_up.and_then(|it| it.sent_back_in()), None);
        let again = calls(&plane, MemberId { rank, incarnation: Incarnation::nth(1) }, &[0, 0]);
        assert_eq!(again.catch_up.and_then(|it| it.sent_back_in()), Some(5));
    }

    #[test]
    fn a_rank_that_is_sent_back_again_before_its_new_world_has_a_version_still_knows_what_it_had_begun() {
        let plane = plane();
        let calls = |rank, was: Option<u32>, hosts: &[usize]| {
            let former = was.map(|was| Box::new(Former { world: 4, rank: Some(Rank(was)), given: Vec::new() }));
            started(&plane, MemberId { rank: Rank(rank), incarnation: Incarnation::nth(1) }, hosts, former)
        };
        let resized = || Error::new(Code::Resized, "the world has changed");
        let mut of_four = calls(3, None, &[0; 4]);
        of_four.begins(5, 0);
        let _ = of_four.fails(resized());
        let mut of_three = calls(2, Some(3), &[0; 3]);
        of_three.begins(4, 0);
        let _ = of_three.fails(resized());
        // The newest version is still one that the world of four has made.
        let of_two = calls(1, Some(3), &[0; 2]);
        assert_eq!(of_two.catch_up.and_then(|it| it.sent_back_in()), Some(5));
    }

    #[test]
    fn rounds_that_a_rank_had_begun_when_it_was_sent_back_are_counted_as_done_again() {
        let (plane, rank) = (plane(), Rank(0));
        let started = |number| calls(&plane, MemberId { rank, incarnation: Incarnation::nth(number) }, &[0]);
        let again = |calls: &mut Calls| match calls.catch_up.take().map(|it| it.caught_up(calls.local_rank.member, 1)) {
            Some(rejoin_protocol::event::Event::CaughtUp { rounds_again, .. }) => rounds_again,
            other => panic!("{other:?}"),
        };
        let mut first = started(0);
        (5..9).for_each(|round| first.begins(round, 0));
        let _ = first.fails(Error::new(Code::Resized, "the world has changed"));
        // Sent back a second time before it has made a call.
        let mut second = started(1);
        second.begins(6, 0);
        let _ = second.fails(Error::new(Code::RolledBack, "the world has changed"));
        let mut third = started(2);
        // Boot calls of another world are new ones, and say nothing of its rounds.
        third.has_run = true;
        third.has_result(8);
        third.begins(6, 0);
        assert_eq!(again(&mut third), 3, "rounds 6 to 8");
        let mut fourth = started(3);
        fourth.begins(6, 0);
        assert_eq!(again(&mut fourth), 0, "a rank that was not sent back");
    }
}
