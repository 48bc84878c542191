//! What has to hold for any bytes that a process reads of its disk, or is asked for by another
//! one. Run by this crate's tests, and by fuzz targets through the feature `check`.

use crate::durable::file;
use crate::fetch::{Reply, Request};
use rejoin_protocol::wire::{decode, encode};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::fmt::Debug;

/// A check of one decoder.
pub type Check = fn(&[u8]);

/// Each decoder's corpus folder, and its check.
pub const ALL: [(&str, Check); 2] = [("durable", durable), ("fetch", fetch)];

/// A header of a durable checkpoint that is read is written as it was.
///
/// # Panics
/// When that doesn't hold.
pub fn durable(bytes: &[u8]) {
    let Some(header) = bytes.first_chunk::<{ file::HEADER_BYTES }>() else { return };
    if let Ok((job, checkpoint, world)) = file::decode(header) {
        assert_eq!(&file::encode(job, &checkpoint, world), header);
        assert!(file::name(job, &checkpoint).starts_with(&job.to_string()));
    }
}

/// What is asked for and answered over a fetch link comes back as it was, or is refused.
///
/// # Panics
/// When that doesn't hold.
pub fn fetch(bytes: &[u8]) {
    comes_back::<Request>(bytes);
    comes_back::<Reply>(bytes);
}

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(message) = decode::<T>(bytes) {
        assert_eq!(decode::<T>(&encode(&message)).as_ref(), Ok(&message));
    }
}

#[cfg(test)]
#[path = "../../../fuzz/kept.rs"]
mod kept;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rejoin_protocol::ids::{Checkpoint, Lineage, Phase, Rank, Version, UNMADE};
    use rejoin_transport::JobId;

    #[test]
    fn the_kept_corpus_of_every_fuzz_target_runs_through() {
        for (name, check) in ALL {
            kept::inputs(name).iter().for_each(|bytes| check(bytes));
        }
    }

    /// A seed that isn't read as what its name says is noise to a fuzzer: when a message changes
    /// its seeds have to follow.
    #[test]
    fn the_kept_requests_for_checkpoints_are_read_as_what_they_are_named() {
        let model = Checkpoint {
            lineage: Lineage(0),
            version: Version(7),
            owner: None,
            has_own: false,
            round: 7,
            length: 64 << 20,
            digest: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
            complete: false,
        };
        let own = Checkpoint { lineage: Lineage(1), owner: Some(Rank(3)), has_own: true, ..model };
        let lazy = Checkpoint { length: UNMADE, digest: 0, ..model };
        let kept: [(&[u8], Request); 5] = [
            (
                include_bytes!("../../../fuzz/corpus/fetch/stripe"),
                Request::Checkpoint { checkpoint: model, from: 16 << 20, to: 32 << 20 },
            ),
            (
                include_bytes!("../../../fuzz/corpus/fetch/stripe-of-own-model"),
                Request::Checkpoint { checkpoint: own, from: 0, to: 8 << 20 },
            ),
            (
                include_bytes!("../../../fuzz/corpus/fetch/stripe-backwards"),
                Request::Checkpoint { checkpoint: model, from: u64::MAX, to: 0 },
            ),
            (
                include_bytes!("../../../fuzz/corpus/fetch/lazy-checkpoint"),
                Request::Checkpoint { checkpoint: lazy, from: 0, to: UNMADE },
            ),
            (
                include_bytes!("../../../fuzz/corpus/fetch/keep"),
                Request::Keep(Checkpoint { owner: Some(Rank(2)), has_own: true, ..model }),
            ),
        ];
        for (bytes, request) in kept {
            assert_eq!(decode(bytes), Ok(request));
        }
        let made = include_bytes!("../../../fuzz/corpus/fetch/is-made");
        assert_eq!(decode(made), Ok(Reply::Is(Checkpoint { length: 5, ..model })));
        let cut = include_bytes!("../../../fuzz/corpus/fetch/stripe-without-its-end");
        assert!(decode::<Request>(cut).is_err() && decode::<Reply>(cut).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_header_of_a_file_is_read_or_refused(
            bytes in vec(any::<u8>(), 0..100), at in 0..file::HEADER_BYTES, byte: u8,
        ) {
            durable(&bytes);
            // The right first bytes, and something else behind them.
            let mut begun = [0; file::HEADER_BYTES];
            begun[..12].copy_from_slice(b"REJOINCK\x02\0\0\0");
            for (place, byte) in begun[12..].iter_mut().zip(&bytes) {
                *place = *byte;
            }
            begun[at] = byte;
            durable(&begun);
        }

        #[test]
        fn a_header_comes_back_as_it_was(
            numbers: [u32; 4], job: [u8; 16], length in 1..u64::MAX, digest: u128, has_own: bool, complete: bool,
            owned: bool, world in 0..1u32 << 30,
        ) {
            let [lineage, version, round, owner] = numbers;
            let owner = (owned && owner != u32::MAX).then_some(Rank(owner));
            let (lineage, version) = (Lineage(lineage), Version(version));
            let whole = Checkpoint { lineage, version, owner, has_own, round, length, digest, complete };
            prop_assume!(whole.is_made());
            let header = file::encode(JobId(job), &whole, world);
            prop_assert_eq!(file::decode(&header), Ok((JobId(job), whole, world)));
            durable(&header);
        }

        #[test]
        fn any_request_and_answer_is_read_or_refused(
            bytes in vec(any::<u8>(), 0..80), numbers: [u32; 3], range: [u64; 2], boot: bool, at: usize, byte: u8,
            cut: usize,
        ) {
            fetch(&bytes);
            let [number, from, to] = numbers;
            let (lineage, version) = (Lineage(number), Version(to));
            let phase = if boot { Phase::Boot } else { Phase::Version(version) };
            let (length, digest) = (range[1], u128::from(range[0]) << 64);
            let owner = boot.then_some(Rank(from));
            let checkpoint =
                Checkpoint { lineage, version, owner, has_own: boot, round: to, length, digest, complete: !boot };
            let [start, end] = range;
            let requests = [
                Request::Results { lineage, phase, from, to },
                Request::Checkpoint { checkpoint, from: start, to: end },
            ];
            for request in requests {
                let mut good = encode(&request);
                prop_assert_eq!(decode(&good), Ok(request));
                let length = good.len();
                good[at % length] = byte;
                fetch(&good);
                fetch(&good[..cut % length]);
            }
        }
    }
}
