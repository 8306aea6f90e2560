//! Why a participant with a pre-shared key refuses messages, and when the refusals are told.

use core::fmt;

use crate::protection::OpenError;
use crate::time::{Instant, Span};

/// Why a message is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageRefusal {
    /// The message is not protected as a whole.
    Unprotected,
    /// The message has a pre-shared key of another domain or domain tag.
    OtherDomain,
    /// The passphrase of the message is not known here.
    UnknownPassphrase,
    /// The message is protected with another passphrase of the same number, or was changed on the way.
    NotAuthentic,
    /// The message is one of too many from unknown senders.
    TooManySenders,
}

/// The least time between two events for one reason.
const INTERVAL: Span = Span::from_secs(1);

/// When the refusals of each reason were told last, and how many came since.
#[derive(Debug, Default)]
pub(super) struct RefusedMessages {
    reasons: [(Option<Instant>, u64); MessageRefusal::COUNT],
}

impl RefusedMessages {
    /// Notes a refusal. Returns the number of refusals to tell, if it is time.
    pub(super) fn note(&mut self, now: Instant, refusal: MessageRefusal) -> Option<u64> {
        let (told, count) = self.reasons.get_mut(refusal as usize)?;
        *count = count.saturating_add(1);
        if told.is_some_and(|told| now.since(told) < INTERVAL) {
            return None;
        }
        *told = Some(now);
        Some(core::mem::take(count))
    }
}

impl MessageRefusal {
    pub(super) const COUNT: usize = 5;

    /// `None` for messages that may be from a peer whose keys have not arrived.
    pub(super) const fn of(error: OpenError) -> Option<Self> {
        match error {
            OpenError::UnknownKey => None,
            OpenError::NotAuthentic => Some(Self::NotAuthentic),
            OpenError::OtherDomain => Some(Self::OtherDomain),
            OpenError::UnknownPassphrase => Some(Self::UnknownPassphrase),
            OpenError::TooManySenders => Some(Self::TooManySenders),
        }
    }
}

impl fmt::Display for MessageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unprotected => "not protected with a pre-shared key",
            Self::OtherDomain => "protected with the pre-shared key of another domain",
            Self::UnknownPassphrase => "protected with a passphrase that is not known here",
            Self::NotAuthentic => "protected with another passphrase of the same number, or changed on the way",
            Self::TooManySenders => "from too many unknown senders in a short time",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_a_second_are_told_together_for_each_reason() {
        let mut refused = RefusedMessages::default();
        let now = Instant(0);
        assert_eq!(refused.note(now, MessageRefusal::Unprotected), Some(1));
        for _ in 0..1000 {
            assert_eq!(refused.note(now + Span::from_millis(999), MessageRefusal::Unprotected), None);
        }
        assert_eq!(refused.note(now, MessageRefusal::TooManySenders), Some(1), "another reason");
        assert_eq!(refused.note(now + INTERVAL, MessageRefusal::Unprotected), Some(1001));
        assert_eq!(refused.reasons.len() - 1, MessageRefusal::TooManySenders as usize);
    }
}
