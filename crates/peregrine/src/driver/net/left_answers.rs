//! Acknowledgements that wait for the next message to the same participant.
//!
//! A thread that returns to the application with data, or that runs a listener, often writes to the participant that
//! the data came from. The acknowledgement then travels with what the thread writes, instead of in a datagram of its
//! own, which would wake a thread of that participant. Leaders of the reception, and threads that run listeners, send
//! the acknowledgements that no message has taken along.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use arrayvec::ArrayVec;
use peregrine_rtps::transmit::{Message, TransmitBatch};

use crate::driver::base::sync::lock_leaf;

/// Length in bytes of a message that only acknowledges: header, INFO_DST, and an ACKNACK without a bitmap (RTPS 2.5
/// §9.4.5.3). A longer one requests repair, and does not wait.
const MESSAGE_BYTES: usize = 64;
/// Answers that wait at a time. Further ones are sent at once.
const ANSWERS_MAX: usize = 8;

/// Submessages that follow those of another message.
pub(super) type Appended = ArrayVec<u8, { MESSAGE_BYTES * ANSWERS_MAX }>;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct LeftAnswers {
    /// Whether there are any; as far as the calling thread knows.
    has_some: AtomicBool,
    answers: Mutex<ArrayVec<Answer, ANSWERS_MAX>>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    to: SocketAddr,
    message: [u8; MESSAGE_BYTES],
    /// The largest message that the path to the participant takes.
    message_bytes_max: usize,
}

impl LeftAnswers {
    /// Leaves the only message of `batch`, which goes to `to`. `false`: the message is to be sent at once.
    pub(super) fn leave(&self, batch: &TransmitBatch, to: SocketAddr, message_bytes_max: usize) -> bool {
        let mut bytes = ArrayVec::<u8, MESSAGE_BYTES>::new();
        for message in batch.messages() {
            if bytes.len() + message.len() > MESSAGE_BYTES {
                return false;
            }
            message.parts().for_each(|part| bytes.extend(part.iter().copied()));
        }
        let Ok(message) = bytes.into_inner() else { return false };
        let mut answers = lock_leaf(&self.answers);
        let is_left = answers.try_push(Answer { to, message, message_bytes_max }).is_ok();
        self.has_some.store(true, Ordering::Relaxed);
        is_left
    }

    /// Takes the answers that fit behind the submessages of `message`, which goes to `to`.
    #[inline]
    pub(super) fn take_for(&self, message: Message<'_>, to: SocketAddr) -> Appended {
        if self.has_some.load(Ordering::Relaxed) { self.take_fitting(message, to) } else { Appended::new() }
    }

    #[cold]
    fn take_fitting(&self, message: Message<'_>, to: SocketAddr) -> Appended {
        let mut appended = Appended::new();
        let mut answers = lock_leaf(&self.answers);
        answers.retain(|answer| {
            let submessages = message.submessages_to_append(&answer.message).filter(|submessages| {
                answer.to == to && message.len() + appended.len() + submessages.len() <= answer.message_bytes_max
            });
            submessages.is_none_or(|submessages| appended.try_extend_from_slice(submessages).is_err())
        });
        self.has_some.store(!answers.is_empty(), Ordering::Relaxed);
        appended
    }

    /// Takes an answer that no message has taken along, and its destination.
    #[inline]
    pub(super) fn take_one(&self) -> Option<([u8; MESSAGE_BYTES], SocketAddr)> {
        if self.has_some.load(Ordering::Relaxed) { self.pop() } else { None }
    }

    #[cold]
    fn pop(&self) -> Option<([u8; MESSAGE_BYTES], SocketAddr)> {
        let mut answers = lock_leaf(&self.answers);
        let answer = answers.pop();
        self.has_some.store(!answers.is_empty(), Ordering::Relaxed);
        answer.map(|answer| (answer.message, answer.to))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use peregrine_rtps::locator::Locator;

    use super::*;

    const PATH_BYTES: usize = 1472;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn message(prefix: u8, len: usize) -> TransmitBatch {
        let mut bytes = vec![prefix; len];
        bytes.iter_mut().skip(20).for_each(|byte| *byte = 0x15);
        let mut batch = TransmitBatch::default();
        batch.push_message(&bytes, Arc::new([Locator::from(address(7400))]));
        batch
    }

    fn taken(left: &LeftAnswers, prefix: u8, len: usize, port: u16) -> usize {
        let batch = message(prefix, len);
        let message = batch.messages().next().unwrap();
        left.take_for(message, address(port)).len()
    }

    #[test]
    fn answer_travels_once_with_a_message_of_the_same_participant_to_the_same_address() {
        let left = LeftAnswers::default();
        assert!(left.leave(&message(1, MESSAGE_BYTES), address(7400), PATH_BYTES));
        assert_eq!(taken(&left, 1, 100, 7401), 0, "another address");
        assert_eq!(taken(&left, 2, 100, 7400), 0, "another participant");
        assert_eq!(taken(&left, 1, PATH_BYTES - 43, 7400), 0, "the path takes no longer message");
        assert_eq!(taken(&left, 1, PATH_BYTES - 44, 7400), 44);
        assert_eq!(taken(&left, 1, 100, 7400), 0, "it has left");
        assert!(left.take_one().is_none());
    }

    #[test]
    fn request_for_repair_is_not_left() {
        let left = LeftAnswers::default();
        assert!(!left.leave(&message(1, MESSAGE_BYTES + 4), address(7400), PATH_BYTES));
        assert!(!left.leave(&message(1, MESSAGE_BYTES - 4), address(7400), PATH_BYTES));
        assert!(left.take_one().is_none());
    }

    #[test]
    fn answers_past_the_bound_are_sent_at_once() {
        let left = LeftAnswers::default();
        for _ in 0..ANSWERS_MAX {
            assert!(left.leave(&message(1, MESSAGE_BYTES), address(7400), PATH_BYTES));
        }
        assert!(!left.leave(&message(1, MESSAGE_BYTES), address(7400), PATH_BYTES));
        assert_eq!(taken(&left, 1, 100, 7400), 44 * ANSWERS_MAX);
    }
}
