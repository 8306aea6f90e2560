//! Where the processes of a case run, and how they are talked to.
//!
//! A process of a case is this program with other words. It is told what to do by lines on its standard input, answers by
//! lines on its standard output, and ends when its input ends. So a place is known by nothing but a command that runs the
//! program there and passes its streams on, be it the program itself, `nsenter` or `ssh`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use peregrine_report::record::Line;

use crate::characterize::{host_lines, two_cores};
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::host::IdleStates;
use crate::threads::allowed_cores;

/// Lines read ahead of whoever takes them; the process waits when there are more.
const LINES_WAITING: usize = 64;
/// Longest line of a process that is read, in bytes.
const MAX_LINE_LEN: u64 = 64 << 20;
/// What of a process's messages is kept for an error, in bytes.
const MAX_MESSAGES_LEN: u64 = 16 * 1024;
/// How often a wait looks at the request to stop.
const STOP_POLL: Duration = Duration::from_millis(50);
/// How long a process may take to end after its input has.
const FAREWELL: Duration = Duration::from_secs(5);

/// An end of the path that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Where publishers run, and everything that needs one host only.
    Near,
    /// Where the subscribers of two hosts run.
    Far,
}

/// Where the two ends are.
pub trait Placement {
    /// The places in a few words for readers of the record, such as `one machine`.
    fn description(&self) -> String;

    /// A command that runs this version of this program with these words there. Whoever starts it sets its three streams.
    /// They must reach the program, and the program must be gone soon after its input has ended or the command was killed.
    ///
    /// # Errors
    /// The place cannot be had; the message names it and says what to do.
    fn command(&self, place: Place, words: &[String]) -> Result<Command, Error>;

    /// The address by which the other place reaches this one; `None` when there is no such place.
    fn address(&self, place: Place) -> Option<IpAddr>;

    /// Why the programs of peers cannot run at the near place; `None` when this process may start them there.
    fn cannot_run_peers(&self) -> Option<&'static str> {
        None
    }

    /// The facts of the host where publishers run, and what about the hosts lowers the worth of the numbers, told and kept.
    ///
    /// # Errors
    /// A host does not tell about itself.
    fn host_lines(&self) -> Result<Vec<Line>, Error> {
        Ok(host_lines())
    }

    /// Keeps idle cores awake where the processes run, for as long as the value lives.
    fn keep_awake(&self) -> IdleStates {
        IdleStates::disable()
    }

    /// A core for a publisher and one for its subscriber, where both run on one machine that has two.
    fn two_cores(&self) -> Option<(usize, usize)> {
        two_cores(&allowed_cores())
    }
}

/// This machine, which has no far end.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Placement for ThisMachine {
    fn description(&self) -> String {
        "one machine".into()
    }

    fn command(&self, _: Place, words: &[String]) -> Result<Command, Error> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Setup(format!("Cannot find the file of this program: {error}")))?;
        let mut command = Command::new(program);
        command.args(words);
        Ok(command)
    }

    fn address(&self, place: Place) -> Option<IpAddr> {
        (place == Place::Near).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

/// A process of a case. When it is dropped its input ends; if it does not end then, it is killed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    messages: Receiver<String>,
}

