//! Two participants, each of which knows, half knows or has forgotten the other: from every combination they match
//! again, whatever happens to the first messages, and whichever endpoint was created or deleted meanwhile.

use super::*;
use crate::receiver::{DropReason, Envelope, Input, Receive, interpret};
use crate::writer::Writer;

/// How much one side knows of the other one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Knowledge {
    /// Everything.
    Knows,
    /// Nothing: it has been silent for its lease.
    Forgot,
    /// The participant, which was heard of again, and is unverified.
    Unverified,
    /// The participant and its built-in endpoints, from which nothing has come.
    Joined,
}

const KNOWLEDGE: [Knowledge; 4] = [Knowledge::Knows, Knowledge::Forgot, Knowledge::Unverified, Knowledge::Joined];

/// A change of the endpoints of one of the hosts while all messages are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// The host creates a second writer.
    WriterCreated,
    /// The host deletes its only writer.
    WriterDeleted,
    /// The host creates a second reader.
    ReaderCreated,
    /// The host deletes its only reader.
    ReaderDeleted,
}

/// The host by index, and its change.
type ChangeAt = Option<(usize, Change)>;

const CHANGES: [ChangeAt; 9] = [
    None,
    Some((0, Change::WriterCreated)),
    Some((1, Change::WriterCreated)),
    Some((0, Change::WriterDeleted)),
    Some((1, Change::WriterDeleted)),
    Some((0, Change::ReaderCreated)),
    Some((1, Change::ReaderCreated)),
    Some((0, Change::ReaderDeleted)),
    Some((1, Change::ReaderDeleted)),
];

/// How host 2 behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Peregrine,
    /// A Cyclone peer believes every announcement, and announces itself to a single participant only when that is new.
    Cyclone,
    /// As Cyclone. Its built-in writers do not repeat what was acknowledged, nor answer a pre-emptive ACKNACK where all
    /// is acknowledged.
    FastDds,
}

impl Peer {
    pub(super) const fn vendor(self) -> VendorId {
        match self {
            Self::Peregrine => VendorId::PEREGRINE,
            Self::Cyclone => VendorId::CYCLONE,
            Self::FastDds => VendorId::FAST_DDS,
        }
    }
}

/// The fate of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Arrives,
    IsLost,
    IsLate,
}

const FATES: [Fate; 3] = [Fate::Arrives, Fate::IsLost, Fate::IsLate];
/// So many messages have a fate of their own.
const DEPTH: u32 = 3;
pub(super) const DELAY: Span = Span::from_micros(200);
pub(super) const LATE: Span = Span::from_millis(300);
/// No lease ends by itself.
pub(super) const LONG: Span = Span::from_secs(10_000);

struct Model {
    now: Instant,
    hosts: [Participant; 2],
    peer: Peer,
    in_flight: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    /// The fates of the next messages, first the last.
    fates: Vec<Fate>,
    /// When the last of them met its fate.
    flows_from: Instant,
    is_cut: bool,
    change: ChangeAt,
}

impl Model {
    fn new(peer: Peer) -> Self {
        let now = Instant(1_000_000_000);
        let host = |host| Participant::new(now, ParticipantConfig { lease: LONG, ..config(host) });
        let (in_flight, fates) = (BTreeMap::new(), vec![]);
        let hosts = [host(1), host(2)];
        let mut model =
            Self { now, hosts, peer, in_flight, sent: 0, fates, flows_from: now, is_cut: false, change: None };
        for host in [1, 2] {
            let wall = model.wall();
            let participant = &mut model.hosts[host as usize - 1];
            participant.put_writer(now, wall, publication(host, 1, "topic"));
            participant.put_reader(now, wall, subscription(host, 2, "topic"));
        }
        model.run(Span::from_secs(4));
        assert!(model.is_matched(), "{peer:?} was never matched");
        model
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_unix_nanos(self.now.0 + 1_700_000_000_000_000_000)
    }

    /// Whether the endpoints of each side have matched those that the other one has now, and no others.
    fn is_matched(&self) -> bool {
        let matches = |at: usize| {
            let (host, other) = (&self.hosts[at], prefix(2 - at as u32));
            let are = |matched: Vec<Guid>, entities: &[EntityId]| {
                // The endpoints of a host have matched each other, too.
                let remote = matched.into_iter().filter(|guid| guid.prefix == other).map(|guid| guid.entity);
                remote.collect::<BTreeSet<_>>() == entities.iter().copied().collect()
            };
            let (writers, readers) = self.endpoints_of(1 - at);
            host.writers.values().all(|writer| are(writer.matched.iter().copied().collect(), &readers))
                && host.readers.values().all(|reader| are(reader.matched.iter().copied().collect(), &writers))
        };
        matches(0) && matches(1)
    }

