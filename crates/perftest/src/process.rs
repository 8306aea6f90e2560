//! Processes that this process starts: line-based communication, bounded waits, and an end that lets them clean up.
//!
//! A started process ends when its input ends. If it does not, it gets SIGTERM, and then SIGKILL. A killed process
//! leaves its system resources behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;

/// Lines read ahead of the reader; the process blocks when there are more.
const LINES_WAITING: usize = 1024;
/// Default for the longest line that is read, in bytes.
const MAX_LINE_LEN: u64 = 64 << 20;
/// Bytes of a process's messages that are kept for an error.
const MAX_MESSAGES_LEN: u64 = 16 * 1024;
/// Interval at which a wait checks the stop request.
const STOP_POLL: Duration = Duration::from_millis(50);
/// Interval at which a wait checks whether the process has ended.
const END_POLL: Duration = Duration::from_millis(1);
/// Time for a process to end after its work is done.
const FAREWELL: Duration = Duration::from_secs(5);
/// Time for a process that must end at once to see the end of its input.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for a process to end after SIGTERM. On a busy machine a peer takes seconds to delete its shared memory, which
/// would stay if the peer were killed before. A peer's agent times out a little earlier.
const LAST_PATIENCE: Duration = Duration::from_secs(22);

/// A started process, which ends when this value is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    messages: Receiver<String>,
    /// Its last message, once requested.
    last_words: Option<String>,
}

