//! Endpoints whose inputs are not processed yet.

use std::sync::Arc;

use peregrine_rtps::time::Instant;
use peregrine_rtps::transmit::TransmitBatch;

use super::mark::Round;
use super::reader::{self, AfterEvents, ReaderCore};
use super::topic::TopicCore;
use super::writer::WriterCore;
use crate::driver::base::clock::wall;

/// Answers of several readers are sent when they exceed this number of bytes.
const ANSWERS_BYTES_MAX: usize = 1 << 16;
/// Readers whose acknowledgements are [gathered](DirtyEndpoints::owes_many_answers).
const GATHERED_FROM: usize = 8;

/// Entries of one list at most: each endpoint of the process once, and duplicates. A duplicate needs an input of its
/// own, and one receive call returns 1 MiB, which is less than 2^16 submessages. A list is emptied after each call.
const LISTED_MAX: usize = 1 << 20;

/// The endpoints with unprocessed inputs. Each is listed once; a duplicate, possible if threads with lists of their own
/// add an endpoint in turns, is harmless. The lists are bounded by [`LISTED_MAX`].
#[derive(Default)]
pub(crate) struct DirtyEndpoints {
    round: Round,
    readers: Vec<Arc<ReaderCore>>,
    writers: Vec<Arc<WriterCore>>,
    topics: Vec<Arc<TopicCore>>,
    /// Readers that owe an acknowledgement.
    answering: Vec<Arc<ReaderCore>>,
    /// The round of these readers, which lasts until they answer.
    answering_round: Round,
    /// The answers of several readers, or of several writers: those for the same participant travel together.
    answers: TransmitBatch,
}

impl DirtyEndpoints {
    pub(crate) fn topic(&mut self, core: &Arc<TopicCore>) {
        if !self.topics.iter().any(|t| Arc::ptr_eq(t, core)) {
            list(&mut self.topics, core);
        }
    }

    pub(crate) fn reader(&mut self, core: &Arc<ReaderCore>) {
        if core.mark.set(self.round.number()) {
            list(&mut self.readers, core);
        }
    }

    pub(crate) fn writer(&mut self, core: &Arc<WriterCore>) {
        if core.mark.set(self.round.number()) {
            list(&mut self.writers, core);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.writers.is_empty() && self.topics.is_empty()
    }

    /// Calls the endpoints, whose deadlines are due.
    pub(in crate::driver) fn handle_timeouts(&mut self, now: Instant) {
        self.round.advance();
        self.writers.iter().for_each(|writer| writer.handle_timeout(now));
        self.wake_writers();
        let (answering, wall) = (&mut self.answering, wall());
        let readers = self.readers.drain(..);
        answering.extend(readers.filter(|reader| reader.handle_timeout(now, wall)));
        self.send_answers(now);
    }

    /// Wakes waiters, sends answers, and runs listeners or queues them. The caller must hold no lock.
    pub(crate) fn after(&mut self, now: Instant) {
        self.notify(now);
        self.run_listeners(now);
    }

    /// Whether [`Self::notify`] has kept readers whose listeners have to run.
    pub(in crate::driver) fn has_listeners(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Wakes waiters and sends answers. Keeps the readers whose listeners have to run.
    pub(in crate::driver) fn notify(&mut self, now: Instant) {
        self.wake(now);
        self.send_answers(now);
    }

    /// Wakes waiters. Readers whose listener is to be run stay, and those that owe an acknowledgement.
    pub(in crate::driver) fn wake(&mut self, now: Instant) {
        self.round.advance();
        let (answering, round) = (&mut self.answering, self.answering_round.number());
        self.readers.retain(|reader| match reader.process_events(now) {
            AfterEvents::RunListener => true,
            AfterEvents::Acknowledge => {
                if reader.answer_mark.set(round) {
                    list(answering, reader);
                }
                false
            }
            AfterEvents::Nothing => false,
        });
        self.wake_writers();
        self.topics.drain(..).for_each(|topic| topic.after());
    }

    /// Calls the writers after inputs. HEARTBEATs of several writers for one participant travel together.
    fn wake_writers(&mut self) {
        if let [writer] = &*self.writers {
            writer.after();
            return self.writers.clear();
        }
        let together = &mut self.answers;
        debug_assert!(together.is_empty(), "answers are sent as soon as they are gathered");
        let mut writers = self.writers.drain(..).peekable();
        while let Some(writer) = writers.next() {
            writer.after_heartbeats(together);
            if !together.is_empty() && (writers.peek().is_none() || together.total_bytes() > ANSWERS_BYTES_MAX) {
                writer.host.send(together);
                together.clear();
            }
        }
    }

    /// Whether [`Self::wake`] has left readers that owe an acknowledgement.
    #[inline]
    pub(in crate::driver) fn owes_answers(&self) -> bool {
        !self.answering.is_empty()
    }

    /// Whether so many readers owe an acknowledgement that one to each datagram would cost more than the samples.
    pub(in crate::driver) fn owes_many_answers(&self) -> bool {
        self.answering.len() >= GATHERED_FROM
    }

    /// Sends the acknowledgements of the readers that [`Self::wake`] has left.
    pub(in crate::driver) fn send_answers(&mut self, now: Instant) {
        self.answering_round.advance();
        if let [reader] = &*self.answering {
            reader.send_answers(now);
            return self.answering.clear();
        }
        let answers = &mut self.answers;
        let mut answering = self.answering.drain(..).peekable();
        while let Some(reader) = answering.next() {
            reader.put_answers(now, answers);
            if answering.peek().is_none() || answers.total_bytes() > ANSWERS_BYTES_MAX {
                reader.host.send(answers);
                answers.clear();
            }
        }
    }

    /// Leaves the acknowledgements of the readers that [`Self::wake`] has left to the next messages to the same
    /// participants.
    pub(in crate::driver) fn leave_answers(&mut self, now: Instant) {
        self.answering_round.advance();
        self.answering.drain(..).for_each(|reader| reader.leave_answers(now));
    }

    /// Queues the listeners of the readers that [`Self::notify`] has left behind user code that the calling thread runs
    /// first. Returns their number.
    pub(in crate::driver) fn queue_listeners(&mut self, now: Instant) -> usize {
        self.round.advance();
        let count = self.readers.len();
        self.readers.drain(..).for_each(|reader| reader.queue_listener_and_acknowledge(now));
        count
    }

    /// Runs the listeners of the readers that [`Self::notify`] has left, or queues them.
    pub(in crate::driver) fn run_listeners(&mut self, now: Instant) {
        self.round.advance();
        reader::run_listeners(self.readers.drain(..), now);
    }
}

fn list<E>(endpoints: &mut Vec<Arc<E>>, endpoint: &Arc<E>) {
    endpoints.push(Arc::clone(endpoint));
    debug_assert!(endpoints.len() <= LISTED_MAX, "a round has more inputs than a receive call returns");
}

#[cfg(all(test, not(loom)))]
mod tests;
