//! The stream state of one channel: what each transition puts out.

use rejoin_protocol::channel::{Due, Incoming, Outgoing, PhaseMark, SenderStep, DIGEST_STRIDE};
use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{Lineage, Phase, Version};
use rejoin_protocol::wire::{Header, Kind};

const ONE: Lineage = Lineage(0);

fn mark(round: u32) -> PhaseMark {
    PhaseMark { round, checkpoint: u128::from(round) * 7 }
}

fn version(v: u32) -> Phase {
    Phase::Version(Version(v))
}

fn sender(start: u32) -> Outgoing {
    let mut outgoing = Outgoing::new(ONE, Version(start));
    outgoing.enter(Phase::Boot, mark(0)).unwrap();
    outgoing
}

fn receiver(start: u32) -> Incoming {
    let mut incoming = Incoming::new(ONE, Version(start));
    incoming.enter(Phase::Boot, mark(0)).unwrap();
    incoming
}

fn header(kind: Kind, phase: Phase, offset: u64) -> Header {
    Header { length: 1, kind, phase, lineage: ONE, offset, digest: 0, generation: Default::default(), inputs: 0 }
}

/// All steps up to the first comparison, done.
fn steps(outgoing: &mut Outgoing) -> Vec<SenderStep> {
    let mut all = Vec::new();
    while let Some(step) = outgoing.next(u64::MAX) {
        all.push(step);
        if matches!(step, SenderStep::Compare { .. }) {
            break;
        }
        outgoing.done(step);
    }
    all
}

#[test]
fn nothing_goes_out_before_the_receipt() {
    let mut outgoing = sender(0);
    outgoing.produced(10);
    assert_eq!(outgoing.next(100), None);
    outgoing.receipt(&receiver(0).receipt()).unwrap();
    assert_eq!(outgoing.next(100), Some(SenderStep::Start { phase: Phase::Boot, mark: mark(0) }));
}

#[test]
fn bytes_go_out_between_the_mark_and_the_end_of_their_phase() {
    let mut outgoing = sender(0);
    outgoing.receipt(&receiver(0).receipt()).unwrap();
    outgoing.produced(10);
    outgoing.enter(version(0), mark(0)).unwrap();
    outgoing.produced(3);
    assert_eq!(
        steps(&mut outgoing),
        [
            SenderStep::Start { phase: Phase::Boot, mark: mark(0) },
            SenderStep::Bytes { phase: Phase::Boot, from: 0, to: 10 },
            SenderStep::End { phase: Phase::Boot, length: 10 },
            SenderStep::Start { phase: version(0), mark: mark(0) },
            SenderStep::Bytes { phase: version(0), from: 0, to: 3 },
        ]
    );
}

#[test]
fn a_step_has_at_most_as_many_bytes_as_asked_for() {
    let mut outgoing = sender(0);
    outgoing.receipt(&receiver(0).receipt()).unwrap();
    outgoing.produced(10);
    outgoing.done(SenderStep::Start { phase: Phase::Boot, mark: mark(0) });
    assert_eq!(outgoing.next(4), Some(SenderStep::Bytes { phase: Phase::Boot, from: 0, to: 4 }));
    assert_eq!(outgoing.next(0), None);
}

#[test]
fn phases_are_entered_in_their_order_only() {
    let mut outgoing = Outgoing::new(ONE, Version(4));
    assert_eq!(outgoing.enter(version(4), mark(4)).unwrap_err().code, Code::BadState);
    outgoing.enter(Phase::Boot, mark(0)).unwrap();
    assert_eq!(outgoing.enter(version(5), mark(5)).unwrap_err().code, Code::BadState);
    outgoing.enter(version(4), mark(4)).unwrap();
    let mut incoming = receiver(4);
    assert_eq!(incoming.enter(version(3), mark(3)).unwrap_err().code, Code::BadState);
}

#[test]
fn logs_older_than_the_version_before_the_present_one_are_dropped_but_never_boot() {
    let mut outgoing = sender(0);
    assert_eq!(outgoing.enter(version(0), mark(0)).unwrap(), []);
    assert_eq!(outgoing.enter(version(1), mark(1)).unwrap(), []);
    assert_eq!(outgoing.enter(version(2), mark(2)).unwrap(), [version(0)]);
    assert_eq!(outgoing.enter(version(3), mark(3)).unwrap(), [version(1)]);
}

