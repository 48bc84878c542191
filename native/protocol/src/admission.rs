//! Which connections may wait at a door until they have proven to be of the job: how many, for how long, and which
//! goes when there are more.

use crate::ids::Millis;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Most that wait at once, however many descriptors there are.
pub const MOST: usize = 1024;
/// The first message is due after so many milliseconds: it is sent with the connection.
pub const FIRST_MESSAGE: u64 = 1_000;
/// The whole proof is due after so many milliseconds, from the coming on.
pub const PROOF: u64 = 5_000;
/// So many of one address may wait whatever others do: many hosts with one each don't push out a
/// host with many processes.
const LEAST_SHARE: usize = 16;

/// Those that have come equally far, by number.
#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<u64, (IpAddr, Millis)>,
    of_address: BTreeMap<IpAddr, usize>,
}

impl Queue {
    fn add(&mut self, number: u64, who: (IpAddr, Millis)) {
        if self.waiting.insert(number, who).is_none() {
            *self.of_address.entry(who.0).or_default() += 1;
        }
    }

    fn take(&mut self, number: u64) -> Option<(IpAddr, Millis)> {
        let who = self.waiting.remove(&number)?;
        if let Some(count) = self.of_address.get_mut(&who.0) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&who.0);
            }
        }
        Some(who)
    }

    /// The one that goes first, but for the newest of all.
    fn first_to_go(&self, newest: u64, most: usize) -> Option<u64> {
        let share = (most / self.of_address.len().max(1)).max(LEAST_SHARE);
        let fullest = self.of_address.iter().max_by_key(|(_, count)| **count);
        let greedy = fullest.filter(|(_, count)| **count > share).map(|(address, _)| address);
        let is_to_go = |address: &IpAddr| greedy.is_none_or(|greedy| greedy == address);
        let mut older = self.waiting.iter().filter(|(number, _)| **number != newest);
        older.find(|(_, (address, _))| is_to_go(address)).map(|(number, _)| *number)
    }
}

/// The rules of one door. All are let in. When there are too many, the one that has waited longest
/// without a proof goes; of those that have said a right first message, which only a process of the
/// job can make (or a recording of one can repeat), none goes before all others. Where several
/// addresses wait, one that has more than its share gives of its own.
#[derive(Debug, Default)]
pub struct Admission {
    silent: Queue,
    spoken: Queue,
    newest: u64,
}

impl Admission {
    /// A connection has come. Numbers grow, and are never given twice.
    pub fn came(&mut self, number: u64, address: IpAddr, now: Millis) {
        self.newest = number;
        self.silent.add(number, (address.to_canonical(), now));
    }

    /// Its first message was right.
    pub fn spoke(&mut self, number: u64) {
        if let Some(who) = self.silent.take(number) {
            self.spoken.add(number, who);
        }
    }

    /// It has proven itself, or is gone.
    pub fn left(&mut self, number: u64) {
        if self.silent.take(number).is_none() {
            self.spoken.take(number);
        }
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.silent.waiting.len() + self.spoken.waiting.len()
    }

    /// The one that has to go so that no more than so many wait: asked again until it is none. The newest
    /// never has to, since it had no time yet to say anything.
    pub fn surplus(&self, most: usize) -> Option<u64> {
        let most = most.clamp(1, MOST);
        if self.count() <= most {
            return None;
        }
        self.silent.first_to_go(self.newest, most).or_else(|| self.spoken.first_to_go(self.newest, most))
    }