    /// The writers and the readers that a host has at present.
    fn endpoints_of(&self, host: usize) -> (Vec<EntityId>, Vec<EntityId>) {
        let [first, second] = [1, 3].map(|key| EntityId::user_writer(key, false));
        let [first_reader, second_reader] = [2, 4].map(|key| EntityId::user_reader(key, false));
        let change = self.change.filter(|(at, _)| *at == host).map(|(_, change)| change);
        let writers = match change {
            Some(Change::WriterCreated) => vec![first, second],
            Some(Change::WriterDeleted) => vec![],
            _ => vec![first],
        };
        let readers = match change {
            Some(Change::ReaderCreated) => vec![first_reader, second_reader],
            Some(Change::ReaderDeleted) => vec![],
            _ => vec![first_reader],
        };
        (writers, readers)
    }

    /// A host creates or deletes an endpoint.
    fn change(&mut self, change: ChangeAt) {
        let (now, wall) = (self.now, self.wall());
        self.change = change;
        let Some((at, change)) = change else { return };
        let (host, number) = (&mut self.hosts[at], at as u32 + 1);
        match change {
            Change::WriterCreated => host.put_writer(now, wall, publication(number, 3, "topic")),
            Change::WriterDeleted => host.remove_writer(now, wall, EntityId::user_writer(1, false)),
            Change::ReaderCreated => host.put_reader(now, wall, subscription(number, 4, "topic")),
            Change::ReaderDeleted => host.remove_reader(now, wall, EntityId::user_reader(2, false)),
        }
    }

    /// Brings one side into a state that it reaches by itself when messages are lost for long enough.
    fn set(&mut self, host: usize, knowledge: Knowledge) {
        let (now, wall) = (self.now, self.wall());
        let other = prefix(2 - host as u32);
        let message = self.hosts[1 - host].announcement(wall, None);
        let message = if host == 0 { dressed(message, self.peer.vendor()) } else { message };
        let participant = &mut self.hosts[host];
        if knowledge == Knowledge::Knows {
            return;
        }
        participant.remove_participant(now, wall, other, LostReason::LeaseExpired);
        if knowledge == Knowledge::Forgot {
            return;
        }
        let rx = Reception { now, wall, buffer: None, source: address(2 - host as u32, 7410).into() };
        participant.handle_datagram(&rx, &message, &mut FragmentRun::default(), |_, _, _| {});
        if knowledge == Knowledge::Joined {
            participant.verify(now, other);
        }
    }

    fn send(&mut self, from: usize, knew: bool) {
        let mut batch = TransmitBatch::default();
        while self.hosts[from].poll_transmit(self.now, &mut batch) {
            for message in batch.messages() {
                let mut bytes = vec![];
                message.copy_to(&mut bytes);
                let to_group = message.to().iter().any(|l| l.is_multicast());
                let peer_is_quiet = from == 1 && self.peer != Peer::Peregrine && knew;
                if peer_is_quiet && !to_group && is_announcement(&bytes) {
                    continue;
                }
                let bytes = if from == 1 { dressed(bytes, self.peer.vendor()) } else { bytes };
                let fate = if self.is_cut { Fate::IsLost } else { self.fates.pop().unwrap_or(Fate::Arrives) };
                let delay = match fate {
                    Fate::Arrives => DELAY,
                    Fate::IsLate => LATE,
                    Fate::IsLost => Span::ZERO,
                };
                if fate != Fate::Arrives {
                    self.flows_from = self.now + delay;
                }
                if fate != Fate::IsLost {
                    self.sent += 1;
                    self.in_flight.insert((self.now + delay, self.sent), (1 - from, bytes));
                }
            }
            batch.clear();
        }
        while self.hosts[from].poll_event().is_some() {}
    }

    /// Host 2 does what its vendor would do, and Peregrine would not.
    fn act_as_vendor(&mut self) {
        if self.peer != Peer::Peregrine {
            let now = self.now;
            self.hosts[1].verify(now, prefix(1));
        }
    }

    /// Whether the vendor of host 2 takes no notice of a message.
    fn is_ignored(&self, bytes: &[u8]) -> bool {
        self.peer == Peer::FastDds && is_ignored_by_fast_dds(&self.hosts[1], prefix(1), bytes)
    }

    fn step(&mut self, until: Instant) -> bool {
        let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
        let timers = self.hosts.iter().filter_map(Participant::poll_timeout);
        let Some(at) = timers.chain(arrival).min().filter(|at| *at <= until) else { return false };
        self.now = self.now.max(at);
        let (now, wall) = (self.now, self.wall());
        let knew = self.hosts[1].remote_participant(&prefix(1)).is_some();
        if arrival == Some(at) {
            let Some((_, (to, bytes))) = self.in_flight.pop_first() else { return false };
            if to == 0 || !self.is_ignored(&bytes) {
                let rx = Reception { now, wall, buffer: None, source: address(2 - to as u32, 7410).into() };
                self.hosts[to].handle_datagram(&rx, &bytes, &mut FragmentRun::default(), |_, _, _| {});
            }
        } else {
            self.hosts.iter_mut().for_each(|host| host.handle_timeout(now, wall));
        }
        self.act_as_vendor();
        self.send(0, true);
        self.send(1, knew);
        true
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        for _ in 0..100_000 {
            if !self.step(end) {
                self.now = end;
                return;
            }
        }
        panic!("the participants never stop talking");
    }
}

