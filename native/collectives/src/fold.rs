//! The inner loops: two buffers of elements become one.
//!
//! Buffers are bytes without any alignment: elements are read and written whole, which the compiler turns into vector
//! instructions all the same.

use crate::{Element, Reduction, Unfit};
use bytemuck::Pod;
use half::{bf16, f16};

/// Folds `other` into `accumulator`, element by element: accumulator ∘ other.
pub(crate) type Fold = fn(accumulator: &mut [u8], other: &[u8]);

/// Puts left ∘ right into `out`.
pub(crate) type Combine = fn(out: &mut [u8], left: &[u8], right: &[u8]);

/// The loops for one reduction of one element type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loops {
    pub(crate) fold: Fold,
    pub(crate) combine: Combine,
}

/// A binary operator on elements of one type.
trait Operator<T> {
    fn apply(left: T, right: T) -> T;
}

struct Sum;
struct Product;
struct Min;
struct Max;
struct And;
struct Or;
struct Xor;

fn fold<T: Pod, O: Operator<T>>(accumulator: &mut [u8], other: &[u8]) {
    debug_assert_eq!(accumulator.len(), other.len(), "buffers of unequal length");
    for (left, right) in accumulator.chunks_exact_mut(size_of::<T>()).zip(other.chunks_exact(size_of::<T>())) {
        let folded = O::apply(bytemuck::pod_read_unaligned(left), bytemuck::pod_read_unaligned(right));
        left.copy_from_slice(bytemuck::bytes_of(&folded));
    }
}

