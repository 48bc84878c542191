//! How the ranks' inputs become one: a known reduction of known elements, or the caller's own.

use rejoin_collectives::{Element, FoldError, Objects, Order, Reducer, Reduction};
use rejoin_protocol::error::{Code, Error};
use std::borrow::Cow;
use std::fmt;

/// Largest element of a caller's own, in bytes.
const ELEMENT_LIMIT: usize = 1 << 30;

/// Folds elements. Its name and its elements' size take part in the comparison of calls: ranks that
/// fold differently get a `Mismatch`, as far as the names show.
pub struct Folding<'f> {
    pub(super) element: Cow<'static, str>,
    reduction: Cow<'static, str>,
    known: Option<Reduction>,
    pub(super) reducer: Reducer<'f>,
}

impl<'f> Folding<'f> {
    /// A known reduction.
    ///
    /// # Errors
    /// `BadArgument` for a reduction that the element doesn't have.
    pub fn known(element: Element, reduction: Reduction) -> Result<Self, Error> {
        let reducer =
            Reducer::new(reduction, element).map_err(|unfit| Error::new(Code::BadArgument, unfit.to_string()))?;
        let name = reduction.name().into();
        Ok(Folding { element: element.name().into(), reduction: name, known: Some(reduction), reducer })
    }

    /// A known reduction as XGBoost's own collective has it ([`Reducer::of_xgboost`]), of `count`
    /// elements in a world of so many ranks. To be used in ring order.
    ///
    /// # Errors
    /// `BadArgument` for a reduction that the element doesn't have.
    pub fn of_xgboost(element: Element, reduction: Reduction, count: usize, world: usize) -> Result<Self, Error> {
        let reducer = Reducer::of_xgboost(reduction, element, count, world)
            .map_err(|unfit| Error::new(Code::BadArgument, unfit.to_string()))?;
        Ok(Folding { reducer, ..Folding::known(element, reduction)? })
    }

    /// The caller's own function over elements of `element_bytes` bytes: `fold(accumulator, other)`
    /// puts accumulator ∘ other into the accumulator, for one or more elements at a time (both
    /// slices have the same length, without alignment). It is called from left to right in the
    /// order of the ranks, for each element at one rank only, and has to give the same bytes
    /// whenever it is given the same: then it need be neither commutative nor associative. `name`
    /// is the same at all ranks.
    ///
    /// An error of the function ends the job with `TrainingFailed`: it would fail again.
    ///
    /// # Errors
    /// `BadArgument` for elements of no bytes, or of more than 1 GiB.
    pub fn custom(
        name: &str,
        element_bytes: usize,
        fold: impl Fn(&mut [u8], &[u8]) -> Result<(), FoldError> + Send + Sync + 'f,
    ) -> Result<Self, Error> {
        check(element_bytes, "an element of the caller's own")?;
        Ok(Folding {
            element: format!("elements of {element_bytes} bytes").into(),
            reduction: format!("custom `{name}`").into(),
            known: None,
            reducer: Reducer::custom(element_bytes, fold),
        })
    }

    /// The caller's own function over serialized objects of at most `limit` bytes each:
    /// `fold(accumulator, other)` replaces the accumulator's bytes, which may become longer or
    /// shorter. Otherwise as [`Folding::custom`]; an object that becomes longer than the limit is
    /// an error of the function.
    ///
    /// # Errors
    /// `BadArgument` for a limit of more than 1 GiB.
    pub fn objects(
        name: &str,
        limit: usize,
        fold: impl Fn(&mut Vec<u8>, &[u8]) -> Result<(), FoldError> + Send + Sync + 'f,
    ) -> Result<Self, Error> {
        let objects = Objects::new(limit);
        check(limit.saturating_add(1), "an object")?;
        Ok(Folding {
            element: format!("objects of at most {limit} bytes").into(),
            reduction: format!("custom `{name}`").into(),
            known: None,
            reducer: Reducer::objects(objects, fold),
        })
    }

    /// Lengths of buffers are multiples of it.
    pub fn element_bytes(&self) -> usize {
        self.reducer.element_bytes()
    }

    /// The name with the order: both have to be the same at all ranks.
    pub(super) fn name(&self, order: Order) -> Cow<'static, str> {
        use Order::{Rank, Ring};
        match (self.known, order) {
            (_, Rank) => self.reduction.clone(),
            (Some(Reduction::Sum), Ring) => "sum in ring order".into(),
            (Some(Reduction::Product), Ring) => "product in ring order".into(),
            (Some(Reduction::Min), Ring) => "min in ring order".into(),
            (Some(Reduction::Max), Ring) => "max in ring order".into(),
            (Some(Reduction::And), Ring) => "and in ring order".into(),
            (Some(Reduction::Or), Ring) => "or in ring order".into(),
            (Some(Reduction::Xor), Ring) => "xor in ring order".into(),
            (None, Ring) => format!("{} in ring order", self.reduction).into(),
        }
    }

    /// How many elements these bytes are.
    pub(super) fn count(&self, length: usize) -> Result<u64, Error> {
        let size = self.element_bytes();
        if length.is_multiple_of(size) {
            return Ok((length / size) as u64);
        }
        Err(Error::new(
            Code::BadArgument,
            format!("a buffer of {length} bytes isn't a whole number of {} of {size} bytes each", self.element),
        ))
    }
}

fn check(bytes: usize, what: &str) -> Result<(), Error> {
    if (1..=ELEMENT_LIMIT).contains(&bytes) {
        return Ok(());
    }
    Err(Error::new(Code::BadArgument, format!("{what} of {bytes} bytes was given; 1 to {ELEMENT_LIMIT} are expected")))
}

impl fmt::Debug for Folding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folding({}, {})", self.reduction, self.element)
    }
}
