//! Requests of readers for channels.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Weak;

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::limits::MATCHES_MAX;
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::shm::{ConnectError, Connecting, Gone};
use tracing::Level;

use crate::driver::base::user_code::log;
use crate::driver::endpoint::reader::ReaderCore;
use crate::shared_memory::NoSharedMemory;

/// Timeout of a connection request. The peer process waits up to [`super::PATIENCE`] for its own discovery.
pub(super) const ANSWER_TIMEOUT: Span = Span::from_secs(15);
/// Maximum number of unanswered requests from this process to one peer process; further requests wait. Half of the
/// kernel's backlog.
pub(super) const UNANSWERED_MAX: usize = 32;

/// Maximum number of requests of a reader, one directly after the other, for a channel whose process closes it at once.
pub(super) const ATTEMPTS_MAX: u8 = 3;

/// How long a reader without a channel gets messages before it requests one again. Each failure in a row doubles the
/// pause.
pub(super) const RETRY_AFTER: Span = Span::from_millis(50);
/// Maximum of that pause, and the lifetime of a channel after which its end is no failure in a row.
pub(super) const RETRY_AFTER_MAX: Span = Span::from_secs(60);

/// The channel that the readers of this process with the same reliability share from a writer of another process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ChannelKey {
    pub(in crate::driver) writer: Guid,
    pub(in crate::driver) is_reliable: bool,
}

/// The request of a reader for a channel, without the channel: the place where it is kept names that.
#[derive(Clone)]
pub(super) struct ReaderRequest {
    pub(in crate::driver) core: Weak<ReaderCore>,
    pub(super) guid: Guid,
    /// The time limit of the answer.
    pub(in crate::driver) until: Instant,
    /// Number of requests in a row, including this one.
    pub(super) attempts: u8,
    /// The application knows that the reader gets messages.
    pub(super) is_reported: bool,
    /// Samples come, so that the request is not put off.
    pub(super) is_demanded: bool,
}

/// The request of a reader for samples of a writer by shared memory.
#[derive(Clone)]
pub(super) struct ChannelRequest {
    pub(super) key: ChannelKey,
    /// The writer's process.
    pub(in crate::driver) at: SharedMemoryAddress,
    pub(in crate::driver) reader: ReaderRequest,
}

/// The requests for one channel; never empty.
pub(super) struct RequestedChannel {
    pub(super) key: ChannelKey,
    /// The writer's process.
    pub(in crate::driver) at: SharedMemoryAddress,
    pub(in crate::driver) readers: Vec<ReaderRequest>,
}

/// A request for a channel, without an answer.
pub(super) struct PendingConnection {
    pub(in crate::driver) connecting: Connecting,
    /// The first reader is the one that the request names.
    pub(in crate::driver) wanted: RequestedChannel,
}

impl ReaderRequest {
    /// The next request, after this one has failed.
    pub(super) fn next_attempt(self, until: Instant) -> Self {
        Self { until, attempts: self.attempts.saturating_add(1), ..self }
    }

    /// The pause before the next request.
    fn pause(&self) -> Span {
        let doublings = u32::from(self.attempts.saturating_sub(1)).min(RETRY_DOUBLINGS_MAX);
        RETRY_AFTER_MAX.min(Span(RETRY_AFTER.0 << doublings))
    }
}

impl ChannelRequest {
    /// Whether the reader still matches the writer.
    pub(super) fn is_matched(&self) -> bool {
        is_matched(&self.reader, self.key.writer)
    }
}

impl RequestedChannel {
    /// Whether the channel is not put off.
    pub(super) fn is_demanded(&self) -> bool {
        self.readers.iter().any(|reader| reader.is_demanded)
    }

    /// Moves the requests for which `is_meant`, called with the writer, is true to `extracted`.
    pub(super) fn extract(
        &mut self,
        extracted: &mut Vec<ChannelRequest>,
        mut is_meant: impl FnMut(&ReaderRequest, Guid) -> bool,
    ) {
        let (key, at) = (self.key, self.at);
        let meant = self.readers.extract_if(.., |reader| is_meant(reader, key.writer));
        extracted.extend(meant.map(|reader| ChannelRequest { key, at, reader }));
    }

