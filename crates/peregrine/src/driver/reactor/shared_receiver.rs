//! Leader/followers reception at one socket.
//!
//! One thread at a time *leads*: the leader holds [`SharedReceiver::lead`], waits at the socket and processes datagrams
//! in the order of arrival. A leader runs no user code. The other threads of the receiver are *followers*, which sleep
//! in one epoll instance, in which the socket is *armed* as long as no thread leads.
//!
//! | thread | when it leads |
//! |---|---|
//! | receive thread | as long as no application thread wants the lead: blocked in `recvmsg`, one system call for each wait |
//! | application thread that waits for data | at any rate of traffic: each sample wakes that one thread. [`APPLICATION_CREDIT`] |
//! | writer of a dense flow | for one poll at a time ([`SharedReceiver::poll_for_acknowledgement`]) |
//!
//! # Invariant
//! At every moment a thread leads, or the socket is armed, or a thread is between the two: between its wake-up as a
//! follower and its attempt to lead, or between giving up the lead and arming. No timer is involved, and no thread runs
//! user code in between. A leader that leaves (to run a listener, or to return to the application) first gives up the
//! lead, then arms the socket, which costs a quarter of a microsecond and wakes no thread unless a datagram has arrived
//! meanwhile.
//!
//! # Answers
//! A leader sends the acknowledgements that its readers owe before it sleeps. If many readers owe one, the leader first
//! processes the datagrams that have arrived meanwhile, and one acknowledgement of each reader answers all of them. An
//! application thread that returns to the application with data leaves the acknowledgements, because a sample must not
//! wait for a system call. They travel with the samples that the application writes to the same participant
//! (`net::left_answers`); otherwise the thread sends them when it waits again, or a receive thread sends them with the
//! next datagram, or after [`ANSWER_DELAY_MAX`]. After a receive thread had to send them, application threads answer at
//! once for the next [`PROMPT_WAITS`] waits.
//!
//! [`ANSWER_DELAY_MAX`]: super::answer_timer::ANSWER_DELAY_MAX
//!
//! # Threads
//! A receive thread that is about to run a listener makes sure that there is a *spare* thread: one that neither leads
//! nor runs user code, but follows, or is about to ([`SpareThreads`]). A blocked listener therefore occupies one
//! thread, and no other thread waits for it. The number of threads is at most the number of concurrent listeners plus
//! three. A follower wakes up at once on an idle core, but does not interrupt a running thread while application
//! threads lead ([`Process::set_interrupts`]). The control thread passes listeners that wait behind a long call to
//! another thread ([`crate::driver::host::listener_queue::LISTENER_TIME_MAX`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::Token;
use peregrine_transport::udp::{ReceiveError, Wait};
use tracing::Level;

use super::answer_timer::AnswerTimer;
use super::spare_threads::SpareThreads;
use crate::driver::base::adaptive_spin::AdaptiveSpin;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::lead_balance::LeadBalance;
use crate::driver::base::parker::{OthersWoken, Parker};
use crate::driver::base::sync::try_lock_leaf;
use crate::driver::base::system::{
    AtomicBool, AtomicU32, AtomicUsize, Datagrams, Mutex, MutexGuard, Poller, Receiver, Socket, Waker, fence,
};
use crate::driver::base::user_code::{Deferring, log};

/// Number of receptions for which receive threads follow and keep the lead free, after an application thread has led or
/// has found the lead taken. An application thread that waits rarely may find the lead taken; the leader then wakes it.
const APPLICATION_CREDIT: u32 = 16;
/// Maximum number of consecutive receptions of a follower before another thread may lead.
const FOLLOWER_RECEPTIONS_MAX: u32 = 64;

/// Receptions whose answers a leader gathers at most, and how long the first one waits at most.
const GATHERED_RECEPTIONS_MAX: u32 = 64;
const GATHERED_TIME_MAX: Span = Span::from_millis(1);

/// How many waits application threads answer at once after a receive thread had to answer for one.
const PROMPT_WAITS: u32 = 64;