impl Process {
    /// Starts what `command` says. `name` is for errors, such as `subscriber 2`.
    pub fn start(name: String, mut command: Command) -> Result<Self, Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C shall reach it from here, as the end of its input, and not from the terminal as well.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Setup(format!("Cannot start {name}: {error}")))?;
        let (line_sender, lines) = sync_channel(LINES_WAITING);
        let (message_sender, messages) = sync_channel(1);
        let (input, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        std::thread::spawn(move || {
            let Some(mut stdout) = stdout.map(BufReader::new) else { return };
            while let Some(line) = read_line(&mut stdout) {
                if line_sender.send(line).is_err() {
                    return;
                }
            }
        });
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = stderr.by_ref().take(MAX_MESSAGES_LEN).read_to_end(&mut text);
                // What is beyond the limit is read and forgotten, so that the process never waits for a reader.
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            }
            let _ = message_sender.send(String::from_utf8_lossy(&text).into_owned());
        });
        Ok(Self { name, child, input, lines, messages })
    }

    /// How it is called in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives it a line.
    ///
    /// # Errors
    /// It does not read any more; the message holds its last words.
    pub fn tell(&mut self, line: &str) -> Result<(), Error> {
        let written = self.input.as_mut().is_some_and(|input| {
            input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n")).and_then(|()| input.flush()).is_ok()
        });
        if written { Ok(()) } else { Err(self.failure()) }
    }

    /// Waits for its next line.
    ///
    /// # Errors
    /// It has ended, the time has passed, or somebody asked to stop.
    pub fn hear(&mut self, deadline: MonotonicNs, stop: &Stop) -> Result<String, Error> {
        loop {
            match self.lines.recv_timeout(STOP_POLL.min(deadline.remaining())) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.failure()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.reason().is_some() {
                return Err(Error::Interrupted);
            }
            if deadline.remaining().is_zero() {
                return Err(Error::Partner(format!("{} gave no answer in time", self.name)));
            }
        }
    }

    /// Ends its input, and waits until it has ended as well.
    ///
    /// # Errors
    /// It ends with a failure, or has to be killed.
    pub fn finish(mut self) -> Result<(), Error> {
        match self.end() {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(self.failure()),
            None => Err(Error::Partner(format!("{} did not end in time and was killed", self.name))),
        }
    }

    fn failure(&mut self) -> Error {
        let status = self.end().map_or_else(|| "killed".into(), |status| status.to_string());
        let messages = self.messages.recv_timeout(STOP_POLL).unwrap_or_default();
        let last = messages.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("without a word");
        Error::Transfer(format!("{} failed ({status}): {last}", self.name))
    }

    /// `None` when it had to be killed.
    fn end(&mut self) -> Option<ExitStatus> {
        self.input = None;
        let deadline = MonotonicNs::now().plus(FAREWELL);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if !deadline.remaining().is_zero() => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) | Err(_) => break,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// `None` at the end, and where there is no text.
fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let len = input.take(MAX_LINE_LEN).read_line(&mut line).ok()?;
    (len > 0).then(|| line.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::StopReason;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start("the shell".into(), command).unwrap()
    }

    fn soon() -> MonotonicNs {
        MonotonicNs::now().plus(Duration::from_secs(20))
    }

    #[test]
    fn a_process_is_talked_to_by_lines_and_ends_with_its_input() {
        let mut process = shell("while read line; do echo \"heard $line\"; done");
        process.tell("one").unwrap();
        assert_eq!(process.hear(soon(), &Stop::default()).unwrap(), "heard one");
        process.tell("two").unwrap();
        assert_eq!(process.hear(soon(), &Stop::default()).unwrap(), "heard two");
        process.finish().unwrap();
    }

    #[test]
    fn a_process_that_fails_is_quoted() {
        let mut process = shell("echo first >&2; echo 'no such topic' >&2; exit 3");
        let text = process.hear(soon(), &Stop::default()).unwrap_err().to_string();
        assert!(
            text.contains("the shell failed") && text.contains("status: 3") && text.ends_with("no such topic"),
            "{text}"
        );
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_on_a_request_to_stop() {
        let mut process = shell("read line");
        let error = process.hear(MonotonicNs::now(), &Stop::default()).unwrap_err();
        assert!(error.to_string().contains("the shell gave no answer in time"), "{error}");
        let stop = Stop::default();
        stop.request(StopReason::Interrupted);
        assert_eq!(process.hear(soon(), &stop).unwrap_err(), Error::Interrupted);
    }

    #[test]
    fn this_machine_has_no_far_end() {
        assert_eq!(ThisMachine.address(Place::Near), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(ThisMachine.address(Place::Far), None);
        let command = ThisMachine.command(Place::Near, &["respond".into()]).unwrap();
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["respond"]);
    }
}
