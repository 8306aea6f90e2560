//! A reliable writer at one participant and its reader at another one: each side knows the endpoint of the other, half
//! knows it, has forgotten it, or has matched it anew, in the middle of a stream of samples. From every combination
//! both match again in time, and the samples arrive once and in order, whatever happens to the first messages.
//!
//! `convergence.rs` has the states of the participants alone. All five tests together play 54,000 worlds, in 15 s of
//! processor time.

use super::convergence::{
    DELAY, Fate, LATE, LONG, Peer, all_fates, dressed, is_announcement, is_ignored_by_fast_dds, repeats_nothing,
};
use super::*;
use crate::history::{HistoryKind, Selector};
use crate::qos::Durability;
use crate::reader::{Reader, ReaderConfig};
use crate::receiver::Input;
use crate::writer::{Writer, WriterConfig};

/// How much the side of the writer knows of the reader, or the side of the reader of the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Knowledge {
    /// Everything: the endpoint was matched all the time.
    Knows,
    /// Nothing: its participant has been silent for its lease.
    Forgot,
    /// The participant, which was heard of again, and is unverified.
    Unverified,
    /// The participant and its built-in endpoints, from which nothing has come.
    Joined,
    /// The endpoint, which was forgotten and matched anew. The messages that its match has sent are lost.
    Anew,
}

const KNOWLEDGE: [Knowledge; 5] =
    [Knowledge::Knows, Knowledge::Forgot, Knowledge::Unverified, Knowledge::Joined, Knowledge::Anew];

/// The sequence state of both endpoints before the outage, and what is written in it. Three samples have been
/// acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Samples {
    /// No further sample is written.
    Settled,
    /// One is written in the outage.
    WrittenApart,
    /// Three more have arrived, and the writer does not know it. One is written in the outage.
    Unacknowledged,
    /// Of three more, only the second has arrived, and the writer does not know it. One is written in the outage.
    Missing,
}

const SAMPLES: [Samples; 4] = [Samples::Settled, Samples::WrittenApart, Samples::Unacknowledged, Samples::Missing];

/// How long all messages are lost: until retries are under way, or until each retry with a bound has come to its end.
const OUTAGES: [Span; 2] = [Span::from_millis(100), Span::from_secs(20)];
/// Far more than a world has before its first messages have left.
const STEPS_MAX: u32 = 10_000;

/// Which messages are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    None,
    /// The messages between user endpoints.
    User,
    /// The messages from the reader to the writer.
    Answers,
    All,
}

/// One world of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
struct World {
    peer: Peer,
    /// The host of the writer, by index: 1 is the one with the vendor of `peer`.
    writer_at: usize,
    is_durable: bool,
    samples: Samples,
    of_writer: Knowledge,
    of_reader: Knowledge,
    outage: Span,
    /// The fates of the first messages after the outage.
    fates: Vec<Fate>,
}

impl World {
    fn vendor_of(&self, host: usize) -> VendorId {
        match (host, self.peer) {
            (1, peer) => peer.vendor(),
            // Cyclone DDS treats a writer of another vendor by the rules of the standard.
            (_, Peer::Cyclone) => VendorId::UNKNOWN,
            _ => VendorId::PEREGRINE,
        }
    }

    /// Whether the host with the reader keeps the place of a reader that has forgotten its writer.
    fn parks(&self) -> bool {
        self.writer_at == 1 || self.peer == Peer::Peregrine
    }

    /// Whether the reader drops samples until the first HEARTBEAT, and starts after the last one that this names.
    fn skips_to_first_heartbeat(&self) -> bool {
        self.peer == Peer::Cyclone && self.writer_at == 0 && !self.is_durable
    }

    /// Whether the reader goes on where it was although it has forgotten its writer.
    fn continues(&self) -> bool {
        self.parks() && (!self.is_durable || self.peer == Peer::FastDds)
    }
}

