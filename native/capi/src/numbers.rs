//! The numbers that stand in the header. They never change.

use rejoin_agent::protocol::error::{Code, Error};
use rejoin_communicator::collectives::{Element, Order, Reduction};

/// Nothing failed.
pub(crate) const OK: i32 = 0;
/// The job had reached its end already.
pub const OVER: i32 = 64;

/// The number of a code. A new code does not compile without one.
pub(crate) fn status(code: Code) -> i32 {
    match code {
        Code::BadArgument => 1,
        Code::BadState => 2,
        Code::Fenced => 3,
        Code::RolledBack => 4,
        Code::Mismatch => 5,
        Code::MembersMissing => 6,
        Code::Unrecoverable => 7,
        Code::TrackerUnreachable => 8,
        Code::Cancelled => 9,
        Code::Io => 10,
        Code::OutOfSpace => 11,
        Code::Incompatible => 12,
        Code::TrainingFailed => 13,
        Code::TimedOut => 14,
        Code::Internal => 15,
        Code::InputLost => 16,
        Code::Resized => 17,
    }
}

/// The code of a number, if there is one.
pub(crate) fn code(status: i32) -> Option<Code> {
    Code::ALL.into_iter().find(|code| self::status(*code) == status)
}

pub(crate) fn bad(text: String) -> Error {
    Error::new(Code::BadArgument, text)
}

pub(crate) fn unknown(what: &str, number: i64, expected: &str) -> Error {
    bad(format!("{what} {number} is unknown; expected {expected}"))
}

pub(crate) fn element(number: i32) -> Result<Element, Error> {
    let found = u8::try_from(number).ok().and_then(Element::from_code);
    found.ok_or_else(|| unknown("element", number.into(), "one of REJOIN_I8 to REJOIN_F64"))
}

pub(crate) fn reduction(number: i32) -> Result<Reduction, Error> {
    let found = usize::try_from(number).ok().and_then(|at| Reduction::ALL.get(at));
    found.copied().ok_or_else(|| unknown("reduction", number.into(), "one of REJOIN_SUM to REJOIN_XOR"))
}

pub(crate) fn order(number: i32) -> Result<Order, Error> {
    match number {
        0 => Ok(Order::Rank),
        1 => Ok(Order::Ring),
        other => Err(unknown("order", other.into(), "REJOIN_RANK_ORDER or REJOIN_RING_ORDER")),
    }
}

/// Every constant of the header with its number: what a test compares the header with.
pub fn constants() -> Vec<(String, i64)> {
    let mut all = vec![("OK".to_string(), OK.into()), ("OVER".into(), OVER.into())];
    all.extend(Code::ALL.iter().map(|code| (code.name().to_string(), status(*code).into())));
    all.extend(Element::ALL.iter().map(|element| (element.name().to_uppercase(), element.code().into())));
    all.extend((0..).zip(Reduction::ALL).map(|(number, reduction)| (reduction.name().to_uppercase(), number)));
    all.extend([("RANK_ORDER".to_string(), 0), ("RING_ORDER".into(), 1)]);
    all.extend([("HOOK_AUTO".to_string(), 0), ("HOOK_OFF".into(), 1)]);
    all.extend([("BOOT_NO".to_string(), 0), ("BOOT_BY_SITE".into(), 1), ("BOOT_NAMED".into(), 2)]);
    all.extend([("PAGE_DENSE".to_string(), 1), ("PAGE_CSR".into(), 2), ("PAGE_SPARK_ROWS".into(), 3)]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_number_by_which_it_is_found_again() {
        for code_ in Code::ALL {
            assert_eq!(code(status(code_)), Some(code_));
        }
        assert_eq!((code(0), code(18), code(-1)), (None, None, None));
    }

    #[test]
    fn a_number_that_stands_for_nothing_is_refused_with_what_was_expected() {
        assert!(element(12).is_err() && element(-1).is_err() && element(256).is_err());
        assert!(reduction(7).unwrap_err().message.contains("REJOIN_XOR"));
        assert_eq!(order(2).unwrap_err().code, Code::BadArgument);
        assert_eq!(Reduction::ALL.iter().map(|known| *known as i32).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
    }
}
