//! What every collective gives, computed the plainest way: from all inputs at one place. Tests and simulators compare
//! with it; nothing in production calls it.

use crate::{FoldError, Order, Reducer};
use alloc::vec::Vec;

/// The result of an allreduce: every element is the left fold of the ranks' inputs in the given order.
///
/// # Errors
/// When the caller's own function fails.
///
/// # Panics
/// When there is no input, or the inputs' lengths differ or aren't whole elements.
pub fn allreduce(inputs: &[Vec<u8>], reducer: &Reducer<'_>, order: Order) -> Result<Vec<u8>, FoldError> {
    let (world, size) = (inputs.len(), reducer.element_bytes());
    assert!(world > 0, "a world has at least one rank");
    let count = inputs[0].len() / size;
    let mut result = Vec::with_capacity(inputs[0].len());
    for chunk in 0..world {
        for element in order.chunk(chunk, count, world) {
            let mut folded: Option<Vec<u8>> = None;
            for rank in order.sources(chunk, count, world) {
                assert_eq!(inputs[rank].len(), inputs[0].len(), "inputs of unequal length");
                let own = &inputs[rank][element * size..][..size];
                match &mut folded {
                    None => folded = Some(own.to_vec()),
                    Some(accumulator) => reducer.fold(accumulator, own)?,
                }
            }
            result.extend(folded.into_iter().flatten());
        }
    }
    Ok(result)
}

/// The results of a reduce-scatter, by rank: chunk k of the allreduce at rank k.
///
/// # Errors
/// As [`allreduce`].
///
/// # Panics
/// As [`allreduce`].
pub fn reduce_scatter(inputs: &[Vec<u8>], reducer: &Reducer<'_>, order: Order) -> Result<Vec<Vec<u8>>, FoldError> {
    let (world, size) = (inputs.len(), reducer.element_bytes());
    let whole = allreduce(inputs, reducer, order)?;
    let chunk = |rank| order.chunk(rank, whole.len() / size, world);
    Ok((0..world).map(|rank| whole[chunk(rank).start * size..chunk(rank).end * size].to_vec()).collect())
}

/// The result of an allgather, of equal or unequal parts: the inputs one after the other.
pub fn allgather(inputs: &[Vec<u8>]) -> Vec<u8> {
    inputs.concat()
}
