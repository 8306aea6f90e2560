//! Each message of a participant shows that it is there: its lease runs from the last message, not from the last
//! announcement.

use super::Participant;
use super::remote::RemoteParticipant;
use crate::id::GuidPrefix;
use crate::limits::{EVICTION_MIN_SILENCE, SIGN_OF_LIFE_INTERVAL};
use crate::reader::Reception;
use crate::receiver::Envelope;
use crate::time::Instant;

impl Participant {
    /// The participant was heard at `now` on a route that bypasses [`Self::handle_datagram`], such as shared memory.
    /// Its lease runs from then on. One call for each participant that [`Self::silent_participants`] names is enough;
    /// more do no harm.
    pub fn note_sign_of_life(&mut self, now: Instant, prefix: GuidPrefix) {
        if let Some(remote) = self.remotes.get_mut(&prefix) {
            remote.renew(now);
        }
    }

    /// A submessage of a participant has come. Says whether anything follows from that.
    #[inline]
    pub(super) fn note_heard(&mut self, rx: &Reception<'_>, envelope: &Envelope) -> bool {
        self.signs.is_due(rx.now, envelope.from.prefix) && self.renew_by_sign(rx, envelope)
    }

    /// A lease is not renewed by what comes from an address that has nothing to do with the participant.
    #[cold]
    fn renew_by_sign(&mut self, rx: &Reception<'_>, envelope: &Envelope) -> bool {
        let (now, prefix) = (rx.now, envelope.from.prefix);
        let Some(remote) = self.remotes.get_mut(&prefix) else {
            if self.parked.left(prefix).is_some() {
                return self.revive(rx, envelope);
            }
            self.signs.skip_until(prefix, now + SIGN_OF_LIFE_INTERVAL);
            return false;
        };
        if !remote.is_at(rx.source, &self.config.addresses.paths) {
            return false;
        }
        remote.renew(now);
        if remote.is_verified {
            // A short lease is renewed in time, too.
            let pause = SIGN_OF_LIFE_INTERVAL.min(remote.data.lease_duration.divided_by(16));
            self.signs.skip_until(prefix, now + pause);
            return false;
        }
        if envelope.is_addressed {
            self.verify(now, prefix);
        }
        envelope.is_addressed
    }

    /// Whether [`Self::handle_timeout`] looks for leases that have ended. Before, the caller looks for other signs of
    /// life of the [silent participants](Self::silent_participants).
    #[must_use]
    pub fn checks_leases(&self, now: Instant) -> bool {
        self.next_lease_check.is_some_and(|at| at <= now)
    }

    /// The participants that are lost now without another sign of life: those whose lease has ended, and those whose
    /// place a new participant could get because of their silence.
    pub fn silent_participants(&self, now: Instant) -> impl Iterator<Item = GuidPrefix> {
        let is_silent = move |remote: &RemoteParticipant| {
            remote.lease_until() <= now || now.since(remote.heard_at) >= EVICTION_MIN_SILENCE
        };
        self.remotes.values().filter(move |remote| is_silent(remote)).map(|remote| remote.data.prefix)
    }

    /// The lease of a participant ends then at the earliest.
    pub(super) fn expect_lease_end(&mut self, at: Instant) {
        if at < self.next_lease_check.unwrap_or(Instant::FAR_FUTURE) {
            self.next_lease_check = Some(at);
        }
    }
}
