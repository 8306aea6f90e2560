//! Participants on a simulated link, with a virtual clock and a worker for the jobs of each.

mod flood;
mod handshake;
mod hostile;
mod peers;

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterListWriter};

use super::*;
use crate::crypto::KeyMaterial;
use crate::identity::{PrivateKey, TrustAnchors, adjusted_prefix};
use crate::message::identity_token;
use crate::testing::{Draft, EC_AUTHORITY, Identity, NOW, TestKey, random};
use crate::wall_time::WallTime;

/// The time of a job on a slow machine.
const JOB_TIME: Span = Span::from_micros(200);

/// A participant that can be started any number of times.
struct Owner {
    identity: Identity,
    prefix: GuidPrefix,
    permissions: Vec<u8>,
}

impl Owner {
    fn new(authority: &Identity, name: &'static str, key: TestKey) -> Self {
        Self::with_draft(authority, &Draft::participant(name), key)
    }

    fn with_draft(authority: &Identity, draft: &Draft, key: TestKey) -> Self {
        let identity = authority.issue(draft, key);
        let candidate = Guid::new(GuidPrefix([7; 12]), EntityId::PARTICIPANT);
        let prefix = adjusted_prefix(&identity.certificate, candidate);
        Self { identity, prefix, permissions: Vec::new() }
    }

    fn local(&self) -> LocalParticipant {
        let key = PrivateKey::from_pem(&self.identity.key.pem, None).unwrap();
        let certificates = core::slice::from_ref(&self.identity.certificate);
        let data = participant_data(self.prefix);
        LocalParticipant::new(self.prefix, certificates, key, self.permissions.clone(), data).unwrap()
    }

    fn authenticator(&self, trust: Trust, now: Instant) -> Authenticator {
        Authenticator::new(self.local(), trust, AuthenticationConfig::default(), now)
    }
}

fn participant_data(prefix: GuidPrefix) -> Vec<u8> {
    let mut out = Vec::new();
    let guid = Guid::new(prefix, EntityId::PARTICIPANT).to_bytes();
    let mut list = ParameterListWriter::new(&mut out, Endianness::Big);
    list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.octets(&guid));
    list.finish();
    out
}

/// Two participants of one authority. The first has the lower GUID.
static PAIR: LazyLock<[Owner; 2]> = LazyLock::new(|| {
    let mut pair = ["P_a", "P_b"].map(|name| Owner::new(&EC_AUTHORITY, name, TestKey::ec()));
    pair.sort_by_key(|owner| owner.prefix);
    pair
});

fn trusting(authority: &Identity) -> Trust {
    let identities = TrustAnchors { authorities: vec![authority.certificate.clone()], ..TrustAnchors::default() };
    Trust { identities, ..Trust::default() }
}

fn address(node: usize) -> IpAddr {
    IpAddr::from([10, 1, 0, node as u8])
}

/// A participant on the link.
struct Node {
    prefix: GuidPrefix,
    authenticator: Authenticator,
    /// When the worker has done all its jobs.
    free_at: Instant,
    jobs: usize,
    sent: Vec<Transmit>,
    events: Vec<Event>,
    /// The key of the current session with each peer.
    keys: BTreeMap<GuidPrefix, KeyMaterial>,
}

enum Arrival {
    Message {
        from: usize,
        payload: Vec<u8>,
    },
    Announcement {
        from: usize,
    },
    /// A message that opens only with this key.
    Authentic {
        from: usize,
        key: KeyMaterial,
    },
    JobDone(JobDone),
    /// An announcement, and a request, of a participant that is not simulated.
    Stranger {
        prefix: GuidPrefix,
        source: IpAddr,
        request: Option<Vec<u8>>,
    },
}

/// Percentages, and the longest delay.
#[derive(Clone, Copy)]
struct Quality {
    loss: u64,
    duplicates: u64,
    delay_max: Span,
}

const PERFECT: Quality = Quality { loss: 0, duplicates: 0, delay_max: Span::from_micros(50) };
const BAD: Quality = Quality { loss: 30, duplicates: 20, delay_max: Span::from_millis(20) };