/// Followers that sleep at a time. One could do; with two, a thread that returns from a listener does not end just when
/// the other one wakes up, to be started again for the next listener.
const IDLE_FOLLOWERS_MAX: usize = 2;

const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);
const ANSWERS: Token = Token(2);

/// The processing of received datagrams.
pub(in crate::driver) trait Process {
    /// The endpoints concerned, from [`Self::handle`] until their notification.
    type Dirty: Default;

    /// Processes datagrams. The caller leads.
    fn handle(&self, datagrams: &Datagrams<'_>, dirty: &mut Self::Dirty) -> Instant;

    /// Wakes waiters. Endpoints whose listener is to be run, and those that owe answers, stay in `dirty`. Under the
    /// lead.
    fn wake(&self, dirty: &mut Self::Dirty, now: Instant);

    /// Whether an endpoint owes an answer.
    fn owes_answers(&self, dirty: &Self::Dirty) -> bool;

    /// Whether so many endpoints owe answers that those to several datagrams are to be gathered.
    fn owes_many_answers(&self, dirty: &Self::Dirty) -> bool;

    /// Sends the answers that are owed. Under the lead.
    fn send_answers(&self, dirty: &mut Self::Dirty, now: Instant);

    /// Leaves the answers that are owed to messages that the application writes. Under the lead.
    fn leave_answers(&self, dirty: &mut Self::Dirty, now: Instant);

    /// Sends the answers that were left and that no message has taken along.
    fn send_left_answers(&self);

    /// Whether listeners have to run.
    fn has_listeners(&self, dirty: &Self::Dirty) -> bool;

    /// If user code of the calling thread is deferred: queues that code, and listeners behind it, for
    /// [`Self::run_queued`] on the same thread. Returns the number of queued calls. Under a [`Deferring`] guard.
    fn queue_behind_deferred(&self, dirty: &mut Self::Dirty, now: Instant) -> usize;

    /// Runs up to `most` queued calls.
    fn run_queued(&self, most: usize);

    /// Runs listeners, or queues them if the calling thread must not run user code.
    fn run_listeners(&self, dirty: &mut Self::Dirty, now: Instant);

    /// Sets whether the calling receive thread interrupts a running thread when the receive thread wakes up.
    fn set_interrupts(&self, interrupts: bool);

    /// Starts another thread that [runs](SharedReceiver::run) the receiver. Returns whether that was possible.
    fn start_thread(&self) -> bool;
}

/// See the [module](self).
pub(in crate::driver) struct SharedReceiver<D> {
    socket: Arc<Socket>,
    lead: Mutex<Lead<D>>,
    /// The poller at which followers sleep: for the socket while it is armed, and for `end`.
    followers: Poller,
    is_armed: AtomicBool,
    /// Wakes all followers when the receiver closes.
    end: Waker,
    /// Wakes an application thread that leads.
    leader_waker: Arc<Waker>,
    application_credit: AtomicU32,
    /// Has a follower send answers that an application thread has left.
    answers_due: AnswerTimer,
    /// Waits for which application threads answer at once.
    prompt_waits: AtomicU32,
    /// Followers that sleep or are about to.
    idle_followers: AtomicUsize,
    /// Receive threads that neither lead nor run user code, from their start on.
    spare: SpareThreads,
    is_closing: AtomicBool,
    /// Whether application threads may lead.
    is_open_to_application: bool,
    /// The time that a receive thread spins before it blocks, independent of the traffic.
    spin: Duration,
}

/// The state with which the leader receives.
struct Lead<D> {
    receiver: Receiver,
    /// The poller of application threads, created when the first one leads.
    poller: Option<Poller>,
    adaptive_spin: AdaptiveSpin,
    dirty: D,
    /// Whether there are answers that an application thread has left; that thread sets [`SharedReceiver::answers_due`].
    has_left_answers: bool,
}

/// The end of an application thread's lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeadEnd {
    /// The thread was woken, or its time was over.
    Woken,
    /// The thread has received for others too often.
    Useless,
    /// The thread cannot wait at the socket.
    Impossible,
}

