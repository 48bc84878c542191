//! The slots of a run, the first of which are waited for.

use super::discovery::refusal;
use super::ending::NotBegun;
use super::exclusions::{Exclusion, Exclusions};
use super::hosts::{Hosts, HERE};
use super::say;
use super::slots::{Discovery, Listing, Slots};
use super::wait::{Wait, LOOK};
use super::{LauncherEvent, Options};
use crossbeam::channel::Receiver;
use rejoin_agent::protocol::error::Code;
use rejoin_agent::transport::random_u64;
use std::collections::BTreeSet;

/// The slots of a run, and what a user was told of their discovery.
pub struct Growth {
    /// Where processes are.
    pub hosts: Hosts,
    /// How many there may be.
    pub slots: Slots,
    /// Hosts that are not used for a while.
    pub exclusions: Exclusions,
    /// Whether processes may be started on other hosts.
    pub goes_elsewhere: bool,
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
    /// The run is over when its time is up or a signal comes; `MembersMissing` when they don't come in time.
    pub fn wait(options: &Options, wait: &Wait, receiver: &Receiver<LauncherEvent>) -> Result<Growth, NotBegun> {
        let (world, most) = (options.world, options.most_ranks());
        let Some(discovery) = &options.discovery else {
            let hosts = options.hosts.as_ref().map_or_else(|| Hosts::here(most), |hosts| Hosts::of(hosts));
            let listed = if options.hosts.is_some() { hosts.slots() } else { world };
            let named = options.hosts.iter().flatten();
            // Where only this machine is named none has to be reached from elsewhere, unless it is said.
            let goes_elsewhere =
                options.hosts.is_some() && options.listen.is_some() || named.clone().any(|(host, _)| host != HERE);
            return Ok(Growth::new(hosts, Slots::new(most, listed), goes_elsewhere, options));
        };
        let mut notes = Notes::default();
        let mut seen = String::from("it has not answered");
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(LauncherEvent::Listed(Ok(listing))) => {
                    let hosts = Hosts::of(&listing);
                    let slots = hosts.slots();
                    if slots >= world {
                        // Where one that comes later has to be reached, too, it is said by --listen.
                        let goes_elsewhere = options.listen.is_some() || listing.iter().any(|(host, _)| host != HERE);
                        return Ok(Growth {
                            notes,
                            ..Growth::new(hosts, Slots::new(most, slots), goes_elsewhere, options)
                        });
                    }
                    notes.answered();
                    seen = format!("it named {slots}");
                }
                Ok(LauncherEvent::Listed(Err(text))) => {
                    notes.failed(discovery, &text);
                    seen = text;
                }
                _ => {}
            }
            wait.goes_on(Code::MembersMissing, || {
                format!(
                    "--discovery {discovery} was to name slots for {world} ranks; {seen}. Begin with fewer ranks (-n), \
                     or wait longer"
                )
            })?;
        }
    }

    fn new(hosts: Hosts, slots: Slots, goes_elsewhere: bool, options: &Options) -> Self {
        // Any number will do, as long as it is another one in each run.
        let seed = random_u64();
        let exclusions = Exclusions::new(options.exclusion, seed);
        Growth { hosts, slots, exclusions, goes_elsewhere, leaving: BTreeSet::new(), notes: Notes::default() }
    }

    /// A job that is joined has its launcher's processes here, and says how many ranks there may be.
    pub fn joined(self, most: u32) -> Self {
        Growth { hosts: Hosts::here(most), slots: Slots::new(most, most), ..self }
    }

    /// These slots are there now. Hosts that can't be used are left out, and said.
    pub fn list(&mut self, listing: Listing) {
        self.notes.answered();
        let (usable, refused): (Listing, Listing) =
            listing.into_iter().partition(|(host, _)| self.goes_elsewhere || host == HERE);
        for (host, _) in refused {
            self.notes.refused(host);
        }
        self.hosts.list(&usable);
        self.relist();
    }

    /// A process failed on its host, or couldn't be started there; its host, and for how long that is excluded now.
    pub fn failed(&mut self, number: u32, now: u64) -> Option<(String, Exclusion)> {
        let host = self.hosts.of_process(number)?.to_string();
        let exclusion = self.exclusions.failed(&host, now)?;
        self.hosts.exclude(&host, true);
        Some((host, exclusion))
    }

    /// The hosts that are used again from now on.
    pub fn come_back(&mut self, now: u64) -> Vec<String> {
        let hosts = self.exclusions.come_back(now);
        hosts.iter().for_each(|host| self.hosts.exclude(host, false));
        self.relist();
        hosts
    }

    /// How many slots can be used has changed.
    pub fn relist(&mut self) {
        self.slots.list(self.hosts.slots());
    }

    /// A process failed, and is not started again.
    pub fn fail(&mut self, number: u32) {
        self.hosts.leave(number);
        self.slots.fail();
    }

    /// Whether this process was asked to end, since its slot is gone. It is not any more, then.
    pub fn has_left(&mut self, number: u32) -> bool {
        self.leaving.remove(&number)
    }

    /// Of these processes those that have no slot any more: the ones without one on their hosts,
    /// and of the others those of the highest numbers.
    pub fn excess(&self, there: &[u32]) -> Vec<u32> {
        let without = self.hosts.excess();
        let mut excess: Vec<u32> = there.iter().copied().filter(|number| without.contains(number)).collect();
        let more = (self.slots.excess(there.len() as u32) as usize).saturating_sub(excess.len());
        excess.extend(there.iter().rev().copied().filter(|number| !without.contains(number)).take(more));
        excess
    }
}

impl Notes {
    /// There is no listing; said once.
    pub fn failed(&mut self, discovery: &Discovery, text: &str) {
        if !std::mem::replace(&mut self.fails, true) {
            say(&format!("--discovery {discovery}: {text}; {}", discovery.after_failure()));
        }
    }

    /// It has answered.
    fn answered(&mut self) {
        self.fails = false;
    }

    /// This host can't be used; said once.
    fn refused(&mut self, host: String) {
        if self.refused.insert(host.clone()) {
            say(&refusal(&host));
        }
    }
}
