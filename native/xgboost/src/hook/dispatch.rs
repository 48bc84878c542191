//! Whose calls are served: a thread that is a rank of a Rejoin job has its collectives here, every
//! other thread goes on to XGBoost's own function.
//!
//! XGBoost's communicator belongs to the thread that opens it, and only that thread makes its
//! calls. So does ours: the bridge gives a rank's collectives to the thread that asks for the
//! communicator's arguments, and takes them away when the rank retires.

use super::arguments::{Call, Span};
use parking_lot::Mutex;
use rejoin_collectives::{Element, Reduction};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Rank;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

/// One rank's collectives. One thread at a time makes its calls. A call that fails has left its
/// buffers as they were, and all later ones fail too.
pub trait Collectives: Send + Sync {
    /// Every element becomes the reduction of all ranks' elements at its place, in XGBoost's order
    /// and with its operators.
    fn allreduce(&self, element: Element, reduction: Reduction, data: &mut [u8]) -> Result<(), Error>;
    /// All ranks get the root's bytes.
    fn broadcast(&self, data: &mut [u8], root: Rank) -> Result<(), Error>;
    /// All ranks get all parts; this rank's is in its place already. The parts are equally long.
    fn allgather(&self, data: &mut [u8]) -> Result<(), Error>;
    /// All ranks get what each has, one after the other; `sizes` are the lengths of all.
    fn allgather_v(&self, own: &[u8], sizes: &[u64], received: &mut [u8]) -> Result<(), Error>;
    /// The rank's calls are of no more use, for this reason: XGBoost's own function is about to be
    /// called, and must fail. Returns when it does.
    fn give_up(&self, error: Error);
}

/// A rank whose thread's calls are served.
pub struct ServedRank {
    rank: Rank,
    world: u32,
    /// None once the rank has retired: its thread is like any other again.
    collectives: Mutex<Option<Arc<dyn Collectives>>>,
    /// Calls that were served.
    served: Mutex<Served>,
}

/// How much went through the hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Calls that XGBoost made, and that gave it a result.
    pub calls: u64,
    /// Bytes of these results.
    pub bytes: u64,
}

impl ServedRank {
    /// A rank of so many, with its collectives.
    pub fn new(rank: Rank, world: u32, collectives: Arc<dyn Collectives>) -> Arc<Self> {
        Arc::new(ServedRank { rank, world, collectives: Mutex::new(Some(collectives)), served: Mutex::default() })
    }

    /// From now on the calling thread's collectives are this rank's.
    pub fn begin(self: &Arc<Self>) {
        RANK.with(|rank| rank.replace(Some(self.clone())));
    }

    /// The rank's thread is like any other from now on. Any thread may say so.
    pub fn retire(&self) {
        // Dropped without the lock: it may be the last one.
        let collectives = self.collectives.lock().take();
        drop(collectives);
    }

    /// How much was served so far.
    pub fn served(&self) -> Served {
        *self.served.lock()
    }
}

thread_local! {
    static RANK: RefCell<Option<Arc<ServedRank>>> = const { RefCell::new(None) };
}

/// The rank that the calling thread is, with its collectives.
fn current() -> Option<(Arc<ServedRank>, Arc<dyn Collectives>)> {
    let current = RANK.try_with(|rank| rank.borrow().clone()).ok().flatten()?;
    let collectives = current.collectives.lock().clone();
    if collectives.is_none() {
        RANK.with(|rank| rank.replace(None));
    }
    Some((current, collectives?))
}

/// Serves a call of the calling thread, if it is a rank's. False: the original has to be called,
/// which fails if this rank's collectives have.
pub(crate) fn serve(call: impl FnOnce() -> Call) -> bool {
    let Some((served_rank, collectives)) = current() else { return false };
    let result = catch_unwind(AssertUnwindSafe(|| served_rank.make(&*collectives, call())));
    let error = match result {
        Ok(Ok(Some(bytes))) => {
            let mut served = served_rank.served.lock();
            served.calls += 1;
            served.bytes += bytes as u64;
            return true;
        }
        Ok(Ok(None)) => return false,
        Ok(Err(error)) => error,
        Err(panic) => {
            let text = format!("rank {}: a collective of XGBoost's has panicked: {}", served_rank.rank, said(&*panic));
            Error::new(Code::Internal, text)
        }
    };
    if catch_unwind(AssertUnwindSafe(|| collectives.give_up(error))).is_err() {
        // Whether the original fails isn't known, so it must not be called, and there is no other way back.
        log::error!("rank {}: giving a collective of XGBoost's up has panicked; the process ends", served_rank.rank);
        std::process::abort();
    }
    false
}

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("its message stands in the log")
}

