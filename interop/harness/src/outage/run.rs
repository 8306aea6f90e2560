//! One run: two peers, one outage.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use super::fault::{Kind, Network, Outage};
use super::figures::Figures;
use super::log::{Log, Record, Report, wall_ns};
use super::setup::{GAP, Setup, Times};
use super::side::{Role, Side};
use super::stalls::Stalls;
use crate::error::{Error, Result};
use crate::lab::{Link, TwoHosts};

/// The limit until data flow before the outage, and until a process runs again.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The samples that arrive before the outage, so that both processes have the memory that they need.
const WARM_UP_SAMPLES: usize = 200;
/// The limit until samples that are missing at the end arrive.
const REPAIR_LIMIT: Duration = Duration::from_secs(5);
/// Data flow again when no gap has been seen for this long.
const STEADY: Duration = Duration::from_secs(3);

/// Runs both peers on hosts of their own through one outage.
///
/// # Errors
/// When the hosts or the peers cannot be started or fail; when no data flow before the outage; and when the machine
/// itself stood still, which is [`Error::Stalled`].
pub fn observe(setup: &Setup, outage: Outage, stalls: &Stalls) -> Result<Figures> {
    let network = Arc::new(Network::new(TwoHosts::joined_by(&Link::default())?));
    let log = Arc::new(Log::default());
    let started_ns = wall_ns();
    let reader = Side::start(Role::Reader, setup, &network, outage.length, &log)?;
    let writer = Side::start(Role::Writer, setup, &network, outage.length, &log)?;
    let warm = |record: &Record| {
        let known = [&record.writer, &record.reader].iter().all(|side| side.last().is_some_and(|it| it.matched > 0));
        record.arrivals.len() >= WARM_UP_SAMPLES && known
    };
    if !log.wait(START_LIMIT, warm)? {
        stalls.check(started_ns)?;
        return Err(Error::NotStarted(summary(&log.copy())));
    }

    let began_ns = wall_ns();
    begin(outage.kind, &network, &writer, &reader)?;
    pause(&log, outage.length)?;
    end(outage.kind, &network, &writer, &reader)?;
    let mut healed_ns = wall_ns();
    if outage.kind.ends_writer() || outage.kind.ends_reader() {
        require(log.wait(START_LIMIT, |record| record.restarted_ns.is_some())?, "the process did not start again")?;
        healed_ns = log.copy().restarted_ns.unwrap_or(healed_ns);
    }
    pause(&log, setup.watch.at_least)?;
    let left = setup.watch.at_most.saturating_sub(setup.watch.at_least);
    log.wait(left, |record| is_steady(record, healed_ns))?;
    drop(writer);
    let ended_ns = log.copy().written.last().map_or(healed_ns, |written| written.until_ns);
    log.wait(REPAIR_LIMIT, |record| Figures::lost(record) == 0)?;
    drop(reader);

    stalls.check(started_ns)?;
    let record = log.copy();
    if let Some(failure) = &record.failure {
        return Err(Error::Violated(failure.clone()));
    }
    Ok(Figures::of(&record, outage, Times { began_ns, healed_ns, ended_ns }))
}

/// Like [`observe`], but tries up to `attempts` times as long as the machine stands still.
///
/// # Errors
/// As of [`observe`].
pub fn observe_awake(setup: &Setup, outage: Outage, stalls: &Stalls, attempts: u32) -> Result<Figures> {
    let mut attempt = 1;
    loop {
        match observe(setup, outage, stalls) {
            Err(Error::Stalled(length)) if attempt < attempts => {
                let [writer, reader] = [&setup.writer.name, &setup.reader.name];
                let ms = length.as_millis();
                eprintln!("again, because the machine stood still for {ms} ms: {writer} → {reader}: {outage}");
                attempt += 1;
            }
            result => return result,
        }
    }
}

fn begin(kind: Kind, network: &Network, writer: &Side, reader: &Side) -> Result<()> {
    match kind {
        Kind::StopWriter => writer.signal(Signal::STOP),
        Kind::StopReader => reader.signal(Signal::STOP),
        Kind::KillWriter => writer.kill(),
        Kind::KillReader => reader.kill(),
        _ => network.fail(kind),
    }
}

fn end(kind: Kind, network: &Network, writer: &Side, reader: &Side) -> Result<()> {
    match kind {
        Kind::StopWriter => writer.signal(Signal::CONT),
        Kind::StopReader => reader.signal(Signal::CONT),
        Kind::KillWriter => writer.restart(),
        Kind::KillReader => reader.restart(),
        _ => network.heal(kind),
    }
}

/// How far a run came.
fn summary(record: &Record) -> String {
    let matched = |reports: &[Report]| reports.last().map_or(0, |report| report.matched);
    format!(
        "{} written, {} arrived, {} matched by the writer, {} by the reader",
        record.written.len(),
        record.arrivals.len(),
        matched(&record.writer),
        matched(&record.reader)
    )
}

/// Ends early only with a failure of a side.
fn pause(log: &Log, length: Duration) -> Result<()> {
    log.wait(length, |_| false).map(drop)
}

fn require(holds: bool, otherwise: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Violated(otherwise.to_owned())) }
}

fn is_steady(record: &Record, healed_ns: u64) -> bool {
    let steady_ns = u64::try_from(STEADY.as_nanos()).unwrap_or(u64::MAX);
    let gap_ns = u64::try_from(GAP.as_nanos()).unwrap_or(u64::MAX);
    let now_ns = wall_ns();
    let start_ns = now_ns.saturating_sub(steady_ns).max(healed_ns);
    let mut last_ns = start_ns;
    for arrival in record.arrivals.iter().filter(|arrival| arrival.taken_ns >= start_ns) {
        if arrival.taken_ns.saturating_sub(last_ns) > gap_ns {
            return false;
        }
        last_ns = last_ns.max(arrival.taken_ns);
    }
    now_ns.saturating_sub(last_ns) <= gap_ns
}
