//! The guarantees, each as a check of the trace of a world.

use std::collections::BTreeSet;

use peregrine_rtps::id::Guid;

use super::limits::STALL_NAMED_AFTER;
use super::trace::{Excuse, Pair, Trace};

/// Bytes that a peer is sent at most for each byte that comes from it (decision 062).
const ANSWER_BYTES_PER_BYTE: u64 = 10;

/// A check: what it finds broken.
pub type Check = fn(&Trace) -> Vec<String>;

/// All checks.
pub const ALL: [Check; 11] =
    [matched, ordered, delivered, losses_reported, fresh, deadlines, memory, traffic, stalls_named, at_rest, datagrams];

/// Applies all checks. Returns what is broken.
#[must_use]
pub fn judge(trace: &Trace) -> Vec<String> {
    ALL.iter().flat_map(|check| check(trace)).collect()
}

/// Every writer and reader of a topic are matched after the time to heal.
#[must_use]
pub fn matched(trace: &Trace) -> Vec<String> {
    let apart = trace.pairs.iter().filter(|(_, pair)| !pair.at_writer || !pair.at_reader);
    let broken = apart.map(|((writer, reader), pair)| {
        format!("{writer} and {reader} are not matched: at writer {}, at reader {}", pair.at_writer, pair.at_reader)
    });
    broken.collect()
}

/// No sample comes twice, and none before an earlier one. A reader that has forgotten a durable writer may begin anew.
#[must_use]
pub fn ordered(trace: &Trace) -> Vec<String> {
    let mut broken = Vec::new();
    for ((writer, reader), pair) in &trace.pairs {
        for (at, numbers) in pair.received.windows(2).enumerate() {
            let is_begin = numbers[1] == 1 || pair.expires;
            let begins_anew = pair.durable && pair.restarts.contains(&(at + 1)) && is_begin;
            if numbers[0] >= numbers[1] && !begins_anew {
                broken.push(format!("{reader} got number {} of {writer} after {}", numbers[1], numbers[0]));
                break;
            }
        }
    }
    broken
}

/// Every sample that is due was received.
#[must_use]
pub fn delivered(trace: &Trace) -> Vec<String> {
    let mut broken = Vec::new();
    for ((writer, reader), pair) in &trace.pairs {
        let written = trace.written.get(writer).copied().unwrap_or(0);
        let missing = pair.missing(pair.due_after(), written);
        if !missing.is_empty() {
            let (after, probes, excuse) = (pair.due_after(), pair.probes_after, pair.excuse);
            let (count, first) = (missing.len(), &missing[..missing.len().min(5)]);
            broken.push(format!(
                "{reader} misses {count} samples, {first:?}, of {written} from {writer}, due after {after}, probes \
                 after {probes}, excuse {excuse:?}"
            ));
        }
    }
    broken
}

/// Samples that a writer no longer kept for a silent reader were reported as lost by the reader, unless the reader has
/// been without its writer meanwhile: then its match begins with what the writer still holds (decision 065).
#[must_use]
pub fn losses_reported(trace: &Trace) -> Vec<String> {
    let mut broken = Vec::new();
    for (reader, lost) in &trace.lost {
        let pairs = trace.pairs.iter().filter(|((_, of), _)| of == reader);
        let silent = pairs.filter(|(_, pair)| pair.excuse == Some(Excuse::Inactive) && !pair.durable && !pair.expires);
        let silent = silent.filter(|(_, pair)| pair.restarts.is_empty());
        let missing: usize = silent.map(|(_, pair)| pair.missing_before_probes().len()).sum();
        if missing as u64 > *lost {
            broken.push(format!("{reader} misses {missing} samples and has reported {lost}"));
        }
    }
    broken
}

/// No application gets a sample whose LIFESPAN has ended.
#[must_use]
pub fn fresh(trace: &Trace) -> Vec<String> {
    let stale = trace.times.stale.iter();
    let broken =
        stale.map(|(writer, reader, number, age)| format!("{reader} got number {number} of {writer} after {age}"));
    broken.collect()
}

/// No endpoint that has written or received within its DEADLINE reports that it was missed.
#[must_use]
pub fn deadlines(trace: &Trace) -> Vec<String> {
    let misses = trace.times.false_misses.iter();
    misses.map(|(endpoint, silent)| format!("{endpoint} reports a missed deadline after {silent}")).collect()
}