impl ServedRank {
    /// How many bytes the result has; `None` if the call is one that XGBoost's own function answers
    /// without asking another rank (nothing to do, wrong arguments), or one that goes over the
    /// channels as it is (long double).
    fn make(&self, collectives: &dyn Collectives, call: Call) -> Result<Option<usize>, Error> {
        let world = self.world as usize;
        match call {
            Call::Allreduce { data, element, operator } => {
                let (Some(element), Some(reduction)) = (element_of(element), reduction_of(operator)) else {
                    return Ok(None);
                };
                if data.length == 0 || data.length % element.size() != 0 || reduction.check(element).is_err() {
                    return Ok(None);
                }
                collectives.allreduce(element, reduction, bytes(data))?;
                Ok(Some(data.length))
            }
            Call::Broadcast { data, root } => {
                let root = u32::try_from(root).ok().filter(|root| *root < self.world);
                let Some(root) = root.filter(|_| data.length > 0) else { return Ok(None) };
                collectives.broadcast(bytes(data), Rank(root))?;
                Ok(Some(data.length))
            }
            Call::Allgather { data } => {
                if data.length < world {
                    return Ok(None);
                }
                if data.length.is_multiple_of(world) {
                    collectives.allgather(bytes(data))?;
                    return Ok(Some(data.length));
                }
                // The last part has the rest.
                let part = data.length / world;
                let mut sizes = vec![part as u64; world];
                sizes[world - 1] = (data.length - part * (world - 1)) as u64;
                let all = bytes(data);
                let first = part * self.rank.0 as usize;
                let own = all[first..first + sizes[self.rank.0 as usize] as usize].to_vec();
                collectives.allgather_v(&own, &sizes, all)?;
                Ok(Some(data.length))
            }
            Call::AllgatherV { data, sizes, offsets, received } => {
                self.gather(collectives, data, sizes, offsets, received)
            }
        }
    }

    fn gather(
        &self,
        collectives: &dyn Collectives,
        data: Span,
        sizes: Span,
        offsets: Span,
        received: Span,
    ) -> Result<Option<usize>, Error> {
        let world = self.world as usize;
        let own = bytes(data);
        // XGBoost's own function refuses parts of no bytes, at every rank.
        let size = |size: &i64| u64::try_from(*size).ok().filter(|size| *size > 0);
        let all: Option<Vec<u64>> = words(sizes).iter().map(size).collect();
        let Some(sizes) = all.filter(|sizes| sizes.len() == world) else { return Ok(None) };
        let total = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
        let fits = |total: &u64| {
            *total <= received.length as u64
                && own.len() as u64 == sizes[self.rank.0 as usize]
                && offsets.length > world
        };
        let Some(total) = total.filter(fits) else { return Ok(None) };
        let room = Span { length: total as usize, address: received.address };
        let end = room.address + room.length;
        let overlaps = data.length > 0 && data.address < end && room.address < data.address + data.length;
        if overlaps {
            let own = own.to_vec();
            collectives.allgather_v(&own, &sizes, bytes(room))?;
        } else {
            collectives.allgather_v(own, &sizes, bytes(room))?;
        }
        // XGBoost's own function fills these as well: zeros, then where each part ends.
        let mut end = 0;
        let offsets = words(offsets);
        offsets.fill(0);
        for (offset, size) in offsets[1..].iter_mut().zip(&sizes) {
            end += *size as i64;
            *offset = end;
        }
        Ok(Some(total as usize))
    }
}

/// XGBoost's `ArrayInterfaceHandler::Type`. Half precision (0) exists on GPUs alone, 3 is long double.
fn element_of(code: i8) -> Option<Element> {
    match code {
        1 => Some(Element::F32),
        2 => Some(Element::F64),
        4 => Some(Element::I8),
        5 => Some(Element::I16),
        6 => Some(Element::I32),
        7 => Some(Element::I64),
        8 => Some(Element::U8),
        9 => Some(Element::U16),
        10 => Some(Element::U32),
        11 => Some(Element::U64),
        _ => None,
    }
}

