//! Calls over bytes whose input a function fills when it is needed: never when the result is a recorded one.

use super::{site, Communicator};
use crate::collective::calls::{Input, Prepare};
use crate::collective::folding::Folding;
use crate::collective::options::Options;
use rejoin_collectives::{Element, Reduction};
use rejoin_protocol::collective::Operation;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::Rank;

impl Communicator {
    /// [`Communicator::allreduce_bytes`] of a buffer that `prepare` fills first.
    ///
    /// # Errors
    /// As [`Communicator::allreduce_bytes`], and what `prepare` fails with.
    #[track_caller]
    pub fn allreduce_bytes_prepared(
        &mut self,
        buffer: &mut [u8],
        element: Element,
        reduction: Reduction,
        options: &Options,
        prepare: &mut Prepare<'_>,
    ) -> Result<(), Error> {
        let options = Options { site: Some(site(options)), ..options.clone() };
        self.allreduce_folding_prepared(buffer, &Folding::known(element, reduction)?, &options, prepare)
    }

    /// [`Communicator::allreduce_folding`] of a buffer that `prepare` fills first.
    ///
    /// # Errors
    /// As [`Communicator::allreduce_folding`], and what `prepare` fails with.
    #[track_caller]
    pub fn allreduce_folding_prepared(
        &mut self,
        buffer: &mut [u8],
        folding: &Folding<'_>,
        options: &Options,
        prepare: &mut Prepare<'_>,
    ) -> Result<(), Error> {
        let (site, length) = (site(options), buffer.len());
        let mut fill = |bytes: &mut [u8]| prepare(bytes);
        let input = Input::OnDemand(buffer, &mut fill);
        let result = self.reduce(Operation::Allreduce, input, length, folding, site, options)?;
        buffer.copy_from_slice(&result);
        Ok(())
    }

    /// [`Communicator::reduce_scatter_bytes`] of an input that `prepare` fills first.
    ///
    /// # Errors
    /// As [`Communicator::reduce_scatter_bytes`], and what `prepare` fails with.
    #[track_caller]
    pub fn reduce_scatter_bytes_prepared(
        &mut self,
        input: &mut [u8],
        output: &mut [u8],
        element: Element,
        reduction: Reduction,
        options: &Options,
        prepare: &mut Prepare<'_>,
    ) -> Result<(), Error> {
        let options = Options { site: Some(site(options)), ..options.clone() };
        self.reduce_scatter_folding_prepared(input, output, &Folding::known(element, reduction)?, &options, prepare)
    }

    /// [`Communicator::reduce_scatter_folding`] of an input that `prepare` fills first.
    ///
    /// # Errors
    /// As [`Communicator::reduce_scatter_folding`], and what `prepare` fails with.
    #[track_caller]
    pub fn reduce_scatter_folding_prepared(
        &mut self,
        input: &mut [u8],
        output: &mut [u8],
        folding: &Folding<'_>,
        options: &Options,
        prepare: &mut Prepare<'_>,
    ) -> Result<(), Error> {
        let (site, length) = (site(options), input.len());
        let mut fill = |bytes: &mut [u8]| prepare(bytes);
        self.scatter(Input::OnDemand(input, &mut fill), length, output, folding, site, options)
    }

    /// [`Communicator::broadcast_bytes`] of a buffer that `prepare` fills first, at the root alone.
    ///
    /// # Errors
    /// As [`Communicator::broadcast_bytes`], and what `prepare` fails with.
    #[track_caller]
    pub fn broadcast_bytes_prepared(
        &mut self,
        buffer: &mut [u8],
        element: Element,
        root: Rank,
        options: &Options,
        prepare: &mut Prepare<'_>,
    ) -> Result<(), Error> {
        self.spread(buffer, element, root, options, Some(prepare))
    }

    /// [`Communicator::allgather_bytes`] of an input that `prepare` fills first.
    ///
    /// # Errors
    /// As [`Communicator::allgather_bytes`], and what `prepare` fails with.
    #[track_caller]
    pub fn allgather_bytes_prepared(
        &mut self,
        input: &mut [u8],
        output: &mut [u8],
        element: Element,
        options: &Options,
        prepare: &mut Prepare<'_>,
    ) -> Result<(), Error> {
        let length = input.len();
        let mut fill = |bytes: &mut [u8]| prepare(bytes);
        self.gather(Input::OnDemand(input, &mut fill), length, output, element, options)
    }
}
