//! A participant that protects its messages receives changed copies of the datagrams that a peer has sent, and noise
//! behind prefixes of protected submessages and messages. Nothing panics, and the participant's reader delivers only
//! samples that the peer's writer has written.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::qos::Reliability;
use peregrine_rtps::time::Span;
use peregrine_rtps::wire::Header;
use peregrine_sim::network::{Datagram, Faults, NodeId};
use peregrine_sim::world::{World, WorldConfig};

const PEER: NodeId = NodeId(0);
const VICTIM: NodeId = NodeId(1);
/// The payload lengths of a sample in one datagram, and of a sample in fragments.
const LENGTHS: [usize; 2] = [40, 3001];

#[derive(Arbitrary, Debug)]
struct Attack {
    message: Kind,
    submessage: Kind,
    payload: Kind,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Kind {
    None,
    Sign,
    Encrypt,
    SignWithOriginAuthentication,
    EncryptWithOriginAuthentication,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Any submessages that name the peer as their source.
    Noise(Vec<u8>),
    /// A datagram of the peer with some bytes changed, cut, or with bytes of another datagram appended.
    Hear { datagram: u8, changes: Vec<(u16, u8)>, cut: Option<u16>, spliced: Option<(u8, u16)> },
}

impl From<Kind> for ProtectionKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::None => Self::None,
            Kind::Sign => Self::Sign,
            Kind::Encrypt => Self::Encrypt,
            Kind::SignWithOriginAuthentication => Self::SignWithOriginAuthentication,
            Kind::EncryptWithOriginAuthentication => Self::EncryptWithOriginAuthentication,
        }
    }
}

fuzz_target!(|attack: Attack| {
    let levels = ProtectionLevels {
        message: attack.message.into(),
        submessage: attack.submessage.into(),
        payload: attack.payload.into(),
    };
    let (mut world, reader, datagrams) = recorded(levels);
    for step in attack.steps.into_iter().take(50) {
        let bytes = match step {
            Step::Noise(noise) => [&datagrams[0][..Header::LEN], &noise].concat(),
            Step::Hear { datagram, changes, cut, spliced } => {
                let pick = |index: u8| &datagrams[usize::from(index) % datagrams.len()];
                let mut bytes = pick(datagram).clone();
                if let Some((other, from)) = spliced {
                    bytes.extend_from_slice(pick(other).get(usize::from(from)..).unwrap_or_default());
                }
                for (at, value) in changes {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] = value;
                }
                bytes.truncate(cut.map_or(usize::MAX, usize::from));
                bytes
            }
        };
        let now = world.now();
        let source = "10.0.0.1:7411".parse().expect("an address");
        world.network().send(now, Datagram { from: VICTIM, source, to: VICTIM, port: 7411, bytes });
        pass(&mut world, Span::from_micros(100));
    }
    // An attacker can attach a payload that is protected alone to other submessages: its sequence and fragment numbers
    // are not encrypted.
    let is_protected = !levels.message.is_none() || !levels.submessage.is_none();
    for sample in world.take(VICTIM, reader.entity).iter().filter(|_| is_protected) {
        let is_of_peer = LENGTHS.iter().any(|len| is_content(&sample.payload, *len));
        assert!(is_of_peer, "{levels:?}: a sample that the peer has not written");
    }
});

/// Whether a payload is the sample of this length. The padding may have any value.
fn is_content(payload: &[u8], len: usize) -> bool {
    let written = content(len);
    payload.get(4..written.len()) == written.get(4..)
}

fn content(len: usize) -> Vec<u8> {
    let body = (0..len).map(|at| (at % 251) as u8);
    [0, 1, 0, 0].into_iter().chain(body).collect()
}

/// A world in which the peer has written, and the datagrams that the peer has sent, none of which has arrived.
fn recorded(levels: ProtectionLevels) -> (World, Guid, Vec<Vec<u8>>) {
    let (lease, announce_period) = (Span::from_secs(600), Span::from_secs(2));
    let mut world = World::new(WorldConfig { seed: 1, faults: Faults::NONE, lease, announce_period, mtu_bytes: 1500 });
    world.protect(Some(levels));
    world.start(PEER);
    let writer = world.add_writer(
        PEER,
        "topic",
        false,
        |data| data.qos.reliability = Reliability::RELIABLE,
        |config| config.history = HistoryKind::KeepAll,
    );
    let writer = writer.expect("the node runs");
    world.start(VICTIM);
    let reader = world.add_reader(
        VICTIM,
        "topic",
        false,
        |data| data.qos.reliability = Reliability::RELIABLE,
        |config| {
            config.reliable = true;
            config.cache.history = HistoryKind::KeepAll;
        },
    );
    let reader = reader.expect("the node runs");
    pass(&mut world, Span::from_secs(1));
    world.network().partition(&[0, 1]);
    world.record();
    for len in LENGTHS {
        let payload = Payload::copy_of(&content(len));
        let source_timestamp = world.wall();
        let change = Change { kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp, payload };
        drop(world.write(PEER, writer.entity, change));
    }
    let sent = world.record().into_iter().filter(|datagram| datagram.from == PEER && datagram.port == 7411);
    (world, reader, sent.map(|datagram| datagram.bytes).collect())
}

fn pass(world: &mut World, span: Span) {
    let end = world.now() + span;
    while world.run_until(end) {
        world.happenings();
    }
}
