//! One run of `perftest`: a publisher and a subscriber, each on its core, and the result.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use peregrine_interop::{Link, TwoHosts};
use peregrine_report::record::{SideResult, ThroughputResult};
use peregrine_report::stats::LatencyResult;

use super::rows::{Case, Measure, Place};

/// The default duration of a run.
const MEASUREMENT_MS: u32 = 700;
/// The time limit of a run.
const LIMIT: Duration = Duration::from_secs(40);
/// Domains used in turn, so that no run meets leftovers of an earlier run.
const DOMAINS: std::ops::Range<u32> = 60..100;

/// Runs pairs of processes.
pub(super) struct Pairs {
    program: PathBuf,
    /// The cores of the publisher and of the subscriber.
    cores: [usize; 2],
    /// The rows that need this value report the reason for its absence.
    two_hosts: Result<TwoHosts, String>,
    runs: u32,
    measurement: String,
}

impl Pairs {
    pub(super) fn new(program: PathBuf, cores: [usize; 2]) -> Self {
        let link = Link { segments_offloaded: true, ..Link::default() };
        let two_hosts = TwoHosts::joined_by(&link).map_err(|error| error.to_string());
        Self { program, cores, two_hosts, runs: 0, measurement: format!("{MEASUREMENT_MS}ms") }
    }

    /// Sets the duration of each measurement.
    pub(super) fn measuring_for(self, time_ms: u32) -> Self {
        Self { measurement: format!("{time_ms}ms"), ..self }
    }

    /// Latency in microseconds, or throughput in Mbit/s. Reliable samples that are lost are an error.
    pub(super) fn run(&mut self, case: &Case, measure: Measure, place: Place) -> Result<f64> {
        let [publisher, subscriber] = self.run_sides(case, measure, place)?;
        match measure {
            Measure::Latency => Ok(latency_of(publisher)?.p50_ns as f64 / 1e3),
            Measure::Throughput => Ok(throughput_of(&subscriber)?.mbit_per_s()),
        }
    }

    /// The distribution of one-way times of a ping-pong.
    pub(super) fn latency(&mut self, case: &Case, place: Place) -> Result<LatencyResult> {
        let [publisher, _] = self.run_sides(case, Measure::Latency, place)?;
        latency_of(publisher)
    }

    /// The results of publisher and subscriber.
    fn run_sides(&mut self, case: &Case, measure: Measure, place: Place) -> Result<[SideResult; 2]> {
        let domain = DOMAINS.start + self.runs % (DOMAINS.end - DOMAINS.start);
        self.runs += 1;
        let mut subscriber = self.start(case, place, 1, domain, &["-sub", "-dataLen", &case.data_len.to_string()])?;
        let measurement = self.measurement.clone();
        let mut words = vec!["-pub", "-executionTime", &measurement];
        let data_len = case.data_len.to_string();
        words.extend(["-dataLen", &data_len]);
        words.extend(case.publisher);
        if measure == Measure::Latency {
            words.push("-latencyTest");
        }
        let publisher = self.start(case, place, 0, domain, &words);
        let publisher = publisher.and_then(|mut publisher| publisher.result());
        if publisher.is_err() {
            subscriber.kill();
        }
        let (publisher, subscriber) = (publisher?, subscriber.result()?);
        let received = throughput_of(&subscriber)?;
        let is_raw = case.both.contains(&"-raw");
        ensure!(is_raw || received.lost == 0, "{} reliable samples were lost", received.lost);
        Ok([publisher, subscriber])
    }

    fn start(&self, case: &Case, place: Place, side: usize, domain: u32, words: &[&str]) -> Result<Running> {
        let (mut command, network) = match place {
            Place::Loopback => (Command::new(&self.program), vec!["-nic", "127.0.0.1"]),
            Place::TwoHosts => {
                let hosts = self.two_hosts.as_ref().map_err(|error| anyhow::anyhow!("no two hosts: {error}"))?;
                let host = [&hosts.a, &hosts.b][side];
                let [own, other] = [TwoHosts::ADDRESSES[side], TwoHosts::ADDRESSES[1 - side]];
                (host.command(&self.program), vec!["-nic", own, "-peer", other])
            }
        };
        command.args(words).args(case.both).args(network);
        command.args(["-domain", &domain.to_string(), "-threadCPUAffinity", &self.cores[side].to_string()]);
        command.args(["-noPrintIntervals", "-outputFile", "/dev/null", "-recordFile", "/dev/stdout"]);
        // Writing and comparing payloads is the instrument's own work.
        command.args(["-noPatterns", "-startDelay", "50ms", "-discoveryTimeout", "10", "-partnerTimeout", "10"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Ok(Running { child: child.with_context(|| format!("cannot start {}", self.program.display()))? })
    }
}

fn latency_of(publisher: SideResult) -> Result<LatencyResult> {
    publisher.latency.context("the publisher has measured no latency")
}

fn throughput_of(subscriber: &SideResult) -> Result<&ThroughputResult> {
    subscriber.throughput.as_ref().context("the subscriber has measured no throughput")
}

struct Running {
    child: Child,
}

impl Running {
    /// Waits for the end of the process and reads its record: one line, which fits into any pipe.
    fn result(&mut self) -> Result<SideResult> {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                self.kill();
                bail!("a run did not end within {} s", LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(5));
        };
        let read = |pipe: Option<&mut dyn std::io::Read>| -> Result<String> {
            let mut text = String::new();
            if let Some(pipe) = pipe {
                pipe.read_to_string(&mut text)?;
            }
            Ok(text)
        };
        let stdout = read(self.child.stdout.as_mut().map(|pipe| pipe as _))?;
        let stderr = read(self.child.stderr.as_mut().map(|pipe| pipe as _))?;
        if !status.success() {
            let told = stderr.lines().rev().find(|line| !line.trim().is_empty() && !line.starts_with("Test ended"));
            bail!("{}", told.unwrap_or("the process failed without a message"));
        }
        let line = stdout.lines().last().context("a process has written no record")?;
        serde_json::from_str(line).context("a record cannot be read")
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
