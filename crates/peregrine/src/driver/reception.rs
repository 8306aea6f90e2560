//! Who receives user data: the data thread, or a thread of the application that would only wait for it.
//!
//! A thread that waits for data and is woken by the data thread pays for two wake-ups, one of them on the way of the
//! data. One that receives by itself pays for one. So whoever waits again and again, with little in between, becomes a
//! *visitor*: it receives in place of the data thread, which sleeps meanwhile. A writer that has much under way looks
//! for its acknowledgements by itself, so that they wake nobody.
//!
//! # Who has the turn
//! Whoever holds [`Reception::hands`] receives; nothing else is needed for correctness. The rest is about who is to try:
//! - The data thread holds it while it is blocked in `recvmsg`, and keeps off it until [`Reception::lease`] is over.
//! - A visitor only ever tries. If the data thread is there, it says that it would have liked to and sleeps as usual;
//!   the data thread, when it has woken somebody, then leaves it the next turn.
//! - Each visit ends with a lease of [`LEASE`]: so long, nobody may be there. Therefore a thread is a visitor only as long as
//!   it comes back within [`SHORT`].
//!
//! # User code
//! A visitor may hold locks of the application that a listener wants too. It runs none: the data thread does
//! ([`Reception::tell_later`]).

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token, Waker};
use peregrine_transport::udp::{Datagrams, ReceiveError, Receiver, Socket, Wait};

use super::adaptive_spin::AdaptiveSpin;
use super::{NEVER, Parker, now};

/// How long nobody may be there after a visit. The data thread looks about so often while there are visits.
const LEASE: Span = Span::from_millis(1);
/// Who comes back to wait within this time is worth leaving the turn to.
const SHORT: Span = Span::from_micros(300);
/// How many waits it sits out whose visit was of use to others and not to itself.
const EXCLUSION: u32 = 64;
/// After so many windows filled in a row, none longer than a lease, a writer is in full flow.
const STREAK: u32 = 8;

/// There is no lease.
const NONE: u64 = 0;

const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);

