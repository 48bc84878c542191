//! The slots of an elastic run, named by a function of the program that starts it.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// How often the function is asked, as `rejoin run` asks a program that `--discovery` names.
const EVERY: Duration = Duration::from_secs(1);

/// Starts a launcher that is told on its standard input which slots there are, as
/// `rejoin run --discovery - -n 4 --min 2 --max 8 -- ./train`, and tells it once a second, from a thread: pairs of a
/// host and a number of slots. `localhost` is this machine.
///
/// What is given back is the launcher's process, to be waited for; a SIGTERM to it ends the run in order. Should this
/// process end first, the run goes on with the slots that were named last. They hold, too, when the function fails; the
/// launcher says why, once.
///
/// # Errors
/// When the launcher can't be started.
pub fn launch<S, E>(launcher: &mut Command, mut slots: S) -> io::Result<Child>
where
    S: FnMut() -> Result<Vec<(String, u32)>, E> + Send + 'static,
    E: Display,
{
    let mut child = launcher.stdin(Stdio::piped()).spawn()?;
    let listener = child.stdin.take();
    let told = std::thread::Builder::new().name("rejoin-slots".into()).spawn(move || {
        let Some(mut listener) = listener else { return };
        while tell(&mut listener, slots()).is_ok() {
            std::thread::sleep(EVERY);
        }
    });
    match told {
        Ok(_) => Ok(child),
        Err(cause) => {
            child.kill()?;
            child.wait()?;
            Err(cause)
        }
    }
}

/// An empty line ends a listing.
fn tell<E: Display>(listener: &mut ChildStdin, slots: Result<Vec<(String, u32)>, E>) -> io::Result<()> {
    let listing = match slots {
        Ok(slots) => slots.iter().map(|(host, slots)| format!("{host}:{slots}\n")).collect(),
        Err(why) => format!("! {}\n", why.to_string().replace(['\r', '\n'], " ")),
    };
    listener.write_all(format!("{listing}\n").as_bytes())
}
