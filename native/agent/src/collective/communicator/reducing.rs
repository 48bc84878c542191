//! Allreduce and reduce-scatter.

use super::running::Input;
use super::{count, site, Communicator};
use crate::collective::options::{Options, Typed};
use crate::collective::shape::Shape;
use bytes::Bytes;
use rejoin_collectives::{Element, Reducer, Reduction};
use rejoin_protocol::collective::{Call, Operation, Site};
use rejoin_protocol::error::{Code, Error};
use std::panic::Location;

impl Communicator {
    /// Every element becomes the reduction of all ranks' elements at its place.
    ///
    /// # Errors
    /// `BadArgument` for a reduction that the element doesn't have, `Mismatch` when ranks make different calls, `TimedOut`
    /// after the limit of a call, `Fenced` when this incarnation was declared lost, or the job's own error.
    #[track_caller]
    pub fn allreduce<T: Typed>(&mut self, buffer: &mut [T], reduction: Reduction) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        self.allreduce_bytes(bytemuck::cast_slice_mut(buffer), T::ELEMENT, reduction, &options)
    }

    /// The same with options, over bytes.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn allreduce_bytes(
        &mut self,
        buffer: &mut [u8],
        element: Element,
        reduction: Reduction,
        options: &Options,
    ) -> Result<(), Error> {
        let site = site(options);
        let result =
            self.reduce(Operation::Allreduce, Input::Ready(buffer), buffer.len(), element, reduction, site, options)?;
        buffer.copy_from_slice(&result);
        Ok(())
    }

    /// An allreduce of a buffer that `prepare` fills first. It isn't called when the result is a recorded one.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn allreduce_prepared<T: Typed>(
        &mut self,
        buffer: &mut [T],
        reduction: Reduction,
        mut prepare: impl FnMut(&mut [T]),
    ) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let bytes = bytemuck::cast_slice_mut(buffer);
        let length = bytes.len();
        let mut fill = |bytes: &mut [u8]| {
            prepare(bytemuck::cast_slice_mut(bytes));
            Ok(())
        };
        let input = Input::OnDemand(bytes, &mut fill);
        let site = site(&options);
        let result = self.reduce(Operation::Allreduce, input, length, T::ELEMENT, reduction, site, &options)?;
        bytemuck::cast_slice_mut(buffer).copy_from_slice(&result);
        Ok(())
    }

    /// Rank k gets the k-th part of the reduction of all ranks' inputs (as [`rejoin_collectives::Order::segment`] divides).
    /// The whole result stays in the replay log, so that it can be served to any rank.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when `output` isn't as long as this rank's part.
    #[track_caller]
    pub fn reduce_scatter<T: Typed>(
        &mut self,
        input: &[T],
        output: &mut [T],
        reduction: Reduction,
    ) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let (input, output) = (bytemuck::cast_slice(input), bytemuck::cast_slice_mut(output));
        self.reduce_scatter_bytes(input, output, T::ELEMENT, reduction, &options)
    }

    /// The same with options, over bytes.
    ///
    /// # Errors
    /// As [`Communicator::reduce_scatter`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn reduce_scatter_bytes(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        element: Element,
        reduction: Reduction,
        options: &Options,
    ) -> Result<(), Error> {
        self.scatter(Input::Ready(input), input.len(), output, element, reduction, options)
    }

    #[track_caller]
    pub(super) fn scatter(
        &mut self,
        input: Input<'_>,
        length: usize,
        output: &mut [u8],
        element: Element,
        reduction: Reduction,
        options: &Options,
    ) -> Result<(), Error> {
        let elements = count(length, element)? as usize;
        let part = options.order.segment(self.rank().0 as usize, elements, self.world() as usize);
        let size = element.size();
        if output.len() != part.len() * size {
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "rank {}'s part of {elements} elements among {} ranks has {} elements of {size} bytes each, but the \
                     output has {} bytes",
                    self.rank(),
                    self.world(),
                    part.len(),
                    output.len()
                ),
            ));
        }
        let site = site(options);
        let result = self.reduce(Operation::ReduceScatter, input, length, element, reduction, site, options)?;
        output.copy_from_slice(&result[part.start * size..part.end * size]);
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // one call's parts, put together at three places
    pub(super) fn reduce(
        &mut self,
        operation: Operation,
        input: Input<'_>,
        length: usize,
        element: Element,
        reduction: Reduction,
        site: Site,
        options: &Options,
    ) -> Result<Bytes, Error> {
        let reducer =
            Reducer::new(reduction, element).map_err(|unfit| Error::new(Code::BadArgument, unfit.to_string()))?;
        let count = count(length, element)?;
        let name = reduction_name(reduction, options.order);
        let call = Call { operation, element: element.name(), count, reduction: name, root: None, site };
        let shape = Shape::Allreduce {
            count: count as usize,
            element_bytes: element.size(),
            order: options.order,
            once: reducer.is_custom(),
        };
        self.run(&call, options, shape, &reducer, input)
    }
}

/// The reduction with its order: both have to be the same at all ranks.
fn reduction_name(reduction: Reduction, order: rejoin_collectives::Order) -> &'static str {
    use rejoin_collectives::Order::{Rank, Ring};
    match (reduction, order) {
        (Reduction::Sum, Ring) => "sum in ring order",
        (Reduction::Product, Ring) => "product in ring order",
        (Reduction::Min, Ring) => "min in ring order",
        (Reduction::Max, Ring) => "max in ring order",
        (Reduction::And, Ring) => "and in ring order",
        (Reduction::Or, Ring) => "or in ring order",
        (Reduction::Xor, Ring) => "xor in ring order",
        (reduction, Rank) => reduction.name(),
    }
}
