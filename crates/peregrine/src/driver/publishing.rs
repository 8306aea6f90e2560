//! Asynchronous writers that have something to send, and others that nobody could stay with until all had left; and who sends
//! it: one thread of the domain, or whoever polls.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use peregrine_rtps::time::Instant;

use super::listener_gate::Deferring;
use super::writer::WriterCore;
use super::{NEVER, Parker, now};

/// The writers that have something to send.
#[derive(Default)]
pub(super) struct Publishing {
    turns: Mutex<Turns>,
    has_turns: AtomicBool,
    thread: OnceLock<Arc<Parker>>,
    is_started: Mutex<bool>,
}

#[derive(Default)]
struct Turns {
    /// Each writer once, and from when on its flow controller lets it send.
    queue: VecDeque<(Instant, Arc<WriterCore>)>,
    is_closed: bool,
}

/// How a writer's turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublishOutcome {
    /// There is more, which others may have their turn before.
    Again,
    /// There is more, which has to wait so long.
    At(Instant),
    /// It says so when there is more.
    Done,
}

impl Publishing {
    /// Starts what publishes, the first time only.
    pub(super) fn start<E>(&self, start: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut is_started = self.is_started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_started {
            start()?;
            *is_started = true;
        }
        Ok(())
    }

    /// What the publishing thread does, until the domain closes.
    pub(super) fn run(&self) {
        let parker = Parker::of_this_thread();
        // Whoever adds a writer adds it first, then looks who is to be woken.
        let _ = self.thread.set(Arc::clone(&parker));
        let _no_user_code = Deferring::begin();
        while !self.turns().is_closed {
            let next = self.run_ready_writers();
            if next > now().0 {
                parker.park_until(Instant(next));
            }
        }
    }

    /// Gives each writer its turn whose time has come; returns the time of the next one.
    pub(super) fn run_ready_writers(&self) -> u64 {
        let now = now();
        let writers = self.turns().queue.len();
        for _ in 0..writers {
            let Some((at, writer)) = self.turns().queue.pop_front() else { break };
            let at = if at > now {
                at
            } else {
                match writer.publish() {
                    PublishOutcome::Again => Instant(0),
                    PublishOutcome::At(at) => at,
                    PublishOutcome::Done => continue,
                }
            };
            self.put(at, writer);
        }
        // Of those too that were added meanwhile: a listener that waited may have slept through the call.
        let turns = self.turns();
        self.has_turns.store(!turns.queue.is_empty(), Ordering::Release);
        turns.queue.iter().map(|(at, _)| at.0).min().unwrap_or(NEVER)
    }

    /// Whether a round may be of use.
    #[inline]
    pub(super) fn has_turns(&self) -> bool {
        self.has_turns.load(Ordering::Acquire)
    }

    /// A writer has something to send, and is not among these.
    pub(super) fn add(&self, writer: Arc<WriterCore>) {
        self.put(Instant(0), writer);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// A writer is gone for good.
    pub(super) fn remove(&self, writer: &WriterCore) {
        self.turns().queue.retain(|(_, queued)| queued.guid != writer.guid);
    }

    /// Nobody has a turn any more.
    pub(super) fn close(&self) {
        let mut turns = self.turns();
        turns.is_closed = true;
        let left = std::mem::take(&mut turns.queue);
        drop(turns);
        drop(left);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn put(&self, at: Instant, writer: Arc<WriterCore>) {
        let mut turns = self.turns();
        if !turns.is_closed {
            turns.queue.push_back((at, writer));
            self.has_turns.store(true, Ordering::Release);
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