thread_local! {
    /// This thread receives in place of the data thread.
    static IS_VISITING: Cell<bool> = const { Cell::new(false) };
    /// How many other threads this one has woken.
    static OTHERS_WOKEN: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread has woken another.
pub(super) fn note_woken() {
    OTHERS_WOKEN.set(OTHERS_WOKEN.get().wrapping_add(1));
}

/// Whether the calling thread must leave listeners to the data thread.
pub(super) fn is_visiting() -> bool {
    IS_VISITING.get()
}

/// What was received is handed over, and whom it concerns is told.
pub(crate) trait Process {
    type DirtyEndpoints;

    fn handle(&self, datagrams: &Datagrams<'_>, dirty: &mut Self::DirtyEndpoints) -> Instant;

    fn tell(&self, dirty: &mut Self::DirtyEndpoints, now: Instant);
}

/// The receiving at one socket for user data.
pub(super) struct Reception<T> {
    socket: Arc<Socket>,
    hands: Mutex<Hands<T>>,
    /// Until when the data thread keeps away.
    lease: AtomicU64,
    /// Visits so far.
    visits: AtomicU64,
    /// Somebody waits for the data thread who would rather have come.
    is_wanted: AtomicBool,
    /// The data thread sleeps until a visit ends.
    is_asleep: AtomicBool,
    data_thread: OnceLock<Arc<Parker>>,
    /// Ends the sleep of the visitor.
    waker: Arc<Waker>,
    news: Mutex<Vec<Telling>>,
    has_news: AtomicBool,
    is_closing: AtomicBool,
    flow: Flow,
}

/// What one receives with.
struct Hands<T> {
    receiver: Receiver,
    /// What visitors wait with, once there have been any.
    poller: Option<Poller>,
    adaptive_spin: AdaptiveSpin,
    dirty: T,
}

/// Tells a listener something.
type Telling = Box<dyn FnOnce() + Send>;

/// How a visit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visit {
    OfUse,
    OfNoUse,
    /// Nothing can be received this way.
    Impossible,
}

/// What a visitor was woken by.
#[derive(Clone, Copy, Default)]
struct Ready {
    socket: bool,
    waker: bool,
}

impl Ready {
    fn with(self, token: Token) -> Self {
        Self { socket: self.socket || token == SOCKET, waker: self.waker || token == WAKER }
    }
}

/// Whether writers keep filling their windows.
#[derive(Default)]
struct Flow {
    last_filled: AtomicU64,
    streak: AtomicU32,
}

impl<T: Default> Reception<T> {
    pub(super) fn new(socket: Arc<Socket>, receiver: Receiver) -> std::io::Result<Self> {
        Ok(Self {
            socket,
            hands: Mutex::new(Hands {
                receiver,
                poller: None,
                adaptive_spin: AdaptiveSpin::for_datagrams(),
                dirty: T::default(),
            }),
            lease: AtomicU64::new(NONE),
            visits: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
            data_thread: OnceLock::new(),
            waker: Arc::new(Waker::new()?),
            news: Mutex::new(Vec::new()),
            has_news: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            flow: Flow::default(),
        })
    }

    /// What the data thread does, until the socket is shut down.
    pub(super) fn run(&self, by: &impl Process<DirtyEndpoints = T>) {
        let parker = Parker::of_this_thread();
        let _ = self.data_thread.set(Arc::clone(&parker));
        let mut dirty = T::default();
        let mut seen = 0;
        while !self.is_closing() {
            self.tell_news();
            let lease = self.lease.load(Ordering::SeqCst);
            if lease != NONE {
                if lease > now().0 {
                    parker.park_until(Instant(lease));
                } else {
                    // Unless it has been extended meanwhile.
                    let _ = self.lease.compare_exchange(lease, NONE, Ordering::SeqCst, Ordering::SeqCst);
                }
                continue;
            }
            let Some(hands) = self.try_hands() else {
                let visits = self.visits.load(Ordering::Relaxed);
                if std::mem::replace(&mut seen, visits) == visits {
                    self.sleep_through_visit(&parker);
                } else {
                    parker.park_until(now() + LEASE);
                }
                continue;
            };
            if self.has_news.load(Ordering::SeqCst) {
                // From who had the hands before. It does not end a wait at the socket.
                continue;
            }
            if let Err(error) = self.receive_here(hands, by, &mut dirty) {
                if !matches!(error, ReceiveError::ShutDown) {
                    tracing::error!(%error, address = %self.socket.local_address(), "receiving has ended");
                }
                return;
            }
            if self.is_wanted.swap(false, Ordering::Relaxed) {
                self.extend_lease(now());
            }
        }
    }

    fn receive_here(
        &self,
        mut hands: MutexGuard<'_, Hands<T>>,
        by: &impl Process<DirtyEndpoints = T>,
        dirty: &mut T,
    ) -> Result<(), ReceiveError> {
        let Hands { receiver, adaptive_spin, .. } = &mut *hands;
        let (datagrams, asleep_since) = self.wait_for_data(receiver, adaptive_spin)?;
        let now = by.handle(&datagrams, dirty);
        if let Some(since) = asleep_since {
            adaptive_spin.on_sleep(since, now);
        }
        // Listeners may take long, and may wait themselves.
        drop(hands);
        by.tell(dirty, now);
        Ok(())
    }

    /// The next datagrams: looked for if they are about to come, else slept for, since when is told.
    fn wait_for_data<'r>(
        &self,
        receiver: &'r mut Receiver,
        adaptive_spin: &mut AdaptiveSpin,
    ) -> Result<(Datagrams<'r>, Option<Instant>), ReceiveError> {
        let since = now();
        if let Some(until) = adaptive_spin.until(since) {
            while now() < until {
                if receiver.receive(&self.socket, Wait::NonBlocking)?.len() > 0 {
                    return Ok((receiver.datagrams(), None));
                }
                std::hint::spin_loop();
            }
            adaptive_spin.on_miss();
        }
        Ok((receiver.receive(&self.socket, Wait::Block)?, Some(since)))
    }

    /// The visitor has been there for as long as a lease: the data thread leaves it alone until it goes.
    fn sleep_through_visit(&self, parker: &Parker) {
        self.is_asleep.store(true, Ordering::SeqCst);
        // The visitor goes first, then looks at `is_asleep`.
        fence(Ordering::SeqCst);
        if self.try_hands().is_none() {
            parker.park_until(Instant(NEVER));
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// Receives on the calling thread until `parker` is woken or `end` has come. `false`: it is not its turn, and it is
    /// to sleep.
    pub(super) fn visit(&self, parker: &Parker, end: Instant, by: &impl Process<DirtyEndpoints = T>) -> bool {
        let Some(hands) = self.begin_visit(parker) else { return false };
        let ended = self.receive_until_woken(hands, parker, end, by);
        parker.is_awake();
        let lease = if ended == Visit::OfUse { (now() + LEASE).0 } else { NONE };
        self.lease.store(lease, Ordering::SeqCst);
        self.let_go(ended != Visit::OfUse);
        ended != Visit::Impossible
    }

    /// To be called by whoever has held [`Self::hands`] in place of the data thread, once the lock is free.
    fn let_go(&self, wants_data_thread: bool) {
        // The data thread says that it sleeps, then looks whether somebody is still there.
        fence(Ordering::SeqCst);
        if wants_data_thread || self.is_asleep.load(Ordering::SeqCst) {
            self.wake_data_thread();
        }
    }

    fn begin_visit(&self, parker: &Parker) -> Option<MutexGuard<'_, Hands<T>>> {
        let now = now();
        let is_welcome = parker.visits.was_back_within(SHORT, now) || self.lease.load(Ordering::SeqCst) > now.0;
        if !is_welcome || parker.visits.is_excluded() || self.is_closing() {
            return None;
        }
        let hands = self.try_hands();
        if hands.is_none() {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
        hands
    }

    fn receive_until_woken(
        &self,
        mut hands: MutexGuard<'_, Hands<T>>,
        parker: &Parker,
        end: Instant,
        by: &impl Process<DirtyEndpoints = T>,
    ) -> Visit {
        self.visits.fetch_add(1, Ordering::Relaxed);
        let others_woken = OTHERS_WOKEN.get();
        parker.receives_at(&self.waker);
        while !parker.is_woken_before_sleep() {
            let Some(has_received) = self.wait_visiting(&mut hands, parker, end, by) else { return Visit::Impossible };
            parker.is_awake();
            if has_received && OTHERS_WOKEN.get() != others_woken && !parker.is_woken() {
                // What comes is for others, for whom this is a socket_barrier.
                parker.visits.exclude(EXCLUSION);
                return Visit::OfNoUse;
            }
            // What keeps coming may concern nobody.
            if !parker.is_woken() && now() >= end {
                break;
            }
        }
        Visit::OfUse
    }

    /// Waits until something has come or `parker` is woken, as a visitor. Says whether something has; `None` when
    /// nothing can be received this way.
    fn wait_visiting(
        &self,
        hands: &mut Hands<T>,
        parker: &Parker,
        end: Instant,
        by: &impl Process<DirtyEndpoints = T>,
    ) -> Option<bool> {
        let Hands { receiver, poller, adaptive_spin, dirty } = hands;
        let poller = self.poller(poller)?;
        let since = now();
        if let Some(until) = adaptive_spin.until(since) {
            while now() < until {
                if parker.is_woken() || self.receive_visiting(receiver, dirty, by)? {
                    return Some(true);
                }
            }
            adaptive_spin.on_miss();
        }
        let ready = match poller.wait((end.0 != NEVER).then_some(MonotonicNs(end.0))) {
            Ok(tokens) => tokens.fold(Ready::default(), Ready::with),
            Err(error) => {
                tracing::error!(%error, "cannot wait for data in place of the data thread");
                return None;
            }
        };
        if ready.waker {
            self.waker.clear();
        }
        if !ready.socket {
            return Some(false);
        }
        adaptive_spin.on_sleep(since, now());
        self.receive_visiting(receiver, dirty, by)
    }

    /// Looks for what has come, and is back at once. For writers that expect acknowledgement.
    pub(super) fn glance(&self, by: &impl Process<DirtyEndpoints = T>) {
        let Some(mut guard) = self.try_hands() else { return };
        let hands = &mut *guard;
        self.receive_visiting(&mut hands.receiver, &mut hands.dirty, by);
        drop(guard);
        self.let_go(false);
    }

    /// A writer has filled a good part of its window. Whoever goes on like that looks for acknowledgements itself.
    pub(super) fn note_filled(&self, now: Instant) {
        let last = self.flow.last_filled.swap(now.0, Ordering::Relaxed);
        if now.0.saturating_sub(last) > LEASE.0 {
            self.flow.streak.store(0, Ordering::Relaxed);
        } else if self.flow.streak.load(Ordering::Relaxed) >= STREAK {
            self.extend_lease(now);
        } else {
            self.flow.streak.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has the data thread tell a listener, soon.
    pub(super) fn tell_later(&self, tell: impl FnOnce() + Send + 'static) {
        self.news().push(Box::new(tell));
        self.has_news.store(true, Ordering::SeqCst);
        self.wake_data_thread();
        if self.is_closing() {
            // Nobody will come for it any more.
            let forgotten = std::mem::take(&mut *self.news());
            drop(forgotten);
        }
    }

    /// The domain is being closed; its sockets are shut down.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        let forgotten = std::mem::take(&mut *self.news());
        drop(forgotten);
        self.wake_data_thread();
    }

    fn tell_news(&self) {
        if self.has_news.load(Ordering::SeqCst) {
            self.has_news.store(false, Ordering::SeqCst);
            let news = std::mem::take(&mut *self.news());
            news.into_iter().for_each(|tell| tell());
        }
    }

    fn news(&self) -> MutexGuard<'_, Vec<Telling>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    fn wake_data_thread(&self) {
        if let Some(parker) = self.data_thread.get() {
            parker.unpark();
        }
    }

    /// Takes what has come, and says whether anything has; `None` when nothing can be received any more.
    fn receive_visiting(
        &self,
        receiver: &mut Receiver,
        dirty: &mut T,
        by: &impl Process<DirtyEndpoints = T>,
    ) -> Option<bool> {
        let datagrams = receiver.receive(&self.socket, Wait::NonBlocking).ok()?;
        if datagrams.len() == 0 {
            return Some(false);
        }
        let visiting = Visiting::begin();
        let now = by.handle(&datagrams, dirty);
        by.tell(dirty, now);
        drop(visiting);
        Some(true)
    }

    fn poller<'p>(&self, poller: &'p mut Option<Poller>) -> Option<&'p mut Poller> {
        if poller.is_none() {
            let made = Poller::new().and_then(|made| {
                made.add(&*self.socket, SOCKET)?;
                made.add(&*self.waker, WAKER)?;
                Ok(made)
            });
            match made {
                Ok(made) => *poller = Some(made),
                Err(error) => tracing::warn!(%error, "threads that wait for data will not receive it themselves"),
            }
        }
        poller.as_mut()
    }

    fn extend_lease(&self, now: Instant) {
        self.lease.store((now + LEASE).0, Ordering::SeqCst);
    }

    fn try_hands(&self) -> Option<MutexGuard<'_, Hands<T>>> {
        match self.hands.try_lock() {
            Ok(hands) => Some(hands),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The calling thread visits, as long as this exists.
struct Visiting;

impl Visiting {
    fn begin() -> Self {
        IS_VISITING.set(true);
        Self
    }
}

impl Drop for Visiting {
    fn drop(&mut self) {
        IS_VISITING.set(false);
    }
}

/// What is known of a thread as a visitor. Only that thread uses it.
#[derive(Default)]
pub(super) struct Visits {
    /// When it last ceased to wait.
    left: AtomicU64,
    /// How many waits it sits out.
    excluded: AtomicU32,
}

impl Visits {
    /// It waits no more, for now.
    pub(super) fn note_left(&self, now: Instant) {
        self.left.store(now.0, Ordering::Relaxed);
    }

    fn was_back_within(&self, time: Span, now: Instant) -> bool {
        now.0.saturating_sub(self.left.load(Ordering::Relaxed)) <= time.0
    }

    fn exclude(&self, waits: u32) {
        self.excluded.store(waits, Ordering::Relaxed);
    }

    fn is_excluded(&self) -> bool {
        let left = self.excluded.load(Ordering::Relaxed);
        self.excluded.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }
}

#[cfg(test)]
mod tests;
