//! The summary of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use super::fault::Outage;
use super::log::{Arrival, Record, Report, Written};
use super::setup::{GAP, Times};

/// When data flowed again after the outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// So long after packets could flow again, the last gap ended.
    After(Duration),
    /// Not while both sides were watched.
    NotWithin(Duration),
}

/// The matches that one side reported to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matching {
    /// How long this side reported no match, from the outage on. `None` if it reported one all the time.
    pub unmatched: Option<Duration>,
    /// Matched endpoints at the end. One is right; with a second one the other side's former process is still known.
    pub at_end: u32,
    /// Further matches from the outage on, also of an endpoint that was known.
    pub new_matches: u32,
}

/// The measurements of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The longest time without a sample during the outage.
    pub silence_during: Duration,
    /// When data flowed again.
    pub flow: Flow,
    /// Accepted samples.
    pub written: usize,
    /// Accepted samples that never arrived. Only samples after the first one that arrived count.
    pub lost: usize,
    /// Samples that the reader reported as lost (SAMPLE_LOST), from the outage on.
    pub reported_lost: u32,
    /// Stalls of delivery that the writer reported, from the outage on.
    pub stalls: u32,
    /// Authentications of the other side that the writer reported, from the outage on. Only Peregrine with DDS Security
    /// reports them.
    pub writer_authentications: u32,
    /// The same of the reader.
    pub reader_authentications: u32,
    /// Samples of `lost` that were written well before the outage, or since the writer reported a match again.
    pub lost_outside: usize,
    /// Samples that arrived twice.
    pub repeated: usize,
    /// Samples that arrived after a later one.
    pub reordered: usize,
    /// Samples that the writer refused.
    pub refused: usize,
    /// The longest call of `write`.
    pub longest_write: Duration,
    /// The matches of the writer.
    pub writer: Matching,
    /// The matches of the reader.
    pub reader: Matching,
    /// The largest growth of the memory of the writer's process from the outage on. `None` if the process has ended.
    pub writer_growth_kib: Option<u64>,
    /// The same of the reader's process.
    pub reader_growth_kib: Option<u64>,
}

impl Figures {
    pub(super) fn of(record: &Record, outage: Outage, times: Times) -> Self {
        let distinct: BTreeSet<u32> = record.arrivals.iter().map(|arrival| arrival.seq).collect();
        let writes = || record.written.iter();
        let longest_write_ns = writes().map(|write| write.until_ns.saturating_sub(write.from_ns)).max();
        Self {
            silence_during: silence(&record.arrivals, times.began_ns, times.healed_ns),
            flow: flow(&record.arrivals, times),
            written: writes().filter(|write| write.is_accepted).count(),
            lost: Self::lost(record),
            reported_lost: growth(&record.reader, times, |report| report.sample_lost),
            stalls: growth(&record.writer, times, |report| report.stalled),
            writer_authentications: growth(&record.writer, times, |report| report.authenticated),
            reader_authentications: growth(&record.reader, times, |report| report.authenticated),
            lost_outside: lost_outside(record, times),
            repeated: record.arrivals.len() - distinct.len(),
            reordered: record.arrivals.windows(2).filter(|pair| pair[1].seq < pair[0].seq).count(),
            refused: writes().filter(|write| !write.is_accepted).count(),
            longest_write: Duration::from_nanos(longest_write_ns.unwrap_or(0)),
            writer: matching(&record.writer, times),
            reader: matching(&record.reader, times),
            writer_growth_kib: (!outage.kind.ends_writer()).then(|| growth_kib(&record.writer, times)),
            reader_growth_kib: (!outage.kind.ends_reader()).then(|| growth_kib(&record.reader, times)),
        }
    }

    /// The number of accepted samples that have not arrived, from the first one that has.
    pub(super) fn lost(record: &Record) -> usize {
        lost_samples(record).len()
    }
}

fn lost_samples(record: &Record) -> Vec<Written> {
    let arrived: BTreeSet<u32> = record.arrivals.iter().map(|arrival| arrival.seq).collect();
    let Some(first) = arrived.first() else { return Vec::new() };
    let accepted = record.written.iter().filter(|write| write.is_accepted && write.seq >= *first);
    accepted.filter(|write| !arrived.contains(&write.seq)).copied().collect()
}

