//! How far the readers of a writer are: statuses, log lines, and the answer to the application's question.

use std::time::Duration;

use peregrine_rtps::id::Guid;
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::Stall;
use tracing::Level;

use super::writer::{WriterCore, WriterState};
use crate::driver::base::clock::now;
use crate::driver::base::user_code::log;
use crate::status::{ReaderProgress, StatusMask, WriterStatus, explain};

impl WriterCore {
    /// See [`DataWriter::status`](crate::DataWriter::status).
    pub(crate) fn status(&self) -> WriterStatus {
        let state = self.lock();
        WriterStatus {
            unsent: state.writer.unsent(),
            held_back: state.writer.held_back(),
            readers: state.writer.progress(now()).map(ReaderProgress::from).collect(),
        }
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

    pub(super) fn note_stall(&mut self, writer: Guid, stall: Stall) {
        self.statuses.stalled.began(stall.into());
        self.note_stalled_readers();
        let (Stall { reader, cause, .. }, lasting) = (stall, Duration::from(stall.lasting));
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

    fn note_stalled_readers(&mut self) {
        self.statuses.stalled.set_current(self.writer.stalled_readers());
        self.statuses.changed |= StatusMask::DELIVERY_STALLED;
    }
}
