//! Notes of how a rank spends its time, where a job asks for them: what a timeline is drawn from.

use rejoin_agent::AgentReports;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{MemberId, Phase, Rank};
use rejoin_protocol::profile::{Activity, Profile};
use std::time::Instant;

/// A rank's profile, or nothing: then no clock is read.
pub(super) struct RankProfile(Option<(Profile, Instant)>);

impl RankProfile {
    pub(super) fn new(wanted: bool) -> Self {
        RankProfile(wanted.then(|| (Profile::new(0), Instant::now())))
    }

    fn begin(&mut self, activity: Activity) {
        if let Some((profile, began)) = &mut self.0 {
            profile.begin(activity, began.elapsed().as_micros() as u64);
        }
    }

    pub(super) fn computing(&mut self) {
        self.begin(Activity::Computing);
    }

    pub(super) fn exchanging(&mut self) {
        self.begin(Activity::Exchanging);
    }

    /// The call is about to return a recorded result: it was for this that the time since the last change went.
    pub(super) fn replaying(&mut self) {
        if let Some((profile, _)) = &mut self.0 {
            profile.turns_out(Activity::Replaying);
        }
    }

    /// The rank waited for is asked for only if there is a profile.
    pub(super) fn waiting(&mut self, whom: impl FnOnce() -> Option<usize>) {
        if self.0.is_some() {
            self.begin(Activity::Waiting(whom().map(|peer| Rank(peer as u32))));
        }
    }

    /// Reports what is finished. `at` is where the rank is.
    pub(super) fn report(&mut self, agent: &dyn AgentReports, member: MemberId, at: impl FnOnce() -> (Phase, u32)) {
        let Some((profile, began)) = &mut self.0 else { return };
        let now = began.elapsed().as_micros() as u64;
        let Some(first) = profile.take(now) else { return };
        let (phase, seqno) = at();
        let mut next = Some(first);
        while let Some((stretch, ended)) = next {
            let MemberId { rank, incarnation } = member;
            let ago_micros = now.saturating_sub(ended);
            agent.report_event(Event::Spent { rank, incarnation, stretch, ago_micros, phase, seqno });
            next = profile.take(now);
        }
    }

    /// The rank has nothing more to call: what is open is finished.
    pub(super) fn end(&mut self) {
        if let Some((profile, began)) = &mut self.0 {
            profile.end(began.elapsed().as_micros() as u64);
        }
    }
}
