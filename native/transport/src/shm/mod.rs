//! Memory that the ranks of one host share: the segments of [`rejoin_collectives::shared`].
//!
//! A rank's [`Segment`] is a piece of anonymous memory (a memfd) that it alone writes. Other
//! threads of the process use it as it is; other processes open it through `/proc` with the rank's
//! [`SegmentAddress`], which they get over a link, and can only read it. It can't be shortened (it
//! is sealed), so reading never faults; it has no name in any folder, so nothing is left behind by
//! a dead process; and a process that has opened it can go on reading after its owner's death.
//!
//! [`Group`] is all segments of a world as one rank sees them.

mod group;
mod segment;

pub use group::Group;
pub use segment::{PeerSegment, Segment, SegmentAddress, SegmentError};
#[cfg(any(test, feature = "check"))]
pub(crate) use segment::{MAGIC, SEALS, SLOTS};
