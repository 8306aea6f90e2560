//! The output of this process: results on stdout, messages on stderr.
//!
//! The reader of the output may close it early (`perftest -pub 2>&1 | head`). Rust turns the failed write into an
//! error, or into a panic of `eprintln!`, so no other code of this crate writes to the two streams. The first write to
//! a closed stream stops the run in an orderly way, and the program ends with [`CLOSED_STATUS`].

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

/// Exit status after a write to a closed stream: that of a program killed by SIGPIPE, as a shell reports it.
pub const CLOSED_STATUS: u8 = 128 + 13;

/// Whether a write found its stream closed.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);
/// Stops the run in that case.
static ON_CLOSED: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Calls `end` at each write that finds stdout or stderr closed. Only the first call of this function has an effect.
pub fn when_closed(end: impl Fn() + Send + Sync + 'static) {
    let _ = ON_CLOSED.set(Box::new(end));
}

/// Whether a write found stdout or stderr closed.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Prints a line on stderr. A failed write is ignored, because no other output remains.
pub fn message(line: impl Display) {
    let text = format!("{line}\n");
    // A single write, so that lines of several processes do not mix.
    let _ = Stderr.write_all(text.as_bytes());
}

/// Prints text on stdout.
///
/// # Errors
/// [`Error::Interrupted`] when the reader has closed stdout; otherwise the error of the system.
pub fn print_text(text: &str) -> Result<(), Error> {
    match Stdout.write_all(text.as_bytes()).and_then(|()| Stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Error::Interrupted),
        Err(error) => Err(Error::Transfer(format!("Cannot write to stdout: {error}"))),
    }
}

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub struct Stdout;

/// Standard error.
#[derive(Debug, Clone, Copy)]
pub struct Stderr;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(io::stdout().flush())
    }
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(io::stderr().flush())
    }
}

/// Stops the run if a stream is closed.
fn noted<T>(written: io::Result<T>) -> io::Result<T> {
    if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        IS_CLOSED.store(true, Ordering::Relaxed);
        if let Some(end) = ON_CLOSED.get() {
            end();
        }
    }
    written
}