impl Process {
    /// Starts `command` with its three streams set here. `name` is for errors, such as `subscriber 2`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn start(name: String, command: Command) -> Result<Self, Error> {
        Self::start_bounded(name, command, MAX_LINE_LEN)
    }

    /// Like [`Self::start`], with a limit on the length of lines; a longer line is split.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn start_bounded(name: String, mut command: Command, max_line_len: u64) -> Result<Self, Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C must reach it from this process, as the end of its input, and not from the terminal as well.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Setup(format!("Cannot start {name}: {error}")))?;
        let (line_sender, lines) = sync_channel(LINES_WAITING);
        let (message_sender, messages) = sync_channel(1);
        let (input, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        std::thread::spawn(move || {
            let Some(mut stdout) = stdout.map(BufReader::new) else { return };
            while let Some(line) = read_line(&mut stdout, max_line_len) {
                if line_sender.send(line).is_err() {
                    return;
                }
            }
        });
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = stderr.by_ref().take(MAX_MESSAGES_LEN).read_to_end(&mut text);
                // Bytes beyond the limit are discarded, so that the process never waits for a reader.
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            }
            let _ = message_sender.send(String::from_utf8_lossy(&text).into_owned());
        });
        Ok(Self { name, child, input, lines, messages, last_words: None })
    }

    /// Name in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes its input, which requests its end. Several processes then end at the same time.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends it a line.
    ///
    /// # Errors
    /// The process does not read any more; the error contains its last message.
    pub fn tell(&mut self, line: &str) -> Result<(), Error> {
        if self.write_line(line) { Ok(()) } else { Err(self.failure()) }
    }

    /// Sends it a line; returns false if it has ended.
    pub fn write_line(&mut self, line: &str) -> bool {
        self.input.as_mut().is_some_and(|input| {
            input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n")).and_then(|()| input.flush()).is_ok()
        })
    }

    /// Waits for its next line.
    ///
    /// # Errors
    /// The process has ended, the time has passed, or a stop was requested.
    pub fn hear(&mut self, deadline: MonotonicNs, stop: &Stop) -> Result<String, Error> {
        match self.hear_or_end(deadline, stop)? {
            Some(line) => Ok(line),
            None => Err(self.failure()),
        }
    }

    /// Waits for its next line; `None` if there are no more.
    ///
    /// # Errors
    /// The time has passed, or a stop was requested.
    pub fn hear_or_end(&mut self, deadline: MonotonicNs, stop: &Stop) -> Result<Option<String>, Error> {
        loop {
            match self.lines.recv_timeout(STOP_POLL.min(deadline.remaining())) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
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

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended by itself, with its input open; `None` at the deadline.
    pub fn wait(&mut self, deadline: MonotonicNs) -> Option<ExitStatus> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if !deadline.remaining().is_zero() => std::thread::sleep(END_POLL),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Closes its input, and waits until it has ended.
    ///
    /// # Errors
    /// The process fails, or does not end by itself.
    pub fn finish(mut self) -> Result<(), Error> {
        self.close_input();
        self.finish_by(MonotonicNs::now().plus(FAREWELL))
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// The process fails, or is ended at the deadline.
    pub fn finish_by(&mut self, deadline: MonotonicNs) -> Result<(), Error> {
        match self.wait(deadline) {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(self.failure()),
            None => {
                let how = self.end();
                Err(Error::Partner(format!("{} did not end in time and was {how}", self.name)))
            }
        }
    }

    /// Its last message that satisfies `is_relevant`, once it has ended.
    pub fn last_words(&mut self, is_relevant: impl Fn(&str) -> bool) -> Option<&str> {
        if self.last_words.is_none() {
            // The messages end shortly after the process, unless one of its children holds the stream open.
            self.last_words = self.messages.recv_timeout(PATIENCE).ok();
        }
        let lines = self.last_words.as_deref().unwrap_or_default().lines();
        lines.rev().find(|line| !line.trim().is_empty() && is_relevant(line))
    }

    /// Ends it, and returns an error with the reason.
    pub fn failure(&mut self) -> Error {
        let how = self.end();
        let last = self.last_words(|_| true).unwrap_or("no message").to_owned();
        Error::Transfer(format!("{} failed ({how}): {last}", self.name))
    }

    /// Closes its input, then sends SIGTERM, then SIGKILL. Returns how it ended, for people.
    fn end(&mut self) -> String {
        self.input = None;
        if let Some(status) = self.wait(MonotonicNs::now().plus(PATIENCE)) {
            return status.to_string();
        }
        // The process was not reaped, so its number belongs to no other process.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if self.wait(MonotonicNs::now().plus(LAST_PATIENCE)).is_some() {
            return "terminated".into();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        "killed".into()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// `None` at the end. Invalid UTF-8 is replaced.
fn read_line(input: &mut impl BufRead, max_len: u64) -> Option<String> {
    let mut line = Vec::new();
    let len = input.take(max_len).read_until(b'\n', &mut line).ok()?;
    (len > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
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
    fn process_exchanges_lines_and_ends_with_its_input() {
        let mut process = shell("while read line; do echo \"heard $line\"; done");
        process.tell("one").unwrap();
        assert_eq!(process.hear(soon(), &Stop::default()).unwrap(), "heard one");
        process.tell("two").unwrap();
        assert_eq!(process.hear(soon(), &Stop::default()).unwrap(), "heard two");
        process.finish().unwrap();
    }

    #[test]
    fn end_of_output_alone_does_not_fail() {
        let mut process = shell("echo one; read line");
        assert_eq!(process.hear_or_end(soon(), &Stop::default()), Ok(Some("one".into())));
        assert!(!process.has_ended());
        process.tell("go").unwrap();
        assert_eq!(process.hear_or_end(soon(), &Stop::default()), Ok(None));
        process.finish_by(soon()).unwrap();
        assert!(process.has_ended());
    }

    #[test]
    fn failed_process_is_quoted() {
        let mut process = shell("echo first >&2; echo 'no such topic' >&2; exit 3");
        let text = process.hear(soon(), &Stop::default()).unwrap_err().to_string();
        assert!(
            text.contains("the shell failed") && text.contains("status: 3") && text.ends_with("no such topic"),
            "{text}"
        );
        assert_eq!(process.last_words(|line| !line.contains("topic")), Some("first"));
    }

    #[test]
    fn wait_ends_at_its_deadline_and_on_a_request_to_stop() {
        let mut process = shell("read line");
        let error = process.hear(MonotonicNs::now(), &Stop::default()).unwrap_err();
        assert!(error.to_string().contains("the shell gave no answer in time"), "{error}");
        let stop = Stop::default();
        stop.request(StopReason::Interrupted);
        assert_eq!(process.hear(soon(), &stop).unwrap_err(), Error::Interrupted);
    }

    #[test]
    fn process_without_input_is_terminated_before_it_is_killed() {
        let mut process = shell("trap 'echo cleaned >&2; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        assert_eq!(process.hear(soon(), &Stop::default()).unwrap(), "ready");
        let error = process.finish_by(MonotonicNs::now()).unwrap_err().to_string();
        assert!(error.contains("the shell did not end in time and was terminated"), "{error}");
        assert_eq!(process.last_words(|_| true), Some("cleaned"));
    }

    #[test]
    fn endless_line_is_split() {
        let mut endless = BufReader::new(std::io::repeat(b'x').take(250));
        let pieces: Vec<_> = std::iter::from_fn(|| read_line(&mut endless, 100)).map(|line| line.len()).collect();
        assert_eq!(pieces, [100, 100, 50]);
    }
}