struct Model {
    world: World,
    now: Instant,
    hosts: [Participant; 2],
    writer: Writer,
    reader: Reader,
    in_flight: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    /// The fates of the next messages, in reverse order.
    fates: Vec<Fate>,
    /// When the last of them met its fate.
    flows_from: Instant,
    cut: Cut,
    /// The samples that the reader has delivered, for each time that it knew the writer.
    received: Vec<Vec<i64>>,
    /// The first sample written since the writer matched the reader last.
    matched_from: i64,
    /// The first sample written since both sides were matched last.
    both_matched_from: Option<i64>,
    /// The first sample written after both sides had matched again, and the first one written a period later.
    written_after: [i64; 2],
    /// Whether a HEARTBEAT has arrived since the reader matched the writer last.
    is_heard: bool,
    next_question: Instant,
    /// Matches and participants that have ended since the outage.
    losses: u32,
}

impl Model {
    fn new(world: World) -> Self {
        let now = Instant(1_000_000_000);
        let host = |host| Participant::new(now, ParticipantConfig { lease: LONG, ..config(host) });
        let hosts = [host(1), host(2)];
        let [at_writer, at_reader] = [world.writer_at, 1 - world.writer_at].map(|at| at as u32 + 1);
        let mut offered = publication(at_writer, 1, "topic");
        let mut requested = subscription(at_reader, 2, "topic");
        requested.qos.reliability = Reliability { kind: ReliabilityKind::Reliable, ..Reliability::BEST_EFFORT };
        offered.qos.reliability = requested.qos.reliability;
        let durability = if world.is_durable { Durability::TransientLocal } else { Durability::Volatile };
        (offered.qos.durability, requested.qos.durability) = (durability, durability);
        let mut writer = WriterConfig::new(offered.guid);
        (writer.durable, writer.history) = (world.is_durable, HistoryKind::KeepAll);
        if world.writer_at == 1 && world.peer != Peer::Peregrine {
            // Other vendors wait for a reader as long as it is matched.
            writer.unanswered_heartbeats = u32::MAX;
        }
        let mut reader = ReaderConfig::new(requested.guid);
        (reader.reliable, reader.wants_history) = (true, world.is_durable);
        reader.cache.history = HistoryKind::KeepAll;
        let mut model = Self {
            now,
            hosts,
            writer: Writer::new(writer),
            reader: Reader::new(reader),
            in_flight: BTreeMap::new(),
            sent: 0,
            fates: vec![],
            flows_from: now,
            cut: Cut::None,
            received: vec![vec![]],
            matched_from: 1,
            both_matched_from: None,
            written_after: [i64::MAX; 2],
            is_heard: false,
            next_question: now,
            losses: 0,
            world,
        };
        let wall = model.wall();
        model.hosts[at_writer as usize - 1].put_writer(now, wall, offered);
        model.hosts[at_reader as usize - 1].put_reader(now, wall, requested);
        model
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_unix_nanos(self.now.0 + 1_700_000_000_000_000_000)
    }

    /// Whether both sides have matched the endpoint of the other one.
    fn is_matched(&self) -> bool {
        self.knows(self.world.writer_at) && self.knows(1 - self.world.writer_at)
    }

    /// Whether the endpoint at this host has matched the other one.
    fn knows(&self, host: usize) -> bool {
        match host == self.world.writer_at {
            true => self.writer.matched_readers().next().is_some(),
            false => self.reader.matched_writers().next().is_some(),
        }
    }

    fn write(&mut self) {
        let change = Change {
            kind: ChangeKind::Alive,
            instance: KeyHash::NIL,
            source_timestamp: self.wall(),
            payload: Payload::copy_of(&[0, 1, 0, 0, 7]),
        };
        let number = self.writer.write(self.now, change).expect("a writer without limits has room").0;
        if self.is_matched() {
            self.both_matched_from.get_or_insert(number);
        }
        self.pump();
    }