    /// Whose time is up, and what is missing.
    pub fn late(&self, now: Millis) -> Vec<(u64, &'static str)> {
        let late = |queue: &Queue, limit: u64, what: &'static str| -> Vec<(u64, &'static str)> {
            // In the order of their coming.
            let late = queue.waiting.iter().take_while(|(_, (_, since))| now.since(*since) > limit);
            late.map(|(number, _)| (*number, what)).collect()
        };
        let mut all = late(&self.silent, FIRST_MESSAGE, "no first message within 1 s");
        all.extend(late(&self.spoken, PROOF, "no proof of the job's secret within 5 s"));
        all
    }

    /// When the next one's time is up.
    pub fn wake_at(&self) -> Option<Millis> {
        let first = |queue: &Queue, limit: u64| queue.waiting.values().next().map(|(_, since)| since.plus(limit + 1));
        [first(&self.silent, FIRST_MESSAGE), first(&self.spoken, PROOF)].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::collections::BTreeSet;

    fn host(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    /// A door at which these have come, one a millisecond, each an address' last byte; numbers count from 1.
    fn door(addresses: impl IntoIterator<Item = u8>) -> Admission {
        let mut door = Admission::default();
        for (number, address) in (1..).zip(addresses) {
            door.came(number, host(address), Millis(number));
        }
        door
    }

    /// All that have to go, in their order.
    fn goes(door: &mut Admission, most: usize) -> Vec<u64> {
        core::iter::from_fn(|| door.surplus(most).inspect(|number| door.left(*number))).collect()
    }

    #[test]
    fn as_many_as_there_is_room_for_stay_and_then_the_oldest_goes() {
        let mut door = door([1; 5]);
        assert_eq!(door.surplus(5), None);
        assert_eq!(goes(&mut door, 3), [1, 2]);
        assert_eq!((door.count(), door.surplus(3)), (3, None));
    }

    #[test]
    fn there_is_never_room_for_more_than_the_highest_number() {
        let mut door = door(core::iter::repeat_n(1, 1026));
        assert_eq!(goes(&mut door, usize::MAX), [1, 2]);
    }

    #[test]
    fn the_newest_stays_though_there_is_room_for_nobody() {
        let mut door = door([1, 1, 1]);
        assert_eq!(goes(&mut door, 0), [1, 2]);
        assert_eq!(door.count(), 1);
    }

    #[test]
    fn who_has_spoken_stays_as_long_as_anybody_has_not() {
        let mut door = door([1; 5]);
        [1, 3].into_iter().for_each(|number| door.spoke(number));
        assert_eq!(goes(&mut door, 1), [2, 4, 1, 3]);
    }

    #[test]
    fn who_is_proven_or_gone_needs_no_room() {
        let mut door = door([1; 4]);
        door.spoke(1);
        [1, 2].into_iter().for_each(|number| door.left(number));
        assert_eq!((door.count(), door.surplus(2)), (2, None));
        // What is said of it afterwards is too late.
        door.spoke(1);
        assert_eq!(door.count(), 2);
    }

    #[test]
    fn one_address_alone_has_no_share() {
        let mut door = door(core::iter::repeat_n(1, 200));
        assert_eq!(goes(&mut door, 199), [1]);
    }

    #[test]
    fn where_two_addresses_wait_the_greedy_one_gives_of_its_own() {
        // The victim came first: without shares it would go first.
        let mut door = door([2].into_iter().chain(core::iter::repeat_n(1, 100)));
        assert_eq!(goes(&mut door, 60), (2..=42).collect::<Vec<u64>>());
        let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped());
        door.came(200, mapped, Millis(200));
        door.came(201, IpAddr::V6(Ipv6Addr::LOCALHOST), Millis(201));
        assert_eq!(door.silent.of_address[&host(2)], 2, "the same address in another spelling");
    }

    #[test]
    fn many_addresses_with_one_each_do_not_push_out_one_with_a_few() {
        let crowd = 10..=109;
        let mut door = door([2; 10].into_iter().chain(crowd));
        let expected: Vec<u64> = (1..=10).collect();
        // None has more than may be, so that the oldest go: ten, not all that the one address will ever have.
        assert_eq!(goes(&mut door, 100), expected);
    }

    #[test]
    fn the_first_message_is_due_after_one_second_and_the_proof_after_five() {
        let mut door = door([1, 1]);
        assert_eq!(door.wake_at(), Some(Millis(1_002)));
        assert_eq!(door.late(Millis(1_001)), []);
        door.spoke(2);
        assert_eq!(door.late(Millis(1_002)), [(1, "no first message within 1 s")]);
        door.left(1);
        assert_eq!((door.late(Millis(5_002)), door.wake_at()), (Vec::new(), Some(Millis(5_003))));
        assert_eq!(door.late(Millis(5_003)), [(2, "no proof of the job's secret within 5 s")]);
        door.left(2);
        assert_eq!((door.wake_at(), door.late(Millis(99_999))), (None, Vec::new()));
    }

    proptest::proptest! {
        #[test]
        fn whatever_happens_the_newest_is_let_in_and_no_more_wait_than_may(
            steps in proptest::collection::vec((0_u8..4, 0_u8..4, 0_u64..60), 1..300),
            most in 1_usize..40,
        ) {
            let mut door = Admission::default();
            let (mut there, mut spoken, mut next) = (BTreeSet::new(), BTreeSet::new(), 0);
            for (what, address, of) in steps {
                let number = next - of.min(next);
                match what {
                    0 => { door.left(number); there.remove(&number); }
                    1 => { door.spoke(number); if there.contains(&number) { spoken.insert(number); } }
                    _ => {
                        next += 1;
                        door.came(next, host(address), Millis(next));
                        there.insert(next);
                        while let Some(gone) = door.surplus(most) {
                            let is_silent = |number: &&u64| !spoken.contains(number) && **number != next;
                            assert!(there.contains(&gone) && gone != next);
                            assert!(!spoken.contains(&gone) || !there.iter().any(|number| is_silent(&number)));
                            door.left(gone);
                            there.remove(&gone);
                        }
                        assert!(there.len() <= most && there.contains(&next));
                    }
                }
                assert_eq!(door.count(), there.len());
            }
        }
    }
}