/// A message as it would look if this vendor had sent it.
pub(super) fn dressed(mut message: Vec<u8>, VendorId(vendor): VendorId) -> Vec<u8> {
    message[6..8].copy_from_slice(&vendor);
    let parameter = [0x16, 0, 4, 0];
    let at = message.windows(4).position(|w| w == parameter);
    if let Some(at) = at {
        message[at + 4..at + 6].copy_from_slice(&vendor);
    }
    message
}

pub(super) fn is_announcement(bytes: &[u8]) -> bool {
    Submessages::new(&bytes[20..])
        .any(|s| matches!(s, Ok(Submessage::Data(data)) if data.writer == EntityId::SPDP_WRITER))
}

/// To which writer, from where on, and whether only a HEARTBEAT is asked for.
#[derive(Default)]
struct Acknowledgements(Vec<(EntityId, SequenceNumber, bool)>);

impl Receive for Acknowledgements {
    fn input(&mut self, envelope: Envelope, input: Input<'_>) {
        if let Input::AckNack(acknack) = input {
            let is_preemptive = !acknack.is_final && acknack.state.is_empty();
            self.0.push((envelope.to, acknack.state.base(), is_preemptive));
        }
    }

    fn dropped(&mut self, _: GuidPrefix, _: VendorId, reason: DropReason) {
        panic!("{reason}");
    }
}

/// Whether the built-in writers of Fast DDS take no notice of a message, which requests what `of` has acknowledged, or
/// a HEARTBEAT after having acknowledged everything.
pub(super) fn is_ignored_by_fast_dds(participant: &Participant, of: GuidPrefix, bytes: &[u8]) -> bool {
    let mut acknowledgements = Acknowledgements::default();
    interpret(bytes, participant.config.prefix, &mut acknowledgements);
    acknowledgements.0.iter().any(|(to, base, is_preemptive)| {
        let topics = [&participant.builtin.publications, &participant.builtin.subscriptions];
        let mut writers = topics.iter().map(|topic| &topic.writer);
        let writer = writers.find(|writer| writer.guid().entity == *to);
        writer.is_some_and(|writer| repeats_nothing(writer, of, *base, *is_preemptive))
    })
}

/// Whether a writer of Fast DDS takes no notice of an ACKNACK.
pub(super) fn repeats_nothing(writer: &Writer, of: GuidPrefix, base: SequenceNumber, is_preemptive: bool) -> bool {
    let is_known = writer.matched_readers().any(|reader| reader.guid.prefix == of);
    let acknowledged_below = writer.acknowledged_below_by_all();
    is_known && (base < acknowledged_below || is_preemptive && acknowledged_below > writer.last())
}

/// All fates of the first messages.
pub(super) fn all_fates() -> impl Iterator<Item = Vec<Fate>> {
    (0..3_usize.pow(DEPTH)).map(|number| (0..DEPTH).map(|place| FATES[number / 3_usize.pow(place) % 3]).collect())
}

/// The combinations in which the two do not match again in time.
fn failures(peer: Peer, change: ChangeAt) -> Vec<(Knowledge, Knowledge, Vec<Fate>)> {
    let mut failures = vec![];
    for (ours, theirs) in KNOWLEDGE.into_iter().flat_map(|ours| KNOWLEDGE.map(|theirs| (ours, theirs))) {
        for fates in all_fates() {
            let mut model = Model::new(peer);
            model.is_cut = true;
            model.set(0, ours);
            model.set(1, theirs);
            model.change(change);
            // Long enough that every retry with a bound has come to its end.
            model.run(Span::from_secs(20));
            model.is_cut = false;
            model.flows_from = model.now;
            model.fates.clone_from(&fates);
            while !model.fates.is_empty() {
                assert!(model.step(Instant::FAR_FUTURE));
            }
            let flows_from = model.flows_from.max(model.now);
            model.run((flows_from + PERIOD.times(2)).since(model.now));
            if !model.is_matched() {
                failures.push((ours, theirs, fates));
            }
        }
    }
    failures
}

fn assert_converges(peer: Peer) {
    let mut combinations = BTreeMap::new();
    for change in CHANGES {
        for (ours, theirs, fates) in failures(peer, change) {
            combinations.entry(std::format!("{change:?}: {ours:?}/{theirs:?}")).or_insert_with(Vec::new).push(fates);
        }
    }
    let examples: Vec<_> = combinations.iter().map(|(states, fates)| (states, fates.len(), &fates[0])).collect();
    assert!(examples.is_empty(), "{peer:?}: {examples:#?}");
}

#[test]
fn two_peregrine_participants_match_again_from_every_state() {
    assert_converges(Peer::Peregrine);
}

#[test]
fn peer_that_addresses_only_strangers_is_matched_again_from_every_state() {
    assert_converges(Peer::Cyclone);
}

#[test]
fn peer_that_repeats_nothing_is_matched_again_from_every_state() {
    assert_converges(Peer::FastDds);
}
