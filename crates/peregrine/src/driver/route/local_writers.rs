//! A reader's view of the matched writers in its process: the acknowledgements to each writer, and the writers that
//! wait until the reader has room.

use std::sync::{Arc, Weak};

use peregrine_rtps::id::Guid;
use peregrine_rtps::reader::Reader;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::writer::Delivered;

use super::registry::Registry;

/// The writers of this process.
pub(in crate::driver) static WRITERS: Registry<dyn LocalWriterCore> = Registry::new();

/// A writer as the readers of its process know it.
pub(in crate::driver) trait LocalWriterCore: Send + Sync {
    /// A reader has made room: it has all samples before `below`, and, if the writer was refused, accepts samples
    /// again. The caller holds no lock of the driver. Runs no listener, because the caller may hold locks of the
    /// application.
    fn note_reader_progress(&self, reader: Guid, below: Option<SequenceNumber>, was_refused: bool);
}

/// The matched writers of a reader in its process.
#[derive(Default)]
pub(in crate::driver) struct LocalWriters {
    writers: Vec<LocalWriter>,
    /// Whether some writers wait for an acknowledgement when the reader makes room.
    owes_acks: bool,
}

struct LocalWriter {
    guid: Guid,
    core: Weak<dyn LocalWriterCore>,
    /// The reader has acknowledged all samples before this one to the writer.
    acknowledged_below: SequenceNumber,
    is_refused: bool,
}

/// An acknowledgement for a writer of this process from a reader that has made room.
pub(in crate::driver) struct PendingAck {
    writer: Arc<dyn LocalWriterCore>,
    below: Option<SequenceNumber>,
    was_refused: bool,
}

impl PendingAck {
    /// The caller must hold no lock.
    pub(in crate::driver) fn deliver(self, reader: Guid) {
        self.writer.note_reader_progress(reader, self.below, self.was_refused);
    }
}

impl LocalWriters {
    /// Adds a matched writer, if it is in this process.
    pub(in crate::driver) fn add(&mut self, guid: Guid) {
        if self.writers.iter().any(|writer| writer.guid == guid) {
            return;
        }
        if let Some(core) = WRITERS.find(guid) {
            // The writer may have written before the reader knew it, and the reader has refused these samples.
            let acknowledged_below = SequenceNumber::ZERO;
            self.writers.push(LocalWriter { guid, core, acknowledged_below, is_refused: true });
            self.owes_acks = true;
        }
    }

    pub(in crate::driver) fn remove(&mut self, guid: Guid) {
        self.writers.retain(|writer| writer.guid != guid);
    }

    #[inline]
    pub(in crate::driver) const fn owes_acks(&self) -> bool {
        self.owes_acks
    }

    /// The acknowledgements that are due now. The call costs nothing while no sample waits for room.
    pub(in crate::driver) fn take_pending_acks(&mut self, reader: &mut Reader) -> Vec<PendingAck> {
        if !self.owes_acks {
            return Vec::new();
        }
        self.owes_acks = reader.is_stalled();
        let mut pending = Vec::new();
        for writer in &mut self.writers {
            let below = reader.acknowledged_below(writer.guid).filter(|below| *below > writer.acknowledged_below);
            // A writer that was refused and waits behind its own earlier samples would be refused again.
            let is_new = writer.acknowledged_below == SequenceNumber::ZERO;
            let was_refused = writer.is_refused && (is_new || below.is_some() || !self.owes_acks);
            if below.is_none() && !was_refused {
                continue;
            }
            let Some(core) = writer.core.upgrade() else { continue };
            writer.acknowledged_below = below.unwrap_or(writer.acknowledged_below);
            writer.is_refused &= !was_refused;
            pending.push(PendingAck { writer: core, below, was_refused });
        }
        pending
    }

    /// Records that samples of the writer were delivered to the reader or refused.
    pub(in crate::driver) fn note_delivered(&mut self, reader: &Reader, writer: Guid, delivered: Delivered) {
        if delivered.refused.is_none() && !reader.is_stalled() {
            return;
        }
        self.owes_acks = true;
        if let Some(writer) = self.writers.iter_mut().find(|known| known.guid == writer) {
            writer.is_refused |= delivered.refused.is_some();
            writer.acknowledged_below = delivered.acknowledged_below.unwrap_or(writer.acknowledged_below);
        }
    }

    /// Whether the writer was refused and has not been called since.
    pub(in crate::driver) fn refuses(&self, writer: Guid) -> bool {
        self.writers.iter().find(|known| known.guid == writer).is_none_or(|known| known.is_refused)
    }
}
