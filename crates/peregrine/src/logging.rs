//! Shows the events of Peregrine in programs that do not subscribe to them.

use std::str::FromStr as _;
use std::sync::Once;

use tracing_subscriber::filter::LevelFilter;

use crate::error::{BadParameter, Error};

/// Names the level of the events to show.
const VARIABLE: &str = "PEREGRINE_LOG";

/// Writes events to standard error if the environment variable is set and the program has no subscriber. Reads the
/// variable once per process.
///
/// # Errors
/// The value of the variable is not a level.
pub(crate) fn start_from_environment() -> Result<(), Error> {
    static STARTED: Once = Once::new();
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(()) };
    let Ok(level) = LevelFilter::from_str(&text) else {
        return Err(BadParameter::LogLevel { value: text }.into());
    };
    STARTED.call_once(|| {
        // If the program has a subscriber already, that subscriber gets the events.
        let _ =
            tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false).try_init();
    });
    Ok(())
}
