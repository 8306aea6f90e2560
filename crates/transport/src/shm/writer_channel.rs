//! The writer's end of the channel to one reader process.

use super::channel_end::{Gone, ReaderId};
use super::corrupt::Corrupt;
use super::doorbell::Doorbell;
use super::link::{Link, Received, USER_MESSAGES_PER_PACKET};
use super::listener::{Identity, Request};
use super::memory::{Memory, View, whole_pages};
use super::message::{Message, Refusal, UserMessage};
use super::page::{OwnedPage, PeerPage, Words};
use super::pool::{Pool, SlotId};
use super::ring::{HOLD_PROBE, Overflow, RING_PROBE, Sender, Shape, Withdrawn};
use super::sync::Ordering;
use super::wake::SLEEPER_WORDS;
use crate::{random, sys};
use std::io;
use std::os::fd::BorrowedFd;

/// The channel to one reader process.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) id: ReaderId,
    pub(super) sender: Sender<SlotId>,
    pub(super) doorbell: Doorbell<Identity, PeerPage>,
    pub(super) link: Link,
    /// For each place in the pool, the segment that was announced to the reader.
    pub(super) announced: Vec<u32>,
    pub(super) missed: u64,
    /// At most [`USER_MESSAGES_MAX`].
    pub(super) messages: Vec<UserMessage>,
    /// The reader has sent a notification that was not handled yet.
    pub(super) is_notified: bool,
    /// One side has ended the channel, and the reader's application may still hold samples.
    pub(super) is_closing: bool,
    pub(super) gone: Option<Gone>,
}

/// Messages of one reader that are handled per call. A working reader has sent one or two.
pub(super) const MAX_MESSAGES: usize = 64;

/// Messages from the user of one reader that wait for [`Writer::poll_messages`](super::Writer::poll_messages). Further
/// ones stay in the link.
pub(super) const USER_MESSAGES_MAX: usize = 64;

/// A channel that the reader has not been notified of.
pub(super) struct ChannelParts {
    pub(super) sender: Sender<SlotId>,
    pub(super) ring: Memory,
    pub(super) doorbell: Doorbell<Identity, PeerPage>,
}

