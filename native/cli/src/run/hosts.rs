//! On which host each process of a run is: a pure function of the slots that are listed, and of where processes were.
//!
//! A process stays on its host. It goes to another one when its host has no slot for it any more, or its connection has
//! ended and another host has one: in the order in which the hosts were first listed.

use std::collections::BTreeMap;

/// The name of the host that the launcher is on.
pub const HERE: &str = "localhost";

/// The hosts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    all: Vec<Host>,
    /// Where each process is, or was.
    places: BTreeMap<u32, Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: String,
    slots: u32,
    /// No process is started there; those that are there go on.
    is_excluded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    host: usize,
    /// Whether it has one of the host's slots.
    is_held: bool,
    /// Its connection has ended: another host is better, if there is one.
    has_ended: bool,
}

impl Hosts {
    /// So many slots on this machine, and no other host.
    pub fn here(slots: u32) -> Hosts {
        Hosts::of(&[(HERE.into(), slots)])
    }

    /// These slots.
    pub fn of(listed: &[(String, u32)]) -> Hosts {
        let mut hosts = Hosts::default();
        hosts.list(listed);
        hosts
    }

    /// These slots are there now, and no others.
    pub fn list(&mut self, listed: &[(String, u32)]) {
        self.all.iter_mut().for_each(|host| host.slots = 0);
        for (name, slots) in listed {
            match self.all.iter_mut().find(|host| host.name == *name) {
                Some(host) => host.slots = host.slots.saturating_add(*slots),
                None => self.all.push(Host { name: name.clone(), slots: *slots, is_excluded: false }),
            }
        }
    }

    /// How many slots there are; of a host that is excluded those that have a process.
    pub fn slots(&self) -> u32 {
        let usable = self.all.iter().enumerate().map(|(index, host)| match host.is_excluded {
            true => host.slots.min(self.held(index)),
            false => host.slots,
        });
        usable.fold(0, u32::saturating_add)
    }

    /// A host is used no more, or again.
    pub fn exclude(&mut self, name: &str, is_excluded: bool) {
        self.all.iter_mut().filter(|host| host.name == name).for_each(|host| host.is_excluded = is_excluded);
    }

    /// The host that a process is on, or was on last.
    pub fn of_process(&self, number: u32) -> Option<&str> {
        self.places.get(&number).map(|place| self.all[place.host].name.as_str())
    }

    /// By its number the host of each of so many processes; `None` unless all have one.
    pub fn of_all(&self, processes: u32) -> Option<Vec<usize>> {
        let place = |number| self.places.get(&number).filter(|place| place.is_held).map(|place| place.host);
        (0..processes).map(place).collect()
    }

    /// A slot for a process, whose host it is on from now on; `None` if there is none.
    pub fn place(&mut self, number: u32) -> Option<&str> {
        let before = self.places.remove(&number);
        let has_room = |host: &usize| !self.all[*host].is_excluded && self.held(*host) < self.all[*host].slots;
        let former = before.map(|place| place.host).filter(has_room);
        let others = (0..self.all.len()).filter(|host| Some(*host) != former);
        let other = others.clone().find(has_room);
        let chosen = match before.is_some_and(|place| place.has_ended) {
            true => other.or(former),
            false => former.or(other),
        };
        match chosen {
            Some(host) => {
                self.places.insert(number, Place { host, is_held: true, has_ended: false });
                Some(&self.all[host].name)
            }
            None => {
                self.places.extend(before.map(|place| (number, Place { is_held: false, ..place })));
                None
            }
        }
    }

    /// The connection to a process has ended: it goes to another host if there is a slot.
    pub fn connection_ended(&mut self, number: u32) {
        if let Some(place) = self.places.get_mut(&number) {
            place.has_ended = true;
        }
    }

    /// A process is not there any more, and its slot is free.
    pub fn leave(&mut self, number: u32) {
        if let Some(place) = self.places.get_mut(&number) {
            place.is_held = false;
        }
    }

    /// The processes that have no slot any more: of each host those of the highest numbers.
    pub fn excess(&self) -> Vec<u32> {
        let of_host = |(index, host): (usize, &Host)| {
            let held = self.places.iter().filter(move |(_, place)| place.is_held && place.host == index);
            held.skip(host.slots as usize).map(|(number, _)| *number).collect::<Vec<u32>>()
        };
        self.all.iter().enumerate().flat_map(of_host).collect()
    }

