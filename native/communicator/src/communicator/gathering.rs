//! Broadcast, allgather and barrier: nothing is folded.

use super::{site, Communicator};
use crate::calls::{count, moving, plain, Input};
use crate::options::{Boot, Options, Typed};
use crate::shape::Shape;
use bytes::Bytes;
use rejoin_collectives::Element;
use rejoin_protocol::collective::Operation;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Rank;
use std::panic::Location;

impl Communicator {
    /// All ranks get the root's elements. A root that was started again takes those that its former
    /// incarnation gave, once any rank has them.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when there is no such rank.
    #[track_caller]
    pub fn broadcast<T: Typed>(&mut self, buffer: &mut [T], root: Rank) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let buffer: &mut [u8] = bytemuck::cast_slice_mut(buffer);
        if let Some(result) = self.broadcast_bytes(Input::Ready(buffer), T::ELEMENT, root, &options)? {
            buffer.copy_from_slice(&result);
        }
        Ok(())
    }

    /// The root's bytes, with options; `None` where they are the input that was ready, at the root of
    /// a result that isn't a recorded one. The input is asked for there alone: elsewhere it only says
    /// how long it is.
    ///
    /// # Errors
    /// As [`Communicator::broadcast`]; `BadArgument` when the bytes aren't whole elements; what a
    /// function that prepares them fails with.
    #[track_caller]
    pub fn broadcast_bytes(
        &mut self,
        input: Input<'_>,
        element: Element,
        root: Rank,
        options: &Options,
    ) -> Result<Option<Bytes>, Error> {
        if root.0 >= self.world() {
            return Err(Error::new(
                Code::BadArgument,
                format!("a broadcast of rank {root} was asked for in a world of {} ranks", self.world()),
            ));
        }
        let (bytes, site) = (input.length(), site(options));
        let call = moving(Operation::Broadcast, element.name(), count(bytes, element)?, Some(root), site);
        let shape = Shape::Broadcast { bytes, root: root.0 as usize };
        let input = if self.rank() == root { input } else { Input::Ready(&[]) };
        let is_whole = self.rank() == root && matches!(input, Input::Ready(_));
        let result = self.run(&call, options, shape, &plain(), input)?;
        // What was recorded is of a former incarnation, which may have had other bytes.
        Ok((!is_whole || self.calls.was_replayed()).then_some(result))
    }

    /// All ranks get what each has, in rank order; each has as many elements, and `output` has room for all.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when `output` has another length.
    #[track_caller]
    pub fn allgather<T: Typed>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let input = Input::Ready(bytemuck::cast_slice(input));
        self.allgather_bytes(input, bytemuck::cast_slice_mut(output), T::ELEMENT, &options)
    }

    /// The same with options, over bytes.
    ///
    /// # Errors
    /// As [`Communicator::allgather`]; `BadArgument` when the bytes aren't whole elements; what a
    /// function that prepares them fails with.
    #[track_caller]
    pub fn allgather_bytes(
        &mut self,
        input: Input<'_>,
        output: &mut [u8],
        element: Element,
        options: &Options,
    ) -> Result<(), Error> {
        let (length, site) = (input.length(), site(options));
        let expected = length * self.world() as usize;
        if output.len() != expected {
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "an allgather of {length} bytes from each of {} ranks gives {expected} bytes, but the output has \
                     {}",
                    self.world(),
                    output.len()
                ),
            ));
        }
        let call = moving(Operation::Allgather, element.name(), count(length, element)?, None, site);
        let result = self.run(&call, options, Shape::Allgather { part_bytes: length }, &plain(), input)?;
        output.copy_from_slice(&result);
        Ok(())
    }

    /// All ranks get what each has, in rank order; lengths may differ. It is two collectives: the
    /// lengths are gathered first.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn allgather_v<T: Typed>(&mut self, input: &[T]) -> Result<Vec<Vec<T>>, Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let (bytes, lengths) = self.allgather_v_bytes(bytemuck::cast_slice(input), T::ELEMENT, &options)?;
        let mut rest = &bytes[..];
        let parts = lengths.into_iter().map(|length| {
            let (part, after) = rest.split_at(length);
            rest = after;
            let mut elements = vec![T::zeroed(); length / T::ELEMENT.size()];
            bytemuck::cast_slice_mut(&mut elements).copy_from_slice(part);
            elements
        });
        Ok(parts.collect())
    }

    /// The same with options, over bytes: all bytes in rank order, and how many are whose.
    ///
    /// # Errors
    /// As [`Communicator::allgather_v`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn allgather_v_bytes(
        &mut self,
        input: &[u8],
        element: Element,
        options: &Options,
    ) -> Result<(Bytes, Vec<usize>), Error> {
        count(input.len(), element)?;
        let options = Options { site: Some(site(options)), ..options.clone() };
        let mut lengths = vec![0u64; self.world() as usize];
        let own = [input.len() as u64];
        let own = Input::Ready(bytemuck::cast_slice(&own));
        self.allgather_bytes(own, bytemuck::cast_slice_mut(&mut lengths), Element::U64, &options)?;
        let lengths: Vec<usize> = lengths.into_iter().map(|length| length as usize).collect();
        let call = moving(
            Operation::AllgatherUnequal,
            element.name(),
            count(lengths.iter().sum(), element)?,
            None,
            site(&options),
        );
        let shape = Shape::Parts { part_bytes: lengths.clone() };
        let options = match options.boot {
            // Two results, so two names.
            Boot::Named(name) => Options { boot: Boot::Named(format!("{name}, the elements")), ..options },
            _ => options,
        };
        Ok((self.run(&call, &options, shape, &plain(), Input::Ready(input))?, lengths))
    }

    /// No rank goes on before all are there.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn barrier(&mut self) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        self.barrier_with(&options)
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn barrier_with(&mut self, options: &Options) -> Result<(), Error> {
        let call = moving(Operation::Barrier, "", 0, None, site(options));
        self.run(&call, options, Shape::Barrier, &plain(), Input::Ready(&[])).map(drop)
    }
}
