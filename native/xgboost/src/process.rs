//! One process's part in a job whose ranks train with XGBoost.

use crate::bridge_config::BridgeConfig;
use crate::plane::{HookUse, Plane};
use rejoin_agent::durable::Durable;
use rejoin_agent::{Agent, AgentConfig};
use rejoin_protocol::error::Error;
use rejoin_protocol::host::OWN_COPIES;
use rejoin_protocol::ids::{Attempt, Rank};
use std::sync::Arc;

/// The agent together with its plane, for all ranks of this process. It ends when it and all its
/// members are dropped, or by [`Process::end`].
pub struct Process {
    pub(crate) agent: Agent,
    pub(crate) plane: Arc<Plane>,
}

impl Process {
    /// Starts the bridge and the agent, with durable checkpoints if any are wanted.
    ///
    /// # Errors
    /// As [`Plane::start`] and [`Agent::start_keeping`].
    pub fn start(
        agent: AgentConfig,
        bridge: BridgeConfig,
        hook: HookUse,
        durable: Option<Durable>,
    ) -> Result<Arc<Process>, Error> {
        let plane = Plane::start(bridge, hook)?;
        let agent = Agent::start_keeping(agent, plane.planes(), durable, OWN_COPIES)?;
        Ok(Arc::new(Process { agent, plane }))
    }

    /// The agent, of which tasks that stand by ask a rank.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// [`Agent::cancel_join`], from any thread.
    pub fn cancel_join(&self, rank: Rank, attempt: Attempt, error: Error) {
        self.agent.cancel_join(rank, attempt, error);
    }

    /// Whether the agent has ended: the job is over, or its lease ran out.
    pub fn is_over(&self) -> bool {
        self.agent.is_over()
    }

    /// Ends the agent; members that wait get `BadState`.
    pub fn end(&self) {
        self.agent.end();
    }
}
