//! Allreduce and reduce-scatter.

use super::{site, Communicator};
use crate::calls::Input;
use crate::folding::Folding;
use crate::options::{Options, Typed};
use crate::shape::Shape;
use crate::shared_result::SharedResult;
use bytes::Bytes;
use rejoin_agent::reservation;
use rejoin_collectives::{FoldError, Objects, Reduction};
use rejoin_protocol::collective::{Call, Operation, Site};
use rejoin_protocol::error::{Code, Error};
use std::panic::Location;

impl Communicator {
    /// Every element becomes the reduction of all ranks' elements at its place.
    ///
    /// # Errors
    /// `BadArgument` for a reduction that the element doesn't have, `Mismatch` when ranks make
    /// different calls, `TimedOut` after the limit of a call, `Fenced` when this incarnation was
    /// declared lost, or the job's own error.
    #[track_caller]
    pub fn allreduce<T: Typed>(&mut self, buffer: &mut [T], reduction: Reduction) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let (folding, buffer) = (Folding::known(T::ELEMENT, reduction)?, bytemuck::cast_slice_mut(buffer));
        let result = self.allreduce_bytes(Input::Ready(buffer), &folding, &options)?;
        buffer.copy_from_slice(&result);
        Ok(())
    }

    /// The reduction of all ranks' elements, to be read where the log of results keeps it: nothing
    /// is copied to the caller, and the input stays as it is. As long as it is held it takes
    /// memory, also after the log has dropped it.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn allreduce_shared<T: Typed>(&mut self, input: &[T], reduction: Reduction) -> Result<SharedResult<T>, Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let folding = Folding::known(T::ELEMENT, reduction)?;
        self.allreduce_bytes(Input::Ready(bytemuck::cast_slice(input)), &folding, &options).map(SharedResult::new)
    }

    /// The reduction of all ranks' bytes with options, by a known reduction or the caller's own
    /// ([`Folding`]): read where the log keeps it, as [`Communicator::allreduce_shared`]'s.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when the bytes aren't whole elements; what a
    /// function that prepares the input fails with; `TrainingFailed` when the caller's own fails at
    /// some rank: the job ends.
    #[track_caller]
    pub fn allreduce_bytes(
        &mut self,
        input: Input<'_>,
        folding: &Folding<'_>,
        options: &Options,
    ) -> Result<Bytes, Error> {
        let site = site(options);
        self.reduce(Operation::Allreduce, input, folding, site, options)
    }

    /// Every element becomes the fold of all ranks' elements at its place by the caller's own
    /// function, which is called from left to right in the order of the ranks: it need be neither
    /// commutative nor associative. `name` says which function it is, the same at all ranks.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn allreduce_custom<T: bytemuck::Pod>(
        &mut self,
        buffer: &mut [T],
        name: &str,
        fold: impl Fn(T, T) -> T + Send + Sync,
    ) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let size = size_of::<T>();
        let folding = Folding::custom(name, size, |accumulator: &mut [u8], other: &[u8]| {
            for (left, right) in accumulator.chunks_exact_mut(size).zip(other.chunks_exact(size)) {
                let folded = fold(bytemuck::pod_read_unaligned(left), bytemuck::pod_read_unaligned(right));
                left.copy_from_slice(bytemuck::bytes_of(&folded));
            }
            Ok(())
        })?;
        let buffer: &mut [u8] = bytemuck::cast_slice_mut(buffer);
        let result = self.allreduce_bytes(Input::Ready(buffer), &folding, &options)?;
        buffer.copy_from_slice(&result);
        Ok(())
    }

    /// Every object becomes the fold of all ranks' objects at its place by the caller's own
    /// function over serialized objects of at most `limit` bytes each ([`Folding::objects`]). Every
    /// rank gives as many objects; what is sent has the limit's length for each.
    ///
    /// # Errors
    /// As [`Communicator::allreduce_bytes`]; `BadArgument` when an object is longer than the limit.
    #[track_caller]
    pub fn allreduce_objects(
        &mut self,
        objects: &mut [Vec<u8>],
        limit: usize,
        name: &str,
        fold: impl Fn(&mut Vec<u8>, &[u8]) -> Result<(), FoldError> + Send + Sync,
        options: &Options,
    ) -> Result<(), Error> {
        let options = Options { site: Some(site(options)), ..options.clone() };
        let (folding, cells) = (Folding::objects(name, limit, fold)?, Objects::new(limit));
        let bytes = objects.len().saturating_mul(cells.cell_bytes());
        // Nothing was done yet: the handle can be used further.
        let refused = |error: Error| Error::new(Code::BadArgument, error.message);
        reservation::check(|| format!("a limit of {limit} bytes for each object"), bytes).map_err(refused)?;
        let mut packed = Vec::with_capacity(bytes);
        for object in objects.iter() {
            let cell = cells.pack(object).map_err(|cause| Error::new(Code::BadArgument, cause.to_string()))?;
            packed.extend_from_slice(&cell);
        }
        let result = self.allreduce_bytes(Input::Ready(&packed), &folding, &options)?;
        for (object, cell) in objects.iter_mut().zip(result.chunks_exact(cells.cell_bytes())) {
            let whole = cells.unpack(cell).map_err(|cause| Error::new(Code::Internal, cause.to_string()))?;
            object.clear();
            object.extend_from_slice(whole);
        }
        Ok(())
    }

    /// Rank k gets the k-th part of the reduction of all ranks' inputs (as
    /// [`rejoin_collectives::Order::segment`] divides). The whole result stays in the replay log,
    /// so that it can be served to any rank.
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
        let folding = Folding::known(T::ELEMENT, reduction)?;
        let input = Input::Ready(bytemuck::cast_slice(input));
        self.reduce_scatter_bytes(input, bytemuck::cast_slice_mut(output), &folding, &options)
    }

    /// The same with options, over bytes, by a known reduction or the caller's own.
    ///
    /// # Errors
    /// As [`Communicator::allreduce_bytes`]; `BadArgument` when `output` isn't as long as this rank's part.
    #[track_caller]
    pub fn reduce_scatter_bytes(
        &mut self,
        input: Input<'_>,
        output: &mut [u8],
        folding: &Folding<'_>,
        options: &Options,
    ) -> Result<(), Error> {
        let site = site(options);
        let (count, size) = (folding.count(input.length())? as usize, folding.element_bytes());
        let part = options.order.chunk(self.rank().0 as usize, count, self.world() as usize);
        if output.len() != part.len() * size {
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "rank {}'s part of {count} elements among {} ranks has {} elements of {size} bytes each, but the \
                     output has {} bytes",
                    self.rank(),
                    self.world(),
                    part.len(),
                    output.len()
                ),
            ));
        }
        let result = self.reduce(Operation::ReduceScatter, input, folding, site, options)?;
        output.copy_from_slice(&result[part.start * size..part.end * size]);
        Ok(())
    }

    fn reduce(
        &mut self,
        operation: Operation,
        input: Input<'_>,
        folding: &Folding<'_>,
        site: Site,
        options: &Options,
    ) -> Result<Bytes, Error> {
        let count = folding.count(input.length())?;
        let (element, reduction) = (folding.element.clone(), folding.name(options.order));
        let call = Call { operation, element, count, reduction, root: None, site };
        let shape = Shape::Allreduce {
            count: count as usize,
            element_bytes: folding.element_bytes(),
            order: options.order,
            once: folding.reducer.is_custom(),
        };
        self.run(&call, options, shape, &folding.reducer, input)
    }
}
