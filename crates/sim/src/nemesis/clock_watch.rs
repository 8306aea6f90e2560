//! Looks at what depends on time: LIFESPAN and DEADLINE.

use std::collections::BTreeMap;

use peregrine_rtps::history::SampleInfo;
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span, Timestamp};

use super::kind::Kind;
use super::limits::{CLOCK_STEP_S, DEADLINE, EXPIRY_SLACK, EXPIRY_SLACK_OF_OTHER_CLOCK, SHORT_LIFESPAN};
use super::plan::Plan;
use super::trace::Times;

/// The observations that the next ones are compared with.
#[derive(Debug)]
pub(super) struct ClockWatch {
    /// No clock steps, and none stands still, so that the age of each sample is known.
    judges_age: bool,
    expiry_slack: Span,
    /// When the application of a reader last took.
    taken_at: BTreeMap<Guid, Instant>,
    /// The last sample that a reader has received, or a writer has written.
    last: BTreeMap<Guid, Last>,
}

/// The last sample of an endpoint.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// A time after which it came.
    after: Instant,
    /// How long there was no sample before, at most.
    silent_before: Span,
}

impl ClockWatch {
    pub(super) fn new(plan: &Plan) -> Self {
        let sets_clocks = |kind| matches!(kind, Kind::ClockStep | Kind::Suspend);
        let judges_age = !plan.attacks.iter().any(|attack| sets_clocks(attack.kind));
        let expiry_slack = if plan.clocks_off_s.is_empty() { EXPIRY_SLACK } else { EXPIRY_SLACK_OF_OTHER_CLOCK };
        Self { judges_age, expiry_slack, taken_at: BTreeMap::new(), last: BTreeMap::new() }
    }

    pub(super) fn note_write(&mut self, writer: Guid, now: Instant) {
        self.note(writer, now, now);
    }

    fn note(&mut self, endpoint: Guid, after: Instant, until: Instant) {
        let silent_before = self.last.get(&endpoint).map_or(Span::INFINITE, |last| until.since(last.after));
        self.last.insert(endpoint, Last { after, silent_before });
    }

    /// The application of a reader has taken all samples; `any`: there were some.
    pub(super) fn note_take(&mut self, reader: Guid, now: Instant, any: bool) {
        if let Some(before) = self.taken_at.insert(reader, now).filter(|_| any) {
            self.note(reader, before, now);
        }
    }

    /// Looks at a sample that was taken, with the wall clocks of its writer and its reader.
    pub(super) fn look_at(
        &self,
        reader: Guid,
        info: &SampleInfo,
        lifespan: Span,
        [of_writer, of_reader]: [Timestamp; 2],
        times: &mut Times,
    ) {
        if lifespan.is_infinite() || !info.source_timestamp.is_valid() {
            return;
        }
        let off_s = i64::from(of_writer.seconds) - i64::from(of_reader.seconds);
        times.received_by_other_clock += u64::from(off_s.unsigned_abs() >= CLOCK_STEP_S / 2);
        let age = Span(of_writer.to_unix_nanos().saturating_sub(info.source_timestamp.to_unix_nanos()));
        if self.judges_age && lifespan <= SHORT_LIFESPAN {
            times.judged += 1;
            if age > lifespan + self.expiry_slack {
                times.stale.push((info.writer, reader, info.sequence_number.0, age));
            }
        }
    }

    pub(super) fn note_missed_deadline(&self, endpoint: Guid, now: Instant, times: &mut Times) {
        times.missed_deadlines += 1;
        // A process that stood still may write or receive before its timer reports what it missed.
        let Some(last) = self.last.get(&endpoint).filter(|last| last.silent_before < DEADLINE) else { return };
        let silent = now.since(last.after);
        if silent < DEADLINE {
            times.false_misses.push((endpoint, silent));
        }
    }
}