pub(super) enum OpenError {
    Refused(Refusal),
    System(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Channel {
    pub(super) fn open(request: &Request, shape: Shape) -> Result<(ChannelParts, Message), OpenError> {
        let page = |fd, words: usize, populated: usize| {
            let len = whole_pages(words.saturating_mul(8)).ok_or(OpenError::Refused(Refusal::BadMemory))?;
            View::with_populated(fd, len, populated * 8).map_err(|_| OpenError::Refused(Refusal::BadMemory))
        };
        let offered = Shape { holds: request.holds, ..shape };
        let holds = page(&request.hold_page, offered.hold_words(), offered.first_hold_words())?;
        let holds = PeerPage::new(Words::seen(&holds));
        if holds.load_acquire(HOLD_PROBE) != request.probe {
            return Err(OpenError::Refused(Refusal::NotTheSameMemory));
        }
        let sleeper =
            || page(&request.sleeper, SLEEPER_WORDS, SLEEPER_WORDS).map(|view| PeerPage::new(Words::seen(&view)));
        let doorbell = Doorbell::new(&request.doorbells, request.identity()?, sleeper)?;
        let doorbell = doorbell.ok_or(OpenError::Refused(Refusal::TooManyReaders))?;
        let ring = Memory::with_populated("peregrine-ring", shape.ring_words() * 8, shape.first_ring_words() * 8)?;
        let words = OwnedPage::new(Words::of(&ring));
        let probe = probe()?;
        words.store(RING_PROBE, probe, Ordering::Release);
        let sender = Sender::new(words, holds, shape).map_err(|_| OpenError::Refused(Refusal::BadMemory))?;
        let Shape { entries, holds, overflow } = shape;
        let welcome = Message::Welcome { entries, holds, overflow, doorbell: doorbell.index(), probe };
        Ok((ChannelParts { sender, ring, doorbell }, welcome))
    }

    /// Whether the reader knows the segment at this place.
    #[inline]
    pub(super) fn knows_segment(&self, place: u32, segment: u32) -> bool {
        self.announced.get(place as usize) == Some(&segment)
    }

    /// Whether an entry fits now.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        let result = self.sender.has_room();
        self.check(result) == Some(true)
    }

    /// Whether an entry fits now, or would after evicting older ones.
    pub(super) fn has_room_or_evicts(&mut self) -> bool {
        self.has_room() || self.sender.overflow() == Overflow::Evict
    }

    /// Makes room for one entry, if need be by withdrawing the oldest.
    pub(super) fn make_room(&mut self) -> bool {
        let result = self.sender.has_room();
        match self.check(result) {
            Some(false) if self.sender.overflow() == Overflow::Evict => {}
            room => return room == Some(true),
        }
        self.withdraw();
        let result = self.sender.has_room();
        self.check(result) == Some(true)
    }

    /// Withdraws the oldest entry. Returns false if there was none or the reader is taking it.
    pub(super) fn withdraw(&mut self) -> bool {
        let result = self.sender.withdraw_oldest();
        match self.check(result) {
            Some(Withdrawn::Done) => {
                self.missed += 1;
                true
            }
            Some(Withdrawn::Taken) => true,
            Some(Withdrawn::Empty | Withdrawn::Busy) | None => false,
        }
    }

    /// Announces a segment to the reader, once. Returns false if the link is full.
    pub(super) fn announce(&mut self, pool: &Pool, place: u32, segment: u32) -> bool {
        let at = place as usize;
        if self.announced.get(at) == Some(&segment) {
            return true;
        }
        let Some((fd, len)) = pool.segment(place) else { return false };
        if !self.send_message(&Message::Segment { segment, len: len as u64 }, &[fd]) {
            return false;
        }
        if self.announced.len() <= at {
            self.announced.resize(at + 1, 0);
        }
        if let Some(entry) = self.announced.get_mut(at) {
            *entry = segment;
        }
        true
    }

    /// Notifies the reader that a segment is freed, if the reader knows it. Returns false if the link is full.
    pub(super) fn retire(&mut self, place: u32, segment: u32) -> bool {
        let knows = self.announced.get(place as usize) == Some(&segment);
        if !knows || self.gone.is_some() {
            return true;
        }
        if !self.send_message(&Message::Retired { segment }, &[]) {
            return self.gone.is_some();
        }
        if let Some(entry) = self.announced.get_mut(place as usize) {
            *entry = 0;
        }
        true
    }

    pub(super) fn send_message(&mut self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> bool {
        let sent = self.link.send(message, descriptors);
        self.note_sent(sent)
    }

    /// Sends at most [`USER_MESSAGES_PER_PACKET`] messages.
    pub(super) fn send_user_messages(&mut self, messages: &[UserMessage]) -> bool {
        let sent = self.link.send_user_messages(messages);
        self.note_sent(sent)
    }

    /// Notifies the reader that this side ends the channel. Without room for the message, the reader cannot distinguish
    /// that from the end of the process.
    pub(super) fn leave(&self) {
        let _ = self.link.send(&Message::Leave, &[]);
    }

    fn note_sent(&mut self, sent: io::Result<bool>) -> bool {
        match sent {
            Ok(true) => {
                self.sender.announce_message();
                true
            }
            Ok(false) | Err(_) => {
                // The link fills up only if the reader is dead or does not read it.
                self.receive_messages();
                false
            }
        }
    }

    pub(super) fn receive_messages(&mut self) {
        for _ in 0..MAX_MESSAGES {
            if self.messages.len() + USER_MESSAGES_PER_PACKET > USER_MESSAGES_MAX {
                // The user polls these messages first.
                self.is_notified = true;
                return;
            }
            match self.link.receive() {
                Received::Nothing => return,
                Received::Message(Message::Room, _) => self.is_notified = true,
                Received::UserMessages(messages) => {
                    self.is_notified = true;
                    self.messages.extend(messages);
                    debug_assert!(self.messages.len() <= USER_MESSAGES_MAX);
                }
                // Both sides may end the channel.
                Received::Message(Message::Leave, _) if self.is_closing => {}
                Received::Message(Message::Leave, _) => {
                    self.is_closing = true;
                    return self.end(Gone::Ended);
                }
                Received::Closed => return self.end(Gone::Died),
                Received::Broken(what) => return self.end(Gone::Broken(what)),
                Received::Message(..) => {
                    return self.end(Gone::Broken("the reader sent a message that only writers send"));
                }
            }
        }
    }

    /// The value; a corrupt one ends the channel.
    pub(super) fn check<T>(&mut self, result: Result<T, Corrupt>) -> Option<T> {
        result.map_err(|Corrupt(what)| self.end(Gone::Broken(what))).ok()
    }

    pub(super) fn end(&mut self, reason: Gone) {
        self.gone.get_or_insert(reason);
    }
}

/// A random, odd number, which no page contains by accident.
pub(super) fn probe() -> io::Result<u64> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes).map_err(|error| sys::in_operation("a probe of shared memory", &error))?;
    Ok(u64::from_ne_bytes(bytes) | 1)
}
