//! Broadcast, allgather and barrier: nothing is folded.

use super::{site, Communicator};
use crate::collective::calls::{count, moving, plain};
use crate::collective::calls::{Input, Prepare};
use crate::collective::options::{Boot, Options, Typed};
use crate::collective::shape::Shape;
use bytes::Bytes;
use rejoin_collectives::Element;
use rejoin_protocol::collective::Operation;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Rank;
use std::panic::Location;

impl Communicator {
    /// All ranks get the root's elements.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when there is no such rank.
    #[track_caller]
    pub fn broadcast<T: Typed>(&mut self, buffer: &mut [T], root: Rank) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        self.broadcast_bytes(bytemuck::cast_slice_mut(buffer), T::ELEMENT, root, &options)
    }

    /// The same with options, over bytes.
    ///
    /// # Errors
    /// As [`Communicator::broadcast`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn broadcast_bytes(
        &mut self,
        buffer: &mut [u8],
        element: Element,
        root: Rank,
        options: &Options,
    ) -> Result<(), Error> {
        self.spread(buffer, element, root, options, None)
    }

    /// All ranks get what each has, in rank order; each has as many elements, and `output` has room for all.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when `output` has another length.
    #[track_caller]
    pub fn allgather<T: Typed>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        self.allgather_bytes(bytemuck::cast_slice(input), bytemuck::cast_slice_mut(output), T::ELEMENT, &options)
    }

    /// The same with options, over bytes.
    ///
    /// # Errors
    /// As [`Communicator::allgather`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn allgather_bytes(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        element: Element,
        options: &Options,
    ) -> Result<(), Error> {
        self.gather(Input::Ready(input), input.len(), output, element, options)
    }

    /// All ranks get what each has, in rank order; lengths may differ. It is two collectives: the lengths are gathered first.
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
        self.allgather_bytes(
            bytemuck::cast_slice(&own),
            bytemuck::cast_slice_mut(&mut lengths),
            Element::U64,
            &options,
        )?;
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

    /// Nobody goes on before everybody is there.
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

    #[track_caller]
    pub(super) fn spread(
        &mut self,
        buffer: &mut [u8],
        element: Element,
        root: Rank,
        options: &Options,
        prepare: Option<&mut Prepare<'_>>,
    ) -> Result<(), Error> {
        if root.0 >= self.world() {
            return Err(Error::new(
                Code::BadArgument,
                format!("a broadcast of rank {root} was asked for in a world of {} ranks", self.world()),
            ));
        }
        let call =
            moving(Operation::Broadcast, element.name(), count(buffer.len(), element)?, Some(root), site(options));
        let shape = Shape::Broadcast { bytes: buffer.len(), root: root.0 as usize };
        let is_root = self.rank() == root;
        let is_whole = is_root && prepare.is_none();
        let result = match prepare {
            Some(prepare) if is_root => {
                let mut fill = |bytes: &mut [u8]| prepare(bytes);
                self.run(&call, options, shape, &plain(), Input::OnDemand(buffer, &mut fill))?
            }
            _ => self.run(&call, options, shape, &plain(), Input::Ready(if is_root { &*buffer } else { &[] }))?,
        };
        if !is_whole {
            // A root that has not prepared its buffer, since the result was recorded, gets that.
            buffer.copy_from_slice(&result);
        }
        Ok(())
    }

    #[track_caller]
    pub(super) fn gather(
        &mut self,
        input: Input<'_>,
        length: usize,
        output: &mut [u8],
        element: Element,
        options: &Options,
    ) -> Result<(), Error> {
        let expected = length * self.world() as usize;
        if output.len() != expected {
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "an allgather of {length} bytes from each of {} ranks gives {expected} bytes, but the output has {}",
                    self.world(),
                    output.len()
                ),
            ));
        }
        let call = moving(Operation::Allgather, element.name(), count(length, element)?, None, site(options));
        let result = self.run(&call, options, Shape::Allgather { part_bytes: length }, &plain(), input)?;
        output.copy_from_slice(&result);
        Ok(())
    }
}