#[test]
fn nothing_is_dropped_while_holding_and_all_that_is_old_at_the_release() {
    let mut outgoing = sender(0);
    let mut incoming = receiver(0);
    for v in 0..2 {
        outgoing.enter(version(v), mark(v)).unwrap();
        incoming.enter(version(v), mark(v)).unwrap();
    }
    assert_eq!(outgoing.hold(), Version(0));
    incoming.hold();
    for v in 2..5 {
        assert_eq!(outgoing.enter(version(v), mark(v)).unwrap(), []);
        incoming.enter(version(v), mark(v)).unwrap();
    }
    assert_eq!(outgoing.oldest(), Version(0));
    assert_eq!(incoming.receipt().phases.len(), 6);
    assert_eq!(outgoing.release(), [version(0), version(1), version(2)]);
    incoming.release();
    assert_eq!(outgoing.oldest(), Version(3));
    let known: Vec<Phase> = incoming.receipt().phases.iter().map(|phase| phase.phase).collect();
    assert_eq!(known, [Phase::Boot, version(3), version(4)]);
}

#[test]
fn a_receiver_that_starts_later_gets_boot_and_then_its_version() {
    let mut outgoing = sender(0);
    for v in 0..3 {
        outgoing.enter(version(v), mark(v)).unwrap();
        outgoing.produced(5);
    }
    outgoing.receipt(&receiver(2).receipt()).unwrap();
    let phases: Vec<SenderStep> =
        steps(&mut outgoing).into_iter().filter(|step| matches!(step, SenderStep::Start { .. })).collect();
    assert_eq!(
        phases,
        [
            SenderStep::Start { phase: Phase::Boot, mark: mark(0) },
            SenderStep::Start { phase: version(2), mark: mark(2) }
        ]
    );
}

#[test]
fn a_receiver_that_needs_what_is_not_logged_any_more_is_an_error_and_no_hang() {
    let mut outgoing = sender(3);
    let mut incoming = receiver(2);
    outgoing.receipt(&incoming.receipt()).unwrap();
    outgoing.enter(version(3), mark(3)).unwrap();
    let next: Vec<SenderStep> = steps(&mut outgoing);
    assert!(next.contains(&SenderStep::Start { phase: version(3), mark: mark(3) }), "{next:?}");
    let start = header(Kind::PhaseStart, version(3), 0);
    assert_eq!(incoming.due(&start).unwrap(), Due::Later);
    incoming.enter(version(2), mark(2)).unwrap();
    let error = incoming.due(&start).unwrap_err();
    assert_eq!(error.code, Code::Internal);
    assert!(error.message.contains("version 2") && error.message.contains("version 3"), "{error}");
}

#[test]
fn a_receipt_may_be_older_than_the_senders_logs() {
    let mut outgoing = sender(0);
    let mut incoming = receiver(0);
    let old = incoming.receipt();
    for v in 0..3 {
        outgoing.enter(version(v), mark(v)).unwrap();
        incoming.enter(version(v), mark(v)).unwrap();
    }
    outgoing.receipt(&old).unwrap();
    let begun: Vec<SenderStep> =
        steps(&mut outgoing).into_iter().filter(|s| matches!(s, SenderStep::Start { .. })).collect();
    let start = |phase, round| SenderStep::Start { phase, mark: mark(round) };
    assert_eq!(begun, [start(Phase::Boot, 0), start(version(1), 1), start(version(2), 2)]);
}

#[test]
fn another_lineage_is_a_mismatch_on_both_sides() {
    let mut outgoing = sender(0);
    let error = outgoing.receipt(&Incoming::new(Lineage(1), Version(0)).receipt()).unwrap_err();
    assert_eq!(error.code, Code::Mismatch);
    let frame = Header { lineage: Lineage(1), ..header(Kind::Data, Phase::Boot, 0) };
    assert_eq!(receiver(0).due(&frame).unwrap_err().code, Code::Mismatch);
}

