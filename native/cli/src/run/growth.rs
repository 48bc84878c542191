//! The slots of a run, the first of which are waited for.

use super::discovery::refusal;
use super::ending::NotBegun;
use super::output::Sink;
use super::slots::{Listing, Slots};
use super::wait::{Wait, LOOK};
use super::{LauncherEvent, Options};
use crossbeam::channel::Receiver;
use rejoin_agent::protocol::error::{Code, Error};
use std::collections::BTreeSet;
use std::path::Path;

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

impl Growth {
    /// Waits until there are slots for all ranks that the job begins with.
    ///
    /// # Errors
    /// The run is over when its time is up or a signal comes; `MembersMissing` when they don't come in time;
    /// `BadArgument` when another host is named.
    pub fn wait(
        options: &Options,
        wait: &Wait,
        sink: &Sink,
        receiver: &Receiver<LauncherEvent>,
    ) -> Result<Growth, NotBegun> {
        let (world, most) = (options.world, options.most_ranks());
        let Some(script) = &options.discovery else {
            return Ok(Growth::new(Slots::new(most, world)));
        };
        let mut notes = Notes::default();
        let mut seen = String::from("it has not answered");
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(LauncherEvent::Listed(Ok(Listing { elsewhere, .. }))) if !elsewhere.is_empty() => {
                    return Err(Error::new(Code::BadArgument, refusal(&elsewhere[0])).into());
                }
                Ok(LauncherEvent::Listed(Ok(Listing { here, .. }))) if here >= world => {
                    return Ok(Growth { notes, ..Growth::new(Slots::new(most, here)) });
                }
                Ok(LauncherEvent::Listed(Ok(Listing { here, .. }))) => {
                    notes.answered(Vec::new(), sink);
                    seen = format!("it named {here}");
                }
                Ok(LauncherEvent::Listed(Err(text))) => {
                    notes.failed(script, &text, sink);
                    seen = text;
                }
                _ => {}
            }
            wait.goes_on(Code::MembersMissing, || {
                format!(
                    "--discovery {} was to name slots for {world} ranks; {seen}. Begin with fewer ranks (-n), or wait \
                     longer",
                    script.display()
                )
            })?;
        }
    }

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
