//! Signs of life of participants that are heard without messages: by shared memory, or as part of this process.

use std::sync::Arc;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::Instant;

use super::{Locked, ParticipantCore};
use crate::driver::route::registry::Registry;

/// The participants of this process that have joined their domain and not left it.
static PRESENT: Registry<ParticipantCore> = Registry::new();

impl ParticipantCore {
    /// The participant joins its domain. Other participants of this process keep it until it leaves, whatever becomes
    /// of its announcements.
    pub(crate) fn begin_presence(self: &Arc<Self>) {
        if self.host.config().same_process {
            PRESENT.add(guid_of(self.prefix), Arc::downgrade(self));
            // Another thread may have closed the participant meanwhile, and have ended its presence too early.
            if self.is_closing() {
                self.end_presence();
            }
        }
    }

    pub(super) fn end_presence(&self) {
        PRESENT.remove(guid_of(self.prefix));
    }

    /// Before leases end: the leases of silent participants run from the last time at which they were heard without
    /// messages.
    pub(super) fn note_heard(&self, locked: &mut Locked, now: Instant) {
        let Locked { rtps, writers, readers, .. } = locked;
        let mut silent: Vec<GuidPrefix> = rtps.silent_participants(now).collect();
        if self.host.config().same_process {
            silent.retain(|peer| {
                let is_present = is_present(*peer);
                if is_present {
                    rtps.note_sign_of_life(now, *peer);
                }
                !is_present
            });
        }
        if silent.is_empty() {
            return;
        }
        for writer in writers.values() {
            // The reader process has acknowledged since the writer last looked.
            let unread = writer.outgoing.unread_acknowledgements();
            unread.iter().for_each(|reader| rtps.note_sign_of_life(now, reader.prefix));
            let state = writer.lock();
            let heard = silent.iter().filter_map(|peer| Some((peer, state.last_heard.at(*peer)?)));
            heard.for_each(|(peer, at)| rtps.note_sign_of_life(at, *peer));
        }
        for reader in readers.values() {
            let state = reader.lock();
            let heard = silent.iter().filter_map(|peer| Some((peer, state.last_heard.at(*peer)?)));
            heard.for_each(|(peer, at)| rtps.note_sign_of_life(at, *peer));
        }
    }
}

fn is_present(peer: GuidPrefix) -> bool {
    PRESENT.find(guid_of(peer)).is_some_and(|participant| participant.strong_count() > 0)
}

fn guid_of(participant: GuidPrefix) -> Guid {
    Guid::new(participant, EntityId::PARTICIPANT)
}