struct World {
    now: Instant,
    wall: WallTime,
    nodes: Vec<Node>,
    quality: Quality,
    arrivals: BTreeMap<(Instant, u64), (usize, Arrival)>,
    number: u64,
    seed: u64,
}

impl World {
    fn new(seed: u64, quality: Quality) -> Self {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self {
            now: Instant(1_000_000_000),
            wall: NOW,
            nodes: Vec::new(),
            quality,
            arrivals: BTreeMap::new(),
            number: 0,
            seed,
        }
    }

    fn pair(seed: u64, quality: Quality) -> Self {
        let mut world = Self::new(seed, quality);
        PAIR.iter().for_each(|owner| world.add(owner, trusting(&EC_AUTHORITY)));
        world
    }

    fn add(&mut self, owner: &Owner, trust: Trust) {
        let authenticator = owner.authenticator(trust, self.now);
        self.nodes.push(Node {
            prefix: owner.prefix,
            authenticator,
            free_at: self.now,
            jobs: 0,
            sent: Vec::new(),
            events: Vec::new(),
            keys: BTreeMap::new(),
        });
    }

    /// A number below a bound.
    fn draw(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) % below.max(1)
    }

    fn arrive(&mut self, after: Span, at: usize, arrival: Arrival) {
        self.number += 1;
        self.arrivals.insert((self.now + after, self.number), (at, arrival));
    }

    /// Sends over the link, which may lose or repeat it.
    fn send(&mut self, to: usize, arrival: impl Fn() -> Arrival) {
        let copies = if self.draw(100) < self.quality.duplicates { 2 } else { 1 };
        for _ in 0..copies {
            if self.draw(100) >= self.quality.loss {
                let delay = Span(self.draw(self.quality.delay_max.0));
                self.arrive(delay, to, arrival());
            }
        }
    }

    /// Announces each node to the others, now and each 100 ms for some time, as a lossy link needs it.
    fn announce(&mut self, from: usize, times: u64) {
        for time in 0..times {
            for to in (0..self.nodes.len()).filter(|to| *to != from) {
                if self.draw(100) >= self.quality.loss {
                    self.arrive(Span::from_millis(100 * time), to, Arrival::Announcement { from });
                }
            }
        }
    }

    fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        (0..self.nodes.len()).for_each(|node| self.drain(node));
        loop {
            let timeout = |node: &Node| node.authenticator.poll_timeout();
            let timer = self.nodes.iter().enumerate().filter_map(|(at, node)| Some((timeout(node)?, at))).min();
            let arrival = self.arrivals.keys().next().copied();
            match (timer, arrival) {
                (Some((at, node)), _) if at <= end && arrival.is_none_or(|(arrival, _)| at < arrival) => {
                    self.advance(at);
                    self.call(node, |authenticator, input| authenticator.handle_timeout(input));
                }
                (_, Some((at, _))) if at <= end => {
                    let (_, (node, arrival)) = self.arrivals.pop_first().unwrap();
                    self.advance(at);
                    self.deliver(node, arrival);
                }
                _ => break,
            }
        }
        self.advance(end);
    }

    fn advance(&mut self, to: Instant) {
        let whole_seconds = to.0 / 1_000_000_000 - self.now.0 / 1_000_000_000;
        self.wall = WallTime(self.wall.0 + whole_seconds as i64);
        self.now = self.now.max(to);
    }

    fn deliver(&mut self, node: usize, arrival: Arrival) {
        match arrival {
            Arrival::Message { from, payload } => self.receive(node, address(from), self.nodes[from].prefix, &payload),
            Arrival::Announcement { from } => {
                let peer = self.nodes[from].prefix;
                self.call(node, |authenticator, input| {
                    authenticator.handle_announcement(input, peer, address(from), Some(&identity_token()));
                });
            }
            Arrival::Authentic { from, key } => {
                let peer = self.nodes[from].prefix;
                if self.nodes[node].keys.get(&peer) == Some(&key) {
                    self.call(node, |authenticator, _| authenticator.handle_authentic(peer));
                }
            }
            Arrival::Stranger { prefix, source, request } => {
                self.call(node, |authenticator, input| {
                    authenticator.handle_announcement(input, prefix, source, Some(&identity_token()));
                });
                if let Some(request) = request {
                    self.receive(node, source, prefix, &request);
                }
            }
            Arrival::JobDone(done) => {
                self.call(node, |authenticator, input| authenticator.handle_job_done(input, done));
            }
        }
    }

    fn receive(&mut self, node: usize, source: IpAddr, sender: GuidPrefix, payload: &[u8]) {
        self.call(node, |authenticator, input| authenticator.handle_message(input, source, sender, payload));
    }

    fn call(&mut self, node: usize, call: impl FnOnce(&mut Authenticator, &mut Input<'_>)) {
        let mut random = random_of(&mut self.number);
        let mut input = Input { now: self.now, wall: self.wall, random: &mut random };
        call(&mut self.nodes[node].authenticator, &mut input);
        self.drain(node);
    }

    /// Takes all that the node gives, and hands its jobs to its worker.
    fn drain(&mut self, node: usize) {
        loop {
            let mut random = random_of(&mut self.number);
            let mut input = Input { now: self.now, wall: self.wall, random: &mut random };
            let Some(job) = self.nodes[node].authenticator.poll_job(&mut input) else { break };
            let node_state = &mut self.nodes[node];
            node_state.jobs += 1;
            node_state.free_at = node_state.free_at.max(self.now) + JOB_TIME;
            let after = node_state.free_at.since(self.now);
            self.arrive(after, node, Arrival::JobDone(job.run()));
        }
        while let Some(transmit) = self.nodes[node].authenticator.poll_transmit() {
            self.nodes[node].sent.push(transmit.clone());
            let to = self.nodes.iter().position(|other| other.prefix == transmit.to);
            if let Some(to) = to {
                self.send(to, || Arrival::Message { from: node, payload: transmit.payload.clone() });
            }
        }
        while let Some(event) = self.nodes[node].authenticator.poll_event() {
            if let Event::Authenticated(peer) = &event {
                self.nodes[node].keys.insert(peer.peer, peer.exchange_key.clone());
            }
            if let Event::Expelled { peer, .. } = &event {
                self.nodes[node].keys.remove(peer);
            }
            self.nodes[node].events.push(event);
        }
    }

    /// Sends what only the holder of the key of a session can send, in both directions.
    fn exchange_authentic(&mut self) {
        for from in 0..self.nodes.len() {
            for to in (0..self.nodes.len()).filter(|to| *to != from) {
                let key = self.nodes[from].keys.get(&self.nodes[to].prefix).cloned();
                if let Some(key) = key {
                    self.send(to, || Arrival::Authentic { from, key: key.clone() });
                }
            }
        }
    }

    /// Whether the nodes have a session with each other, with the same key.
    fn agrees(&self, a: usize, b: usize) -> bool {
        let key = |of: usize, with: usize| self.nodes[of].keys.get(&self.nodes[with].prefix);
        key(a, b).is_some() && key(a, b) == key(b, a)
    }

    /// The messages that a node sent, by the class of their token.
    fn sent(&self, node: usize, class_id: &str) -> Vec<Vec<u8>> {
        let is_of = |payload: &[u8]| {
            crate::message::GenericMessage::parse(payload).unwrap().data.iter().any(|token| token.class_id == class_id)
        };
        let sent = self.nodes[node].sent.iter();
        sent.filter(|transmit| is_of(&transmit.payload)).map(|transmit| transmit.payload.clone()).collect()
    }

    fn authentications(&self, node: usize) -> usize {
        self.nodes[node].events.iter().filter(|event| matches!(event, Event::Authenticated(_))).count()
    }

    fn refusals(&self, node: usize) -> Vec<Refusal> {
        let refusal = |event: &Event| match event {
            Event::Refused { refusal, .. } => Some(refusal.clone()),
            _ => None,
        };
        self.nodes[node].events.iter().filter_map(refusal).collect()
    }
}

/// Bytes that no other call draws.
fn random_of(number: &mut u64) -> impl FnMut(&mut [u8]) + use<> {
    *number += 1;
    let number = *number;
    let mut draws = random(number as u8);
    move |out| {
        draws(out);
        out.iter_mut().zip(number.to_be_bytes()).for_each(|(octet, salt)| *octet ^= salt);
    }
}
