//! A publisher and a subscriber as processes of this program, or as one process, and their results.

use std::process::Command;
use std::time::Duration;

use peregrine_report::record::{self, SideResult, Test};

use crate::campaign::placement::{Place, Placement};
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::domain::FreeDomain;
use crate::error::Error;
use crate::places::{STOP, placed, tethered};
use crate::process::Process;
use crate::wording::NO_LATENCY;

/// Longest time from start to the first result of a process, and from its last result to its end.
const SLACK: Duration = Duration::from_secs(20);
/// Time that a process has to print its results after a stop request.
const FAREWELL: Duration = Duration::from_secs(8);
/// Pause between the warm-up and the first sample. Both processes are ready by then.
const START_DELAY: &str = "20ms";
/// Seconds without an answer after which a side gives up on its partner.
const PARTNER_TIMEOUT: &str = "5";

/// Options of the two processes besides those of every pair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Case {
    /// Options of both sides.
    pub(super) both: Vec<String>,
    /// Options of the publisher in a throughput test.
    pub(super) publisher: Vec<String>,
}

impl Case {
    fn is_one_process(&self) -> bool {
        self.both.iter().any(|word| word == "-sameProcess")
    }
}

/// Two processes that test every size in turn.
pub(super) struct Pair {
    publisher: Side,
    /// `None` if one process is both sides.
    subscriber: Option<Side>,
    /// Whether a publisher without an answered ping has failed: a throughput test has no use for its few pings.
    needs_latency: bool,
    sizes_left: usize,
    per_size: Duration,
    /// Reserved while the processes run.
    _domain: FreeDomain,
}

struct Side {
    process: Process,
    /// Whether a stop request was sent to the process.
    is_asked: bool,
}

impl Pair {
    /// Starts both processes, each at its place and on its core, or a single one (`-sameProcess`).
    pub(super) fn start(
        case: &Case,
        test: Test,
        sizes: &[usize],
        time: Duration,
        cores: Option<(usize, usize)>,
        placement: &dyn Placement,
    ) -> Result<Self, Error> {
        let reserved = FreeDomain::reserve()?;
        let domain = reserved.id().to_string();
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
        publisher.extend(["-scan".into(), sizes_text.join(":")]);
        publisher.extend((!case.is_one_process()).then(|| "-pub".into()));
        publisher.extend(["-executionTime".into(), format!("{}ms", time.as_millis())]);
        match test {
            Test::Latency => publisher.push("-latencyTest".into()),
            Test::Throughput | Test::OpenLoop => publisher.extend(case.publisher.clone()),
        }
        let far = || Side::start("the subscriber", placement.command(Place::Far, &tethered(&subscriber))?);
        Ok(Self {
            subscriber: (!case.is_one_process()).then(far).transpose()?,
            publisher: Side::start("the publisher", placement.command(Place::Near, &tethered(&publisher))?)?,
            needs_latency: test == Test::Latency,
            sizes_left: sizes.len(),
            per_size: time + SLACK,
            _domain: reserved,
        })
    }

    /// Results of publisher and subscriber for the next size; `None` after the last size. A stop request is forwarded
    /// to both processes, whose results are still read.
    pub(super) fn next_size(&mut self, stop: &Stop) -> Result<Option<(SideResult, SideResult)>, Error> {
        if self.sizes_left == 0 {
            return Ok(None);
        }
        let deadline = MonotonicNs::now().plus(self.per_size);
        // A single process reports the subscriber first, because its publisher waits for that.
        let receiving = self.subscriber.as_mut().unwrap_or(&mut self.publisher);
        let Some(subscriber) = receiving.next(deadline, stop)? else { return Err(self.ended_early(stop)) };
        let Some(publisher) = self.publisher.next(deadline, stop)? else { return Err(self.ended_early(stop)) };
        if (publisher.side, subscriber.side) != (record::Side::Publisher, record::Side::Subscriber) {
            return Err(Error::Transfer("results arrived in another order than measured".into()));
        }
        if publisher.data_len != subscriber.data_len {
            return Err(Error::Transfer(format!(
                "the publisher's result is of {} bytes, the subscriber's of {}",
                publisher.data_len, subscriber.data_len
            )));
        }
        self.sizes_left -= 1;
        Ok(Some((publisher, subscriber)))
    }