/// The right to receive. [`Leading::give_up`] or a panic gives it up.
struct Leading<'r, D> {
    of: &'r SharedReceiver<D>,
    lead: Option<MutexGuard<'r, Lead<D>>>,
    _no_user_code: Deferring,
}

impl<D: Default> SharedReceiver<D> {
    /// A receiver that the caller [runs](Self::run) on one thread.
    pub(in crate::driver) fn new(
        socket: Arc<Socket>,
        receiver: Receiver,
        spin: Duration,
        is_open_to_application: bool,
    ) -> std::io::Result<Self> {
        let (followers, end, answers_due) = (Poller::new()?, Waker::new()?, AnswerTimer::new()?);
        followers.add_disarmed(&*socket, SOCKET)?;
        followers.add(&end, WAKER)?;
        followers.add_disarmed(answers_due.timer(), ANSWERS)?;
        followers.arm(answers_due.timer(), ANSWERS)?;
        // No thread leads yet.
        followers.arm(&*socket, SOCKET)?;
        Ok(Self {
            socket,
            lead: Mutex::new(Lead {
                receiver,
                poller: None,
                adaptive_spin: AdaptiveSpin::for_datagrams(),
                dirty: D::default(),
                has_left_answers: false,
            }),
            followers,
            is_armed: AtomicBool::new(true),
            end,
            leader_waker: Arc::new(Waker::new()?),
            application_credit: AtomicU32::new(0),
            answers_due,
            prompt_waits: AtomicU32::new(0),
            idle_followers: AtomicUsize::new(0),
            spare: SpareThreads::new(1),
            is_closing: AtomicBool::new(false),
            is_open_to_application,
            spin,
        })
    }

    /// The loop of a receive thread, until the receiver closes or enough other threads follow.
    pub(in crate::driver) fn run(&self, by: &impl Process<Dirty = D>) {
        while !self.is_closing() {
            let lead = if self.application_credit.load(Ordering::Relaxed) == 0 { self.try_lead() } else { None };
            match lead {
                Some(leading) => {
                    let _busy = self.spare.begin_busy();
                    self.lead_blocking(leading, by);
                }
                None if self.follow(by) => {}
                None if self.spare.may_end() => return,
                None => {}
            }
        }
    }

    /// Leads until there are listeners to run, or an application thread wants the lead.
    fn lead_blocking(&self, mut leading: Leading<'_, D>, by: &impl Process<Dirty = D>) {
        by.set_interrupts(true);
        leading.disarm();
        loop {
            let Some(now) = leading.receive_blocking(self, by) else { return leading.give_up() };
            let has_listeners = by.has_listeners(leading.dirty());
            if has_listeners || self.application_credit.load(Ordering::Relaxed) > 0 {
                return self.leave(leading, by, now);
            }
        }
    }

