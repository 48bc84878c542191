//! What has to hold for any bytes that a decoder is given. Shared by the fuzz targets and by an
//! ordinary test, which runs the kept corpus.

use rejoin_protocol::channel::{PhaseMark, Receipt};
use rejoin_protocol::collective::frame::{Expected, Verdict};
use rejoin_protocol::collective::sharing::{self, IDENTITY_BYTES};
use rejoin_protocol::launcher::{LauncherMessage, LauncherNews};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::wire::{decode, encode, Header, HEADER_BYTES, PAYLOAD_LIMIT};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::fmt::Debug;

/// A check of one decoder.
pub type Check = fn(&[u8]);

/// Each decoder's corpus folder, and its check.
pub const ALL: [(&str, Check); 6] = [
    ("header", header),
    ("agent_message", message::<AgentMessage>),
    ("tracker_message", message::<TrackerMessage>),
    ("launcher", launcher),
    ("receipt", receipt),
    ("identity", identity),
];

/// A header that is read is written as it was, and states no length over the limit.
pub fn header(bytes: &[u8]) {
    let Some(Ok(bytes)) = bytes.get(..HEADER_BYTES).map(<&[u8; HEADER_BYTES]>::try_from) else { return };
    if let Ok(header) = Header::decode(bytes) {
        assert!(header.length <= PAYLOAD_LIMIT);
        assert_eq!(&header.encode(), bytes);
    }
}

/// A message that is read comes back as it was when it is written and read again.
pub fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(message) = decode::<T>(bytes) {
        assert_eq!(decode::<T>(&encode(&message)).as_ref(), Ok(&message));
    }
}

/// What a launcher and its tracker say to each other.
pub fn launcher(bytes: &[u8]) {
    message::<LauncherMessage>(bytes);
    message::<LauncherNews>(bytes);
}

/// What goes over channels beside bytes.
pub fn receipt(bytes: &[u8]) {
    message::<Receipt>(bytes);
    message::<PhaseMark>(bytes);
}

/// What another rank's segment bears is read as the call that it is of, or refused, and is found to
/// be the same as itself.
pub fn identity(bytes: &[u8]) {
    let Some(theirs) = bytes.first_chunk::<IDENTITY_BYTES>() else { return };
    let Ok(place) = sharing::collective_id(theirs) else { return };
    let Some(Ok(header)) = theirs.first_chunk().map(Header::decode) else {
        panic!("a place was read in {theirs:02x?}")
    };
    let expected =
        Expected { generation: header.generation, collective_id: place, digest: header.digest, inputs: header.inputs };
    assert_eq!(sharing::judge(theirs, &expected), Ok(Verdict::Mine));
    let own = sharing::identity(&expected);
    assert_eq!(sharing::inputs(theirs), Ok(header.inputs));
    assert_eq!(sharing::judge(&own, &expected), Ok(Verdict::Mine));
    let other = Expected { digest: !expected.digest, ..expected };
    assert_eq!(sharing::judge(theirs, &other), Ok(Verdict::Mismatch(place)));
}
