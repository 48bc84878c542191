//! Nothing is printed that wasn't asked for: the log is off until it is turned on, and a panic's
//! text goes into the handle.

use std::cell::{Cell, RefCell};
use std::panic::PanicHookInfo;
use std::sync::Once;

thread_local! {
    /// This thread is inside a call of this library.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The last panic in such a call.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

static PREPARED: Once = Once::new();

/// Before the first call: the log is off, unless the environment asks for it, and panics are kept
/// for the handle. As a C library, this one has its own hook; linked into a Rust program, it leaves
/// that program's panics to its hook.
pub(crate) fn prepare() {
    PREPARED.call_once(|| {
        let asked = std::env::var(rejoin_communicator::launched::LOG);
        let known = asked.is_ok_and(|level| rejoin_agent::logging::level(&level).is_ok());
        if !known {
            // "off" is a level.
            let _ = rejoin_agent::logging::level("off");
        }
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if INSIDE.get() {
                PANIC.with(|kept| *kept.borrow_mut() = Some(text(info)));
            } else if std::thread::current().name().is_some_and(|name| name.starts_with("rejoin-")) {
                log::error!("a defect in Rejoin: {}", text(info));
            } else {
                before(info);
            }
        }));
    });
}

fn text(info: &PanicHookInfo<'_>) -> String {
    let said = info.payload_as_str().unwrap_or("no text");
    info.location().map_or(said.to_string(), |at| format!("{said}, at {at}"))
}

/// Runs what may panic; the error is the panic's text.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    prepare();
    let outer = INSIDE.replace(true);
    // What the work has touched is thrown away by the caller, or refused from then on.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    INSIDE.set(outer);
    result.map_err(|_| PANIC.take().unwrap_or_else(|| "no text".into()))
}