fn combine<T: Pod, O: Operator<T>>(out: &mut [u8], left: &[u8], right: &[u8]) {
    debug_assert!(out.len() == left.len() && out.len() == right.len(), "buffers of unequal length");
    let operands = left.chunks_exact(size_of::<T>()).zip(right.chunks_exact(size_of::<T>()));
    for (out, (left, right)) in out.chunks_exact_mut(size_of::<T>()).zip(operands) {
        let folded = O::apply(bytemuck::pod_read_unaligned(left), bytemuck::pod_read_unaligned(right));
        out.copy_from_slice(bytemuck::bytes_of(&folded));
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Operator<$t> for Sum { #[inline(always)] fn apply(a: $t, b: $t) -> $t { a.wrapping_add(b) } }
        impl Operator<$t> for Product { #[inline(always)] fn apply(a: $t, b: $t) -> $t { a.wrapping_mul(b) } }
        impl Operator<$t> for Min { #[inline(always)] fn apply(a: $t, b: $t) -> $t { a.min(b) } }
        impl Operator<$t> for Max { #[inline(always)] fn apply(a: $t, b: $t) -> $t { a.max(b) } }
        impl Operator<$t> for And { #[inline(always)] fn apply(a: $t, b: $t) -> $t { a & b } }
        impl Operator<$t> for Or { #[inline(always)] fn apply(a: $t, b: $t) -> $t { a | b } }
        impl Operator<$t> for Xor { #[inline(always)] fn apply(a: $t, b: $t) -> $t { a ^ b } }
    )*};
}
integers!(i8 i16 i32 i64 u8 u16 u32 u64);

/// The one NaN of the result for any NaN (see [`Reduction`]), written so that it becomes a mask and no branch.
macro_rules! floats {
    ($($t:ident)*) => {$(
        impl Operator<$t> for Sum {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                let sum = a + b;
                if sum.is_nan() { $t::NAN } else { sum }
            }
        }
        impl Operator<$t> for Product {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                let product = a * b;
                if product.is_nan() { $t::NAN } else { product }
            }
        }
        impl Operator<$t> for Min {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                // Equal numbers have equal bits, but for the zeros: or keeps a minus.
                let equal = $t::from_bits(a.to_bits() | b.to_bits());
                let least = if a < b { a } else if b < a { b } else { equal };
                if a.is_nan() | b.is_nan() { $t::NAN } else { least }
            }
        }
        impl Operator<$t> for Max {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                let equal = $t::from_bits(a.to_bits() & b.to_bits());
                let greatest = if a > b { a } else if b > a { b } else { equal };
                if a.is_nan() | b.is_nan() { $t::NAN } else { greatest }
            }
        }
    )*};
}
floats!(f16 bf16 f32 f64);

/// C++'s own operators, as XGBoost uses them: they don't look for NaNs.
struct PlainSum;
struct StdMin;
struct StdMax;
/// The same with the operands exchanged: the other one comes first.
struct Exchanged<O>(core::marker::PhantomData<O>);

macro_rules! plain_floats {
    ($($t:ident)*) => {$(
        impl Operator<$t> for PlainSum { #[inline(always)] fn apply(a: $t, b: $t) -> $t { a + b } }
        impl Operator<$t> for StdMin { #[inline(always)] fn apply(a: $t, b: $t) -> $t { if b < a { b } else { a } } }
        impl Operator<$t> for StdMax { #[inline(always)] fn apply(a: $t, b: $t) -> $t { if a < b { b } else { a } } }
    )*};
}
plain_floats!(f32 f64);

impl<T, O: Operator<T>> Operator<T> for Exchanged<O> {
    #[inline(always)]
    fn apply(a: T, b: T) -> T {
        O::apply(b, a)
    }
}

/// The loops of C++'s operators for this pair, where they differ from ours. `exchanged`: the
/// accumulator is the second operand.
pub(crate) fn plain_loops(reduction: Reduction, element: Element, exchanged: bool) -> Result<Loops, Unfit> {
    fn of<T: Pod, O: Operator<T>>(exchanged: bool) -> Loops {
        match exchanged {
            false => Loops { fold: fold::<T, O>, combine: combine::<T, O> },
            true => Loops { fold: fold::<T, Exchanged<O>>, combine: combine::<T, Exchanged<O>> },
        }
    }
    match (element, reduction) {
        (Element::F32, Reduction::Sum) => Ok(of::<f32, PlainSum>(exchanged)),
        (Element::F32, Reduction::Min) => Ok(of::<f32, StdMin>(exchanged)),
        (Element::F32, Reduction::Max) => Ok(of::<f32, StdMax>(exchanged)),
        (Element::F64, Reduction::Sum) => Ok(of::<f64, PlainSum>(exchanged)),
        (Element::F64, Reduction::Min) => Ok(of::<f64, StdMin>(exchanged)),
        (Element::F64, Reduction::Max) => Ok(of::<f64, StdMax>(exchanged)),
        _ => loops(reduction, element),
    }
}

/// The loops for this pair.
pub(crate) fn loops(reduction: Reduction, element: Element) -> Result<Loops, Unfit> {
    fn of<T: Pod, O: Operator<T>>() -> Loops {
        Loops { fold: fold::<T, O>, combine: combine::<T, O> }
    }
    fn number<T: Pod>(reduction: Reduction, element: Element) -> Result<Loops, Unfit>
    where
        Sum: Operator<T>,
        Product: Operator<T>,
        Min: Operator<T>,
        Max: Operator<T>,
    {
        match reduction {
            Reduction::Sum => Ok(of::<T, Sum>()),
            Reduction::Product => Ok(of::<T, Product>()),
            Reduction::Min => Ok(of::<T, Min>()),
            Reduction::Max => Ok(of::<T, Max>()),
            Reduction::And | Reduction::Or | Reduction::Xor => Err(Unfit { reduction, element }),
        }
    }
    fn integer<T: Pod>(reduction: Reduction, element: Element) -> Result<Loops, Unfit>
    where
        Sum: Operator<T>,
        Product: Operator<T>,
        Min: Operator<T>,
        Max: Operator<T>,
        And: Operator<T>,
        Or: Operator<T>,
        Xor: Operator<T>,
    {
        match reduction {
            Reduction::And => Ok(of::<T, And>()),
            Reduction::Or => Ok(of::<T, Or>()),
            Reduction::Xor => Ok(of::<T, Xor>()),
            _ => number::<T>(reduction, element),
        }
    }
    match element {
        Element::I8 => integer::<i8>(reduction, element),
        Element::I16 => integer::<i16>(reduction, element),
        Element::I32 => integer::<i32>(reduction, element),
        Element::I64 => integer::<i64>(reduction, element),
        Element::U8 => integer::<u8>(reduction, element),
        Element::U16 => integer::<u16>(reduction, element),
        Element::U32 => integer::<u32>(reduction, element),
        Element::U64 => integer::<u64>(reduction, element),
        Element::F16 => number::<f16>(reduction, element),
        Element::Bf16 => number::<bf16>(reduction, element),
        Element::F32 => number::<f32>(reduction, element),
        Element::F64 => number::<f64>(reduction, element),
    }
}
