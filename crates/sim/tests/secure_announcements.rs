//! Announcements that an attacker forges while participants with DDS Security start: what these have signed in their
//! handshake counts, as soon as it is complete.

use std::net::SocketAddr;

use peregrine_rtps::discovery::data::{BuiltinEndpointSet, ParticipantData};
use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::locator::Locator;
use peregrine_rtps::participant::{AnnouncedParts, ParticipantEvent};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::qos::Reliability;
use peregrine_rtps::time::Span;
use peregrine_rtps::vendor::VendorId;
use peregrine_sim::network::{Datagram, Faults, NodeId};
use peregrine_sim::secure::forge;
use peregrine_sim::secure::identity::{HOME, Rules};
use peregrine_sim::world::{Happening, World, WorldConfig};

const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];
const ATTACKER: NodeId = NodeId(9);
const LEASE: Span = Span::from_secs(10);
/// The interval of forged announcements, in each direction.
const INTERVAL: Span = Span::from_micros(500);
/// How long the attacker forges them. A handshake takes a tenth of this.
const ATTACK: Span = Span::from_millis(300);

type Forge = fn(&mut ParticipantData);

const FORGED: [(AnnouncedParts, Forge); 6] = [
    (AnnouncedParts::LEASE, |data| data.lease_duration = Span::INFINITE),
    (AnnouncedParts::LEASE, |data| data.lease_duration = Span::from_secs(1)),
    (AnnouncedParts::VENDOR, |data| data.vendor = VendorId::CYCLONE),
    (AnnouncedParts::ADDRESSES, |data| {
        data.default_unicast = vec![Locator::from(SocketAddr::from(([10, 0, 0, 10], 7411)))];
    }),
    (AnnouncedParts::GROUPS, |data| {
        data.default_multicast = vec![Locator::from(SocketAddr::from(([239, 6, 6, 6], 7401)))];
    }),
    (AnnouncedParts::OTHERS, |data| data.name = Some("impostor".to_owned())),
];

struct Attacked {
    world: World,
    writer: Guid,
    reader: Guid,
    forge: Forge,
    contradicted: Vec<AnnouncedParts>,
    lost: Vec<NodeId>,
}

impl Attacked {
    /// Two nodes that have started under attack, of which the first one writes for the second one.
    fn started(forge: Forge) -> Self {
        let levels = ProtectionLevels { message: ProtectionKind::Encrypt, ..ProtectionLevels::default() };
        let rules =
            Rules { levels, discovery: ProtectionKind::None, allows_unauthenticated: false, is_controlled: true };
        let faults = Faults { delay_min: Span::from_micros(50), delay_max: Span::from_micros(500), ..Faults::NONE };
        let announce_period = Span::from_secs(2);
        let mut world = World::new(WorldConfig { seed: 1, faults, lease: LEASE, announce_period, mtu_bytes: 1500 });
        world.relieve();
        for node in NODES {
            world.secure(node, &HOME, rules);
            world.start(node);
        }
        let writer = world.add_writer(
            NODES[0],
            "topic",
            false,
            |data| data.qos.reliability = Reliability::RELIABLE,
            |config| config.history = HistoryKind::KeepAll,
        );
        let reader = world.add_reader(
            NODES[1],
            "topic",
            false,
            |data| data.qos.reliability = Reliability::RELIABLE,
            |config| {
                config.reliable = true;
                config.cache.history = HistoryKind::KeepAll;
            },
        );
        let (writer, reader) = (writer.unwrap(), reader.unwrap());
        let mut attacked = Self { world, writer, reader, forge, contradicted: Vec::new(), lost: Vec::new() };
        let end = attacked.world.now() + ATTACK;
        while attacked.world.now() < end {
            attacked.attack(NODES[0], NODES[1]);
            attacked.attack(NODES[1], NODES[0]);
            attacked.pass(INTERVAL);
        }
        attacked.pass(Span::from_secs(5));
        attacked
    }

    /// Announces a node falsely to another one.
    fn attack(&mut self, from: NodeId, to: NodeId) {
        let mut data = self.stated(from);
        (self.forge)(&mut data);
        // Without these endpoints there are no secure announcements.
        let of_secure =
            BuiltinEndpointSet::PARTICIPANT_SECURE_WRITER.with(BuiltinEndpointSet::PARTICIPANT_SECURE_READER);
        data.builtin_endpoints.0 &= !of_secure.0;
        let to_prefix = self.stated(to).prefix;
        let bytes = forge::announcement(&data, to_prefix);
        let (now, source) = (self.world.now(), SocketAddr::from(([10, 0, 0, 10], 7410)));
        self.world.network().send(now, Datagram { from: ATTACKER, source, to, port: 7410, bytes });
    }

    fn stated(&self, node: NodeId) -> ParticipantData {
        self.world.member(node).unwrap().participant.data()
    }

    fn pass(&mut self, span: Span) {
        let end = self.world.now() + span;
        while self.world.run_until(end) {
            for (id, happening) in self.world.happenings() {
                let Happening::Participant(event) = happening else { continue };
                match *event {
                    ParticipantEvent::AnnouncementContradicted { parts, .. } => self.contradicted.push(parts),
                    ParticipantEvent::ParticipantLost(..) => self.lost.push(id.node),
                    _ => {}
                }
            }
        }
    }

    /// Asserts that each node believes what the other one states.
    fn assert_undeceived(&self, case: &str) {
        // Tokens are received in one byte order, and known in both.
        let bare = |data: &ParticipantData| ParticipantData { security: None, ..data.clone() };
        for (node, peer) in [(NODES[0], NODES[1]), (NODES[1], NODES[0])] {
            let stated = self.stated(peer);
            let believed = self.world.member(node).unwrap().participant.remote_participant(&stated.prefix);
            assert_eq!(believed.map(bare), Some(bare(&stated)), "{case}: {node:?}");
        }
    }

    fn write(&mut self) {
        let source_timestamp = self.world.wall();
        let payload = Payload::copy_of(&[0, 1, 0, 0, 1, 2, 3, 4]);
        let change = Change { kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp, payload };
        self.world.write(NODES[0], self.writer.entity, change).unwrap();
    }
}

#[test]
fn participants_that_are_announced_falsely_while_they_start_believe_what_is_signed() {
    for (part, forge) in FORGED {
        let mut attacked = Attacked::started(forge);
        let case = part.to_string();
        attacked.assert_undeceived(&case);
        assert!(attacked.contradicted.iter().any(|parts| parts.contains(part)), "{case}: {:?}", attacked.contradicted);
        attacked.lost.clear();
        attacked.write();
        attacked.pass(Span::from_secs(40));
        assert_eq!(attacked.world.take(NODES[1], attacked.reader.entity).len(), 1, "{case}");
        assert_eq!(attacked.lost, [], "{case}");
        attacked.assert_undeceived(&case);
    }
}

#[test]
fn participant_that_ends_after_a_false_infinite_lease_is_lost_after_its_signed_lease() {
    let mut attacked = Attacked::started(|data| data.lease_duration = Span::INFINITE);
    attacked.lost.clear();
    attacked.world.crash(NODES[0]);
    attacked.pass(LEASE + Span::from_secs(5));
    assert_eq!(attacked.lost, [NODES[1]]);
}
