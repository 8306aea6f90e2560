//! A participant with a writer and a reader, in a domain with two others, receives any series of messages: real ones,
//! from unknown participants or from its own peers, whole, cut, spliced or with bytes changed. Nothing panics, time
//! advances, and the stored state stays within its bounds.
#![no_main]

#[path = "../../crates/hostile/src/forge.rs"]
mod forge;

use std::net::SocketAddr;

use arbitrary::Arbitrary;
use forge::Forge;
use libfuzzer_sys::fuzz_target;
use peregrine_rtps::history::{Change, ChangeKind, HistoryKind, ResourceLimits};
use peregrine_rtps::id::{DomainId, EntityId, Guid, GuidPrefix, KeyHash};
use peregrine_rtps::limits::PARTICIPANTS_UNVERIFIED_MAX;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::{History, Reliability};
use peregrine_rtps::reader::KeyExtractor;
use peregrine_rtps::time::Span;
use peregrine_rtps::vendor::VendorId;
use peregrine_sim::network::{Datagram, Faults, NodeId};
use peregrine_sim::world::{World, WorldConfig};

const VICTIM: NodeId = NodeId(0);
const PEER: NodeId = NodeId(1);
const MEMORY_PER_WRITER: usize = 1 << 20;
const LIMITS: ResourceLimits = ResourceLimits { max_samples: 100, max_instances: 20, max_samples_per_instance: 50 };

#[derive(Arbitrary, Debug)]
enum Step {
    /// Any bytes.
    Noise(Vec<u8>),
    /// A recorded message of one of the speakers, changed.
    Hear { speaker: u8, message: u8, changes: Vec<(u16, u8)>, cut: Option<u16>, spliced: Option<(u8, u16)> },
    /// Time passes.
    Wait { millis: u8 },
    /// The participant under test writes.
    Write { instance: u8, len: u16 },
    /// The application of the participant under test takes samples.
    Take,
}

struct Attack {
    world: World,
    writer: Guid,
    reader: Guid,
    /// The recorded messages of an unknown participant and of a peer.
    speakers: [Vec<Vec<u8>>; 2],
}

fuzz_target!(|steps: Vec<Step>| {
    let mut attack = Attack::new();
    for step in steps.into_iter().take(200) {
        attack.step(step);
        attack.check();
    }
    attack.wait(Span::from_secs(2));
    attack.check();
});

fn instance_of(payload: &[u8], _: bool) -> Option<KeyHash> {
    payload.get(4..8)?.first_chunk::<4>().map(|id| {
        let mut key = KeyHash([0; 16]);
        key.0[..4].copy_from_slice(id);
        key
    })
}

