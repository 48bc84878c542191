//! Pages of prepared input, as they stand in files, for who reads them outside the JVM. The layout,
//! and what is kept of each page, is described in docs/pages.md.
//!
//! [`Page`] is one page: its bytes are checked once, and then given as typed slices without a copy.
//! [`PageList`] is the list of an input's pages. [`Input`] is a list with its folder; it reads pages
//! by their number, each of which is verified before it is given. No bytes make any of them panic.
//!
//! Errors have the code `INPUT_LOST` where a file isn't what it was when it was written, or is gone;
//! `INCOMPATIBLE` where it was written by rules that aren't known here; `IO` where it can't be read;
//! and `BAD_ARGUMENT` for what was asked for in vain.

mod buffer;
#[cfg(any(test, feature = "check"))]
pub mod check;
mod fingerprint;
mod input;
mod list;
mod page;

pub use buffer::Buffer;
pub use fingerprint::{Fingerprint, Sha256Digest};
pub use input::{Input, ReadPage};
pub use list::{PageList, PartitionPages, LIST_VERSION};
pub use page::{Features, Kind, Page, HEAD_BYTES, PAGE_VERSION};
pub use rejoin_protocol::error::{Code, Error};