    /// The single requests.
    pub(super) fn into_each(self) -> impl Iterator<Item = ChannelRequest> {
        let Self { key, at, readers } = self;
        readers.into_iter().map(move |reader| ChannelRequest { key, at, reader })
    }
}

fn is_matched(request: &ReaderRequest, writer: Guid) -> bool {
    request.core.upgrade().is_some_and(|reader| reader.is_matched(writer))
}

/// After this many doublings the pause has reached its maximum.
const RETRY_DOUBLINGS_MAX: u32 = 11;
const _: () = assert!(RETRY_AFTER.0 << RETRY_DOUBLINGS_MAX >= RETRY_AFTER_MAX.0);

/// Maximum number of cancellations that wait for the thread that polls the connections.
pub(super) const CANCELLED_MAX: usize = 1024;

/// Maximum number of requests that wait for the thread that polls the connections. Further ones are retries.
pub(super) const WANTED_MAX: usize = 1 << 18;

/// Requests to the thread that polls the connections. Under `Poll`, that thread may take none of them for long.
///
/// `retries` and `deferred` have at most [`MATCHES_MAX`] entries for each reader, as many as a reader has writers.
#[derive(Default)]
pub(super) struct ConnectQueue {
    pub(in crate::driver) wanted: Requests,
    pub(super) retries: Retries,
    pub(super) deferred: Deferred,
    /// Recorded while requests exist.
    pub(super) cancelled: Cancelled,
    pub(super) is_connecting: bool,
}

impl ConnectQueue {
    /// Adds a request, or a retry if too many requests wait. Returns whether there were no requests before: the thread
    /// that polls the connections does not know of any.
    pub(super) fn want(&mut self, now: Instant, wanted: ChannelRequest) -> bool {
        if self.wanted.len() >= WANTED_MAX {
            self.retry(now, wanted);
            return false;
        }
        let is_first = self.wanted.add(wanted);
        debug_assert!(self.wanted.len() <= WANTED_MAX);
        is_first
    }

    /// Adds a retry of a request that has failed now. One of too many is dropped: the reader stays with messages.
    pub(super) fn retry(&mut self, now: Instant, wanted: ChannelRequest) {
        let (reader, writer) = (wanted.reader.guid, wanted.key.writer);
        if !self.retries.add(now, wanted) {
            log(Level::WARN, move || {
                let max = MATCHES_MAX;
                tracing::warn!(%reader, %writer, max, "too many requests for shared memory wait; samples stay in messages");
            });
        }
    }
}

/// Requests by channel: at most one for each matched pair.
#[derive(Default)]
pub(super) struct Requests {
    channels: BTreeMap<ChannelKey, RequestedChannel>,
    /// The number of requests.
    len: usize,
}

impl Requests {
    /// Returns whether there were no requests before.
    pub(super) fn add(&mut self, wanted: ChannelRequest) -> bool {
        let ChannelRequest { key, at, reader } = wanted;
        let is_first = self.channels.is_empty();
        let channel = self.channels.entry(key).or_insert_with(|| RequestedChannel { key, at, readers: Vec::new() });
        channel.at = at;
        channel.readers.push(reader);
        self.len += 1;
        is_first
    }

    pub(super) fn add_all(&mut self, wanted: RequestedChannel) {
        self.len += wanted.readers.len();
        match self.channels.entry(wanted.key) {
            Entry::Vacant(vacant) => _ = vacant.insert(wanted),
            Entry::Occupied(mut occupied) => {
                let known = occupied.get_mut();
                known.at = wanted.at;
                known.readers.extend(wanted.readers);
            }
        }
    }

    pub(super) fn append(&mut self, others: Self) {
        others.channels.into_values().for_each(|wanted| self.add_all(wanted));
    }