    /// Brings both endpoints into the sequence state of this world.
    fn prepare_samples(&mut self) {
        (0..3).for_each(|_| self.write());
        self.run(Span::from_millis(200));
        assert!(self.writer.is_acknowledged(self.writer.last()), "{:?}", self.world);
        let arrive = match self.world.samples {
            Samples::Settled | Samples::WrittenApart => [].as_slice(),
            Samples::Unacknowledged => &[true, true, true],
            Samples::Missing => &[false, true, false],
        };
        for arrives in arrive {
            self.cut = if *arrives { Cut::Answers } else { Cut::User };
            self.write();
            self.run(Span::from_millis(1));
        }
    }

    /// Brings both sides into the states of knowledge of this world, which they reach by themselves when messages are
    /// lost for long enough.
    fn prepare_knowledge(&mut self) {
        let sides = [(self.world.writer_at, self.world.of_writer), (1 - self.world.writer_at, self.world.of_reader)];
        self.cut = Cut::User;
        let anew = |(_, knowledge): &&(usize, Knowledge)| *knowledge == Knowledge::Anew;
        sides.iter().filter(anew).for_each(|(host, _)| self.forget(*host));
        if sides.iter().any(|side| anew(&side)) {
            self.run_until_matched(self.now + PERIOD.times(2));
            assert!(self.is_matched(), "{:?}", self.world);
        }
        self.cut = Cut::All;
        self.run(LATE);
        for (host, knowledge) in sides {
            if !matches!(knowledge, Knowledge::Knows | Knowledge::Anew) {
                self.forget(host);
            }
            if matches!(knowledge, Knowledge::Unverified | Knowledge::Joined) {
                self.hear_announcement(host);
            }
            if knowledge == Knowledge::Joined {
                self.hosts[host].verify(self.now, prefix(2 - host as u32));
            }
            self.pump();
        }
    }

    fn forget(&mut self, host: usize) {
        let (now, wall) = (self.now, self.wall());
        self.hosts[host].remove_participant(now, wall, prefix(2 - host as u32), LostReason::LeaseExpired);
        self.pump();
    }

    fn hear_announcement(&mut self, host: usize) {
        let message = self.hosts[1 - host].announcement(self.wall(), None);
        self.receive(host, &dressed(message, self.world.vendor_of(1 - host)));
    }

    /// Carries out what the participants have decided.
    fn apply(&mut self, host: usize, event: &ParticipantEvent) {
        let (now, wall) = (self.now, self.wall());
        let is_loss = matches!(
            event,
            ParticipantEvent::ParticipantLost(..)
                | ParticipantEvent::ReaderUnmatched { .. }
                | ParticipantEvent::WriterUnmatched { .. }
        );
        if is_loss {
            (self.losses, self.both_matched_from) = (self.losses + 1, None);
        }
        match event {
            ParticipantEvent::ReaderMatched { reader, .. } => {
                if !self.knows(host) {
                    self.matched_from = self.writer.last().0 + 1;
                }
                assert!(self.writer.match_reader(now, reader.clone()));
            }
            ParticipantEvent::ReaderUnmatched { reader, .. } => _ = self.writer.unmatch_reader(now, *reader),
            ParticipantEvent::WriterMatched { writer, .. } => {
                self.is_heard &= self.knows(host);
                assert!(self.reader.match_writer(now, writer.clone()));
            }
            ParticipantEvent::WriterUnmatched { writer, may_return, .. } => {
                if *may_return && self.world.parks() {
                    self.reader.park_writer(now, wall, *writer);
                } else {
                    self.reader.unmatch_writer(now, wall, *writer);
                }
                self.received.push(vec![]);
            }
            _ => {}
        }
    }

    /// Sends what the participants and endpoints have to send.
    fn pump(&mut self) {
        for host in [0, 1] {
            self.pump_host(host, true);
        }
    }

