//! The timers of a reader and its pending ACKNACKs, without a search through all matched writers.

use crate::time::{Instant, Timestamp, sooner};

use super::filed_timer::FiledTimer;
use super::proxy::WriterProxy;
use super::{NO_WRITER, Reader, ReaderEvent, ReaderTimer};

/// The greatest of all timers at one instant.
const LAST_TIMER: ReaderTimer = ReaderTimer::Deadline;
impl Reader {
    /// Handles timers. Returns whether samples that waited for room may have been delivered. A driver on the hand-over
    /// path with a refused change or a pending acknowledgement then retries, as after [`Self::resume`].
    pub fn handle_timeout(&mut self, now: Instant, wall: Timestamp) -> bool {
        self.leave_current();
        let mut due = core::mem::take(&mut self.due);
        due.clear();
        self.timers.positions_up_to(FiledTimer::new(now, LAST_TIMER), &mut due);
        self.check_liveliness(now, wall, &due);
        let makes_room = self.cache.next_timeout().is_some_and(|at| at <= now);
        let released = self.cache.handle_timeout(now, &mut self.pool);
        self.count_released(released);
        let goes_on = self.stalled && (makes_room || released.samples > 0);
        if goes_on {
            self.resume(now, wall);
        }
        while let Some(instance) = self.deadline.poll_missed(now) {
            // An instance that is not alive is watched again from its next sample on.
            if self.cache.is_alive(&instance) {
                self.cache.owner_missed_deadline(&instance);
                self.events.push_back(ReaderEvent::DeadlineMissed(instance));
            } else {
                self.deadline.forget(&instance);
            }
        }
        for &index in &due {
            let index = index as usize;
            self.give_up_idle(now, index);
            let Some(writer) = self.writers.get_mut(index) else { continue };
            if writer.handle_timeout(now) {
                self.owe_acknack(index);
            } else if writer.preemptive_acknack_due(now) {
                self.list_owing(index);
            }
            self.file_timer(index);
        }
        self.due = due;
        goes_on
    }

    /// When to call [`Self::handle_timeout`] next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, ReaderTimer)> {
        let mut next = None;
        let timers = [
            self.timers.min().map(FiledTimer::timer),
            self.writers.get(self.current).and_then(WriterProxy::next_timer),
        ];
        timers.into_iter().flatten().for_each(|(at, timer)| sooner(&mut next, Some(at), timer));
        // In a crowd, this would be nearly all of the work of a build with assertions.
        debug_assert!(
            self.writers.len() > 100
                || next.map(|(at, _)| at)
                    == self.writers.iter().filter_map(|writer| Some(writer.next_timer()?.0)).min(),
            "the returned timer is the first of all writers"
        );
        sooner(&mut next, self.cache.next_timeout(), ReaderTimer::Cache);
        sooner(&mut next, self.deadline.next_deadline(), ReaderTimer::Deadline);
        next
    }

    /// Removes writers without a message within their lease from their instances.
    fn check_liveliness(&mut self, now: Instant, wall: Timestamp, due: &[u32]) {
        for &index in due {
            let Some(proxy) = self.writers.get_mut(index as usize) else { continue };
            if proxy.alive && proxy.alive_until <= now {
                proxy.alive = false;
                proxy.alive_until = Instant::FAR_FUTURE;
                self.data_available |= self.cache.writer_gone(now, proxy.info.guid, proxy.slot, wall);
                self.events.push_back(ReaderEvent::WriterNotAlive(proxy.info.guid));
            }
        }
    }

    /// Stores the timer of the current writer, so that the timers of all writers are in `timers`.
    pub(super) fn leave_current(&mut self) {
        let index = core::mem::replace(&mut self.current, NO_WRITER);
        self.file_timer(index);
    }

    /// Stores the timer of a writer after a change, unless it is the current writer.
    pub(super) fn file_timer(&mut self, index: usize) {
        if index != self.current
            && let Some(writer) = self.writers.get(index)
        {
            self.timers.set(index, writer.next_timer().map(|(at, timer)| FiledTimer::new(at, timer)));
        }
    }

    /// Schedules an ACKNACK to a writer.
    pub(super) fn owe_acknack(&mut self, index: usize) {
        if let Some(writer) = self.writers.get_mut(index) {
            writer.owes_acknack = true;
            self.list_owing(index);
        }
    }

    /// Makes [`Self::poll_transmit`] check a writer.
    pub(super) fn list_owing(&mut self, index: usize) {
        if let Some(writer) = self.writers.get_mut(index)
            && !core::mem::replace(&mut writer.is_listed_owing, true)
        {
            self.owing.push(index as u32);
        }
    }
}
