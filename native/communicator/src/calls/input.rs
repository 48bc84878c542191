//! What a call gives to a collective: bytes that are there, or are prepared on demand.

use rejoin_protocol::error::Error;

/// What a call gives to a collective.
pub enum Input<'a> {
    /// Bytes that are there.
    Ready(&'a [u8]),
    /// Bytes that are there once the function has filled them. It isn't called when the result is a recorded one.
    OnDemand(&'a mut [u8], &'a mut Prepare<'a>),
}

impl<'a> Input<'a> {
    /// A buffer that is filled, unless there is a function that does it on demand.
    pub fn of(buffer: &'a mut [u8], prepare: Option<&'a mut Prepare<'a>>) -> Self {
        match prepare {
            None => Input::Ready(buffer),
            Some(prepare) => Input::OnDemand(buffer, prepare),
        }
    }

    /// Has the bytes filled that aren't there yet.
    ///
    /// # Errors
    /// The function's own.
    pub(super) fn prepare(&mut self) -> Result<(), Error> {
        if let Input::OnDemand(bytes, prepare) = self {
            prepare(bytes)?;
            let bytes: &mut [u8] = std::mem::take(bytes);
            *self = Input::Ready(bytes);
        }
        Ok(())
    }

    /// How many bytes it has.
    pub(crate) fn length(&self) -> usize {
        match self {
            Input::Ready(bytes) => bytes.len(),
            Input::OnDemand(bytes, _) => bytes.len(),
        }
    }
}

/// Fills a buffer. When it fails, the call does, with that error.
pub type Prepare<'a> = dyn FnMut(&mut [u8]) -> Result<(), Error> + 'a;