/// XGBoost's `collective::Op`.
fn reduction_of(code: i32) -> Option<Reduction> {
    match code {
        0 => Some(Reduction::Max),
        1 => Some(Reduction::Min),
        2 => Some(Reduction::Sum),
        3 => Some(Reduction::And),
        4 => Some(Reduction::Or),
        5 => Some(Reduction::Xor),
        _ => None,
    }
}

/// The bytes of a span of them, for as long as the call.
fn bytes<'a>(span: Span) -> &'a mut [u8] {
    match span.length {
        0 => &mut [],
        // SAFETY: XGBoost gives room for so many bytes, and waits for the answer; only this call has the slice.
        length => unsafe { std::slice::from_raw_parts_mut(span.address as *mut u8, length) },
    }
}

/// The numbers of a span of them, for as long as the call.
fn words<'a>(span: Span) -> &'a mut [i64] {
    match span.length {
        0 => &mut [],
        // SAFETY: as above; they are aligned as C++ has them.
        length => unsafe { std::slice::from_raw_parts_mut(span.address as *mut i64, length) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles what it is given; fails where it is made to.
    struct Double {
        panics: bool,
        given_up: Arc<Mutex<Vec<Error>>>,
    }

    impl Double {
        fn double(&self, data: &mut [u8]) -> Result<(), Error> {
            assert!(!self.panics, "no way");
            data.iter_mut().for_each(|byte| *byte *= 2);
            Ok(())
        }
    }

    impl Collectives for Double {
        fn allreduce(&self, _: Element, _: Reduction, data: &mut [u8]) -> Result<(), Error> {
            self.double(data)
        }
        fn broadcast(&self, data: &mut [u8], _: Rank) -> Result<(), Error> {
            self.double(data)
        }
        fn allgather(&self, data: &mut [u8]) -> Result<(), Error> {
            self.double(data)
        }
        fn allgather_v(&self, _: &[u8], _: &[u64], received: &mut [u8]) -> Result<(), Error> {
            self.double(received)
        }
        fn give_up(&self, error: Error) {
            self.given_up.lock().push(error);
        }
    }

    fn rank(panics: bool) -> (Arc<ServedRank>, Arc<Mutex<Vec<Error>>>) {
        let given_up = Arc::new(Mutex::default());
        (ServedRank::new(Rank(0), 2, Arc::new(Double { panics, given_up: given_up.clone() })), given_up)
    }

    fn span<T>(data: &mut [T]) -> Span {
        Span { length: data.len(), address: data.as_mut_ptr() as usize }
    }

    /// A broadcast of one byte; what became of it.
    fn broadcast() -> (bool, u8) {
        let mut data = [3];
        let call = Call::Broadcast { data: span(&mut data), root: 1 };
        (serve(|| call), data[0])
    }

    #[test]
    fn only_a_ranks_own_thread_is_served_and_only_until_it_retires() {
        let (served_rank, _) = rank(false);
        assert_eq!(broadcast(), (false, 3));
        served_rank.begin();
        assert_eq!(broadcast(), (true, 6));
        assert_eq!(std::thread::spawn(broadcast).join().unwrap(), (false, 3));
        assert_eq!(served_rank.served(), Served { calls: 1, bytes: 1 });
        std::thread::scope(|scope| scope.spawn(|| served_rank.retire()).join().unwrap());
        assert_eq!(broadcast(), (false, 3));
        assert_eq!(served_rank.served(), Served { calls: 1, bytes: 1 });
    }

    #[test]
    fn a_call_that_panics_gives_the_rank_up_before_the_original_is_called() {
        let (served_rank, given_up) = rank(true);
        served_rank.begin();
        assert_eq!(broadcast(), (false, 3));
        let given_up = given_up.lock();
        assert_eq!(given_up.iter().map(|error| error.code).collect::<Vec<_>>(), [Code::Internal]);
        assert!(given_up[0].message.contains("has panicked: no way"), "{}", given_up[0].message);
        assert_eq!(served_rank.served(), Served::default());
    }

    #[test]
    fn calls_that_ask_no_other_rank_are_left_to_the_original() {
        let (served_rank, given_up) = rank(true);
        served_rank.begin();
        let (mut data, mut sizes, mut offsets, mut room) = ([0u8; 16], [8i64, 8], [0i64; 3], [0u8; 16]);
        let mut wrong = vec![
            // Half precision, long double, a code that there isn't; bits of floats; an unknown
            // operator; half an element.
            Call::Allreduce { data: span(&mut data), element: 0, operator: 2 },
            Call::Allreduce { data: span(&mut data), element: 3, operator: 2 },
            Call::Allreduce { data: span(&mut data), element: 12, operator: 2 },
            Call::Allreduce { data: span(&mut data), element: 2, operator: 3 },
            Call::Allreduce { data: span(&mut data), element: 2, operator: 6 },
            Call::Allreduce { data: span(&mut data[..15]), element: 2, operator: 2 },
            Call::Allreduce { data: span(&mut data[..0]), element: 2, operator: 2 },
            Call::Broadcast { data: span(&mut data[..0]), root: 0 },
            Call::Broadcast { data: span(&mut data), root: 2 },
            Call::Broadcast { data: span(&mut data), root: -1 },
            Call::Allgather { data: span(&mut data[..1]) },
        ];
        let whole = (span(&mut data[..8]), span(&mut sizes), span(&mut offsets), span(&mut room));
        let mut gather = |(data, sizes, offsets, received)| {
            wrong.push(Call::AllgatherV { data, sizes, offsets, received });
        };
        gather((span(&mut data[..7]), whole.1, whole.2, whole.3));
        gather((whole.0, span(&mut sizes[..1]), whole.2, whole.3));
        gather((whole.0, whole.1, span(&mut offsets[..2]), whole.3));
        gather((whole.0, whole.1, whole.2, span(&mut room[..15])));
        let mut without_bytes = [8i64, 0];
        gather((whole.0, span(&mut without_bytes), whole.2, whole.3));
        let mut negative = [8i64, -8];
        gather((whole.0, span(&mut negative), whole.2, whole.3));
        for call in wrong {
            assert!(!serve(|| call), "{call:?}");
        }
        assert!(given_up.lock().is_empty());
    }
    /// Gathers into memory that it clears first, as any collective may; it must not have its own bytes there.
    struct Clearing;

    impl Collectives for Clearing {
        fn allreduce(&self, _: Element, _: Reduction, _: &mut [u8]) -> Result<(), Error> {
            unreachable!("bytes are gathered")
        }
        fn broadcast(&self, _: &mut [u8], _: Rank) -> Result<(), Error> {
            unreachable!("bytes are gathered")
        }
        fn allgather(&self, _: &mut [u8]) -> Result<(), Error> {
            unreachable!("bytes are gathered")
        }
        fn allgather_v(&self, own: &[u8], _: &[u64], received: &mut [u8]) -> Result<(), Error> {
            let (own_at, room) = (own.as_ptr_range(), received.as_ptr_range());
            assert!(own_at.end <= room.start || room.end <= own_at.start, "the rank's bytes lie where the result goes");
            received.fill(0);
            received[..own.len()].copy_from_slice(own);
            Ok(())
        }
        fn give_up(&self, error: Error) {
            println!("{error}");
        }
    }

    #[test]
    fn a_rank_whose_bytes_lie_where_the_gathered_ones_go_has_them_all_the_same() {
        let served_rank = ServedRank::new(Rank(0), 2, Arc::new(Clearing));
        served_rank.begin();
        let (before, length) = (4, 8);
        for begin in 0..=20 {
            // The room for 12 bytes has 4 before it, and as many as a part behind it.
            let mut memory: Vec<u8> = (1..=28).collect();
            let address = memory.as_mut_ptr() as usize;
            let (mut sizes, mut offsets) = ([length as i64, 4], [7i64; 3]);
            let expected = memory[begin..begin + length].to_vec();
            let call = Call::AllgatherV {
                data: Span { length, address: address + begin },
                sizes: span(&mut sizes),
                offsets: span(&mut offsets),
                received: Span { length: 12, address: address + before },
            };
            assert!(serve(|| call), "the bytes begin at {begin}");
            assert_eq!(memory[before..before + length], expected, "the bytes began at {begin}");
            assert_eq!(memory[before + length..before + 12], [0; 4], "the other rank's");
            assert_eq!(offsets, [0, 8, 12]);
        }
        served_rank.retire();
    }
}