#[test]
fn a_restarted_sender_compares_stride_by_stride_and_sends_only_the_rest() {
    let bytes: Vec<u8> = (0..DIGEST_STRIDE + 100).map(|i| (i * 31 % 251) as u8).collect();
    let mut incoming = receiver(0);
    incoming.took(Phase::Boot, 0, &bytes[..DIGEST_STRIDE as usize + 40]).unwrap();

    let mut outgoing = sender(0);
    outgoing.receipt(&incoming.receipt()).unwrap();
    outgoing.produced(bytes.len() as u64);
    assert!(outgoing.behind());
    outgoing.done(outgoing.next(u64::MAX).unwrap());
    let first = SenderStep::Compare { phase: Phase::Boot, from: 0, to: DIGEST_STRIDE };
    assert_eq!(outgoing.next(u64::MAX), Some(first));
    outgoing.compared(first, &bytes[..DIGEST_STRIDE as usize]).unwrap();
    let second = SenderStep::Compare { phase: Phase::Boot, from: DIGEST_STRIDE, to: DIGEST_STRIDE + 40 };
    assert_eq!(outgoing.next(u64::MAX), Some(second));
    outgoing.compared(second, &bytes[DIGEST_STRIDE as usize..][..40]).unwrap();
    assert!(!outgoing.behind());
    assert_eq!(outgoing.regenerated(), DIGEST_STRIDE + 40);
    let rest = SenderStep::Bytes { phase: Phase::Boot, from: DIGEST_STRIDE + 40, to: DIGEST_STRIDE + 100 };
    assert_eq!(outgoing.next(u64::MAX), Some(rest));
}

#[test]
fn a_byte_that_differs_is_found_and_its_place_is_named() {
    let mut incoming = receiver(6);
    incoming.enter(version(6), mark(6)).unwrap();
    incoming.took(version(6), 0, &[1, 2, 3, 4]).unwrap();
    let mut outgoing = sender(6);
    outgoing.enter(version(6), mark(6)).unwrap();
    outgoing.produced(4);
    outgoing.receipt(&incoming.receipt()).unwrap();
    let compare = *steps(&mut outgoing).last().unwrap();
    assert_eq!(compare, SenderStep::Compare { phase: version(6), from: 0, to: 4 });
    let error = outgoing.compared(compare, &[1, 2, 3, 5]).unwrap_err();
    assert_eq!(error.code, Code::Mismatch);
    assert!(error.message.contains("version 6 (round 6)") && error.message.contains("0..4"), "{error}");
}

#[test]
fn a_phase_that_ends_shorter_than_before_is_a_mismatch() {
    let mut incoming = receiver(0);
    incoming.took(Phase::Boot, 0, &[1, 2, 3]).unwrap();
    let mut outgoing = sender(0);
    outgoing.receipt(&incoming.receipt()).unwrap();
    outgoing.produced(2);
    assert_eq!(outgoing.enter(version(0), mark(0)).unwrap_err().code, Code::Mismatch);
}

#[test]
fn more_bytes_than_the_receiver_had_of_a_phase_that_is_over_there_are_a_mismatch_at_once() {
    let mut incoming = receiver(0);
    incoming.took(Phase::Boot, 0, &[1, 2]).unwrap();
    incoming.enter(version(0), mark(0)).unwrap();
    let mut outgoing = sender(0);
    outgoing.receipt(&incoming.receipt()).unwrap();
    outgoing.produced(3);
    let compare = *steps(&mut outgoing).last().unwrap();
    outgoing.compared(compare, &[1, 2]).unwrap();
    let excess = outgoing.next(100).unwrap();
    assert_eq!(outgoing.compared(excess, &[3]).unwrap_err().code, Code::Mismatch);
}