    fn held(&self, host: usize) -> u32 {
        self.places.values().filter(|place| place.is_held && place.host == host).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(text: &str) -> Vec<(String, u32)> {
        text.split(',')
            .filter_map(|host| host.split_once(':'))
            .map(|(name, slots)| (name.into(), slots.parse().expect("a number")))
            .collect()
    }

    fn hosts(text: &str, processes: u32) -> Hosts {
        let mut hosts = Hosts::of(&listed(text));
        for number in 0..processes {
            hosts.place(number);
        }
        hosts
    }

    fn places(hosts: &Hosts, processes: u32) -> Vec<Option<&str>> {
        (0..processes).map(|number| hosts.of_process(number)).collect()
    }

    #[test]
    fn processes_fill_one_host_after_the_other() {
        let mut hosts = hosts("a:2,b:2", 3);
        assert_eq!(places(&hosts, 3), [Some("a"), Some("a"), Some("b")]);
        assert_eq!(hosts.slots(), 4);
        assert_eq!(hosts.place(3), Some("b"));
        assert_eq!(hosts.place(4), None);
        assert_eq!(hosts.of_all(4), Some(vec![0, 0, 1, 1]));
        hosts.leave(2);
        assert_eq!(hosts.of_all(4), None);
    }

    #[test]
    fn a_process_stays_on_its_host_and_goes_elsewhere_when_its_connection_has_ended_and_there_is_a_slot() {
        let mut hosts = hosts("a:2,b:2", 3);
        assert_eq!(hosts.place(0), Some("a"));
        hosts.connection_ended(0);
        assert_eq!(hosts.place(0), Some("b"), "b has a free one");
        hosts.connection_ended(2);
        assert_eq!(hosts.place(2), Some("a"), "the one that 0 has left");
        hosts.connection_ended(1);
        assert_eq!(hosts.place(1), Some("b"));
        hosts.place(3);
        hosts.connection_ended(2);
        assert_eq!(hosts.place(2), Some("a"), "there is no other one: it is tried again");
    }

    #[test]
    fn a_slot_that_is_gone_is_the_highest_numbers_of_its_host_and_free_when_that_has_left() {
        let mut hosts = hosts("a:2,b:2", 4);
        hosts.list(&listed("a:1,b:2,c:1"));
        assert_eq!(hosts.excess(), [1]);
        hosts.leave(1);
        assert!(hosts.excess().is_empty());
        assert_eq!(hosts.place(1), Some("c"));
        hosts.list(&listed("b:2"));
        assert_eq!(hosts.excess(), [0, 1]);
    }

    #[test]
    fn a_process_without_a_slot_comes_back_to_its_host_first() {
        let mut hosts = hosts("a:1,b:1", 2);
        hosts.list(&listed("a:1"));
        hosts.leave(1);
        assert_eq!(hosts.place(1), None);
        hosts.list(&listed("c:1,b:1,a:1"));
        assert_eq!(hosts.place(1), Some("b"));
    }

    #[test]
    fn on_an_excluded_host_no_process_is_started_and_those_that_are_there_keep_their_slots() {
        let mut hosts = hosts("a:2,b:2", 3);
        hosts.exclude("a", true);
        assert_eq!(hosts.slots(), 4, "both of a's have processes");
        assert!(hosts.excess().is_empty());
        assert_eq!(hosts.place(1), Some("b"), "it isn't started there again");
        assert_eq!((hosts.slots(), hosts.place(0)), (3, None));
        assert_eq!(hosts.slots(), 2);
        hosts.exclude("a", false);
        assert_eq!(hosts.place(0), Some("a"));
    }

    proptest! {
        #[test]
        fn no_host_has_more_processes_than_slots_and_a_free_slot_is_found(
            lists in prop::collection::vec(prop::collection::vec(0..4_u32, 3), 1..5),
            acts in prop::collection::vec((0..3_u8, 0..8_u32), 0..40),
        ) {
            let name = |index: usize| ["a", "b", "c"][index].to_string();
            let list = |slots: &[u32]| slots.iter().enumerate().map(|(i, slots)| (name(i), *slots)).collect::<Vec<_>>();
            let mut hosts = Hosts::default();
            let mut acts = acts.chunks(8);
            for slots in &lists {
                hosts.list(&list(slots));
                for number in hosts.excess() {
                    hosts.leave(number);
                }
                prop_assert!(hosts.excess().is_empty());
                for (act, number) in acts.next().unwrap_or_default() {
                    let held = (0..3.min(hosts.all.len())).map(|host| hosts.held(host)).sum::<u32>();
                    match act {
                        0 => {
                            let has_one = hosts.places.get(number).is_some_and(|place| place.is_held);
                            let is_found = hosts.place(*number).is_some();
                            prop_assert_eq!(is_found, has_one || held < hosts.slots());
                        }
                        1 => hosts.connection_ended(*number),
                        _ => hosts.leave(*number),
                    }
                    prop_assert!(hosts.excess().is_empty());
                }
            }
        }
    }
}