    /// Waits until both processes have ended. Returns the error of a failed one.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let deadline = MonotonicNs::now().plus(SLACK);
        self.publisher.wait(deadline).or_else(|error| tolerate_silence(error, self.needs_latency))?;
        self.subscriber.as_mut().map_or(Ok(()), |subscriber| subscriber.wait(deadline))
    }

    fn sides(&mut self) -> impl Iterator<Item = &mut Side> {
        std::iter::once(&mut self.publisher).chain(&mut self.subscriber)
    }

    /// The side that ended first knows the reason; the other one only lost its partner.
    fn ended_early(&mut self, stop: &Stop) -> Error {
        if stop.reason().is_some() {
            return Error::Interrupted;
        }
        let deadline = MonotonicNs::now().plus(FAREWELL);
        let publisher_was_first = self.publisher.process.has_ended();
        let (publisher, subscriber) = (Some(&mut self.publisher), self.subscriber.as_mut());
        let order = if publisher_was_first { [publisher, subscriber] } else { [subscriber, publisher] };
        for side in order.into_iter().flatten() {
            if let Err(error) = side.wait(deadline) {
                return error;
            }
        }
        Error::Transfer("a process ended before its last size without an error".into())
    }
}

fn tolerate_silence(error: Error, needs_latency: bool) -> Result<(), Error> {
    if !needs_latency && error.to_string().contains(NO_LATENCY) { Ok(()) } else { Err(error) }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.sides().for_each(Side::ask_to_end);
        let deadline = MonotonicNs::now().plus(FAREWELL);
        self.sides().for_each(|side| drop(side.wait(deadline)));
    }
}

impl Side {
    fn start(name: &str, command: Command) -> Result<Self, Error> {
        Ok(Self { process: Process::start(name.into(), command)?, is_asked: false })
    }

    /// The next result; `None` if there are no more.
    fn next(&mut self, mut deadline: MonotonicNs, stop: &Stop) -> Result<Option<SideResult>, Error> {
        let already_asked = Stop::default();
        let line = loop {
            match self.process.hear_or_end(deadline, if self.is_asked { &already_asked } else { stop }) {
                Err(Error::Interrupted) => {
                    self.ask_to_end();
                    deadline = MonotonicNs::now().plus(FAREWELL);
                }
                heard => break heard?,
            }
        };
        let read = |line: String| {
            serde_json::from_str(&line)
                .map_err(|error| Error::Transfer(format!("{}: a result cannot be read: {error}", self.process.name())))
        };
        line.map(read).transpose()
    }

    /// Sends one stop request to the process.
    fn ask_to_end(&mut self) {
        if !std::mem::replace(&mut self.is_asked, true) {
            self.process.write_line(STOP);
        }
    }

    /// Waits for the process, and kills it after `deadline`.
    fn wait(&mut self, deadline: MonotonicNs) -> Result<(), Error> {
        match self.process.wait(deadline) {
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                let last =
                    self.process.last_words(|line| !line.starts_with("Test ended")).unwrap_or("no message").to_owned();
                Err(Error::Transfer(format!("{} failed ({status}): {last}", self.process.name())))
            }
            None => self.process.finish_by(deadline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publisher_without_an_answer_fails_a_latency_test_only() {
        let silent = || Error::Transfer(format!("the publisher failed (exit status: 1): {NO_LATENCY}: 5 samples"));
        assert_eq!(tolerate_silence(silent(), false), Ok(()));
        assert_eq!(tolerate_silence(silent(), true), Err(silent()));
        let other = Error::Transfer("the publisher failed (signal: 9)".into());
        assert_eq!(tolerate_silence(other.clone(), false), Err(other));
    }
}
