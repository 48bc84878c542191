//! The bytes on the wire.

use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Lineage, MemberId, Phase, Rank, Version};
use rejoin_protocol::message::AgentMessage;
use rejoin_protocol::report::Report;
use rejoin_protocol::wire::{decode, encode, Header, Kind, PAYLOAD_LIMIT};

fn header(phase: Phase) -> Header {
    let digest = 0x0807_0605_0403_0201;
    let generation = Generation { epoch: 2, number: 0x0c0d };
    let (lineage, offset, inputs) = (Lineage(3), 0x1122_3344_5566, 0x1817_1615_1413_1211);
    Header { length: 0x0a0b, kind: Kind::Collective, phase, lineage, offset, digest, generation, inputs }
}

#[test]
fn a_header_is_what_the_layout_says() {
    let bytes = header(Phase::Version(Version(9))).encode();
    let expected = [
        0x0b, 0x0a, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 1, 2, 3, 4, 5,
        6, 7, 8, 2, 0, 0, 0, 0x0d, 0x0c, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn every_kind_and_phase_comes_back_as_it_was() {
    let kinds =
        [Kind::Control, Kind::Bulk, Kind::Data, Kind::PhaseStart, Kind::PhaseEnd, Kind::Receipt, Kind::Collective];
    for kind in kinds {
        for phase in [Phase::Boot, Phase::Version(Version(0)), Phase::Version(Version(u32::MAX))] {
            let inputs = if kind == Kind::Collective { 7 } else { 0 };
            let header = Header { kind, inputs, ..header(phase) };
            assert_eq!(Header::decode(&header.encode()).unwrap(), header);
        }
    }
}

#[test]
fn headers_that_nobody_writes_are_refused() {
    let good = header(Phase::Boot).encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        Header::decode(&bytes).unwrap_err()
    };
    for (at, byte) in [(4, 0), (4, 8), (4, Kind::Data as u8), (5, 2), (6, 1), (7, 1), (12, 1)] {
        assert_eq!(with(at, byte).code, Code::Incompatible, "byte {at}");
    }
    let error = with(3, 1);
    assert!(error.message.contains(&PAYLOAD_LIMIT.to_string()), "{error}");
}

#[test]
fn a_message_with_bytes_missing_or_too_many_is_refused() {
    let failure = Some(Error::new(Code::Io, "disk"));
    let message = AgentMessage::Report {
        member: MemberId { rank: Rank(3), incarnation: Default::default() },
        report: Report::Left { failure },
    };
    let bytes = encode(&message);
    assert_eq!(decode::<AgentMessage>(&bytes).unwrap(), message);
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    for wrong in [&bytes[..bytes.len() - 1], &longer, &[0xff]] {
        assert_eq!(decode::<AgentMessage>(wrong).unwrap_err().code, Code::Incompatible);
    }
}
