//! The threads that take samples, in turns: the shared-memory thread, and threads of the application that wait.
//!
//! | thread | when it takes |
//! |---|---|
//! | shared-memory thread | whenever no thread of the application leads; it sleeps as a *follower*, without the lock |
//! | thread of the application that waits for data | it *leads*: it holds the lock while it sleeps, and each sample wakes that one thread |
//!
//! A leader runs no user code. When it returns to the application, it hands over to the follower, which costs a store,
//! a fence and a look at the rings, and wakes no thread unless a sample has arrived meanwhile.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

use peregrine_rtps::time::Instant;
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::shm::{self, Follower, Interrupt, Wake};

use super::super::relief::Taker;
use super::super::services::ShmHost;
use super::lead_history::LeadHistory;
use super::{Attachments, Command, DeferredActions, Incoming, Request, ShmReceiver};
use crate::config::WaitStrategy;
use crate::driver::base::adaptive_spin::AdaptiveSpin;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::parker::{EndSleep, OthersWoken, Parker, Place, WakesFor};
use crate::driver::base::user_code::{self, Deferring};
use crate::driver::base::writes::Writes;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;

/// Number of rounds with samples after which the shared-memory thread does not spin, once a thread of the application
/// has led or has found the lock taken. The shared-memory thread holds the lock while it spins.
const APPLICATION_CREDIT: u32 = 16;
/// Number of batches that a leader takes after those for which it was woken, before it wakes the follower instead.
const LAST_BATCHES: u32 = 4;

/// How the lead of an application thread has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeadEnd {
    /// The thread was woken, its time is over, or messages are to be handled without the lock.
    Woken,
    /// The thread has received for others too often.
    Useless,
    /// The domain closes.
    Closing,
}

/// A thread of the application that leads. The drop hands over.
pub(in crate::driver::shm) struct Leading<'i> {
    of: &'i Incoming,
    receiver: shm::Leading<'i, ShmReceiver, Command, Request>,
}

/// The working set of a leader for its rounds.
struct Rounds<'a> {
    dirty: DirtyEndpoints,
    /// Actions that must run without the lock: they end the lead.
    acts: DeferredActions,
    /// Number of samples.
    samples: usize,
    host: &'a dyn ShmHost,
    shared: &'a dyn Attachments,
}

/// The result of a round.
struct Round {
    /// Number of samples.
    taken: usize,
    has_listeners: bool,
}

impl EndSleep for Interrupt {
    fn end_sleep(&self) {
        self.interrupt();
    }
}

impl Incoming {
    /// The shared-memory thread, until no channel is left, the domain closes, or another thread has replaced this one.
    /// To be called again after a panic.
    pub(in crate::driver) fn run(&self, taker: Taker, host: &dyn ShmHost, shared: &dyn Attachments) {
        if !self.relief.begin(taker) {
            return;
        }
        let spin = fixed_spin(host);
        let mut dirty = DirtyEndpoints::default();
        let mut adaptive_spin = AdaptiveSpin::for_memory();
        let mut follower = self.receiver.follower();
        while !self.receiver.is_closing() {
            let no_user_code = Deferring::begin();
            let Some(mut receiver) = self.receiver.lock_as_follower(&mut follower) else { continue };
            self.process_commands(&mut receiver, &mut dirty, shared);
            if receiver.channels.is_empty() && receiver.news.is_empty() && self.receiver.commands.has_ended() {
                return;
            }
            let at = now();
            let has_taken = receiver.reader.is_ready() && receiver.take(at, &mut dirty, shared) > 0;
            if has_taken {
                self.spend_credit();
            } else {
                receiver.handle_messages_and_ends(shared);
                let is_idle = dirty.is_empty() && !receiver.has_to_act() && !self.receiver.commands.has_some();
                if is_idle && !user_code::has_deferred() && !receiver.channels.is_empty() {
                    self.follow(receiver, &mut follower, at, spin, &mut adaptive_spin);
                    continue;
                }
            }
            let acts = receiver.deferred_actions(has_taken);
            drop(receiver);
            let wakes = WakesFor::samples_at(Place::SharedMemory);
            dirty.notify(at);
            drop(wakes);
            acts.perform(host);
            // Tasks that were woken, too, run where the control thread sees how long they take.
            if dirty.has_listeners() || user_code::has_deferred() {
                host.arm(self.relief.begin_listeners(at));
                // Before any user code runs here, listeners behind a deferred waker, destructor or log event are in the
                // queue: if that code blocks, another thread takes them.
                let queued = host.queue_behind_deferred(&mut dirty, at);
                drop(no_user_code);
                if queued > 0 {
                    host.run_queued(queued);
                } else {
                    dirty.run_listeners(at);
                }
                if !self.relief.end_listeners(taker) {
                    return;
                }
            }
        }
    }