    /// Sleeps as a follower, then handles the reported events. Returns `false` if there are enough followers without
    /// this thread.
    fn follow(&self, by: &impl Process<Dirty = D>) -> bool {
        if self.idle_followers.fetch_add(1, Ordering::SeqCst) >= IDLE_FOLLOWERS_MAX {
            self.idle_followers.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        by.set_interrupts(self.application_credit.load(Ordering::Relaxed) == 0);
        let event = self.followers.wait_one(None);
        self.idle_followers.fetch_sub(1, Ordering::SeqCst);
        match event {
            Ok(Some(SOCKET)) => {
                // The report has disarmed the socket. The leader reads this after it has given up the lead.
                self.is_armed.store(false, Ordering::SeqCst);
                fence(Ordering::SeqCst);
                if let Some(leading) = self.try_lead() {
                    let _busy = self.spare.begin_busy();
                    self.receive_as_follower(leading, by);
                }
            }
            Ok(Some(ANSWERS)) => self.answer_for_application(by),
            // The receiver closes, or there is no event.
            Ok(Some(_) | None) => {}
            Err(error) => {
                let address = self.socket.local_address();
                log(Level::ERROR, move || tracing::error!(%error, %address, "waiting for datagrams has failed"));
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
        true
    }

    fn receive_as_follower(&self, mut leading: Leading<'_, D>, by: &impl Process<Dirty = D>) {
        let mut last = None;
        for _ in 0..FOLLOWER_RECEPTIONS_MAX {
            match leading.receive(by) {
                Some(now) => last = Some(now),
                None => break,
            }
            let credit = self.application_credit.load(Ordering::Relaxed);
            if credit == 0 && !by.has_listeners(leading.dirty()) {
                return self.lead_blocking(leading, by);
            }
            self.application_credit.store(credit.saturating_sub(1), Ordering::Relaxed);
            if by.has_listeners(leading.dirty()) {
                break;
            }
        }
        match last {
            Some(now) => self.leave(leading, by, now),
            None => leading.give_up(),
        }
    }

    /// Sends the answers that an application thread has left and not come back for.
    #[cold]
    fn answer_for_application(&self, by: &impl Process<Dirty = D>) {
        // A thread that leads sends them before it sleeps.
        if self.answers_due.is_due(now())
            && let Some(mut leading) = self.try_lead()
        {
            let _busy = self.spare.begin_busy();
            leading.answer_for_all(by);
            // The events of failed sends may have been deferred.
            self.leave(leading, by, now());
        }
        if let Err(error) = self.followers.arm(self.answers_due.timer(), ANSWERS) {
            log(Level::ERROR, move || tracing::error!(%error, "acknowledgements wait for the next datagram"));
        }
    }

    /// Gives up the lead, then runs listeners, and wakers of tasks.
    fn leave(&self, mut leading: Leading<'_, D>, by: &impl Process<Dirty = D>, now: Instant) {
        if !by.has_listeners(leading.dirty()) {
            return leading.give_up();
        }
        let mut dirty = std::mem::take(leading.dirty());
        let no_user_code = Deferring::begin();
        leading.give_up();
        self.ensure_spare_thread(by);
        // User code, and threads that it starts, have the usual scheduling.
        by.set_interrupts(true);
        // Before any user code runs here, listeners behind a deferred waker, destructor or log event are in the queue:
        // if that code blocks, another thread takes them.
        let queued = by.queue_behind_deferred(&mut dirty, now);
        drop(no_user_code);
        if queued > 0 {
            by.run_queued(queued);
        } else {
            by.run_listeners(&mut dirty, now);
        }
        // The memory is reused.
        if let Some(mut leading) = self.try_lead() {
            *leading.dirty() = dirty;
            leading.give_up();
        }
    }

    /// Makes sure that another thread can lead while the calling one runs user code.
    fn ensure_spare_thread(&self, by: &impl Process<Dirty = D>) {
        if !self.is_closing() {
            self.spare.ensure(|| by.start_thread());
        }
    }

    /// Leads on the calling thread until `parker` is woken or `end` is reached. Returns `false` if the thread cannot
    /// lead now and has to sleep until it is woken.
    pub(in crate::driver) fn lead_until_woken(
        &self,
        parker: &Parker,
        end: Instant,
        by: &impl Process<Dirty = D>,
    ) -> bool {
        if !self.is_open_to_application
            || LeadBalance::of_this_thread_at_sockets(LeadBalance::is_excluded)
            || self.is_closing()
        {
            return false;
        }
        self.application_credit.store(APPLICATION_CREDIT, Ordering::Relaxed);
        let Some(mut leading) = self.try_lead() else { return false };
        leading.disarm();
        parker.receives_at(&self.leader_waker);
        let lead_end = self.receive_until_woken(&mut leading, parker, end, by);
        parker.is_awake();
        let prompt_waits = self.prompt_waits.load(Ordering::Relaxed);
        let has_left_answers = prompt_waits == 0 && lead_end == LeadEnd::Woken && leading.leave_answers(by);
        if !has_left_answers {
            self.prompt_waits.store(prompt_waits.saturating_sub(1), Ordering::Relaxed);
            leading.answer(by);
        }
        leading.give_up();
        if has_left_answers {
            // Not under the lead: a follower that cannot lead leaves the answers to the leader.
            self.answers_due.start(now());
        }
        lead_end == LeadEnd::Woken
    }

    fn receive_until_woken(
        &self,
        leading: &mut Leading<'_, D>,
        parker: &Parker,
        end: Instant,
        by: &impl Process<Dirty = D>,
    ) -> LeadEnd {
        let mut others_woken = OthersWoken::so_far();
        let mut has_own_sample = false;
        while !parker.is_woken_before_sleep() {
            leading.answer(by);
            let Some(has_received) = leading.wait_in_application(parker, end, by) else { return LeadEnd::Impossible };
            parker.is_awake();
            if parker.is_woken() {
                has_own_sample = has_received;
                continue;
            }
            if has_received && others_woken.are_more() {
                if !LeadBalance::of_this_thread_at_sockets(LeadBalance::leads_on_after_others) {
                    return LeadEnd::Useless;
                }
                others_woken = OthersWoken::so_far();
            }
            // Datagrams that keep arriving may concern no thread.
            if now() >= end {
                return LeadEnd::Woken;
            }
        }
        if has_own_sample {
            LeadBalance::of_this_thread_at_sockets(LeadBalance::on_own_sample);
        }
        LeadEnd::Woken
    }

    /// [`Self::poll_socket_once`] for a writer that expects acknowledgements. Receive threads follow meanwhile.
    pub(in crate::driver) fn poll_for_acknowledgement(&self, by: &impl Process<Dirty = D>) {
        if self.is_open_to_application {
            self.application_credit.store(APPLICATION_CREDIT, Ordering::Relaxed);
        }
        self.poll_socket_once(by);
    }

    /// Receives pending datagrams once, if no thread leads. Returns whether there were any.
    pub(in crate::driver) fn poll_socket_once(&self, by: &impl Process<Dirty = D>) -> bool {
        self.try_lead().is_some_and(|mut leading| {
            let has_received = leading.receive_in_application(by);
            leading.answer(by);
            has_received
        })
    }

    /// Whether a thread leads.
    pub(in crate::driver) fn is_led(&self) -> bool {
        self.try_lead().is_none()
    }

    /// Ends all threads of the receiver that do not run user code. The caller has shut the socket down.
    pub(in crate::driver) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.end.wake();
        self.leader_waker.wake();
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    fn try_lead(&self) -> Option<Leading<'_, D>> {
        let lead = try_lock_leaf(&self.lead)?;
        Some(Leading { of: self, lead: Some(lead), _no_user_code: Deferring::begin() })
    }
}

impl<D: Default> Leading<'_, D> {
    /// Disarms the socket: no follower is woken by it until the lead is given up.
    fn disarm(&self) {
        if self.of.is_armed.swap(false, Ordering::SeqCst)
            && let Err(error) = self.of.followers.disarm(&*self.of.socket, SOCKET)
        {
            log(
                Level::ERROR,
                move || tracing::error!(%error, "a socket cannot be disarmed: followers wake up for nothing"),
            );
        }
    }

    fn dirty(&mut self) -> &mut D {
        &mut self.lead().dirty
    }

    fn lead(&mut self) -> &mut Lead<D> {
        self.lead.as_mut().expect("the lead is held until `self` is dropped")
    }

    /// Sends the answers that are owed, and those that were left.
    #[inline]
    fn answer(&mut self, by: &impl Process<Dirty = D>) {
        let lead = self.lead();
        if by.owes_answers(&lead.dirty) {
            by.send_answers(&mut lead.dirty, now());
        }
        if std::mem::take(&mut lead.has_left_answers) {
            by.send_left_answers();
        }
    }

    /// Like [`answer`](Self::answer), on a receive thread. If an application thread has left answers, that thread was
    /// slower than the next datagram, and leaving them saves nothing.
    #[inline]
    fn answer_for_all(&mut self, by: &impl Process<Dirty = D>) {
        if self.lead().has_left_answers {
            self.of.prompt_waits.store(PROMPT_WAITS, Ordering::Relaxed);
        }
        self.answer(by);
    }

    /// Leaves the answers that are owed until the thread waits again. The caller then sets the timer. `false`: there
    /// are none, or some were left before, and no thread has waited since.
    #[inline]
    fn leave_answers(&mut self, by: &impl Process<Dirty = D>) -> bool {
        let lead = self.lead();
        if lead.has_left_answers || !by.owes_answers(&lead.dirty) {
            return false;
        }
        lead.has_left_answers = true;
        by.leave_answers(&mut lead.dirty, now());
        true
    }

    /// Waits for datagrams and processes them. `None`: nothing can be received any more.
    fn receive_blocking(&mut self, of: &SharedReceiver<D>, by: &impl Process<Dirty = D>) -> Option<Instant> {
        self.answer_for_all(by);
        let Lead { receiver, adaptive_spin, dirty, .. } = self.lead();
        let (datagrams, asleep_since) = match wait_for_datagrams(receiver, &of.socket, of.spin, adaptive_spin) {
            Ok(received) => received,
            Err(error) => {
                of.end_with(&error);
                return None;
            }
        };
        let now = by.handle(&datagrams, dirty);
        if let Some(since) = asleep_since {
            adaptive_spin.on_sleep(since, now);
        }
        by.wake(dirty, now);
        let now = self.gather(by, now);
        self.answer(by);
        Some(now)
    }

    /// Processes what has arrived meanwhile before many endpoints answer: their answers to several datagrams are one
    /// each. For a limited time, so that writers do not repeat their requests.
    fn gather(&mut self, by: &impl Process<Dirty = D>, since: Instant) -> Instant {
        let mut now = since;
        for _ in 0..GATHERED_RECEPTIONS_MAX {
            let dirty = self.dirty();
            let ends = !by.owes_many_answers(dirty) || by.has_listeners(dirty) || now.since(since) >= GATHERED_TIME_MAX;
            if ends {
                break;
            }
            match self.receive_without_answer(by) {
                Some(later) => now = later,
                None => break,
            }
        }
        now
    }

    /// Processes what has arrived, and answers, on a follower. `None`: nothing.
    fn receive(&mut self, by: &impl Process<Dirty = D>) -> Option<Instant> {
        let now = self.receive_without_answer(by)?;
        self.answer_for_all(by);
        Some(now)
    }

    fn receive_without_answer(&mut self, by: &impl Process<Dirty = D>) -> Option<Instant> {
        let of = self.of;
        let Lead { receiver, dirty, .. } = self.lead();
        let datagrams = match receiver.receive(&of.socket, Wait::NonBlocking) {
            Ok(datagrams) => datagrams,
            Err(error) => {
                of.end_with(&error);
                return None;
            }
        };
        if datagrams.len() == 0 {
            return None;
        }
        let now = by.handle(&datagrams, dirty);
        by.wake(dirty, now);
        Some(now)
    }

    /// Processes what has arrived on a thread of the application, whose locks a listener may want: listeners are
    /// queued. The caller answers. Says whether anything has arrived.
    fn receive_in_application(&mut self, by: &impl Process<Dirty = D>) -> bool {
        let Some(now) = self.receive_without_answer(by) else { return false };
        if by.has_listeners(self.dirty()) {
            by.run_listeners(self.dirty(), now);
        }
        true
    }

    /// Waits until a datagram arrives or `parker` is woken. Returns whether a datagram has arrived; `None` if the
    /// thread cannot wait here.
    fn wait_in_application(&mut self, parker: &Parker, end: Instant, by: &impl Process<Dirty = D>) -> Option<bool> {
        let of = self.of;
        let since = now();
        let until = self.lead().adaptive_spin.until(since);
        if let Some(until) = until {
            while now() < until {
                let is_woken = parker.is_woken();
                if is_woken || self.receive_in_application(by) {
                    self.lead().adaptive_spin.on_hit();
                    return Some(!is_woken);
                }
            }
            self.lead().adaptive_spin.on_miss();
        }
        let mut is_readable = false;
        let mut is_woken = false;
        for token in of.wait_with(&mut self.lead().poller, end)? {
            is_readable |= token == SOCKET;
            is_woken |= token == WAKER;
        }
        if is_woken {
            of.leader_waker.clear();
        }
        if is_readable && until.is_none() {
            self.lead().adaptive_spin.on_sleep(since, now());
        }
        let has_received = is_readable && self.receive_in_application(by);
        (!of.is_closing()).then_some(has_received)
    }

    /// The drop gives the lead up; this method makes that explicit.
    fn give_up(self) {}
}

impl<D> SharedReceiver<D> {
    fn wait_with<'p>(&self, poller: &'p mut Option<Poller>, end: Instant) -> Option<impl Iterator<Item = Token> + 'p> {
        if poller.is_none() {
            let made = Poller::new().and_then(|made| {
                made.add(&*self.socket, SOCKET)?;
                made.add(&*self.leader_waker, WAKER)?;
                Ok(made)
            });
            match made {
                Ok(made) => *poller = Some(made),
                Err(error) => {
                    log(
                        Level::WARN,
                        move || tracing::warn!(%error, "threads that wait for data cannot receive it themselves"),
                    );
                }
            }
        }
        let deadline = (end.0 != NEVER).then_some(MonotonicNs(end.0));
        match poller.as_mut()?.wait(deadline) {
            Ok(tokens) => Some(tokens),
            Err(error) => {
                log(Level::ERROR, move || tracing::error!(%error, "an application thread cannot wait for datagrams"));
                None
            }
        }
    }

    /// Ends the reception after an error of the socket.
    fn end_with(&self, error: &ReceiveError) {
        if !matches!(error, ReceiveError::ShutDown) {
            let (error, address) = (error.to_string(), self.socket.local_address());
            log(Level::ERROR, move || tracing::error!(error, %address, "receiving has ended"));
        }
        self.is_closing.store(true, Ordering::SeqCst);
        self.end.wake();
    }
}

