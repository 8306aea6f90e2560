//! Order between samples in shared memory and messages that arrive at sockets.

/// Number of messages deferred behind earlier samples from which on they take effect. The commands that a thread takes
/// at once may exceed it, by at most [`COMMANDS_MAX`].
pub(in crate::driver) const NEWS_MAX: usize = 1024;

/// Maximum number of commands for the thread that takes samples.
pub(in crate::driver) const COMMANDS_MAX: usize = 4096;

/// Maximum number of rounds with samples before deferred messages take effect.
const ROUNDS_MAX: usize = 64;

/// The order between samples in datagrams and the first sample that a reader gets in shared memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum Order {
    /// The best-effort reader has received no sample. It would drop a sample that arrives after a later one.
    Unknown,
    /// The first sample waits until earlier datagrams were received.
    Awaited,
    Certain,
}

impl Order {
    /// The order of a reader that has received nothing.
    pub(in crate::driver) const fn first(is_reliable: bool) -> Self {
        if is_reliable { Self::Certain } else { Self::Unknown }
    }

    /// A sample has come. Returns whether it is the first that waits, so that the caller has to send a marker behind
    /// the earlier datagrams.
    #[must_use]
    pub(in crate::driver) fn begins_to_wait(&mut self) -> bool {
        let begins = *self == Self::Unknown;
        if begins {
            *self = Self::Awaited;
        }
        begins
    }
}

/// Messages that take effect when no samples are left to take.
pub(in crate::driver) struct BehindSamples<T> {
    news: Vec<T>,
    /// Rounds with samples since the first message.
    rounds: usize,
}

impl<T> BehindSamples<T> {
    pub(in crate::driver) const fn new() -> Self {
        Self { news: Vec::new(), rounds: 0 }
    }

    pub(in crate::driver) const fn is_empty(&self) -> bool {
        self.news.is_empty()
    }

    /// Defers a message behind the samples that have arrived. [`Self::take_due`] empties a list of [`NEWS_MAX`], and
    /// all commands that wait may add to a shorter one before that.
    pub(in crate::driver) fn push(&mut self, news: T) {
        self.news.push(news);
        debug_assert!(self.news.len() < NEWS_MAX + COMMANDS_MAX);
    }

    /// Whether [`Self::take_due`] after a round without samples returns something. `is_awaiting`: samples wait that
    /// precede the messages.
    pub(in crate::driver) fn is_due(&self, is_awaiting: impl FnOnce() -> bool) -> bool {
        !self.news.is_empty() && (self.news.len() >= NEWS_MAX || !is_awaiting())
    }

    /// The messages that are due after a round. They wait for a round without samples, for at most [`ROUNDS_MAX`]
    /// rounds, and until there are [`NEWS_MAX`] of them.
    pub(in crate::driver) fn take_due(&mut self, has_taken: bool, is_awaiting: impl FnOnce() -> bool) -> Vec<T> {
        self.rounds = if self.news.is_empty() { 0 } else { self.rounds + usize::from(has_taken) };
        let is_late = self.rounds > ROUNDS_MAX || self.news.len() >= NEWS_MAX;
        let is_due = !self.news.is_empty() && (!has_taken && !is_awaiting() || is_late);
        if is_due { std::mem::take(&mut self.news) } else { Vec::new() }
    }
}