    fn pump_host(&mut self, host: usize, knew: bool) {
        let mut batch = TransmitBatch::default();
        loop {
            while let Some(event) = self.hosts[host].poll_event() {
                self.apply(host, &event);
            }
            let is_writer = host == self.world.writer_at;
            let is_user = if is_writer {
                self.writer.poll_transmit(&mut batch)
            } else {
                self.reader.poll_transmit(self.now, &mut batch)
            };
            if !is_user && !self.hosts[host].poll_transmit(self.now, &mut batch) {
                break;
            }
            for message in batch.messages() {
                let mut bytes = vec![];
                message.copy_to(&mut bytes);
                let to_group = message.to().iter().any(|l| l.is_multicast());
                // Cyclone DDS and Fast DDS announce themselves to a single participant only when that is new.
                let is_quiet = host == 1 && self.world.peer != Peer::Peregrine && knew && !to_group;
                if is_user || !is_quiet || !is_announcement(&bytes) {
                    self.launch(host, is_user, dressed(bytes, self.world.vendor_of(host)));
                }
            }
            batch.clear();
        }
        while self.writer.poll_event().is_some() {}
        while self.reader.poll_event().is_some() {}
        let mut samples = vec![];
        self.reader.select(&Selector::ANY, true, &mut samples);
        let valid = samples.iter().filter(|sample| sample.info.valid_data);
        self.received.last_mut().unwrap().extend(valid.map(|sample| sample.info.sequence_number.0));
    }