/// A sample from shortly before the outage may be under way when the outage begins. The flow of samples that waited at
/// the reader can begin before the match.
fn lost_outside(record: &Record, times: Times) -> usize {
    let gap_ns = u64::try_from(GAP.as_nanos()).unwrap_or(u64::MAX);
    let flowed_ns = match flow(&record.arrivals, times) {
        Flow::After(time) => times.healed_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        Flow::NotWithin(_) => times.ended_ns,
    };
    let unmatched = record.writer.iter().rposition(|report| report.matched == 0 && report.at_ns >= times.began_ns);
    let again = unmatched.map(|at| record.writer.get(at + 1).map_or(times.ended_ns, |report| report.at_ns));
    let again_ns = flowed_ns.max(again.unwrap_or(0));
    let is_outside =
        |write: &&Written| write.until_ns.saturating_add(gap_ns) < times.began_ns || write.from_ns > again_ns;
    lost_samples(record).iter().filter(is_outside).count()
}

/// The longest time without an arrival.
fn silence(arrivals: &[Arrival], from_ns: u64, until_ns: u64) -> Duration {
    let mut last_ns = from_ns;
    let mut longest_ns = 0;
    let within = arrivals.iter().map(|arrival| arrival.taken_ns).filter(|at| (from_ns..until_ns).contains(at));
    for at_ns in within.chain([until_ns]) {
        longest_ns = longest_ns.max(at_ns.saturating_sub(last_ns));
        last_ns = at_ns;
    }
    Duration::from_nanos(longest_ns)
}

/// The end of the last gap; without any, the first arrival.
fn flow(arrivals: &[Arrival], times: Times) -> Flow {
    let gap_ns = u64::try_from(GAP.as_nanos()).unwrap_or(u64::MAX);
    let mut last_ns = times.healed_ns;
    let mut flowed_ns = None;
    let within = |at: &u64| (times.healed_ns..=times.ended_ns).contains(at);
    for at_ns in arrivals.iter().map(|arrival| arrival.taken_ns).filter(within) {
        if flowed_ns.is_none() || at_ns.saturating_sub(last_ns) > gap_ns {
            flowed_ns = Some(at_ns);
        }
        last_ns = at_ns;
    }
    let is_silent = times.ended_ns.saturating_sub(last_ns) > gap_ns;
    match flowed_ns {
        Some(at_ns) if !is_silent => Flow::After(Duration::from_nanos(at_ns - times.healed_ns)),
        _ => Flow::NotWithin(Duration::from_nanos(times.ended_ns.saturating_sub(times.healed_ns))),
    }
}

/// From the outage on, with the last report before it as the state at its beginning.
fn matching(reports: &[Report], times: Times) -> Matching {
    let began = reports.iter().rposition(|report| report.at_ns < times.began_ns);
    let reports: Vec<&Report> =
        reports.iter().skip(began.unwrap_or(0)).filter(|report| report.at_ns <= times.ended_ns).collect();
    let mut unmatched_ns = 0;
    let mut new_matches = 0;
    let mut was_unmatched = false;
    for pair in reports.windows(2) {
        let &[before, now] = pair else { continue };
        if before.matched == 0 {
            was_unmatched = true;
            unmatched_ns += now.at_ns.saturating_sub(before.at_ns.max(times.began_ns));
        }
        if before.process == now.process {
            new_matches += now.matched_total.saturating_sub(before.matched_total);
        }
    }
    let at_end = reports.last().map_or(0, |report| report.matched);
    let is_unmatched = was_unmatched || at_end == 0;
    Matching { unmatched: is_unmatched.then(|| Duration::from_nanos(unmatched_ns)), at_end, new_matches }
}

/// How much a count has grown from the outage on, in all processes of this side.
fn growth(reports: &[Report], times: Times, count: impl Fn(&Report) -> u32) -> u32 {
    let mut before = (0, 0);
    let mut sum: u32 = 0;
    for report in reports {
        let (process, last) = before;
        let now = count(report);
        if report.at_ns >= times.began_ns {
            let grown = if process == report.process { now.saturating_sub(last) } else { now };
            sum = sum.saturating_add(grown);
        }
        before = (report.process, now);
    }
    sum
}

/// The largest memory from the outage on, less that before it.
fn growth_kib(reports: &[Report], times: Times) -> u64 {
    let before = reports.iter().rev().find(|report| report.at_ns < times.began_ns).map_or(0, |it| it.resident_kib);
    let after = reports.iter().filter(|report| report.at_ns >= times.began_ns).map(|it| it.resident_kib).max();
    after.unwrap_or(before).saturating_sub(before)
}
