//! The log: log4rs to stderr, which Spark and Flink collect.

use log::LevelFilter;
use log4rs::append::console::{ConsoleAppender, Target};
use log4rs::config::{Appender, Config, Root};
use log4rs::encode::pattern::PatternEncoder;
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use std::sync::OnceLock;

static LOGGER: OnceLock<Option<log4rs::Handle>> = OnceLock::new();
static LEVEL: Mutex<LevelFilter> = Mutex::new(LevelFilter::Info);

fn config(level: LevelFilter) -> Result<Config, Error> {
    let pattern = PatternEncoder::new("{d(%y/%m/%d %H:%M:%S%.3f)} {l} rejoin: {m}{n}");
    let stderr = ConsoleAppender::builder().target(Target::Stderr).encoder(Box::new(pattern)).build();
    Config::builder()
        .appender(Appender::builder().build("stderr", Box::new(stderr)))
        .build(Root::builder().appender("stderr").build(level))
        .map_err(|cause| Error::new(Code::Internal, format!("the log can't be set up: {cause}")))
}

/// Sets the log up at its first call; a program that has a logger of its own keeps it.
pub fn start() {
    LOGGER.get_or_init(|| {
        let programs = log::max_level();
        let ours = config(*LEVEL.lock()).ok().and_then(|config| log4rs::init_config(config).ok());
        if ours.is_none() {
            // log4rs sets it before it learns that it isn't wanted.
            log::set_max_level(programs);
        }
        ours
    });
}

/// Sets the level.
///
/// # Errors
/// `BadArgument` for another word than off, error, warn, info, debug, trace; the level stays.
pub fn level(name: &str) -> Result<(), Error> {
    let level = name.to_ascii_lowercase().parse::<LevelFilter>().map_err(|_| {
        Error::new(
            Code::BadArgument,
            format!("log level {name:?} is unknown; expected one of off, error, warn, info, debug, trace"),
        )
    })?;
    *LEVEL.lock() = level;
    start();
    if let Some(Some(handle)) = LOGGER.get() {
        handle.set_config(config(level)?);
    }
    Ok(())
}