impl Attack {
    fn new() -> Self {
        let faults = Faults::NONE;
        let (lease, announce_period) = (Span::from_secs(10), Span::from_secs(2));
        let mut world = World::new(WorldConfig { seed: 1, faults, lease, announce_period, mtu_bytes: 1500 });
        let (writer, reader) = endpoints(&mut world, VICTIM, "said", "heard");
        let (peer_writer, peer_reader) = endpoints(&mut world, PEER, "heard", "said");
        let end = world.now() + Span::from_millis(300);
        while world.run_until(end) {
            world.happenings();
        }
        let speaker = |prefix, writer, reader_of_speaker| Forge {
            prefix,
            victim: reader.prefix,
            domain: DomainId(0),
            domain_tag: String::new(),
            address: SocketAddr::from(([10, 0, 0, 99], 7411)),
            topics: ["heard".to_owned(), "said".to_owned()],
            type_name: "Type".to_owned(),
            writer,
            reader: reader_of_speaker,
            victim_reader: reader.entity,
            victim_writer: Guid::new(reader.prefix, EntityId::user_writer(1, true)).entity,
            sample: vec![0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0],
        };
        let stranger = GuidPrefix::new(VendorId::PEREGRINE, [9; 10]);
        let ids = (EntityId::user_writer(7, true), EntityId::user_reader(8, true));
        let speakers = [
            speaker(stranger, ids.0, ids.1).messages(),
            speaker(peer_writer.prefix, peer_writer.entity, peer_reader.entity).messages(),
        ];
        Self { world, writer, reader, speakers }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Noise(bytes) => self.hear(bytes),
            Step::Hear { speaker, message, changes, cut, spliced } => {
                let messages = &self.speakers[usize::from(speaker) % self.speakers.len()];
                let mut bytes = messages[usize::from(message) % messages.len()].clone();
                if let Some((other, from)) = spliced {
                    let other = &messages[usize::from(other) % messages.len()];
                    bytes.extend_from_slice(&other[usize::from(from) % other.len()..]);
                }
                for (at, value) in changes {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] = value;
                }
                if let Some(len) = cut {
                    bytes.truncate(usize::from(len));
                }
                self.hear(bytes);
            }
            Step::Wait { millis } => self.wait(Span::from_millis(u64::from(millis))),
            Step::Write { instance, len } => self.write(instance, usize::from(len)),
            Step::Take => drop(self.world.take(VICTIM, self.reader.entity)),
        }
    }

    fn hear(&mut self, bytes: Vec<u8>) {
        let now = self.world.now();
        let source = SocketAddr::from(([10, 0, 0, 99], 7411));
        self.world.network().send(now, Datagram { from: NodeId(99), source, to: VICTIM, port: 7411, bytes });
        self.wait(Span::from_micros(100));
    }

    fn wait(&mut self, span: Span) {
        let end = self.world.now() + span;
        while self.world.run_until(end) {
            self.world.happenings();
        }
    }

    fn write(&mut self, instance: u8, len: usize) {
        let mut payload = vec![0, 1, 0, 0, instance % 8, 0, 0, 0];
        payload.resize(8 + len, 1);
        let change = Change {
            kind: ChangeKind::Alive,
            instance: instance_of(&payload, false).expect("the payload has a key"),
            source_timestamp: self.world.wall(),
            payload: Payload::copy_of(&payload),
        };
        drop(self.world.write(VICTIM, self.writer.entity, change));
    }

    fn check(&self) {
        let node = self.world.member(VICTIM).expect("the participant under test runs");
        let reader = &node.readers[&self.reader.entity];
        // State changes without a payload are kept in addition to the samples; the bound allows for two per instance.
        assert!(reader.cache().len() <= (LIMITS.max_samples + 2 * LIMITS.max_instances) as usize);
        assert!(reader.cache().instances() <= LIMITS.max_instances as usize);
        let writers = reader.matched_writers().count();
        assert!(reader.waiting().bytes <= writers * (2 * MEMORY_PER_WRITER + 2 * 65_536));
        assert!(node.writers[&self.writer.entity].history().len() <= 8 * 4);
        assert!(node.participant.remote_participants().count() <= PARTICIPANTS_UNVERIFIED_MAX + 10);
    }
}

fn endpoints(world: &mut World, node: NodeId, said: &str, heard: &str) -> (Guid, Guid) {
    world.start(node);
    let writer = world.add_writer(
        node,
        said,
        true,
        |data| data.qos.reliability = Reliability::RELIABLE,
        |config| {
            config.history = HistoryKind::KeepLast(4);
            config.default_message_bytes = 1472;
        },
    );
    let reader = world.add_reader(
        node,
        heard,
        true,
        |data| {
            data.qos.reliability = Reliability::RELIABLE;
            data.qos.history = History::KeepAll;
        },
        |config| {
            config.reliable = true;
            config.cache.history = HistoryKind::KeepAll;
            config.cache.limits = LIMITS;
            config.memory_per_writer = MEMORY_PER_WRITER;
            config.max_sample_bytes = 1 << 20;
            config.keys = Some(KeyExtractor(instance_of));
        },
    );
    (writer.expect("the node runs"), reader.expect("the node runs"))
}