    /// Removes and returns the requests for which `is_meant`, called with the writer, is true.
    pub(super) fn extract(&mut self, mut is_meant: impl FnMut(&ReaderRequest, Guid) -> bool) -> Vec<ChannelRequest> {
        let mut extracted = Vec::new();
        self.channels.retain(|_, wanted| {
            wanted.extract(&mut extracted, &mut is_meant);
            !wanted.readers.is_empty()
        });
        self.len -= extracted.len();
        extracted
    }

    /// Takes all requests, by channel.
    pub(super) fn take(&mut self) -> impl Iterator<Item = RequestedChannel> + use<> {
        std::mem::take(self).channels.into_values()
    }

    pub(super) fn readers(&self) -> impl Iterator<Item = &ReaderRequest> {
        self.channels.values().flat_map(|wanted| &wanted.readers)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

/// The requests that are no longer wanted.
pub(super) enum Cancelled {
    /// The requests of these readers, each for one writer or for all.
    Of(Vec<(Guid, Option<Guid>)>),
    /// There were too many: all requests whose reader is closed or does not match the writer.
    Unmatched,
}

impl Default for Cancelled {
    fn default() -> Self {
        Self::Of(Vec::new())
    }
}

impl Cancelled {
    pub(in crate::driver) fn add(&mut self, reader: Guid, writer: Option<Guid>) {
        let Self::Of(readers) = self else { return };
        if readers.len() < CANCELLED_MAX {
            readers.push((reader, writer));
            debug_assert!(readers.len() <= CANCELLED_MAX);
        } else {
            *self = Self::Unmatched;
        }
    }

    pub(in crate::driver) fn is_empty(&self) -> bool {
        matches!(self, Self::Of(readers) if readers.is_empty())
    }

    /// Whether the request of a reader for a channel from this writer is no longer wanted.
    pub(in crate::driver) fn contains(&self, request: &ReaderRequest, writer: Guid) -> bool {
        match self {
            Self::Of(pairs) => {
                pairs.iter().any(|(reader, of)| request.guid == *reader && of.is_none_or(|of| of == writer))
            }
            Self::Unmatched => !is_matched(request, writer),
        }
    }
}

/// The readers that get messages until they request a channel again.
#[derive(Default)]
pub(super) struct Retries {
    /// When, by reader and writer: at most one for each matched pair, and those that were unmatched while the request
    /// failed, but no more than [`MATCHES_MAX`] of each reader.
    waiting: HashMap<Guid, HashMap<Guid, (Instant, ChannelRequest)>>,
    /// No later than the time of the first one.
    due: Option<Instant>,
}

impl Retries {
    /// Adds a reader whose request has failed now. Returns whether there was room.
    pub(super) fn add(&mut self, now: Instant, wanted: ChannelRequest) -> bool {
        let at = now + wanted.reader.pause();
        let of_reader = self.waiting.entry(wanted.reader.guid).or_default();
        if of_reader.len() >= MATCHES_MAX && !of_reader.contains_key(&wanted.key.writer) {
            return false;
        }
        of_reader.insert(wanted.key.writer, (at, wanted));
        debug_assert!(of_reader.len() <= MATCHES_MAX);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
        true
    }

    /// Removes a reader, which needs no channel from this writer any more, or requests one by itself.
    pub(super) fn remove(&mut self, reader: Guid, writer: Option<Guid>) {
        if let Some(of_reader) = self.waiting.get_mut(&reader) {
            match writer {
                Some(writer) => _ = of_reader.remove(&writer),
                None => of_reader.clear(),
            }
            if of_reader.is_empty() {
                self.waiting.remove(&reader);
            }
        }
        if self.waiting.is_empty() {
            self.due = None;
        }
    }

    /// Takes those whose time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<ChannelRequest> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let mut due = Vec::new();
        self.waiting.retain(|_, of_reader| {
            due.extend(of_reader.extract_if(|_, (at, _)| *at <= now).map(|(_, (_, wanted))| wanted));
            !of_reader.is_empty()
        });
        self.due = self.waiting.values().flat_map(HashMap::values).map(|(at, _)| *at).min();
        due
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(HashMap::len).sum()
    }

    /// The time of the next [`Self::take_due`].
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }
}

