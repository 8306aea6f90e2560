//! Progress of the readers of a writer: statuses, log lines, and `DataWriter::status`.

use std::time::Duration;

use peregrine_rtps::id::Guid;
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::{HeldBack, Stall};
use tracing::Level;

use super::writer::{WriterCore, WriterState};
use crate::driver::base::clock::now;
use crate::driver::base::user_code::log;
use crate::status::{ReliableWriterCacheChangedStatus, StatusMask, WriterStatus, explain, explain_hold};

impl WriterCore {
    /// See [`DataWriter::status`](crate::DataWriter::status).
    pub(crate) fn status(&self) -> WriterStatus {
        self.lock().writer.status(now())
    }
}

impl WriterState {
    /// This reader was matched or unmatched, or has become active or inactive.
    pub(super) fn note_activity(&mut self, reader: Guid) {
        let (active, inactive) = self.writer.activity();
        if self.statuses.activity.set(active, inactive, reader) {
            self.statuses.changed |= StatusMask::RELIABLE_READER_ACTIVITY_CHANGED;
        }
    }

    /// A reader was matched or unmatched. `before`: its [activity](peregrine_rtps::writer::Writer::activity_of) until
    /// then.
    pub(super) fn note_activity_of(&mut self, reader: Guid, before: Option<bool>) {
        let now = self.writer.activity_of(reader);
        if self.statuses.activity.update(reader, before, now) {
            self.statuses.changed |= StatusMask::RELIABLE_READER_ACTIVITY_CHANGED;
        }
    }

    /// The writer continues without this reader.
    pub(super) fn note_inactive(&mut self, writer: Guid, reader: Guid) {
        self.note_activity(reader);
        let behind = self.writer.progress(now()).find(|progress| progress.reader == reader);
        let (cause, unacknowledged) =
            behind.map_or((None, 0), |p| (p.stall.map(|stall| stall.cause), p.unacknowledged));
        log(Level::WARN, move || {
            let why = cause.map_or("a reader does not acknowledge", explain);
            tracing::warn!(%writer, %reader, ?cause, unacknowledged, "going on without a reliable reader: {why}");
        });
    }

    /// RELIABLE_WRITER_CACHE_CHANGED, read by the application.
    pub(crate) fn read_cache_status(&mut self) -> ReliableWriterCacheChangedStatus {
        let now = self.writer.cache_status();
        let before = std::mem::replace(&mut self.statuses.cache_read, now);
        ReliableWriterCacheChangedStatus::new(now, before)
    }

    pub(super) fn note_stall(&mut self, writer: Guid, stall: Stall) {
        self.statuses.stalled.began(stall);
        self.note_stalled_readers();
        let Stall { reader, cause, lasting, .. } = stall;
        let behind = self.writer.progress(now()).find(|progress| progress.reader == reader);
        let unacknowledged = behind.map_or(0, |progress| progress.unacknowledged);
        log(Level::WARN, move || {
            tracing::warn!(%writer, %reader, ?cause, ?lasting, unacknowledged, "delivery stalls: {}", explain(cause));
        });
    }

    pub(super) fn note_stall_end(&mut self, writer: Guid, reader: Guid, lasted: Span) {
        self.note_stalled_readers();
        let lasted = Duration::from(lasted);
        log(Level::INFO, move || tracing::info!(%writer, %reader, ?lasted, "delivery no longer stalls"));
    }

    pub(super) fn note_held_back(&mut self, writer: Guid, cause: HeldBack, lasting: Span) {
        self.statuses.stalled.held_back(cause);
        self.statuses.changed |= StatusMask::DELIVERY_STALLED;
        let (unsent, lasting) = (self.writer.unsent(), Duration::from(lasting));
        log(Level::WARN, move || {
            let why = explain_hold(cause);
            tracing::warn!(%writer, ?cause, ?lasting, unsent, "samples are held back: {why}");
        });
    }

    pub(super) fn note_hold_end(&mut self, writer: Guid, lasted: Span) {
        self.statuses.stalled.held_back = None;
        self.statuses.changed |= StatusMask::DELIVERY_STALLED;
        let lasted = Duration::from(lasted);
        log(Level::INFO, move || tracing::info!(%writer, ?lasted, "samples are no longer held back"));
    }

    fn note_stalled_readers(&mut self) {
        self.statuses.stalled.set_current(self.writer.stalled_readers());
        self.statuses.changed |= StatusMask::DELIVERY_STALLED;
    }
}