    fn launch(&mut self, from: usize, is_user: bool, bytes: Vec<u8>) {
        let is_lost = match self.cut {
            Cut::None => false,
            Cut::User => is_user,
            Cut::Answers => is_user && from != self.world.writer_at,
            Cut::All => true,
        };
        let fate = if is_lost { Fate::IsLost } else { self.fates.pop().unwrap_or(Fate::Arrives) };
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

    fn receive(&mut self, host: usize, bytes: &[u8]) {
        if host == 1 && self.world.peer == Peer::FastDds && is_ignored_by_fast_dds(&self.hosts[1], prefix(1), bytes) {
            return;
        }
        let (now, wall) = (self.now, self.wall());
        let rx = Reception { now, wall, buffer: None, source: address(2 - host as u32, 7410).into() };
        let (writer, reader) = (&mut self.writer, &mut self.reader);
        let is_fast_dds = self.world.peer == Peer::FastDds && host == 1;
        let (is_heard, skips) = (&mut self.is_heard, self.world.skips_to_first_heartbeat());
        self.hosts[host].handle_datagram(
            &rx,
            bytes,
            &mut FragmentRun::default(),
            |rx, Delivery { from, .. }, input| match input {
                Input::AckNack(acknack) => {
                    let (base, is_preemptive) = (acknack.state.base(), !acknack.is_final && acknack.state.is_empty());
                    if !is_fast_dds || !repeats_nothing(writer, from.prefix, base, is_preemptive) {
                        writer.handle_acknack(rx.now, from, acknack);
                    }
                }
                Input::Data(..) if skips && !*is_heard => {}
                Input::Data(meta, data) => reader.handle_data(rx, from, *meta, data),
                Input::Heartbeat(heartbeat) => {
                    *is_heard = reader.matched_writers().next().is_some();
                    reader.handle_heartbeat(rx, from, heartbeat);
                }
                Input::Gap(gap) => reader.handle_gap(rx, from, gap),
                other => panic!("no sample is fragmented: {other:?}"),
            },
        );
    }

    fn step(&mut self, until: Instant) -> bool {
        let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
        let endpoints = [self.writer.poll_timeout().map(|(at, _)| at), self.reader.poll_timeout().map(|(at, _)| at)];
        let timers = self.hosts.iter().filter_map(Participant::poll_timeout).chain(endpoints.into_iter().flatten());
        let Some(at) = timers.chain(arrival).min().filter(|at| *at <= until) else { return false };
        self.now = self.now.max(at);
        let (now, wall) = (self.now, self.wall());
        let knew = self.hosts[1].remote_participant(&prefix(1)).is_some();
        if arrival == Some(at) {
            let Some((_, (to, bytes))) = self.in_flight.pop_first() else { return false };
            self.receive(to, &bytes);
        } else {
            self.hosts.iter_mut().for_each(|host| host.handle_timeout(now, wall));
            self.writer.handle_timeout(now);
            self.reader.handle_timeout(now, wall);
        }
        if self.world.skips_to_first_heartbeat() && self.next_question <= now {
            // Cyclone DDS asks a writer that it has not heard without end.
            self.next_question = now + PERIOD;
            self.reader.ask_unheard_writer(now, Guid::new(prefix(1), self.writer.guid().entity));
        }
        if self.world.peer != Peer::Peregrine {
            // Cyclone DDS and Fast DDS believe every announcement.
            self.hosts[1].verify(now, prefix(1));
        }
        self.pump_host(0, true);
        self.pump_host(1, knew);
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
        panic!("the participants never stop talking: {:?}", self.world);
    }

    /// Runs until both sides are matched, or until `end`.
    fn run_until_matched(&mut self, end: Instant) {
        while !self.is_matched() && self.step(end) {}
    }

    /// The first rule that the world has broken.
    fn broken_rule(&self) -> Option<String> {
        let last = self.writer.last().0;
        let all: Vec<i64> = self.received.concat();
        let newest = self.received.last().unwrap();
        let is_ascending = |numbers: &[i64]| numbers.windows(2).all(|pair| pair[0] < pair[1]);
        if !self.received.iter().all(|numbers| is_ascending(numbers)) {
            return Some("a sample was delivered twice, or out of order, in one match".to_string());
        }
        if self.world.continues() && !is_ascending(&all) {
            return Some("a sample was delivered again after the reader had forgotten the writer".to_string());
        }
        // A durable writer that repeats sends everything again to a reader that had forgotten it.
        let (required, delivered) = match (self.world.is_durable, self.world.continues()) {
            (true, false) => (1, newest),
            (true, true) => (1, &all),
            (false, _) => (self.required_from(), &all),
        };
        let lacking: Vec<i64> = (required..=last).filter(|number| !delivered.contains(number)).collect();
        if !lacking.is_empty() {
            return Some(std::format!("samples were not delivered: {lacking:?} of {required} to {last}"));
        }
        (self.losses > 0).then(|| "a peer was dropped that was never gone".to_string())
    }

    /// The first sample that a volatile reader must get.
    ///
    /// A reader that never forgot its writer, or that goes on where it was, gets all that were written since the writer
    /// matched it. Another one gets all that were written since both sides match, with two exceptions: a request to a
    /// writer of Fast DDS that the reader had forgotten may stay unanswered, and a writer that has never forgotten a
    /// reader of Cyclone DDS learns too late that this one starts anew.
    fn required_from(&self) -> i64 {
        let World { peer, writer_at, of_writer, of_reader, .. } = self.world;
        let [first_after, later] = self.written_after;
        match (peer, writer_at) {
            _ if of_reader == Knowledge::Knows => self.matched_from,
            (Peer::FastDds, 1) => first_after,
            (Peer::Peregrine, _) | (Peer::Cyclone, 1) => self.matched_from,
            (Peer::Cyclone, _) if of_writer == Knowledge::Knows => later,
            _ => self.both_matched_from.unwrap_or(i64::MAX),
        }
    }
}

/// The rule that a world breaks, if any.
fn fault_of(world: &World) -> Option<String> {
    let mut model = Model::new(world.clone());
    model.run_until_matched(model.now + Span::from_secs(4));
    assert!(model.is_matched(), "{world:?} was never matched");
    model.run(Span::from_millis(300));
    model.prepare_samples();
    model.prepare_knowledge();
    model.run(world.outage.divided_by(2));
    if world.samples != Samples::Settled {
        model.write();
    }
    model.run(world.outage.divided_by(2));
    model.cut = Cut::None;
    (model.flows_from, model.losses) = (model.now, 0);
    model.fates = world.fates.iter().rev().copied().collect();
    model.write();
    for _ in 0..STEPS_MAX {
        if model.fates.is_empty() {
            break;
        }
        assert!(model.step(Instant::FAR_FUTURE));
    }
    assert!(model.fates.is_empty(), "no message leaves");
    let flows_from = model.flows_from.max(model.now);
    model.run_until_matched(flows_from + PERIOD.times(2));
    if !model.is_matched() {
        return Some("the endpoints have not matched again in time".to_string());
    }
    for period in 0..2 {
        model.written_after[period] = model.writer.last().0 + 1;
        (0..2).for_each(|_| model.write());
        model.run(PERIOD);
    }
    model.broken_rule().map(|rule| std::format!("{rule}; delivered: {:?}", model.received))
}

/// All worlds with this peer and this host of the writer.
fn worlds(peer: Peer, writer_at: usize) -> impl Iterator<Item = World> {
    let states = move || {
        KNOWLEDGE.into_iter().flat_map(move |of_writer| {
            KNOWLEDGE
                .into_iter()
                .flat_map(move |of_reader| SAMPLES.into_iter().map(move |samples| (of_writer, of_reader, samples)))
        })
    };
    let kinds = [false, true].into_iter().flat_map(|is_durable| OUTAGES.map(|outage| (is_durable, outage)));
    kinds.flat_map(move |(is_durable, outage)| {
        states().flat_map(move |(of_writer, of_reader, samples)| {
            let world = World { peer, writer_at, is_durable, samples, of_writer, of_reader, outage, fates: vec![] };
            all_fates().map(move |fates| World { fates, ..world.clone() })
        })
    })
}

/// For each peer and host of the writer: 25 pairs of what both sides know, 4 states of the samples, 2 kinds of
/// durability, 2 outages, and 27 fates of the first messages. Between two Peregrine participants, a second host of the
/// writer would give the same worlds.
const WORLDS: usize = 25 * 4 * 2 * 2 * 27;

fn assert_converges(peer: Peer, writer_at: usize) {
    let (mut count, mut faults) = (0, vec![]);
    for world in worlds(peer, writer_at) {
        count += 1;
        if let Some(fault) = fault_of(&world) {
            faults.push((world, fault));
        }
    }
    let mut examples = BTreeMap::new();
    for (world, fault) in &faults {
        let World { of_writer, of_reader, samples, is_durable, outage, fates, .. } = world;
        let combination =
            std::format!("{of_writer:?}/{of_reader:?}, {samples:?}, durable {is_durable}, outage of {outage:?}");
        examples.entry(combination).or_insert_with(|| std::format!("{fates:?}: {fault}"));
    }
    assert!(faults.is_empty(), "{peer:?}, {} of {count} worlds, such as {examples:#?}", faults.len());
    assert!(count >= WORLDS, "only {count} worlds");
}

#[test]
fn samples_between_two_peregrine_participants_arrive_from_every_state() {
    assert_converges(Peer::Peregrine, 0);
}

#[test]
fn samples_to_cyclone_dds_arrive_from_every_state() {
    assert_converges(Peer::Cyclone, 0);
}

#[test]
fn samples_of_cyclone_dds_arrive_from_every_state() {
    assert_converges(Peer::Cyclone, 1);
}

#[test]
fn samples_to_fast_dds_arrive_from_every_state() {
    assert_converges(Peer::FastDds, 0);
}

#[test]
fn samples_of_fast_dds_arrive_from_every_state() {
    assert_converges(Peer::FastDds, 1);
}
