//! Why a participant with security refuses messages, and when it reports the refusals.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use crate::id::GuidPrefix;
use crate::limits::REFUSED_SENDERS_MAX;
use crate::protection::OpenError;
use crate::time::{Instant, Span};

/// Why a message is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageRefusal {
    /// The message lacks the protection that is required: as a whole with a pre-shared key, otherwise that which the
    /// governance states for the endpoint of one of its submessages.
    Unprotected,
    /// The message has a pre-shared key of another domain or domain tag.
    OtherDomain,
    /// The passphrase of the message is not known here.
    UnknownPassphrase,
    /// The message was not made with the key that it names, or not for this participant, or was changed on the way.
    /// With a pre-shared key: it is protected with another passphrase of the same number.
    NotAuthentic,
    /// The message is one of too many from unknown senders.
    TooManySenders,
    /// The message names a new session of the key of a known sender, and too many have done so lately.
    TooManySessions,
}

/// The least time between two events for one sender and reason.
const INTERVAL: Span = Span::from_secs(1);

/// When the refusals of each sender and reason were reported last, and how many came since. Unknown senders, whose
/// names cost nothing, are counted together, and so are known ones beyond [`REFUSED_SENDERS_MAX`] in an interval.
#[derive(Debug, Default)]
pub(super) struct RefusedMessages {
    tallies: BTreeMap<(Option<GuidPrefix>, MessageRefusal), Tally>,
}

#[derive(Debug)]
struct Tally {
    reported_at: Instant,
    count: u64,
}

impl RefusedMessages {
    /// Notes a refusal; `from` is a known sender. Returns the number of refusals to report, if it is time.
    pub(super) fn note(&mut self, now: Instant, from: Option<GuidPrefix>, refusal: MessageRefusal) -> Option<u64> {
        let mut key = (from, refusal);
        if from.is_some() && !self.tallies.contains_key(&key) && !self.make_room(now) {
            key.0 = None;
        }
        let Some(tally) = self.tallies.get_mut(&key) else {
            self.tallies.insert(key, Tally { reported_at: now, count: 0 });
            return Some(1);
        };
        tally.count = tally.count.saturating_add(1);
        if now.since(tally.reported_at) < INTERVAL {
            return None;
        }
        tally.reported_at = now;
        Some(core::mem::take(&mut tally.count))
    }

    /// Whether there is room for another known sender. Forgets those whose interval is over; their refusals that were
    /// not reported are reported with those of unknown senders.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.known() < REFUSED_SENDERS_MAX {
            return true;
        }
        let is_over = |(from, _): &(Option<GuidPrefix>, _), tally: &mut Tally| {
            from.is_some() && now.since(tally.reported_at) >= INTERVAL
        };
        let over: Vec<_> = self.tallies.extract_if(.., is_over).collect();
        for ((_, refusal), Tally { reported_at, count }) in over.into_iter().filter(|(_, tally)| tally.count > 0) {
            let of_unknown = self.tallies.entry((None, refusal)).or_insert(Tally { reported_at, count: 0 });
            of_unknown.count = of_unknown.count.saturating_add(count);
        }
        self.known() < REFUSED_SENDERS_MAX
    }

    /// The number of known senders and their reasons.
    fn known(&self) -> usize {
        self.tallies.len() - self.tallies.range(..=(None, MessageRefusal::TooManySessions)).count()
    }
}

impl MessageRefusal {
    /// `None` for messages that may be from a peer whose keys have not arrived.
    pub(super) const fn of(error: OpenError) -> Option<Self> {
        match error {
            OpenError::UnknownKey => None,
            OpenError::NotAuthentic => Some(Self::NotAuthentic),
            OpenError::OtherDomain => Some(Self::OtherDomain),
            OpenError::UnknownPassphrase => Some(Self::UnknownPassphrase),
            OpenError::TooManySenders => Some(Self::TooManySenders),
            OpenError::TooManySessions => Some(Self::TooManySessions),
        }
    }
}

impl fmt::Display for MessageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unprotected => "without the protection that is required here",
            Self::OtherDomain => "protected with the pre-shared key of another domain",
            Self::UnknownPassphrase => "protected with a passphrase that is not known here",
            Self::NotAuthentic => "made without the key or passphrase that they name, or changed on the way",
            Self::TooManySenders => "from too many unknown senders in a short time",
            Self::TooManySessions => "in too many new sessions of a key in a short time",
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn sender(number: usize) -> Option<GuidPrefix> {
        let [.., high, low] = number.to_be_bytes();
        Some(GuidPrefix([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, high, low]))
    }

    #[test]
    fn refusals_within_a_second_are_reported_together_by_sender_and_reason() {
        let mut refused = RefusedMessages::default();
        let now = Instant(0);
        for from in [None, sender(1), sender(2)] {
            assert_eq!(refused.note(now, from, MessageRefusal::Unprotected), Some(1));
            for _ in 0..1000 {
                assert_eq!(refused.note(now + Span::from_millis(999), from, MessageRefusal::Unprotected), None);
            }
            assert_eq!(refused.note(now, from, MessageRefusal::TooManySenders), Some(1), "another reason");
        }
        for from in [None, sender(1), sender(2)] {
            assert_eq!(refused.note(now + INTERVAL, from, MessageRefusal::Unprotected), Some(1001));
        }
    }

    #[test]
    fn refusals_of_senders_beyond_the_bound_are_reported_together() {
        let mut refused = RefusedMessages::default();
        let (now, reason) = (Instant(0), MessageRefusal::NotAuthentic);
        let reported = (0..10 * REFUSED_SENDERS_MAX).filter_map(|number| refused.note(now, sender(number), reason));
        assert_eq!(reported.collect::<Vec<_>>(), vec![1; REFUSED_SENDERS_MAX + 1]);
        assert_eq!(refused.tallies.len(), REFUSED_SENDERS_MAX + 1);
        assert_eq!(refused.note(now, sender(0), reason), None, "one that has a place, and is not reported yet");
        // A second later, the places are free; refusals that were not reported are not lost.
        let later = now + INTERVAL;
        assert_eq!(refused.note(later, sender(10 * REFUSED_SENDERS_MAX), reason), Some(1));
        assert_eq!(refused.tallies.len(), 2);
        assert_eq!(refused.note(later, None, reason), Some(9 * REFUSED_SENDERS_MAX as u64 + 1));
    }
}
