//! The slots of a run, the first of which are waited for.

use super::discovery::refusal;
use super::output::Sink;
use super::slots::{Listing, Slots};
use super::status::Ending;
use super::{LauncherEvent, Options};
use crossbeam::channel::Receiver;
use rejoin_agent::protocol::error::{Code, Error};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

/// The slots of a run, and what a user was told of their discovery.
pub struct Growth {
    /// How many there may be.
    pub slots: Slots,
    /// The numbers of processes that were asked to end, since their slots are gone.
    pub leaving: BTreeSet<u32>,
    /// What was said.
    pub notes: Notes,
}

/// What was said already.
#[derive(Default)]
pub struct Notes {
    fails: bool,
    refused: BTreeSet<String>,
}

/// How a wait for the first slots ended.
pub enum First {
    /// They are there.
    There(Growth),
    /// They didn't come, and nothing was begun.
    Over(Ending),
}

impl First {
    /// Waits until there are slots for all ranks that the job begins with, in a run that began then.
    ///
    /// # Errors
    /// `MembersMissing` when they don't come in time; `BadArgument` when another host is named.
    pub fn wait(
        options: &Options,
        began: Instant,
        sink: &Sink,
        receiver: &Receiver<LauncherEvent>,
    ) -> Result<First, Error> {
        let (world, most) = (options.world, options.most_ranks());
        let Some(script) = &options.discovery else {
            return Ok(First::There(Growth::new(Slots::new(most, world))));
        };
        let (members_until, mut notes) = (Instant::now() + options.members, Notes::default());
        let over = options.timeout.map(|limit| began + limit);
        let until = over.map_or(members_until, |over| over.min(members_until));
        let mut seen = String::from("it has not answered");
        while let Ok(event) = receiver.recv_deadline(until) {
            match event {
                LauncherEvent::Signal(signal) => return Ok(First::Over(Ending::Signalled(signal))),
                LauncherEvent::Listed(Ok(Listing { elsewhere, .. })) if !elsewhere.is_empty() => {
                    return Err(Error::new(Code::BadArgument, refusal(&elsewhere[0])));
                }
                LauncherEvent::Listed(Ok(Listing { here, .. })) if here >= world => {
                    return Ok(First::There(Growth { notes, ..Growth::new(Slots::new(most, here)) }));
                }
                LauncherEvent::Listed(Ok(Listing { here, .. })) => {
                    notes.answered(Vec::new(), sink);
                    seen = format!("it named {here}");
                }
                LauncherEvent::Listed(Err(text)) => {
                    notes.failed(script, &text, sink);
                    seen = text;
                }
                _ => {}
            }
        }
        if let Some(limit) = options.timeout.filter(|_| over == Some(until)) {
            return Ok(First::Over(Ending::TimedOut(format!(
                "the run took longer than --timeout {} s; --discovery {} was to name slots for {world} ranks; {seen}. \
                 Begin with fewer ranks (-n), or wait longer",
                limit.as_secs_f64(),
                script.display()
            ))));
        }
        Err(Error::new(
            Code::MembersMissing,
            format!(
                "--discovery {} was to name slots for {world} ranks within {} s (--members); {seen}. Begin with fewer \
                 ranks (-n), or wait longer",
                script.display(),
                options.members.as_secs_f64()
            ),
        ))
    }
}

impl Notes {
    /// The program has failed; said once.
    pub fn failed(&mut self, script: &Path, text: &str, sink: &Sink) {
        if !std::mem::replace(&mut self.fails, true) {
            sink.say(&format!("--discovery {}: {text}; it is asked again every second", script.display()));
        }
    }

    /// It has answered, with these other hosts; each is refused once.
    pub fn answered(&mut self, elsewhere: Vec<String>, sink: &Sink) {
        self.fails = false;
        for host in elsewhere {
            if self.refused.insert(host.clone()) {
                sink.say(&refusal(&host));
            }
        }
    }
}

impl Growth {
    fn new(slots: Slots) -> Self {
        Growth { slots, leaving: BTreeSet::new(), notes: Notes::default() }
    }

    /// A process failed, and is not started again.
    pub fn fail(&mut self) {
        self.slots.fail();
    }

    /// Whether this process was asked to end, since its slot is gone. It is not any more, then.
    pub fn has_left(&mut self, number: u32) -> bool {
        self.leaving.remove(&number)
    }
}
