//! No timer is in the way of authentication and of the first sample: without loss, both end in a small part of the time
//! after which any message is repeated or announced again.

use std::collections::BTreeSet;

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::participant::ParticipantEvent;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::time::{Instant, Span};
use peregrine_security::session::SecurityEvent;
use peregrine_sim::network::{Faults, NodeId};
use peregrine_sim::secure::identity::{HOME, Rules};
use peregrine_sim::world::{Happening, World, WorldConfig};

const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];
/// Each of the six or so jobs of a handshake takes 2 ms at most, and a message half a millisecond.
const LONGEST: Span = Span::from_millis(100);
/// Far longer than [`LONGEST`], as every period of a real participant.
const ANNOUNCE_PERIOD: Span = Span::from_secs(2);
const SEEDS: std::ops::Range<u64> = 1..21;

/// Two participants, of which the second starts while the first is at rest, or with the first.
struct Start {
    world: World,
    durability: Durability,
    writer: Option<(NodeId, Guid)>,
    reader: Option<(NodeId, Guid)>,
    /// The nodes that have authenticated the other.
    authenticated: BTreeSet<NodeId>,
    is_written: bool,
}

/// When the second participant has started, and what has happened since.
#[derive(Debug)]
struct Times {
    authenticated: Span,
    first_sample: Span,
}

impl Start {
    fn new(seed: u64, levels: ProtectionLevels, durability: Durability) -> Self {
        let faults = Faults { delay_min: Span::from_micros(50), delay_max: Span::from_micros(500), ..Faults::NONE };
        let lease = Span::from_secs(10);
        let mut world =
            World::new(WorldConfig { seed, faults, lease, announce_period: ANNOUNCE_PERIOD, mtu_bytes: 1500 });
        world.relieve();
        let discovery = ProtectionKind::Encrypt;
        let rules = Rules { levels, discovery, allows_unauthenticated: false, is_controlled: true };
        NODES.into_iter().for_each(|node| world.secure(node, &HOME, rules));
        Self { world, durability, writer: None, reader: None, authenticated: BTreeSet::new(), is_written: false }
    }

    fn start_writer(&mut self, node: NodeId) {
        self.world.start(node);
        let durability = self.durability;
        let writer = self.world.add_writer(
            node,
            "topic",
            true,
            |data| {
                data.qos.reliability = Reliability::RELIABLE;
                data.qos.durability = durability;
            },
            |config| {
                config.history = HistoryKind::KeepAll;
                config.durable = durability != Durability::Volatile;
            },
        );
        self.writer = Some((node, writer.unwrap()));
        if durability != Durability::Volatile {
            self.write();
        }
    }

    fn start_reader(&mut self, node: NodeId) {
        self.world.start(node);
        let durability = self.durability;
        let reader = self.world.add_reader(
            node,
            "topic",
            true,
            |data| {
                data.qos.reliability = Reliability::RELIABLE;
                data.qos.durability = durability;
            },
            |config| {
                config.reliable = true;
                config.wants_history = durability != Durability::Volatile;
                config.cache.history = HistoryKind::KeepAll;
            },
        );
        self.reader = Some((node, reader.unwrap()));
    }

    fn write(&mut self) {
        let (node, writer) = self.writer.unwrap();
        let source_timestamp = self.world.wall_of(node);
        let payload = Payload::copy_of(&[0, 1, 0, 0, 1, 2, 3, 4]);
        let change = Change { kind: ChangeKind::Alive, instance: KeyHash([7; 16]), source_timestamp, payload };
        self.world.write(node, writer.entity, change).unwrap();
        self.is_written = true;
    }

    /// Whether the writer has a reader.
    fn is_match(&self, node: NodeId, event: &ParticipantEvent) -> bool {
        let Some((_, guid)) = self.writer.filter(|(own, _)| *own == node) else { return false };
        matches!(event, ParticipantEvent::ReaderMatched { writer, .. } if *writer == guid.entity)
    }

    /// Runs until the first sample is there, or until `end`. A volatile writer writes once it has a reader.
    fn run(&mut self, begin: Instant, end: Instant) -> Option<Times> {
        let mut authenticated = None;
        loop {
            let more = self.world.run_until(end);
            for (id, happening) in self.world.happenings() {
                match happening {
                    Happening::Security(SecurityEvent::Authenticated { .. }) => {
                        self.authenticated.insert(id.node);
                    }
                    Happening::Participant(event) if !self.is_written && self.is_match(id.node, &event) => self.write(),
                    _ => {}
                }
            }
            let since = self.world.now().since(begin);
            if self.authenticated.len() == NODES.len() {
                authenticated.get_or_insert(since);
            }
            let taken = self.reader.map_or(0, |(node, reader)| self.world.take(node, reader.entity).len());
            if let (1.., Some(authenticated)) = (taken, authenticated) {
                return Some(Times { authenticated, first_sample: since });
            }
            if !more {
                return None;
            }
        }
    }
}

fn all_levels() -> [ProtectionLevels; 3] {
    use ProtectionKind::{Encrypt, EncryptWithOriginAuthentication as EncryptFrom, None as Plain, Sign};
    let levels = |message, submessage, payload| ProtectionLevels { message, submessage, payload };
    [levels(Plain, Plain, Plain), levels(Sign, EncryptFrom, Encrypt), levels(Encrypt, Encrypt, Plain)]
}

#[test]
fn first_sample_of_authenticated_participants_waits_for_no_timer() {
    for seed in SEEDS {
        for levels in all_levels() {
            for durability in [Durability::TransientLocal, Durability::Volatile] {
                for (late, writes_late) in [(true, true), (true, false), (false, false)] {
                    let mut start = Start::new(seed, levels, durability);
                    if writes_late {
                        start.start_reader(NODES[0]);
                    } else {
                        start.start_writer(NODES[0]);
                    }
                    if late {
                        // The first announcements are over, and the next ones are not near.
                        let rest = start.world.now() + Span::from_millis(5_300);
                        assert!(start.run(rest, rest).is_none());
                    }
                    let begin = start.world.now();
                    if writes_late {
                        start.start_writer(NODES[1]);
                    } else {
                        start.start_reader(NODES[1]);
                    }
                    let times = start.run(begin, begin + ANNOUNCE_PERIOD);
                    let case = format!("seed {seed}, {levels:?}, {durability:?}, {late}, {writes_late}: {times:?}");
                    let times = times.unwrap_or_else(|| panic!("no sample without a timer: {case}"));
                    assert!(times.authenticated <= times.first_sample && times.first_sample < LONGEST, "{case}");
                }
            }
        }
    }
}
