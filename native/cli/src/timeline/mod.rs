//! `rejoin timeline`: a picture of what each rank did when, from an event log.

mod draw;
mod rows;
mod scale;

use rejoin_agent::event_log::{self, Fact, What, MOST_RANKS};
use rows::RunTimeline;
use std::io::Write;
use std::path::Path;

/// Reads a log and writes its picture, an SVG that shows details where the pointer is.
///
/// # Errors
/// When the log can't be read, has no run in it, or the picture can't be written: in words.
pub fn draw(log: &Path, output: Option<&Path>) -> Result<(), String> {
    let records = event_log::read(log)?;
    if let Some(What::Launcher(Fact::Began { world, .. })) = records.first().map(|first| &first.what) {
        if *world > MOST_RANKS {
            let log = log.display();
            return Err(format!(
                "{log} speaks of {world} ranks; a log of a run is expected, which has at most {MOST_RANKS}"
            ));
        }
    }
    let timeline = RunTimeline::of(&records)
        .ok_or_else(|| format!("{} doesn't begin with the start of a run; give the whole log", log.display()))?;
    let picture = draw::picture(&timeline);
    match output {
        Some(path) => {
            svg::save(path, &picture).map_err(|cause| format!("{} can't be written: {cause}", path.display()))
        }
        None => {
            let text = format!("{picture}\n");
            std::io::stdout().lock().write_all(text.as_bytes()).map_err(|cause| format!("can't be written: {cause}"))
        }
    }
}
