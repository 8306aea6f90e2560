//! The sessions of a remote sender's key. Each text names its session, and only a text that opens proves it: the work
//! and the memory for sessions that nothing has proved are bounded.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};

use super::session::SessionKey;
use crate::limits::{NEW_SESSIONS_PER_INTERVAL, NEW_SESSIONS_SHARE, SESSIONS_AHEAD, SESSIONS_PER_KEY};

/// A session, with the session keys that texts have needed so far.
#[derive(Debug)]
pub(super) struct OpeningSession {
    id: [u8; 4],
    sender: OnceLock<SessionKey>,
    /// In the order of the key's receivers.
    receivers: Box<[OnceLock<SessionKey>]>,
    /// Intervals since the session last opened something.
    idle_intervals: AtomicU8,
}

/// The sessions of one key.
#[derive(Debug, Default)]
pub(super) struct OpeningSessions {
    /// The newest session of an earlier time, whose keys were dropped.
    earlier: Option<[u8; 4]>,
    /// The first session that a text proved, found without a look at what may be replaced.
    first: OnceLock<Arc<OpeningSession>>,
    later: ArcSwapOption<LaterSessions>,
    /// Texts in this interval that named a session which is neither proved nor expected.
    unexpected: AtomicU32,
}

/// The sessions other than the first one.
#[derive(Debug, Default)]
pub(super) struct LaterSessions {
    /// The sessions that texts have proved, the last one first.
    proved: Vec<Arc<OpeningSession>>,
    /// The sessions that the sender is expected to begin next, and that texts have named already. Texts that are not
    /// authentic name them, too, but derive the key of each once only.
    expected: Vec<Arc<OpeningSession>>,
}

impl OpeningSession {
    fn new(id: [u8; 4], receivers: usize) -> Self {
        let receivers = core::iter::repeat_with(OnceLock::new).take(receivers).collect();
        Self { id, sender: OnceLock::new(), receivers, idle_intervals: AtomicU8::new(0) }
    }

    pub(super) const fn id(&self) -> [u8; 4] {
        self.id
    }

    /// The session key of the sender.
    pub(super) fn sender(&self, derive: impl FnOnce() -> SessionKey) -> &SessionKey {
        self.sender.get_or_init(derive)
    }

    /// The session key for the receiver at this position of the key.
    pub(super) fn receiver(&self, position: usize, derive: impl FnOnce() -> SessionKey) -> Option<&SessionKey> {
        Some(self.receivers.get(position)?.get_or_init(derive))
    }

    /// Notes that the session opened something.
    pub(super) fn note_use(&self) {
        // Other threads read this: it is written once in each interval.
        if self.idle_intervals.load(Ordering::Relaxed) > 0 {
            self.idle_intervals.store(0, Ordering::Relaxed);
        }
    }

    /// Counts an interval. Whether the session has opened something in so many intervals.
    fn is_in_use(&self, intervals: u8) -> bool {
        let idle = self.idle_intervals.load(Ordering::Relaxed);
        self.idle_intervals.store(idle.saturating_add(1), Ordering::Relaxed);
        idle < intervals
    }
}

impl LaterSessions {
    /// A session that texts have proved.
    pub(super) fn proved(&self, id: [u8; 4]) -> Option<&OpeningSession> {
        self.proved.iter().map(|session| &**session).find(|session| session.id == id)
    }
}

impl OpeningSessions {
    /// The first session, if it is this one.
    pub(super) fn first(&self, id: [u8; 4]) -> Option<&OpeningSession> {
        self.first.get().map(|first| &**first).filter(|first| first.id == id)
    }

    pub(super) fn later(&self) -> Guard<Option<Arc<LaterSessions>>> {
        self.later.load()
    }

    /// A session that nothing has proved, of a key with so many receivers. `None` if texts have named too many of them
    /// in this interval.
    ///
    /// The sessions behind the newest one have room of their own: an honest sender begins one of them next, and its
    /// texts open at once in any flood. For all others, the number in an interval is bounded, and after that the share
    /// of texts for which keys are derived: a share leaves a true text its chance in any flood, a rate does not.
    pub(super) fn unproved(&self, id: [u8; 4], receivers: usize) -> Option<Arc<OpeningSession>> {
        let later = self.later.load();
        let newest = self.newest(later.as_deref());
        if !newest.is_some_and(|newest| is_expected(newest, id)) {
            let before = self.unexpected.fetch_add(1, Ordering::Relaxed);
            let is_admitted =
                before < NEW_SESSIONS_PER_INTERVAL || scattered(before).is_multiple_of(NEW_SESSIONS_SHARE);
            return is_admitted.then(|| Arc::new(OpeningSession::new(id, receivers)));
        }
        let known = later.iter().flat_map(|later| &later.expected).find(|session| session.id == id);
        if let Some(known) = known {
            return Some(Arc::clone(known));
        }
        let session = Arc::new(OpeningSession::new(id, receivers));
        self.later.rcu(|later| {
            let newest = self.newest(later.as_deref());
            let proved = later.iter().flat_map(|later| &later.proved).cloned().collect();
            let mut expected = still_expected(later.as_deref(), newest);
            if !expected.iter().any(|known| known.id == id) {
                expected.push(Arc::clone(&session));
            }
            Some(Arc::new(LaterSessions { proved, expected }))
        });
        Some(session)
    }

