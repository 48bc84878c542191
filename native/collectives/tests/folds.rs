//! What the reductions give, element by element, said once more in the plainest words.

use half::{bf16, f16};
use proptest::prelude::*;
use rejoin_collectives::{Element, FoldError, Objects, Reducer, Reduction};

/// left ∘ right, after checking that both ways of folding agree on it.
fn folded<T: bytemuck::Pod>(reduction: Reduction, element: Element, left: &[T], right: &[T]) -> Vec<T> {
    let reducer = Reducer::new(reduction, element).unwrap();
    let (left, right): (&[u8], &[u8]) = (bytemuck::cast_slice(left), bytemuck::cast_slice(right));
    let (mut accumulator, mut out) = (left.to_vec(), vec![0xAA; left.len()]);
    reducer.fold(&mut accumulator, right).unwrap();
    reducer.combine(&mut out, left, right).unwrap();
    assert_eq!(accumulator, out);
    // Elements may lie at any address.
    let mut moved = [&[0u8], left].concat();
    reducer.fold(&mut moved[1..], right).unwrap();
    assert_eq!(moved[1..], out);
    out.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

macro_rules! integers_fold_as_stated {
    ($($name:ident: $t:ident = $element:ident;)*) => {$(
        proptest! {
            #[test]
            fn $name(pairs in prop::collection::vec(any::<($t, $t)>(), 0..70)) {
                let (left, right): (Vec<$t>, Vec<$t>) = pairs.into_iter().unzip();
                let plainly = |operator: fn($t, $t) -> $t| -> Vec<$t> {
                    left.iter().zip(&right).map(|(&left, &right)| operator(left, right)).collect()
                };
                let folded = |reduction| folded(reduction, Element::$element, &left, &right);
                prop_assert_eq!(folded(Reduction::Sum), plainly(|a, b| a.overflowing_add(b).0));
                prop_assert_eq!(folded(Reduction::Product), plainly(|a, b| a.overflowing_mul(b).0));
                prop_assert_eq!(folded(Reduction::Min), plainly(|a, b| if b < a { b } else { a }));
                prop_assert_eq!(folded(Reduction::Max), plainly(|a, b| if b > a { b } else { a }));
                prop_assert_eq!(folded(Reduction::And), plainly(|a, b| !(!a | !b)));
                prop_assert_eq!(folded(Reduction::Or), plainly(|a, b| !(!a & !b)));
                prop_assert_eq!(folded(Reduction::Xor), plainly(|a, b| (a | b) & !(a & b)));
            }
        }
    )*};
}
integers_fold_as_stated! {
    i8_folds_as_stated: i8 = I8;
    i16_folds_as_stated: i16 = I16;
    i32_folds_as_stated: i32 = I32;
    i64_folds_as_stated: i64 = I64;
    u8_folds_as_stated: u8 = U8;
    u16_folds_as_stated: u16 = U16;
    u32_folds_as_stated: u32 = U32;
    u64_folds_as_stated: u64 = U64;
}

macro_rules! floats_fold_as_stated {
    ($($name:ident: $t:ident of $bits:ident = $element:ident, $wide:ident;)*) => {$(
        proptest! {
            #[test]
            fn $name(
                pairs in prop::collection::vec((any::<$bits>(), any::<$bits>()), 1..70),
                special in prop::collection::vec((0usize..8, 0usize..8), 8),
            ) {
                let specials = [
                    $t::NAN, $t::from_bits($t::NAN.to_bits() | 3), -$t::NAN, $t::INFINITY, $t::NEG_INFINITY,
                    $t::from_bits(0), -$t::from_bits(0), $t::MAX,
                ];
                let random = pairs.iter().map(|&(left, right)| ($t::from_bits(left), $t::from_bits(right)));
                let chosen = special.iter().map(|&(left, right)| (specials[left], specials[right]));
                let (left, right): (Vec<$t>, Vec<$t>) = random.chain(chosen).unzip();
                let check = |reduction, operator: fn($t, $t) -> $t| {
                    let folded = folded(reduction, Element::$element, &left, &right);
                    for (index, folded) in folded.into_iter().enumerate() {
                        let (left, right) = (left[index], right[index]);
                        let plain = operator(left, right);
                        let plain = if plain.is_nan() { $t::NAN } else { plain };
                        assert_eq!(folded.to_bits(), plain.to_bits(), "{left} {reduction} {right}: {folded}");
                    }
                };
                // In a wider type, rounded once.
                check(Reduction::Sum, |a, b| ($wide::from(a) + $wide::from(b)).rounded());
                check(Reduction::Product, |a, b| ($wide::from(a) * $wide::from(b)).rounded());
                check(Reduction::Min, |a, b| match (a.is_nan() || b.is_nan(), a == b) {
                    (true, _) => $t::NAN,
                    (false, true) => if a.is_sign_negative() { a } else { b },
                    (false, false) => if a < b { a } else { b },
                });
                check(Reduction::Max, |a, b| match (a.is_nan() || b.is_nan(), a == b) {
                    (true, _) => $t::NAN,
                    (false, true) => if a.is_sign_negative() { b } else { a },
                    (false, false) => if a > b { a } else { b },
                });
            }
        }
    )*};
}

/// Rounds to the narrower type that the caller wants.
trait Rounded<T> {
    fn rounded(self) -> T;
}

impl Rounded<f16> for f32 {
    fn rounded(self) -> f16 {
        f16::from_f32(self)
    }
}

impl Rounded<bf16> for f32 {
    fn rounded(self) -> bf16 {
        bf16::from_f32(self)
    }
}

impl Rounded<f32> for f64 {
    fn rounded(self) -> f32 {
        self as f32
    }
}

impl Rounded<f64> for f64 {
    fn rounded(self) -> f64 {
        self
    }
}

floats_fold_as_stated! {
    f16_folds_as_stated: f16 of u16 = F16, f32;
    bf16_folds_as_stated: bf16 of u16 = Bf16, f32;
    f32_folds_as_stated: f32 of u32 = F32, f64;
    f64_folds_as_stated: f64 of u64 = F64, f64;
}

#[test]
fn the_nan_is_quiet_positive_and_without_payload() {
    let bits = |values: Vec<f32>| values[0].to_bits();
    for reduction in [Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max] {
        for odd in [0x7fc0_0001u32, 0xffc0_0000, 0x7f80_0001, 0xffff_ffff] {
            assert_eq!(bits(folded(reduction, Element::F32, &[f32::from_bits(odd)], &[1.0])), 0x7fc0_0000);
            assert_eq!(bits(folded(reduction, Element::F32, &[1.0], &[f32::from_bits(odd)])), 0x7fc0_0000);
        }
    }
    assert_eq!(bits(folded(Reduction::Sum, Element::F32, &[f32::INFINITY], &[f32::NEG_INFINITY])), 0x7fc0_0000);
    assert_eq!(bits(folded(Reduction::Product, Element::F32, &[f32::INFINITY], &[0.0])), 0x7fc0_0000);
}

#[test]
fn a_minus_zero_is_less_than_a_plus_zero() {
    let signs =
        |reduction, left: f64, right: f64| folded(reduction, Element::F64, &[left], &[right])[0].is_sign_negative();
    for (left, right) in [(0.0, -0.0), (-0.0, 0.0)] {
        assert!(signs(Reduction::Min, left, right));
        assert!(!signs(Reduction::Max, left, right));
    }
}

#[test]
fn objects_are_merged_by_the_callers_function_and_keep_their_lengths() {
    let objects = Objects::new(40);
    let reducer = Reducer::objects(objects, |accumulator, other| {
        accumulator.extend_from_slice(b"+");
        accumulator.extend_from_slice(other);
        Ok(())
    });
    let mut accumulator = [objects.pack(b"a").unwrap(), objects.pack(b"").unwrap()].concat();
    for other in ["bb", "ccc"] {
        let cell = objects.pack(other.as_bytes()).unwrap();
        reducer.fold(&mut accumulator, &[cell.clone(), cell].concat()).unwrap();
    }
    let (first, second) = accumulator.split_at(objects.cell_bytes());
    assert_eq!(objects.unpack(first).unwrap(), b"a+bb+ccc");
    assert_eq!(objects.unpack(second).unwrap(), b"+bb+ccc");
}

#[test]
fn an_object_over_the_limit_is_an_error_that_names_both_lengths() {
    let objects = Objects::new(4);
    let reducer = Reducer::objects(objects, |accumulator, other| {
        accumulator.extend_from_slice(other);
        Ok(())
    });
    let mut accumulator = objects.pack(b"123").unwrap();
    let FoldError(text) = reducer.fold(&mut accumulator, &objects.pack(b"456").unwrap()).unwrap_err();
    assert!(text.contains("6 bytes") && text.contains("4 bytes"), "{text}");
    assert!(objects.pack(b"12345").is_err());
}

#[test]
fn what_is_no_cell_is_refused() {
    let objects = Objects::new(4);
    assert!(objects.unpack(&[0; 11]).is_err());
    assert!(objects.unpack(&[]).is_err());
    let mut cell = objects.pack(b"1234").unwrap();
    cell[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(objects.unpack(&cell).is_err());
    cell[..8].copy_from_slice(&5u64.to_le_bytes());
    assert!(objects.unpack(&cell).is_err());
}

#[test]
fn xgboosts_operators_keep_the_first_operand_where_numbers_have_no_order() {
    let bits = |reduction, count, left: f32, right: f32| {
        let reducer = Reducer::of_xgboost(reduction, Element::F32, count, 4).unwrap();
        let mut accumulator = left.to_ne_bytes();
        reducer.fold(&mut accumulator, &right.to_ne_bytes()).unwrap();
        let mut out = [0; 4];
        reducer.combine(&mut out, &left.to_ne_bytes(), &right.to_ne_bytes()).unwrap();
        assert_eq!(accumulator, out);
        u32::from_ne_bytes(out)
    };
    let odd_nan = f32::from_bits(0xffc0_1234);
    for (left, right) in [(0.0, -0.0), (-0.0, 0.0), (odd_nan, 1.0), (1.0, odd_nan)] {
        for reduction in [Reduction::Min, Reduction::Max] {
            // With fewer elements than ranks the accumulator is the second operand.
            assert_eq!(bits(reduction, 4, left, right), left.to_bits());
            assert_eq!(bits(reduction, 3, left, right), right.to_bits());
        }
    }
    for count in [3, 4] {
        assert_eq!(bits(Reduction::Sum, count, odd_nan, 1.0), odd_nan.to_bits());
        assert_eq!(bits(Reduction::Sum, count, 1.0, odd_nan), odd_nan.to_bits());
        assert_eq!(bits(Reduction::Sum, count, 1.5, 2.5), 4.0f32.to_bits());
        assert_eq!(bits(Reduction::Min, count, 1.5, -2.5), (-2.5f32).to_bits());
        assert_eq!(bits(Reduction::Max, count, 1.5, -2.5), 1.5f32.to_bits());
    }
    assert!(Reducer::of_xgboost(Reduction::Xor, Element::F32, 4, 4).is_err());
    assert!(Reducer::of_xgboost(Reduction::Xor, Element::U32, 4, 4).is_ok());
}