impl<D> Drop for Leading<'_, D> {
    /// Gives up the lead, then arms the socket unless it is armed.
    fn drop(&mut self) {
        drop(self.lead.take());
        // A follower that was woken at the socket stores `false`, then tries to lead: either its attempt comes after
        // the lead was given up, or its store is seen here.
        fence(Ordering::SeqCst);
        if !self.of.is_armed.swap(true, Ordering::SeqCst)
            && let Err(error) = self.of.followers.arm(&*self.of.socket, SOCKET)
        {
            log(
                Level::ERROR,
                move || tracing::error!(%error, "a socket cannot be armed: datagrams wait for the next reader"),
            );
        }
    }
}

/// The next datagrams. Spins for `spin`, or while a stream is expected, then sleeps. The second result is the time
/// since which the thread has slept, unless it has spun before.
fn wait_for_datagrams<'r>(
    receiver: &'r mut Receiver,
    socket: &Socket,
    spin: Duration,
    adaptive_spin: &mut AdaptiveSpin,
) -> Result<(Datagrams<'r>, Option<Instant>), ReceiveError> {
    let since = now();
    let fixed = (!spin.is_zero()).then(|| since + Span::from(spin));
    if let Some(until) = fixed.or_else(|| adaptive_spin.until(since)) {
        while now() < until {
            if receiver.receive(socket, Wait::NonBlocking)?.len() > 0 {
                adaptive_spin.on_hit();
                return Ok((receiver.datagrams(), None));
            }
            std::hint::spin_loop();
        }
        adaptive_spin.on_miss();
        return Ok((receiver.receive(socket, Wait::Block)?, None));
    }
    Ok((receiver.receive(socket, Wait::Block)?, Some(since)))
}

// The loom models include this file in another folder.
#[cfg(all(test, not(loom)))]
#[path = "shared_receiver/tests.rs"]
mod tests;