    /// Keeps a session that a text has proved.
    pub(super) fn prove(&self, session: Arc<OpeningSession>) {
        let Err(session) = self.first.set(session) else { return };
        self.later.rcu(|later| {
            let others = later.iter().flat_map(|later| &later.proved).filter(|other| other.id != session.id);
            let mut next = LaterSessions {
                proved: core::iter::once(&session).chain(others).cloned().collect(),
                expected: Vec::new(),
            };
            let newest = self.newest(Some(&next));
            // The first session counts, too.
            while next.proved.len() >= SESSIONS_PER_KEY {
                let Some(furthest) = furthest_behind(&next.proved, newest) else { break };
                next.proved.remove(furthest);
            }
            next.expected = still_expected(later.as_deref(), newest);
            next.expected.retain(|expected| expected.id != session.id);
            Some(Arc::new(next))
        });
    }

    /// The same sessions without keys: those that the sender is expected to use next are known.
    pub(super) fn without_keys(&self) -> Self {
        Self { earlier: self.newest(self.later.load().as_deref()), ..Self::default() }
    }

    /// Counts an interval, for which other unproved sessions are admitted. Whether there are session keys, and none of
    /// them has opened anything in so many intervals.
    pub(super) fn pass_interval(&self, idle_intervals: u8) -> bool {
        self.admit_again();
        let later = self.later.load();
        let proved = self.first.get().into_iter().chain(later.iter().flat_map(|later| &later.proved));
        let (mut any, mut in_use) = (later.as_ref().is_some_and(|later| !later.expected.is_empty()), false);
        for session in proved {
            any = true;
            in_use |= session.is_in_use(idle_intervals);
        }
        any && !in_use
    }

    /// Admits other unproved sessions from now on.
    pub(super) fn admit_again(&self) {
        if self.unexpected.load(Ordering::Relaxed) > 0 {
            self.unexpected.store(0, Ordering::Relaxed);
        }
    }

    /// The newest session that a text has proved.
    fn newest(&self, later: Option<&LaterSessions>) -> Option<[u8; 4]> {
        let first = self.first.get().map(|first| first.id);
        let later = later.into_iter().flat_map(|later| later.proved.iter().rev().map(|session| session.id));
        let proved = self.earlier.into_iter().chain(first).chain(later);
        proved.reduce(|newest, id| if distance(newest, id) > 0 { id } else { newest })
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let later = self.later.load();
        let of_later = later.as_ref().map_or((0, 0), |later| (later.proved.len(), later.expected.len()));
        (usize::from(self.first.get().is_some()) + of_later.0, of_later.1)
    }
}

/// The position of the session that has the longest way to the newest one, which stays, as does the one in front, which
/// is in use. Recorded texts of earlier sessions displace each other, and never the current one.
fn furthest_behind(proved: &[Arc<OpeningSession>], newest: Option<[u8; 4]>) -> Option<usize> {
    let others = proved.iter().enumerate().skip(1).filter(|(_, session)| Some(session.id) != newest);
    let way = |session: &OpeningSession| newest.map_or(0, |newest| distance(newest, session.id));
    others.min_by_key(|(_, session)| way(session)).map(|(position, _)| position)
}

/// The expected sessions that are expected with this newest one, too.
fn still_expected(later: Option<&LaterSessions>, newest: Option<[u8; 4]>) -> Vec<Arc<OpeningSession>> {
    let known = later.into_iter().flat_map(|later| &later.expected);
    known.filter(|session| newest.is_some_and(|newest| is_expected(newest, session.id))).cloned().collect()
}

/// Whether a sender whose newest session is this one is expected to use the session `id` next. The newest session
/// itself is expected because its keys may have been dropped.
fn is_expected(newest: [u8; 4], id: [u8; 4]) -> bool {
    (0..=SESSIONS_AHEAD).contains(&distance(newest, id))
}

/// A number without a pattern, so that no rhythm of forged texts meets all true ones when none are admitted
/// (`MurmurHash3`).
const fn scattered(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ number >> 13).wrapping_mul(0xc2b2_ae35);
    number ^ number >> 16
}

/// How many sessions `to` is behind `from` in the sender's order. All implementations that are known count sessions,
/// but not in the same byte order: the shorter way counts.
fn distance(from: [u8; 4], to: [u8; 4]) -> i32 {
    let way = |number: fn([u8; 4]) -> u32| number(to).wrapping_sub(number(from)).cast_signed();
    let (big, little) = (way(u32::from_be_bytes), way(u32::from_le_bytes));
    if big.unsigned_abs() <= little.unsigned_abs() { big } else { little }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_in_either_byte_order() {
        for (from, to, expected) in [
            ([1, 2, 3, 4], [1, 2, 3, 4], 0),
            ([1, 2, 3, 255], [1, 2, 4, 1], 2),
            ([255, 2, 3, 4], [1, 3, 3, 4], 2),
            ([1, 2, 4, 1], [1, 2, 3, 255], -2),
            ([1, 3, 3, 4], [255, 2, 3, 4], -2),
            ([255; 4], [0; 4], 1),
        ] {
            assert_eq!(distance(from, to), expected, "{from:?} to {to:?}");
        }
    }
}