/// No endpoint holds more than its limits allow.
#[must_use]
pub fn memory(trace: &Trace) -> Vec<String> {
    let over = trace.memory.iter().filter(|(_, held)| held.amount > held.limit);
    over.map(|(what, held)| format!("{what}: {} of {}", held.amount, held.limit)).collect()
}

/// No address is sent more than what it sent, and what samples entitle it to, account for. An address that has no
/// participant is sent no more than came from it.
#[must_use]
pub fn traffic(trace: &Trace) -> Vec<String> {
    let over = trace.traffic.iter().filter(|(_, bytes)| {
        let answers = if bytes.due == 0 { bytes.heard } else { bytes.heard * ANSWER_BYTES_PER_BYTE };
        bytes.sent > answers + bytes.due
    });
    over.map(|((node, to), bytes)| format!("{node:?} sent too much to {to}: {bytes:?}")).collect()
}

/// Each reader that lacked samples and acknowledged nothing new was named by its writer in time. Another reader that
/// the writer named is no excuse.
#[must_use]
pub fn stalls_named(trace: &Trace) -> Vec<String> {
    let unnamed = trace.stalls.unnamed.iter().filter(|(_, span)| **span > STALL_NAMED_AFTER);
    let broken = unnamed.map(|((writer, reader), span)| {
        format!("{writer} has not reported for {span} that {reader} acknowledges nothing")
    });
    broken.collect()
}

/// Everything has come to rest.
#[must_use]
pub fn at_rest(trace: &Trace) -> Vec<String> {
    trace.unsettled.clone()
}

/// Every datagram is accounted for, and only forged ones are malformed.
#[must_use]
pub fn datagrams(trace: &Trace) -> Vec<String> {
    let of = &trace.datagrams;
    let network = &of.network;
    let mut broken = Vec::new();
    if network.sent + network.duplicated != network.lost + network.cut + network.delivered + of.under_way {
        broken.push(format!("datagrams that became nothing: {of:?}"));
    }
    let handled_max = network.delivered - of.overflowed.min(network.delivered);
    if of.handled > handled_max || (!of.has_ended && of.handled != handled_max) {
        broken.push(format!("delivered datagrams that no participant handled: {of:?}"));
    }
    if of.counted > of.handled || (!of.has_ended && of.counted != of.handled) {
        broken.push(format!("handled datagrams that participants have not counted: {of:?}"));
    }
    if of.malformed > 0 && !of.has_garbage {
        broken.push(format!("malformed messages: {of:?}"));
    }
    broken
}

impl Pair {
    /// The number after which every sample is due.
    #[must_use]
    pub fn due_after(&self) -> i64 {
        if self.expires {
            return self.probes_after;
        }
        match (self.durable, self.excuse) {
            (true, None | Some(Excuse::Inactive | Excuse::InactiveFromStart)) => 0,
            (false, None) => self.matched_after.unwrap_or(self.probes_after),
            (_, Some(Excuse::Forged)) | (false, Some(Excuse::Inactive | Excuse::InactiveFromStart)) => {
                self.probes_after
            }
        }
    }

    /// Numbers after `after` up to `last` that were not received since the reader last began anew.
    #[must_use]
    pub fn missing(&self, after: i64, last: i64) -> Vec<i64> {
        let began_anew = |at: &usize| *at > 0 && self.received.get(*at).is_some_and(|n| *n <= self.received[*at - 1]);
        let from = self.restarts.iter().copied().filter(began_anew).max().unwrap_or(0);
        let received: BTreeSet<i64> = self.received.iter().skip(from).copied().collect();
        (after + 1..=last).filter(|number| !received.contains(number)).collect()
    }

    fn missing_before_probes(&self) -> Vec<i64> {
        self.missing(self.matched_after.unwrap_or(self.probes_after), self.probes_after)
    }
}

/// The pairs for which everything since a match is due, although attacks have concerned them.
#[must_use]
pub fn strict_pairs(trace: &Trace) -> Vec<(Guid, Guid)> {
    trace.pairs.iter().filter(|(_, pair)| pair.due_after() < pair.probes_after).map(|(pair, _)| *pair).collect()
}
