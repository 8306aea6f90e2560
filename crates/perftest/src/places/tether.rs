//! Processes that end with the process that started them.
//!
//! A tethered process reads its standard input in a separate thread. The line `stop` requests its end, like Ctrl-C. The
//! end of its input ends it at once, because then the starter was killed or disconnected. No process has to clean up
//! after it, however the starter ends.

use std::io::{BufRead, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::MonotonicNs;
use crate::control::{Stop, StopReason};
use crate::error::Error;

/// First argument of a tethered process; its own arguments follow.
pub const TETHERED: &str = "tethered";
/// The line of a stop request.
pub(crate) const STOP: &str = "stop";
/// Interval at which a wait checks the process and the stop request.
const POLL: Duration = Duration::from_millis(5);

/// Ties this process to its standard input.
pub fn tie(stop: &Arc<Stop>) -> Result<(), Error> {
    let stop = Arc::clone(stop);
    let watch = move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line == STOP {
                stop.request(StopReason::Interrupted);
            }
        }
        #[expect(clippy::disallowed_methods, reason = "no process is left to report to")]
        std::process::exit(Error::Interrupted.exit_code().into());
    };
    std::thread::Builder::new()
        .name("tether".into())
        .spawn(watch)
        .map(drop)
        .map_err(|error| Error::Setup(format!("Cannot start a thread: {error}")))
}

/// Arguments of a tethered process.
pub(crate) fn tethered(words: &[String]) -> Vec<String> {
    std::iter::once(TETHERED.to_owned()).chain(words.iter().cloned()).collect()
}

/// The starter's end of the tether. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Tether {
    input: Option<ChildStdin>,
    asked: bool,
}

impl Tether {
    /// Starts a tethered process. `command` has its other streams set already.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn start(command: &mut Command) -> std::io::Result<(Self, Child)> {
        use std::os::unix::process::CommandExt;

        // Ctrl-C must reach it once, from this process, and not from the terminal as well.
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        Ok((Self { input: child.stdin.take(), asked: false }, child))
    }

    /// Sends one stop request, after which the process prints its results.
    pub(crate) fn ask_to_end(&mut self) {
        if !std::mem::replace(&mut self.asked, true)
            && let Some(input) = &mut self.input
        {
            // A process that does not read any more has ended.
            let _ = writeln!(input, "{STOP}").and_then(|()| input.flush());
        }
    }

    /// Waits for the end of the process, and passes a stop request on to it. `None` at the deadline.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn wait(
        &mut self,
        child: &mut Child,
        deadline: Option<MonotonicNs>,
        stop: &Stop,
    ) -> std::io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if stop.reason().is_some() {
                self.ask_to_end();
            }
            if deadline.is_some_and(|deadline| deadline.remaining().is_zero()) {
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_request_is_forwarded_once() {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; echo \"heard $line\"; cat"]).stdout(Stdio::piped());
        let (mut tether, child) = Tether::start(&mut command).unwrap();
        tether.ask_to_end();
        tether.ask_to_end();
        drop(tether);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "heard stop\n");
    }

    #[test]
    fn wait_ends_at_deadline() {
        let (mut tether, mut child) = Tether::start(&mut Command::new("cat")).unwrap();
        let status = tether.wait(&mut child, Some(MonotonicNs::now()), &Stop::default()).unwrap();
        assert_eq!(status, None);
        drop(tether);
        assert!(child.wait().unwrap().success());
    }
}
