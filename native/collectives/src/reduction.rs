//! The operators, and which of them fit which elements.

use crate::Element;
use core::fmt;

/// How two elements become one.
///
/// - Integers wrap around in sums and products.
/// - f16 and bf16 are rounded to nearest-even after every single operation, as if the hardware had them.
/// - **NaN**: wherever an operation gives a NaN (an operand is one, or infinities cancel each
///   other), the result is *the* NaN: quiet, positive, without payload (f32: `0x7fc00000`). This
///   holds for min and max too: a NaN anywhere makes the result a NaN.
/// - **Zeros**: min and max order -0 before +0 (IEEE 754-2019 `minimum` and `maximum`).
///
/// So the bytes of a result don't depend on the machine or the compiler. What is never combined with anything (a world
/// of one rank) is copied as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reduction {
    /// Addition, `a + b`.
    Sum = 0,
    /// Multiplication, `a * b`.
    Product = 1,
    /// The smallest.
    Min = 2,
    /// The largest.
    Max = 3,
    /// Bitwise and; integers only.
    And = 4,
    /// Bitwise or; integers only.
    Or = 5,
    /// Bitwise exclusive or; integers only.
    Xor = 6,
}

/// A reduction that isn't defined for an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reduction} is not defined for {element}: it combines bits, and wants an integer type (i8 to i64, u8 to u64)")]
pub struct Unfit {
    /// What was asked for.
    pub reduction: Reduction,
    /// On what.
    pub element: Element,
}

impl Reduction {
    /// All of them, in the order of their codes.
    pub const ALL: &'static [Reduction] = &[
        Reduction::Sum,
        Reduction::Product,
        Reduction::Min,
        Reduction::Max,
        Reduction::And,
        Reduction::Or,
        Reduction::Xor,
    ];

    /// As it is written in errors and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Product => "product",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::And => "and",
            Reduction::Or => "or",
            Reduction::Xor => "xor",
        }
    }

    /// The number that stands for it on the wire and in C; it never changes.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reduction with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Reduction> {
        Reduction::ALL.get(usize::from(code)).copied()
    }

    /// Whether it is defined for this element type.
    ///
    /// # Errors
    /// [`Unfit`], which names both.
    pub const fn check(self, element: Element) -> Result<(), Unfit> {
        match self {
            Reduction::And | Reduction::Or | Reduction::Xor if element.is_float() => {
                Err(Unfit { reduction: self, element })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn codes_lead_back_to_their_reductions() {
        for code in 0..=u8::MAX {
            assert_eq!(Reduction::from_code(code).is_some(), code < 7);
            assert!(Reduction::from_code(code).is_none_or(|reduction| reduction.code() == code));
        }
    }

    #[test]
    fn bits_of_floats_are_refused_with_both_names() {
        for &reduction in Reduction::ALL {
            for &element in Element::ALL {
                let bits = matches!(reduction, Reduction::And | Reduction::Or | Reduction::Xor);
                match reduction.check(element) {
                    Ok(()) => assert!(!bits || !element.is_float()),
                    Err(error) => {
                        assert!(bits && element.is_float());
                        let text = error.to_string();
                        assert!(text.contains(reduction.name()) && text.contains(element.name()), "{text}");
                    }
                }
            }
        }
    }
}