#[test]
fn bytes_sent_by_this_incarnation_itself_do_not_count_as_regenerated_after_a_new_link() {
    let mut incoming = receiver(0);
    let mut outgoing = sender(0);
    outgoing.receipt(&incoming.receipt()).unwrap();
    outgoing.produced(4);
    steps(&mut outgoing);
    incoming.took(Phase::Boot, 0, &[1, 2, 3]).unwrap();
    outgoing.unlinked();
    assert_eq!(outgoing.next(100), None);
    outgoing.receipt(&incoming.receipt()).unwrap();
    let compare = *steps(&mut outgoing).last().unwrap();
    outgoing.compared(compare, &[1, 2, 3]).unwrap();
    assert_eq!(outgoing.regenerated(), 0);
    assert_eq!(outgoing.next(100), Some(SenderStep::Bytes { phase: Phase::Boot, from: 3, to: 4 }));
}

#[test]
fn frames_of_a_phase_that_is_not_entered_yet_wait() {
    let incoming = receiver(0);
    for kind in [Kind::PhaseStart, Kind::Data, Kind::PhaseEnd] {
        assert_eq!(incoming.due(&header(kind, version(0), 0)).unwrap(), Due::Later);
    }
    assert_eq!(Incoming::new(ONE, Version(0)).due(&header(Kind::Data, Phase::Boot, 0)).unwrap(), Due::Later);
}

#[test]
fn bytes_for_a_phase_that_is_over_or_at_a_wrong_place_are_a_mismatch() {
    let mut incoming = receiver(0);
    incoming.took(Phase::Boot, 0, &[1, 2]).unwrap();
    for offset in [0, 1, 3] {
        assert_eq!(incoming.due(&header(Kind::Data, Phase::Boot, offset)).unwrap_err().code, Code::Mismatch);
    }
    assert_eq!(incoming.due(&header(Kind::Data, Phase::Boot, 2)).unwrap(), Due::Now);
    incoming.enter(version(0), mark(0)).unwrap();
    assert_eq!(incoming.due(&header(Kind::Data, Phase::Boot, 2)).unwrap_err().code, Code::Mismatch);
    assert_eq!(incoming.took(Phase::Boot, 2, &[3]).unwrap_err().code, Code::Mismatch);
}

#[test]
fn bytes_after_the_end_of_their_phase_are_a_mismatch() {
    let mut incoming = receiver(0);
    incoming.took(Phase::Boot, 0, &[1]).unwrap();
    incoming.ended(Phase::Boot, 1).unwrap();
    assert_eq!(incoming.due(&header(Kind::Data, Phase::Boot, 1)).unwrap_err().code, Code::Mismatch);
}

#[test]
fn the_length_of_a_closed_phase_is_compared_when_its_end_comes() {
    let mut incoming = receiver(0);
    incoming.took(Phase::Boot, 0, &[1, 2]).unwrap();
    incoming.enter(version(0), mark(0)).unwrap();
    assert_eq!(incoming.due(&header(Kind::PhaseEnd, Phase::Boot, 2)).unwrap(), Due::Now);
    incoming.ended(Phase::Boot, 2).unwrap();
    assert_eq!(incoming.ended(Phase::Boot, 3).unwrap_err().code, Code::Mismatch);
}

#[test]
fn a_boundary_at_another_round_or_with_another_model_is_a_mismatch() {
    let mut incoming = receiver(0);
    incoming.enter(version(0), mark(0)).unwrap();
    incoming.started(version(0), mark(0)).unwrap();
    assert_eq!(incoming.started(version(0), mark(1)).unwrap_err().code, Code::Mismatch);
    let other = PhaseMark { round: 0, checkpoint: 1 };
    assert_eq!(incoming.started(version(0), other).unwrap_err().code, Code::Mismatch);
}

#[test]
fn a_receipt_tells_of_boot_and_the_last_two_versions() {
    let mut incoming = receiver(3);
    for v in 3..7 {
        incoming.enter(version(v), mark(v)).unwrap();
        incoming.took(version(v), 0, &[v as u8]).unwrap();
    }
    let receipt = incoming.receipt();
    assert_eq!((receipt.lineage, receipt.start), (ONE, Version(3)));
    let phases: Vec<(Phase, u64, bool)> = receipt.phases.iter().map(|p| (p.phase, p.bytes, p.closed)).collect();
    assert_eq!(phases, [(Phase::Boot, 0, true), (version(5), 1, true), (version(6), 1, false)]);
}
