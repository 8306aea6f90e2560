//! Requests of readers for channels.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Weak;

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::shm::{ConnectError, Connecting, Gone};

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

/// Requests to the thread that polls the connections. Under `Poll`, that thread may take none of them for long.
#[derive(Default)]
pub(super) struct ConnectQueue {
    pub(in crate::driver) wanted: Requests,
    pub(super) retries: Retries,
    pub(super) deferred: Deferred,
    /// Recorded while requests exist.
    pub(super) cancelled: Cancelled,
    pub(super) is_connecting: bool,
}

/// Requests by channel: at most one for each matched pair.
#[derive(Default)]
pub(super) struct Requests(BTreeMap<ChannelKey, RequestedChannel>);

impl Requests {
    /// Returns whether there were no requests before: the thread that polls the connections does not know of any.
    pub(super) fn add(&mut self, wanted: ChannelRequest) -> bool {
        let ChannelRequest { key, at, reader } = wanted;
        let is_first = self.0.is_empty();
        let channel = self.0.entry(key).or_insert_with(|| RequestedChannel { key, at, readers: Vec::new() });
        channel.at = at;
        channel.readers.push(reader);
        is_first
    }

    pub(super) fn add_all(&mut self, wanted: RequestedChannel) {
        match self.0.entry(wanted.key) {
            Entry::Vacant(vacant) => _ = vacant.insert(wanted),
            Entry::Occupied(mut occupied) => {
                let known = occupied.get_mut();
                known.at = wanted.at;
                known.readers.extend(wanted.readers);
            }
        }
    }

    pub(super) fn append(&mut self, others: Self) {
        others.0.into_values().for_each(|wanted| self.add_all(wanted));
    }

    /// Removes and returns the requests for which `is_meant`, called with the writer, is true.
    pub(super) fn extract(&mut self, mut is_meant: impl FnMut(&ReaderRequest, Guid) -> bool) -> Vec<ChannelRequest> {
        let mut extracted = Vec::new();
        self.0.retain(|_, wanted| {
            wanted.extract(&mut extracted, &mut is_meant);
            !wanted.readers.is_empty()
        });
        extracted
    }

    /// Takes all requests, by channel.
    pub(super) fn take(&mut self) -> impl Iterator<Item = RequestedChannel> + use<> {
        std::mem::take(&mut self.0).into_values()
    }

    pub(super) fn readers(&self) -> impl Iterator<Item = &ReaderRequest> {
        self.0.values().flat_map(|wanted| &wanted.readers)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.readers().count()
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
    /// When, for each pair of a reader and a writer: at most one for each matched pair, and those that were unmatched
    /// while the request failed.
    waiting: HashMap<(Guid, Guid), (Instant, ChannelRequest)>,
    /// No later than the time of the first one.
    due: Option<Instant>,
}

impl Retries {
    /// Adds a reader whose request has failed now.
    pub(super) fn add(&mut self, now: Instant, wanted: ChannelRequest) {
        let at = now + wanted.reader.pause();
        self.waiting.insert((wanted.reader.guid, wanted.key.writer), (at, wanted));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Removes a reader, which needs no channel from this writer any more, or requests one by itself.
    pub(super) fn remove(&mut self, reader: Guid, writer: Option<Guid>) {
        match writer {
            Some(writer) => {
                self.waiting.remove(&(reader, writer));
            }
            None => self.waiting.retain(|(other, _), _| *other != reader),
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
        let due = self.waiting.extract_if(|_, (at, _)| *at <= now).map(|(_, (_, wanted))| wanted).collect();
        self.due = self.waiting.values().map(|(at, _)| *at).min();
        due
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The time of the next [`Self::take_due`].
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }
}

/// The readers whose requests are put off until samples come: at most one request for each matched pair. A request that
/// was put off is the first of its pair when it is made.
#[derive(Default)]
pub(super) struct Deferred(HashMap<Guid, DeferredReader>);

/// A reader, and the writers from which it wants channels later.
struct DeferredReader {
    core: Weak<ReaderCore>,
    is_reliable: bool,
    /// By their participant.
    writers: BTreeMap<GuidPrefix, DeferredWriters>,
}

/// Writers of one participant.
struct DeferredWriters {
    at: SharedMemoryAddress,
    /// Sorted.
    writers: Vec<EntityId>,
}

impl Deferred {
    pub(super) fn add(&mut self, wanted: &ChannelRequest) {
        let ChannelRequest { key: ChannelKey { writer, is_reliable }, at, reader } = wanted;
        let of_reader = self.0.entry(reader.guid).or_insert_with(|| DeferredReader {
            core: Weak::clone(&reader.core),
            is_reliable: *is_reliable,
            writers: BTreeMap::new(),
        });
        let of_participant = of_reader.writers.entry(writer.prefix);
        let of_participant = of_participant.or_insert_with(|| DeferredWriters { at: *at, writers: Vec::new() });
        of_participant.at = *at;
        if let Err(place) = of_participant.writers.binary_search(&writer.entity) {
            of_participant.writers.insert(place, writer.entity);
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

    fn remove_pair(
        &mut self,
        reader: Guid,
        writer: Guid,
    ) -> Option<(Weak<ReaderCore>, ChannelKey, SharedMemoryAddress)> {
        let of_reader = self.0.get_mut(&reader)?;
        let of_participant = of_reader.writers.get_mut(&writer.prefix)?;
        let place = of_participant.writers.binary_search(&writer.entity).ok()?;
        of_participant.writers.remove(place);
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
    use super::*;

    const AT: SharedMemoryAddress = SharedMemoryAddress { address: [1; 16], host: [0; 5] };

    fn guid(number: u8) -> Guid {
        Guid { prefix: GuidPrefix([number % 3; 12]), entity: EntityId([0, 0, number, 7]) }
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
    fn demand_of_one_reader_is_demand_for_its_channel() {
        let mut channel =
            RequestedChannel { key: wanted(1, 50, true).key, at: AT, readers: vec![wanted(1, 50, true).reader] };
        assert!(!channel.is_demanded());
        channel.readers.push(ReaderRequest { is_demanded: true, ..wanted(2, 50, true).reader });
        assert!(channel.is_demanded());
    }
}
