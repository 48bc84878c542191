//! What folds: a known reduction of a known element, or the caller's own function.

use crate::fold::{self, Loops};
use crate::{Element, Reduction, Unfit};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// A caller's own function has failed. The collective can't be finished; no result may be handed out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the custom reducer failed: {0}")]
pub struct FoldError(pub String);

/// A function over whole elements: accumulator ∘ other into accumulator. Both have the same length, a multiple of the
/// element's size, in an arbitrary number of elements; there is no alignment.
type CustomFold<'f> = dyn Fn(&mut [u8], &[u8]) -> Result<(), FoldError> + Send + Sync + 'f;

/// Folds buffers of elements.
pub struct Reducer<'f> {
    element_bytes: usize,
    kind: ReducerKind<'f>,
}

enum ReducerKind<'f> {
    Known(Loops),
    Custom(Box<CustomFold<'f>>),
}

impl<'f> Reducer<'f> {
    /// The reducer of a known reduction.
    ///
    /// # Errors
    /// [`Unfit`] when the reduction isn't defined for the element.
    pub fn new(reduction: Reduction, element: Element) -> Result<Self, Unfit> {
        Ok(Reducer { element_bytes: element.size(), kind: ReducerKind::Known(fold::loops(reduction, element)?) })
    }

    /// What XGBoost's own collective does to `count` elements in a world of so many ranks, for use
    /// with [`Order::Ring`](crate::Order::Ring): C++'s `+`, `std::min` and `std::max` on f32 and
    /// f64. They give the first operand for zeros of either sign and for whatever compares with a
    /// NaN, and leave a NaN's sign and payload to the processor (of two NaNs that meet in a sum,
    /// either may remain). The accumulator is the first operand, but where there are fewer elements
    /// than ranks it is the second. Everything else is as [`Reducer::new`] has it.
    ///
    /// # Errors
    /// [`Unfit`] when the reduction isn't defined for the element.
    pub fn of_xgboost(reduction: Reduction, element: Element, count: usize, world: usize) -> Result<Self, Unfit> {
        let loops = fold::plain_loops(reduction, element, count < world)?;
        Ok(Reducer { element_bytes: element.size(), kind: ReducerKind::Known(loops) })
    }

    /// The caller's function over elements of `element_bytes` bytes (more than 0):
    /// `fold(accumulator, other)` puts accumulator ∘ other into the accumulator, for one or more
    /// elements at a time. It need be neither commutative nor associative: it is called in the
    /// order of [`crate::Order`], left to right, and for each element at one rank only.
    ///
    /// # Panics
    /// When `element_bytes` is 0.
    pub fn custom(
        element_bytes: usize,
        fold: impl Fn(&mut [u8], &[u8]) -> Result<(), FoldError> + Send + Sync + 'f,
    ) -> Self {
        assert!(element_bytes > 0, "a custom reducer's elements have at least one byte");
        Reducer { element_bytes, kind: ReducerKind::Custom(Box::new(fold)) }
    }

    /// The caller's function over serialized objects of at most `objects.limit()` bytes; elements are [`Objects`]'
    /// cells. `fold(accumulator, other)` replaces the accumulator's bytes.
    pub fn objects(
        objects: Objects,
        fold: impl Fn(&mut Vec<u8>, &[u8]) -> Result<(), FoldError> + Send + Sync + 'f,
    ) -> Self {
        Reducer::custom(objects.cell_bytes(), move |accumulator, other| {
            let cells =
                accumulator.chunks_exact_mut(objects.cell_bytes()).zip(other.chunks_exact(objects.cell_bytes()));
            for (cell, other) in cells {
                let mut object = objects.unpack(cell)?.to_vec();
                fold(&mut object, objects.unpack(other)?)?;
                cell.copy_from_slice(&objects.pack(&object)?);
            }
            Ok(())
        })
    }

    /// Chunks of a vector are multiples of it.
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Whether it is the caller's function: then each element is folded at one rank only.
    pub fn is_custom(&self) -> bool {
        matches!(self.kind, ReducerKind::Custom(_))
    }

    /// accumulator ∘ other into the accumulator.
    ///
    /// # Errors
    /// When the caller's function fails; the accumulator is then worthless.
    ///
    /// # Panics
    /// When the lengths differ or aren't whole elements.
    pub fn fold(&self, accumulator: &mut [u8], other: &[u8]) -> Result<(), FoldError> {
        assert_eq!(accumulator.len(), other.len(), "fold of buffers of unequal length");
        assert_eq!(accumulator.len() % self.element_bytes, 0, "fold of a part of an element");
        match &self.kind {
            ReducerKind::Known(loops) => (loops.fold)(accumulator, other),
            ReducerKind::Custom(fold) if !accumulator.is_empty() => fold(accumulator, other)?,
            ReducerKind::Custom(_) => {}
        }
        Ok(())
    }

    /// left ∘ right into `out`, in one pass where the reduction is a known one.
    ///
    /// # Errors
    /// When the caller's function fails; `out` is then worthless.
    ///
    /// # Panics
    /// When the lengths differ or aren't whole elements.
    pub fn combine(&self, out: &mut [u8], left: &[u8], right: &[u8]) -> Result<(), FoldError> {
        assert!(out.len() == left.len() && out.len() == right.len(), "fold of buffers of unequal length");
        assert_eq!(out.len() % self.element_bytes, 0, "fold of a part of an element");
        match &self.kind {
            ReducerKind::Known(loops) => (loops.combine)(out, left, right),
            ReducerKind::Custom(_) => {
                out.copy_from_slice(left);
                self.fold(out, right)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Reducer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_custom() { "custom" } else { "known" };
        write!(f, "Reducer({kind}, {} bytes)", self.element_bytes)
    }
}

/// Serialized objects of varying length as elements of one size: cells of 8 bytes of length (little endian), the
/// object's bytes, and zeros up to the limit. A whole cell is sent whatever its object's length is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objects {
    limit: usize,
}

/// Bytes of the length that stands before an object.
const LENGTH_BYTES: usize = 8;

impl Objects {
    /// Objects of at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Objects { limit }
    }

    /// Most bytes of an object.
    pub const fn limit(self) -> usize {
        self.limit
    }

    /// Bytes of a cell: the element's size.
    pub const fn cell_bytes(self) -> usize {
        self.limit + LENGTH_BYTES
    }

    /// The cell of an object.
    ///
    /// # Errors
    /// When the object is longer than the limit.
    pub fn pack(self, object: &[u8]) -> Result<Vec<u8>, FoldError> {
        if object.len() > self.limit {
            return Err(FoldError(format!(
                "an object of {} bytes; the limit given was {} bytes, give a greater one",
                object.len(),
                self.limit
            )));
        }
        let mut cell = vec![0; self.cell_bytes()];
        cell[..LENGTH_BYTES].copy_from_slice(&(object.len() as u64).to_le_bytes());
        cell[LENGTH_BYTES..][..object.len()].copy_from_slice(object);
        Ok(cell)
    }

    /// The object in a cell.
    ///
    /// # Errors
    /// When this isn't a cell of this limit.
    pub fn unpack(self, cell: &[u8]) -> Result<&[u8], FoldError> {
        cell.split_first_chunk::<LENGTH_BYTES>()
            .filter(|(_, object)| object.len() == self.limit)
            .and_then(|(length, object)| object.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?))
            .ok_or_else(|| {
                FoldError(format!(
                    "{} bytes aren't an object of at most {} bytes with its length before it",
                    cell.len(),
                    self.limit
                ))
            })
    }
}
