//! Messages of participants that discovery does not know yet.

use core::net::IpAddr;
use std::collections::VecDeque;

use peregrine_rtps::id::GuidPrefix;
use peregrine_rtps::time::Instant;

use crate::limits::{EARLY_MESSAGE_BYTES, EARLY_MESSAGES, EARLY_TIME};

/// A message before the announcement of its sender. Without it, the handshake would wait for a repetition.
#[derive(Debug)]
pub(super) struct EarlyMessage {
    pub(super) sender: GuidPrefix,
    pub(super) source: IpAddr,
    pub(super) octets: Vec<u8>,
    received: Instant,
}

/// The messages that are kept, one of each sender.
#[derive(Debug, Default)]
pub(super) struct EarlyMessages(VecDeque<EarlyMessage>);

impl EarlyMessages {
    /// Keeps a message in place of an earlier one. When there is no room, the newest message of the address with the
    /// most gives way. Returns whether the message was kept.
    pub(super) fn keep(&mut self, now: Instant, sender: GuidPrefix, source: IpAddr, octets: &[u8]) -> bool {
        self.0.retain(|message| now.since(message.received) < EARLY_TIME && message.sender != sender);
        if octets.len() > EARLY_MESSAGE_BYTES {
            return false;
        }
        if self.0.len() >= EARLY_MESSAGES {
            let count = |of: IpAddr| self.0.iter().filter(|message| message.source == of).count();
            let greedy = self.0.iter().map(|message| (count(message.source), message.source)).max();
            match greedy {
                Some((most, greedy)) if most > count(source).saturating_add(1) => {
                    let newest = self.0.iter().rposition(|message| message.source == greedy);
                    newest.map(|newest| self.0.remove(newest));
                }
                _ => return false,
            }
        }
        self.0.push_back(EarlyMessage { sender, source, octets: octets.to_vec(), received: now });
        true
    }

    /// The message of a sender that discovery knows now.
    pub(super) fn take(&mut self, now: Instant, sender: GuidPrefix) -> Option<EarlyMessage> {
        let at = self.0.iter().position(|message| message.sender == sender)?;
        self.0.remove(at).filter(|message| now.since(message.received) < EARLY_TIME)
    }

    pub(super) fn remove(&mut self, sender: GuidPrefix) {
        self.0.retain(|message| message.sender != sender);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(number: u8) -> GuidPrefix {
        GuidPrefix([number; 12])
    }

    fn source(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    #[test]
    fn newest_message_of_a_sender_is_kept_for_some_time() {
        let mut early = EarlyMessages::default();
        let now = Instant(5);
        assert!(early.keep(now, sender(1), source(1), b"first"));
        assert!(early.keep(now, sender(1), source(1), b"second"));
        assert_eq!(early.len(), 1);
        assert!(early.take(now, sender(2)).is_none());
        assert_eq!(early.take(now, sender(1)).unwrap().octets, b"second");
        assert!(early.keep(now, sender(1), source(1), b"third"));
        assert!(early.take(now + EARLY_TIME, sender(1)).is_none());
        early.keep(now, sender(1), source(1), b"fourth");
        early.remove(sender(1));
        assert_eq!(early.len(), 0);
    }

    #[test]
    fn flood_of_one_address_leaves_room_for_another() {
        let mut early = EarlyMessages::default();
        let now = Instant(5);
        assert!(!early.keep(now, sender(255), source(1), &vec![0; EARLY_MESSAGE_BYTES + 1]));
        let kept = (0..200).filter(|number| early.keep(now, sender(*number), source(1), &[0; 8])).count();
        assert_eq!((kept, early.len()), (EARLY_MESSAGES, EARLY_MESSAGES));
        assert!(early.keep(now, sender(250), source(2), b"another"));
        assert_eq!(early.len(), EARLY_MESSAGES);
        assert!(early.take(now, sender(250)).is_some());
        // The oldest message of the greedy address is still there, the newest is not.
        assert!(early.take(now, sender(0)).is_some());
        assert!(early.take(now, sender(EARLY_MESSAGES as u8 - 1)).is_none());
    }
}
