//! What a caller may choose.

use rejoin_collectives::{Element, Order};
use rejoin_protocol::collective::Site;
use std::time::Duration;

/// Whether a collective's result belongs to the boot cache, and under which name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Boot {
    /// It doesn't: it is one of the present version.
    #[default]
    No,
    /// It does: found again by its call site, the call, and how often this site made that call before.
    BySite,
    /// It does, under this name, which may be used once in each incarnation.
    Named(String),
}

/// Options of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The order in which the ranks' inputs are folded.
    pub order: Order,
    /// Boot collective or not.
    pub boot: Boot,
    /// Where the call stands; `None` is the place in Rust that called.
    pub site: Option<Site>,
}

/// Which language's names stand in the advice of an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// This one.
    #[default]
    Rust,
    /// `rejoin.h`, and what is built on it.
    C,
    /// `io.rejoin.Communicator`.
    Java,
}

impl Language {
    /// How a rank learns what it starts from.
    pub fn load(self) -> &'static str {
        match self {
            Language::C => "rejoin_load()",
            Language::Rust | Language::Java => "load()",
        }
    }

    /// What makes a call a boot collective.
    pub fn boot(self) -> &'static str {
        match self {
            Language::Rust => "`Options { boot: Boot::BySite, .. }`",
            Language::C => "`options.boot = REJOIN_BOOT_BY_SITE`",
            Language::Java => "`CallOptions.NONE.boot()`",
        }
    }
}

/// Limits of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a join may take.
    pub join: Duration,
    /// How long one call may take, and with it the wait for a lost rank to come back.
    pub call: Duration,
    /// How long the end may take: all have to reach it.
    pub finish: Duration,
}

impl Default for Limits {
    /// Five minutes to join, ten for a call and for the end.
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Limits { join: minutes(5), call: minutes(10), finish: minutes(10) }
    }
}

/// A Rust type whose values are elements.
pub trait Typed: bytemuck::Pod + Send + Sync {
    /// Which.
    const ELEMENT: Element;
}

macro_rules! typed {
    ($($rust:ty => $element:ident),*) => {
        $(impl Typed for $rust {
            const ELEMENT: Element = Element::$element;
        })*
    };
}

typed!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64);
typed!(f32 => F32, f64 => F64);
typed!(half::f16 => F16, half::bf16 => Bf16);
