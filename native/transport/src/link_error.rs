//! How a link ends.

use rejoin_protocol::error::{Code, Error};
use std::io;

/// Why a link is over. Whatever it is, the link is of no more use: drop it.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other end closed the link between two frames.
    #[error("the other end closed the link")]
    Closed,
    /// The other end went away before its verdict. Strangers are given no reason.
    #[error(
        "the other end closed the link during the handshake: it is ending, or it belongs to another job \
         (another secret), or something else listens at this address"
    )]
    ClosedInHandshake,
    /// The socket failed; a frame cut off in its middle counts as such too.
    #[error("the link failed: {0}")]
    Io(#[from] io::Error),
    /// The other end doesn't belong to the job, or bytes were changed on their way.
    #[error("{0}")]
    Stranger(String),
    /// The two ends don't fit each other.
    #[error("{0}")]
    Incompatible(Error),
    /// The other end knows us and doesn't want the link.
    #[error("the other end refused the link: {0}")]
    Refused(Error),
}

impl LinkError {
    /// As an error of the protocol: code and text of [`LinkError::Incompatible`] and [`LinkError::Refused`], for all
    /// others code `IO` and the whole text.
    pub fn to_error(&self) -> Error {
        match self {
            LinkError::Incompatible(error) | LinkError::Refused(error) => error.clone(),
            other => Error::new(Code::Io, other.to_string()),
        }
    }
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        error.to_error()
    }
}
