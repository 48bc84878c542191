//! The types of elements that collectives know.

use core::fmt;

macro_rules! elements {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $bytes:literal, $name:literal;)*) => {
        /// Type of a buffer's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Element {
            $($(#[$doc])* $variant = $code,)*
        }

        impl Element {
            /// All of them, in the order of their codes.
            pub const ALL: &'static [Element] = &[$(Element::$variant,)*];

            /// Bytes of one element.
            pub const fn size(self) -> usize {
                match self {
                    $(Element::$variant => $bytes,)*
                }
            }

            /// Its name, as Rust would call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Element::$variant => $name,)*
                }
            }

            /// The number that stands for it on the wire and in C; it never changes.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The element with this code, if there is one.
            pub const fn from_code(code: u8) -> Option<Element> {
                match code {
                    $($code => Some(Element::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

elements! {
    /// 8-bit signed integer.
    I8 = 0, 1, "i8";
    /// 16-bit signed integer.
    I16 = 1, 2, "i16";
    /// 32-bit signed integer.
    I32 = 2, 4, "i32";
    /// 64-bit signed integer.
    I64 = 3, 8, "i64";
    /// 8-bit unsigned integer, and plain bytes.
    U8 = 4, 1, "u8";
    /// 16-bit unsigned integer.
    U16 = 5, 2, "u16";
    /// 32-bit unsigned integer.
    U32 = 6, 4, "u32";
    /// 64-bit unsigned integer.
    U64 = 7, 8, "u64";
    /// IEEE 754 half precision.
    F16 = 8, 2, "f16";
    /// The upper half of an f32.
    Bf16 = 9, 2, "bf16";
    /// IEEE 754 single precision.
    F32 = 10, 4, "f32";
    /// IEEE 754 double precision.
    F64 = 11, 8, "f64";
}

impl Element {
    /// Whether it is a floating-point number.
    pub const fn is_float(self) -> bool {
        matches!(self, Element::F16 | Element::Bf16 | Element::F32 | Element::F64)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_lead_back_to_their_elements_and_to_nothing_else() {
        for code in 0..=u8::MAX {
            match Element::from_code(code) {
                Some(element) => assert_eq!(element.code(), code),
                None => assert!(Element::ALL.iter().all(|element| element.code() != code)),
            }
        }
        assert_eq!(Element::ALL.len(), 12);
    }
}
