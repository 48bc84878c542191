//! Workers whose collectives are served by the hook: the engine's are behind it, and the bridge is
//! the way out when they fail.

use crate::bridge::{send_command, Bridge};
use crate::hook::{Collectives, Served, ServedRank};
use crate::shared::Command;
use crossbeam::channel::{bounded, Sender};
use mio::Waker;
use rejoin_collectives::{Element, Reduction};
use rejoin_communicator::Operations;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{MemberId, Rank};
use std::sync::Arc;

impl Bridge {
    /// From now on the collectives of the calling thread are served by these instead of going over
    /// the channels; what XGBoost sends without its collectives' functions still does. To be called
    /// by the thread that will open XGBoost's communicator and train, before it does; all ranks of
    /// a job do it, or none ([`crate::hook::install`] says whether it can be done).
    pub fn hook(&self, member: MemberId, world: u32, operations: Arc<Operations>) {
        let (commands, waker) = (self.commands.clone(), self.waker.clone());
        let behind = Behind { operations, member, commands, waker };
        let served_rank = ServedRank::new(member.rank, world, Arc::new(behind));
        served_rank.begin();
        self.shared.served_ranks.lock().insert(member, served_rank);
    }

    /// How much was served by the hook; `None` if this incarnation isn't hooked.
    pub fn hooked(&self, member: MemberId) -> Option<Served> {
        self.shared.served_ranks.lock().get(&member).map(|served_rank| served_rank.served())
    }
}

/// What the hook has for one incarnation: the engine's collectives, and the way out when they fail.
struct Behind {
    operations: Arc<Operations>,
    member: MemberId,
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

impl Collectives for Behind {
    fn allreduce(&self, element: Element, reduction: Reduction, data: &mut [u8]) -> Result<(), Error> {
        self.operations.allreduce(element, reduction, data)
    }

    fn broadcast(&self, data: &mut [u8], root: Rank) -> Result<(), Error> {
        self.operations.broadcast(data, root)
    }

    fn allgather(&self, data: &mut [u8]) -> Result<(), Error> {
        self.operations.allgather(data)
    }

    fn allgather_v(&self, own: &[u8], sizes: &[u64], received: &mut [u8]) -> Result<(), Error> {
        self.operations.allgather_v(own, sizes, received)
    }

    fn give_up(&self, error: Error) {
        let (reply, answer) = bounded(1);
        send_command(&self.commands, &self.waker, Command::GiveUp { member: self.member, error, reply });
        // Without an answer the thread is over, and has reset the connections before.
        let _ = answer.recv();
    }
}
