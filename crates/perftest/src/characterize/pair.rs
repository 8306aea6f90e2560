//! A publisher and a subscriber as processes of this program, and their results as they come.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use peregrine_report::record::{SideResult, Test};

use crate::campaign::placement::{Place, Placement};
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::places::{Tether, placed, tethered};

/// Results read ahead of whoever takes them; the child waits when there are more.
const RESULTS_WAITING: usize = 1024;
/// Longest time from start to the first result, and from the last result to the end, of a process.
const SLACK: Duration = Duration::from_secs(20);
/// How often a wait looks at the request to stop.
const STOP_POLL: Duration = Duration::from_millis(50);
/// How long a process may take to print what it has after it was asked to stop.
const FAREWELL: Duration = Duration::from_secs(8);
/// Rest between the warm-up and the first sample. Both processes are ready by then.
const START_DELAY: &str = "20ms";
/// Silence after which a side gives its partner up.
const PARTNER_TIMEOUT: &str = "5";
/// What of a process's messages is kept for an error.
const MAX_MESSAGES_LEN: u64 = 16 * 1024;
/// Domains whose raw ports exist.
const DOMAINS: std::ops::Range<u32> = 180..230;

/// Options of the two processes, beyond those that every pair has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Case {
    /// Of both sides.
    pub(super) both: Vec<String>,
    /// Of the publisher in a throughput test.
    pub(super) publisher: Vec<String>,
}

/// Two processes that test every size in turn.
pub(super) struct Pair {
    publisher: Side,
    subscriber: Side,
    sizes_left: usize,
    per_size: Duration,
}

struct Side {
    name: &'static str,
    child: Child,
    tether: Tether,
    results: Receiver<Result<SideResult, String>>,
    messages: Receiver<String>,
}

impl Pair {
    /// Starts both processes, each at its place and on its core.
    pub(super) fn start(
        case: &Case,
        test: Test,
        sizes: &[usize],
        time: Duration,
        cores: Option<(usize, usize)>,
        placement: &dyn Placement,
    ) -> Result<Self, Error> {
        let domain = free_domain()?.to_string();
        let common = |place: Place, core: Option<usize>| -> Result<Vec<String>, Error> {
            let mut words = placed(&case.both, placement, place)?;
            let fixed = [
                "-domain",
                &domain,
                "-noPrintIntervals",
                "-outputFile",
                "/dev/null",
                "-recordFile",
                "/dev/stdout",
                "-partnerTimeout",
                PARTNER_TIMEOUT,
                "-discoveryTimeout",
                PARTNER_TIMEOUT,
                "-startDelay",
                START_DELAY,
            ];
            words.extend(fixed.map(String::from));
            if let Some(core) = core {
                words.extend(["-threadCPUAffinity".into(), core.to_string()]);
            }
            Ok(words)
        };
        let largest = sizes.iter().copied().max().unwrap_or(0).to_string();
        let mut subscriber = common(Place::Far, cores.map(|cores| cores.1))?;
        subscriber.extend(["-sub".into(), "-dataLen".into(), largest]);
        let mut publisher = common(Place::Near, cores.map(|cores| cores.0))?;
        let sizes_text: Vec<_> = sizes.iter().map(usize::to_string).collect();
        publisher.extend(["-pub".into(), "-scan".into(), sizes_text.join(":")]);
        publisher.extend(["-executionTime".into(), format!("{}ms", time.as_millis())]);
        match test {
            Test::Latency => publisher.push("-latencyTest".into()),
            Test::Throughput | Test::OpenLoop => publisher.extend(case.publisher.clone()),
        }
        Ok(Self {
            subscriber: Side::start("subscriber", placement.command(Place::Far, &tethered(&subscriber))?)?,
            publisher: Side::start("publisher", placement.command(Place::Near, &tethered(&publisher))?)?,
            sizes_left: sizes.len(),
            per_size: time + SLACK,
        })
    }

    /// The results of the next size, publisher's and subscriber's; `None` after the last. On a request to stop both
    /// processes are asked to end, and what they still tell is taken.
    pub(super) fn next_size(&mut self, stop: &Stop) -> Result<Option<(SideResult, SideResult)>, Error> {
        if self.sizes_left == 0 {
            return Ok(None);
        }
        let deadline = MonotonicNs::now().plus(self.per_size);
        let Some(subscriber) = self.subscriber.next(deadline, stop)? else { return Err(self.ended_early(stop)) };
        let Some(publisher) = self.publisher.next(deadline, stop)? else { return Err(self.ended_early(stop)) };
        if publisher.data_len != subscriber.data_len {
            return Err(Error::Transfer(format!(
                "the publisher's result is of {} bytes, the subscriber's of {}",
                publisher.data_len, subscriber.data_len
            )));
        }
        self.sizes_left -= 1;
        Ok(Some((publisher, subscriber)))
    }