/// The readers whose requests are put off until samples come or [discovery rests](super::crowd): at most one request
/// for each matched pair. A request that was put off is the first of its pair when it is made.
#[derive(Default)]
pub(super) struct Deferred(HashMap<Guid, DeferredReader>);

/// A reader, and the writers from which it wants channels later.
struct DeferredReader {
    core: Weak<ReaderCore>,
    is_reliable: bool,
    /// By their participant.
    writers: BTreeMap<GuidPrefix, DeferredWriters>,
    /// The number of all of them: at most [`MATCHES_MAX`].
    len: usize,
}

/// Writers of one participant.
struct DeferredWriters {
    at: SharedMemoryAddress,
    /// Sorted.
    writers: Vec<EntityId>,
}

impl Deferred {
    /// Returns whether there was room.
    pub(super) fn add(&mut self, wanted: &ChannelRequest) -> bool {
        let ChannelRequest { key: ChannelKey { writer, is_reliable }, at, reader } = wanted;
        let of_reader = self.0.entry(reader.guid).or_insert_with(|| DeferredReader {
            core: Weak::clone(&reader.core),
            is_reliable: *is_reliable,
            writers: BTreeMap::new(),
            len: 0,
        });
        let has_room = of_reader.len < MATCHES_MAX;
        let of_participant = of_reader.writers.entry(writer.prefix);
        let of_participant = of_participant.or_insert_with(|| DeferredWriters { at: *at, writers: Vec::new() });
        of_participant.at = *at;
        match of_participant.writers.binary_search(&writer.entity) {
            Ok(_) => true,
            Err(place) if has_room => {
                of_participant.writers.insert(place, writer.entity);
                of_reader.len += 1;
                debug_assert!(of_reader.len <= MATCHES_MAX);
                true
            }
            Err(_) => {
                if of_participant.writers.is_empty() {
                    of_reader.writers.remove(&writer.prefix);
                }
                false
            }
        }
    }

    /// Removes the requests of a reader, for one writer or for all.
    pub(super) fn remove(&mut self, reader: Guid, writer: Option<Guid>) {
        match writer {
            Some(writer) => _ = self.remove_pair(reader, writer),
            None => _ = self.0.remove(&reader),
        }
    }

    /// Takes a request, which is made now, with this time limit for the answer.
    pub(super) fn take(&mut self, reader: Guid, writer: Guid, until: Instant) -> Option<ChannelRequest> {
        let (core, key, at) = self.remove_pair(reader, writer)?;
        let reader = ReaderRequest { core, guid: reader, until, attempts: 1, is_reported: false, is_demanded: true };
        Some(ChannelRequest { key, at, reader })
    }

    /// Takes at most `most` requests, as [`Self::take`].
    pub(super) fn take_some(&mut self, most: usize, until: Instant) -> Vec<ChannelRequest> {
        let pairs = self.0.iter().flat_map(|(reader, of_reader)| {
            of_reader.writers.iter().flat_map(move |(prefix, of)| {
                of.writers.iter().map(move |entity| (*reader, Guid { prefix: *prefix, entity: *entity }))
            })
        });
        let some: Vec<(Guid, Guid)> = pairs.take(most).collect();
        some.into_iter().filter_map(|(reader, writer)| self.take(reader, writer, until)).collect()
    }

    fn remove_pair(
        &mut self,
        reader: Guid,
        writer: Guid,
    ) -> Option<(Weak<ReaderCore>, ChannelKey, SharedMemoryAddress)> {
        let of_reader = self.0.get_mut(&reader)?;
        let of_participant = of_reader.writers.get_mut(&writer.prefix)?;
        let place = of_participant.writers.binary_search(&writer.entity).ok()?;
        of_participant.writers.remove(place);
        of_reader.len -= 1;
        let at = of_participant.at;
        if of_participant.writers.is_empty() {
            of_reader.writers.remove(&writer.prefix);
        }
        let key = ChannelKey { writer, is_reliable: of_reader.is_reliable };
        let core = Weak::clone(&of_reader.core);
        if of_reader.writers.is_empty() {
            self.0.remove(&reader);
        }
        Some((core, key, at))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().flat_map(|reader| reader.writers.values()).map(|of| of.writers.len()).sum()
    }
}