    /// The shared-memory thread waits until there is a sample to take, or a command to execute. Spins for `spin`, or
    /// while a stream is expected, then sleeps without the lock; `since` is the current time.
    fn follow(
        &self,
        mut receiver: MutexGuard<'_, ShmReceiver>,
        follower: &mut Follower,
        since: Instant,
        spin: Duration,
        adaptive_spin: &mut AdaptiveSpin,
    ) {
        let may_spin = self.application_credit.load(Ordering::Relaxed) == 0;
        let look = if may_spin { adaptive_spin.time_from(since) } else { Duration::ZERO };
        if may_spin && !spin.max(look).is_zero() {
            let has_come = receiver.reader.spin(spin.max(look), None).is_some();
            match (has_come, look.is_zero()) {
                (true, false) => adaptive_spin.on_hit(),
                (false, false) => adaptive_spin.on_miss(),
                (_, true) => {}
            }
            if has_come {
                return;
            }
        }
        if self.receiver.follow(receiver, follower) && look.is_zero() {
            adaptive_spin.on_sleep(since, now());
        }
    }

    fn spend_credit(&self) {
        let credit = self.application_credit.load(Ordering::Relaxed);
        if credit > 0 {
            self.application_credit.store(credit - 1, Ordering::Relaxed);
        }
    }

    /// Leads on the calling thread until `parker` is woken or `end` is reached. Returns `false` if the thread cannot
    /// lead now and has to sleep until it is woken.
    pub(in crate::driver) fn lead_until_woken(
        &self,
        parker: &Parker,
        end: Instant,
        host: &dyn ShmHost,
        shared: &dyn Attachments,
    ) -> bool {
        if LeadHistory::of_this_thread(LeadHistory::is_excluded) || self.receiver.is_closing() {
            return false;
        }
        self.application_credit.store(APPLICATION_CREDIT, Ordering::Relaxed);
        let no_user_code = Deferring::begin();
        let Some(mut leading) = self.try_lead() else {
            LeadHistory::of_this_thread(LeadHistory::on_wait_without_lead);
            return false;
        };
        let dirty = leading.receiver.spare_dirty.take().unwrap_or_default();
        let mut rounds = Rounds { dirty, acts: DeferredActions::default(), samples: 0, host, shared };
        parker.receives_at(self.receiver.leader_interrupt());
        let lead_end = leading.receive_until_woken(parker, end, &mut rounds);
        parker.is_awake();
        leading.take_rest(&mut rounds);
        let Rounds { dirty, acts, samples, .. } = rounds;
        leading.receiver.spare_dirty = Some(dirty);
        drop(leading);
        acts.perform(host);
        // Wakers of tasks may want locks of the calling thread.
        host.queue_deferred_user_code();
        drop(no_user_code);
        let is_woken = lead_end == LeadEnd::Woken;
        LeadHistory::of_this_thread(|history| match is_woken {
            true => history.on_leave(now(), samples, Writes::so_far()),
            false => history.on_wait_without_lead(),
        });
        is_woken
    }

    pub(in crate::driver::shm) fn try_lead(&self) -> Option<Leading<'_>> {
        Some(Leading { of: self, receiver: self.receiver.try_lead()? })
    }
}