    /// Waits until both processes have ended, and tells if one was not content.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let deadline = MonotonicNs::now().plus(SLACK);
        self.publisher.wait(deadline)?;
        self.subscriber.wait(deadline)
    }

    /// The side that ended first knows why; the other only missed it.
    fn ended_early(&mut self, stop: &Stop) -> Error {
        if stop.reason().is_some() {
            return Error::Interrupted;
        }
        let deadline = MonotonicNs::now().plus(FAREWELL);
        let publisher_was_first = self.publisher.has_ended();
        let (publisher, subscriber) = (&mut self.publisher, &mut self.subscriber);
        for side in if publisher_was_first { [publisher, subscriber] } else { [subscriber, publisher] } {
            if let Err(error) = side.wait(deadline) {
                return error;
            }
        }
        Error::Transfer("a process ended before its last size without saying why".into())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for side in [&mut self.publisher, &mut self.subscriber] {
            side.tether.ask_to_end();
        }
        let deadline = MonotonicNs::now().plus(FAREWELL);
        for side in [&mut self.publisher, &mut self.subscriber] {
            let _ = side.wait(deadline);
        }
    }
}

impl Side {
    fn start(name: &'static str, mut command: Command) -> Result<Self, Error> {
        let (tether, mut child) = Tether::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
            .map_err(|error| Error::Setup(format!("Cannot start the {name}: {error}")))?;
        let (result_sender, results) = sync_channel(RESULTS_WAITING);
        let (message_sender, messages) = sync_channel(1);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        std::thread::spawn(move || {
            for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok)) {
                let result = serde_json::from_str(&line).map_err(|error| format!("a result cannot be read: {error}"));
                if result_sender.send(result).is_err() {
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
        Ok(Self { name, child, tether, results, messages })
    }

    /// The next result; `None` when there will be no more.
    fn next(&mut self, mut deadline: MonotonicNs, stop: &Stop) -> Result<Option<SideResult>, Error> {
        loop {
            match self.results.recv_timeout(STOP_POLL) {
                Ok(Ok(result)) => return Ok(Some(result)),
                Ok(Err(text)) => return Err(Error::Transfer(format!("{}: {text}", self.name))),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.reason().is_some() && !self.tether.is_asked() {
                self.tether.ask_to_end();
                deadline = MonotonicNs::now().plus(FAREWELL);
            }
            if deadline.remaining().is_zero() {
                return Err(Error::Partner(format!("the {} gave no result in time", self.name)));
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the process; after `deadline` it is killed.
    fn wait(&mut self, deadline: MonotonicNs) -> Result<(), Error> {
        let failed = |name, error: std::io::Error| Error::Transfer(format!("Cannot wait for the {name}: {error}"));
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(|error| failed(self.name, error))? {
                break status;
            }
            if deadline.remaining().is_zero() {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(Error::Partner(format!("the {} did not end in time and was killed", self.name)));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if status.success() {
            return Ok(());
        }
        let messages = self.messages.recv_timeout(STOP_POLL).unwrap_or_default();
        let last = messages.lines().rev().find(|line| !line.starts_with("Test ended") && !line.trim().is_empty());
        Err(Error::Transfer(format!("the {} failed ({status}): {}", self.name, last.unwrap_or("without a word"))))
    }
}

/// A domain whose ports nobody uses here. Processes that look at the same time begin at different domains.
pub(crate) fn free_domain() -> Result<u32, Error> {
    let offset = std::process::id();
    let count = DOMAINS.end - DOMAINS.start;
    let is_free = |domain: &u32| {
        let base = 7400 + 250 * domain;
        [10, 11, 12]
            .iter()
            .all(|port| u16::try_from(base + port).is_ok_and(|port| UdpSocket::bind(("127.0.0.1", port)).is_ok()))
    };
    (0..count)
        .map(|step| DOMAINS.start + (offset.wrapping_add(step)) % count)
        .find(is_free)
        .ok_or_else(|| Error::Setup("No free ports were found for the measurement: every domain is in use.".into()))
}
