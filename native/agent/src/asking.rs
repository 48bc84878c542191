//! Asks a job's tracker, which is another process, how the job is.

use crate::join_file::JoinFile;
use mio::{Events, Interest, Poll, Token};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{AgentId, Rank};
use rejoin_protocol::job_status::{JobStatus, RankNow};
use rejoin_protocol::launcher::{LauncherMessage, LauncherNews};
use rejoin_protocol::wire;
use rejoin_transport::{Hello, Keys, Link, Purpose, Received};
use std::time::{Duration, Instant};

/// How the job is now. Waits at most so long for the answer.
///
/// # Errors
/// `TrackerUnreachable` when the tracker that the join file names doesn't answer, with what was seen; as
/// [`JobSecret::read`](crate::join_file::JobSecret::read).
pub fn ask(join: &JoinFile, at_most: Duration) -> Result<JobStatus, Error> {
    let unreachable = |cause: String| {
        let text = format!(
            "the tracker of job {} (life {}) at {} doesn't say how the job is: {cause}",
            join.name, join.life, join.tracker
        );
        Error::new(Code::TrackerUnreachable, text)
    };
    let said = |cause: std::io::Error| unreachable(cause.to_string());
    let mut poll = Poll::new().map_err(said)?;
    let keys = Keys { job: join.job, secret: join.secret.read()?, encrypt: false };
    let hello = Hello { agent: AgentId(rejoin_transport::random_u64()), purpose: Purpose::Launcher, encrypt: true };
    let mut link = Link::connect(join.tracker, &keys, hello).map_err(|cause| unreachable(cause.to_string()))?;
    poll.registry().register(link.socket(), Token(0), Interest::READABLE | Interest::WRITABLE).map_err(said)?;
    let (mut events, until) = (Events::with_capacity(4), Instant::now() + at_most);
    let mut known: Vec<RankNow> = Vec::new();
    loop {
        match link.receive().map_err(|cause| unreachable(cause.to_string()))? {
            Received::Established => link.send_message(&LauncherMessage::Status { from: Rank(0) }),
            Received::Frame(_, payload) => {
                let LauncherNews::Status(status) = wire::decode(&payload)? else { continue };
                let is_end = status.ranks.is_empty();
                known.extend(status.ranks);
                // The world may have changed between two messages.
                known.truncate(status.world as usize);
                if is_end || known.len() == status.world as usize {
                    return Ok(JobStatus { ranks: known, ..status });
                }
                link.send_message(&LauncherMessage::Status { from: Rank(known.len() as u32) });
            }
            Received::Refused(error) => return Err(unreachable(format!("refused: {error}"))),
            Received::Hello(_) => return Err(unreachable("it spoke as if it had connected to us".into())),
            Received::Pending => {
                link.flush().map_err(|cause| unreachable(cause.to_string()))?;
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(unreachable(format!("no answer within {} s", at_most.as_secs_f64())));
                }
                match poll.poll(&mut events, Some(left)) {
                    Err(cause) if cause.kind() != std::io::ErrorKind::Interrupted => return Err(said(cause)),
                    _ => {}
                }
            }
        }
    }
}