impl Leading<'_> {
    fn receive_until_woken(&mut self, parker: &Parker, end: Instant, rounds: &mut Rounds<'_>) -> LeadEnd {
        let mut others_woken = OthersWoken::so_far();
        // Deferred messages and ends of channels are due in a round without samples.
        let mut may_wait = false;
        while !parker.is_woken_before_sleep() {
            if may_wait {
                self.wait(end);
            }
            parker.is_awake();
            if self.of.receiver.is_closing() {
                return LeadEnd::Closing;
            }
            let at = now();
            let round = self.take(at, rounds);
            may_wait = round.taken == 0;
            let is_woken = parker.is_woken();
            if round.taken > 0 && !is_woken {
                let is_for_others = others_woken.are_more() || round.has_listeners;
                if is_for_others && !LeadHistory::of_this_thread(LeadHistory::leads_on_after_others) {
                    return LeadEnd::Useless;
                }
                others_woken = OthersWoken::so_far();
            }
            // Samples that keep arriving may concern no thread.
            if !rounds.acts.is_empty() || !is_woken && now() >= end {
                return LeadEnd::Woken;
            }
        }
        LeadEnd::Woken
    }

    /// Takes a batch of samples, wakes the threads that wait for them, and queues listeners.
    fn take(&mut self, at: Instant, rounds: &mut Rounds<'_>) -> Round {
        let Rounds { dirty, acts, samples, host, shared } = rounds;
        debug_assert!(acts.is_empty(), "earlier actions precede later samples");
        let receiver = &mut *self.receiver;
        self.of.process_commands(receiver, dirty, *shared);
        let taken = if receiver.reader.is_ready() { receiver.take(at, dirty, *shared) } else { 0 };
        if taken == 0 {
            receiver.handle_messages_and_ends(*shared);
        }
        *samples += taken;
        *acts = receiver.deferred_actions(taken > 0);
        let wakes = WakesFor::samples_at(Place::SharedMemory);
        dirty.notify(at);
        drop(wakes);
        let has_listeners = dirty.has_listeners() || user_code::has_deferred();
        if has_listeners {
            host.queue_listeners(dirty, at);
        }
        Round { taken, has_listeners }
    }

    /// Takes what has arrived since, so that the follower does not wake up for it, and handles what the last samples
    /// have brought to light: messages of writers, and ends of channels.
    fn take_rest(&mut self, rounds: &mut Rounds<'_>) {
        for _ in 0..LAST_BATCHES {
            if !rounds.acts.is_empty() || !self.receiver.reader.is_ready() {
                break;
            }
            self.take(now(), rounds);
        }
        self.receiver.handle_messages_and_ends(rounds.shared);
    }

    /// Waits until there is a sample, a command, or an interrupt.
    fn wait(&mut self, end: Instant) {
        let deadline = (end.0 != NEVER).then_some(MonotonicNs(end.0));
        let ShmReceiver { reader, application_spin, .. } = &mut *self.receiver;
        let since = now();
        let look = application_spin.time_from(since);
        let wake = reader.spin(look, deadline);
        if !look.is_zero() {
            match wake {
                Some(Wake::Ready | Wake::Interrupted) => application_spin.on_hit(),
                Some(Wake::TimedOut) => {}
                None => application_spin.on_miss(),
            }
        }
        if wake.is_some() || self.of.receiver.is_due() {
            return;
        }
        let sleeps = reader.sleeps();
        reader.wait(Duration::ZERO, deadline);
        if look.is_zero() && reader.sleeps() > sleeps {
            application_spin.on_sleep(since, now());
        }
    }
}

/// The time for which threads spin independent of the traffic.
fn fixed_spin(host: &dyn ShmHost) -> Duration {
    match host.config().wait {
        WaitStrategy::SpinThenBlock(spin) => spin,
        WaitStrategy::Block | WaitStrategy::Poll => Duration::ZERO,
    }
}