pub(super) fn reason_of_failure(error: &ConnectError) -> NoSharedMemory {
    match error {
        ConnectError::Refused(refusal) if refusal.is_lasting() => NoSharedMemory::Refused(refusal.to_string()),
        other => NoSharedMemory::NotConnected(other.to_string()),
    }
}

pub(super) fn reason_of(gone: Gone) -> NoSharedMemory {
    match gone {
        Gone::Ended | Gone::Died | Gone::Closed => NoSharedMemory::Ended,
        Gone::Broken(what) => NoSharedMemory::Broken(what.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const AT: SharedMemoryAddress = SharedMemoryAddress { address: [1; 16], host: [0; 5] };

    fn guid(number: u8) -> Guid {
        Guid { prefix: GuidPrefix([number % 3; 12]), entity: EntityId([0, 0, number, 7]) }
    }

    /// The request of one reader for the n-th of many writers.
    fn numbered(number: usize) -> ChannelRequest {
        let [_, high, middle, low] = u32::try_from(number).unwrap().to_be_bytes();
        let writer = Guid { prefix: GuidPrefix([low % 2; 12]), entity: EntityId([high, middle, low, 3]) };
        let key = ChannelKey { writer, is_reliable: true };
        ChannelRequest { key, ..wanted(1, 50, true) }
    }

    fn wanted(reader: u8, writer: u8, is_reliable: bool) -> ChannelRequest {
        let request = ReaderRequest {
            core: Weak::new(),
            guid: guid(reader),
            until: Instant(0),
            attempts: 2,
            is_reported: true,
            is_demanded: false,
        };
        ChannelRequest { key: ChannelKey { writer: guid(writer), is_reliable }, at: AT, reader: request }
    }

    fn pair(wanted: &ChannelRequest) -> (Guid, Guid) {
        (wanted.reader.guid, wanted.key.writer)
    }

    #[test]
    fn requests_for_one_channel_are_together() {
        let mut requests = Requests::default();
        assert!(requests.add(wanted(1, 50, true)), "the first one");
        for (reader, writer, is_reliable) in [(2, 50, true), (3, 50, false), (1, 51, true)] {
            assert!(!requests.add(wanted(reader, writer, is_reliable)));
        }
        let mut others = Requests::default();
        others.add(wanted(4, 51, true));
        requests.append(others);
        assert_eq!(requests.len(), 5);
        let mut counts: Vec<usize> = requests.take().map(|channel| channel.readers.len()).collect();
        counts.sort_unstable();
        assert_eq!((counts, requests.is_empty()), (vec![1, 2, 2], true));
    }

    #[test]
    fn extracted_requests_leave_no_channel_without_readers() {
        let mut requests = Requests::default();
        for (reader, writer) in [(1, 50), (2, 50), (1, 51)] {
            requests.add(wanted(reader, writer, true));
        }
        let extracted = requests.extract(|request, writer| request.guid == guid(1) && writer != guid(52));
        let mut pairs: Vec<_> = extracted.iter().map(pair).collect();
        pairs.sort_unstable();
        let mut expected = [(guid(1), guid(50)), (guid(1), guid(51))];
        expected.sort_unstable();
        assert_eq!(pairs, expected);
        let left: Vec<ChannelRequest> = requests.take().flat_map(RequestedChannel::into_each).collect();
        assert_eq!(left.iter().map(pair).collect::<Vec<_>>(), [(guid(2), guid(50))]);
    }

    #[test]
    fn deferred_requests_are_taken_and_removed_by_pair_or_reader() {
        let mut deferred = Deferred::default();
        for (reader, writer) in [(1, 50), (1, 53), (1, 51), (2, 50), (1, 50)] {
            deferred.add(&wanted(reader, writer, reader == 1));
        }
        assert_eq!(deferred.len(), 4, "one for each pair");
        assert!(deferred.take(guid(2), guid(51), Instant(9)).is_none());
        let taken = deferred.take(guid(1), guid(53), Instant(9)).unwrap();
        assert_eq!((pair(&taken), taken.key.is_reliable, taken.at), ((guid(1), guid(53)), true, AT));
        assert_eq!((taken.reader.until, taken.reader.attempts, taken.reader.is_demanded), (Instant(9), 1, true));
        deferred.remove(guid(1), Some(guid(51)));
        assert_eq!(deferred.len(), 2);
        deferred.remove(guid(1), None);
        deferred.remove(guid(2), Some(guid(50)));
        assert!(deferred.0.is_empty(), "nothing is kept for readers without requests");
    }

    #[test]
    fn some_deferred_requests_are_taken_without_the_others() {
        let mut deferred = Deferred::default();
        for (reader, writer) in [(1, 1), (1, 2), (2, 1), (2, 3)] {
            assert!(deferred.add(&wanted(reader, writer, true)));
        }
        let until = Instant(7);
        let first = deferred.take_some(3, until);
        assert!(first.len() == 3 && deferred.len() == 1);
        let others = deferred.take_some(3, until);
        assert!(others.len() == 1 && deferred.len() == 0 && deferred.0.is_empty());
        assert!(first.iter().chain(&others).all(|taken| taken.reader.is_demanded && taken.reader.until == until));
        let pairs: BTreeSet<_> = first.iter().chain(&others).map(pair).collect();
        assert_eq!(pairs.len(), 4);
    }

    #[test]
    fn demand_of_one_reader_is_demand_for_its_channel() {
        let mut channel =
            RequestedChannel { key: wanted(1, 50, true).key, at: AT, readers: vec![wanted(1, 50, true).reader] };
        assert!(!channel.is_demanded());
        channel.readers.push(ReaderRequest { is_demanded: true, ..wanted(2, 50, true).reader });
        assert!(channel.is_demanded());
    }

    #[test]
    fn retries_and_deferred_requests_of_a_reader_past_the_bound_have_no_room() {
        let (mut retries, mut deferred) = (Retries::default(), Deferred::default());
        for number in 0..MATCHES_MAX {
            assert!(retries.add(Instant(0), numbered(number)) && deferred.add(&numbered(number)), "{number}");
        }
        assert!(!retries.add(Instant(0), numbered(MATCHES_MAX)) && !deferred.add(&numbered(MATCHES_MAX)));
        assert!(retries.add(Instant(0), numbered(7)) && deferred.add(&numbered(7)), "the pair has a place");
        assert!(retries.add(Instant(0), wanted(2, 50, true)) && deferred.add(&wanted(2, 50, true)), "another reader");
        assert_eq!((retries.len(), deferred.len()), (MATCHES_MAX + 1, MATCHES_MAX + 1));
        retries.remove(guid(1), Some(numbered(7).key.writer));
        deferred.remove(guid(1), Some(numbered(7).key.writer));
        assert!(retries.add(Instant(0), numbered(MATCHES_MAX)) && deferred.add(&numbered(MATCHES_MAX)));
        retries.remove(guid(1), None);
        deferred.remove(guid(1), None);
        assert_eq!((retries.len(), deferred.len()), (1, 1));
    }

    #[test]
    fn requests_past_the_bound_become_retries() {
        let mut queue = ConnectQueue::default();
        for number in 0..WANTED_MAX {
            assert_eq!(queue.want(Instant(0), wanted(1, 50, true)), number == 0);
        }
        assert!(!queue.want(Instant(0), wanted(2, 50, true)));
        assert_eq!((queue.wanted.len(), queue.retries.len()), (WANTED_MAX, 1));
        assert_eq!(queue.wanted.extract(|_, _| true).len(), WANTED_MAX);
        assert!(queue.want(Instant(0), wanted(2, 50, true)), "there is room again");
        assert_eq!(queue.wanted.len(), queue.wanted.readers().count());
    }
}
