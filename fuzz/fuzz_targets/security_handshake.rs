//! Two participants authenticate over a link on which everything is possible: nothing panics, all bounds hold, and the
//! participant to which the other begins has no key that the other has not.
#![no_main]

use core::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterListWriter};
use peregrine_security::WallTime;
use peregrine_security::authentication::{AuthenticationConfig, Authenticator, Event, Input, LocalParticipant, Trust};
use peregrine_security::crypto::KeyMaterial;
use peregrine_security::identity::{Certificate, PrivateKey, TrustAnchors, adjusted_prefix};
use peregrine_security::limits::{EARLY_MESSAGES, HALF_OPEN, PEERS, WAITING_BYTES};
use peregrine_security::message::{DataHolder, identity_token};

/// The key of this authority was deleted after the two certificates were issued.
const AUTHORITY: &str = include_str!("identity/authority.pem");
const IDENTITIES: [(&str, &str); 2] = [
    (include_str!("identity/a.pem"), include_str!("identity/a.key")),
    (include_str!("identity/b.pem"), include_str!("identity/b.key")),
];
/// Within the validity of the certificates.
const WALL: WallTime = WallTime(1_900_000_000);

/// A step has eight bytes: what happens, to which participant, and numbers.
///
/// | first byte modulo 8 | what happens |
/// |---|---|
/// | 0 | the other participant is announced; without identity if the last byte is odd |
/// | 1 | a message of the other participant is delivered, the newest or an earlier one |
/// | 2 | the same with up to three bytes changed |
/// | 3 | the input itself, from a position on, is delivered as if from the other participant |
/// | 4 | a message of the other participant is delivered as if from a stranger |
/// | 5 | time passes |
/// | 6 | the other participant is forgotten, or a stranger announced |
/// | 7 | all or nothing is trusted |
type Step = [u8; 8];

struct Node {
    prefix: GuidPrefix,
    authenticator: Authenticator,
    sent: Vec<Vec<u8>>,
    keys: Vec<KeyMaterial>,
}

struct World {
    nodes: [Node; 2],
    now: Instant,
    draws: u64,
}

impl World {
    fn call(&mut self, node: usize, call: impl FnOnce(&mut Authenticator, &mut Input<'_>)) {
        let draws = &mut self.draws;
        let mut random = |out: &mut [u8]| {
            *draws += 1;
            out.iter_mut().enumerate().for_each(|(at, octet)| *octet = (*draws as usize * 31 + at * 7) as u8);
        };
        let mut input = Input { now: self.now, wall: WALL, random: &mut random };
        let Node { authenticator, sent, keys, .. } = &mut self.nodes[node];
        call(authenticator, &mut input);
        while let Some(job) = authenticator.poll_job(&mut input) {
            authenticator.handle_job_done(&mut input, job.run());
        }
        sent.extend(core::iter::from_fn(|| authenticator.poll_transmit()).map(|transmit| transmit.payload));
        while let Some(event) = authenticator.poll_event() {
            if let Event::Authenticated(peer) = &event {
                keys.push(peer.exchange_key.clone());
            }
            let _ = format!("{event:?}");
        }
        let usage = authenticator.usage();
        assert!(usage.half_open <= HALF_OPEN && usage.peers <= PEERS && usage.jobs == 0);
        assert!(usage.waiting_bytes <= WAITING_BYTES && usage.early_messages <= EARLY_MESSAGES);
    }

    fn receive(&mut self, node: usize, source: u8, sender: GuidPrefix, octets: &[u8]) {
        let source = IpAddr::from([127, 0, 0, source]);
        self.call(node, |authenticator, input| authenticator.handle_message(input, source, sender, octets));
    }

    fn step(&mut self, step: Step, input: &[u8]) {
        let [kind, to, number, low, high, changes @ ..] = step;
        let to = usize::from(to % 2);
        let at = usize::from(u16::from_le_bytes([low, high]));
        let (peer, stranger) = (self.nodes[1 - to].prefix, GuidPrefix([number; 12]));
        let source = IpAddr::from([127, 0, 0, number % 4]);
        match kind % 8 {
            0 | 6 => {
                let token = if changes[2] % 2 == 0 { identity_token() } else { DataHolder::new("other") };
                let announced = if kind % 8 == 0 { peer } else { stranger };
                self.call(to, |authenticator, input| {
                    if number % 8 == 7 {
                        authenticator.remove_participant(announced);
                    }
                    authenticator.handle_announcement(input, announced, source, Some(&token));
                });
            }
            1 => self.deliver(to, peer, number, |_| ()),
            2 => self.deliver(to, peer, number, |octets| {
                let at = at % octets.len().max(1);
                octets.iter_mut().skip(at).zip(changes).for_each(|(octet, change)| *octet ^= change);
            }),
            3 => self.receive(to, number, peer, input.get(at..).unwrap_or_default()),
            4 => self.deliver(to, stranger, changes[0], |_| ()),
            5 => {
                self.now = self.now + Span::from_millis(at as u64);
                for node in [0, 1] {
                    self.call(node, |authenticator, input| authenticator.handle_timeout(input));
                    let next = self.nodes[node].authenticator.poll_timeout();
                    assert!(next.is_none_or(|next| next > self.now), "a timer that is due was not served");
                }
            }
            _ => {
                let trust = if number % 2 == 0 { Trust::default() } else { trust() };
                self.call(to, |authenticator, input| authenticator.set_trust(input, trust));
            }
        }
        let [initiator, replier] = &self.nodes;
        assert!(replier.keys.iter().all(|key| initiator.keys.contains(key)), "a key without the other participant");
    }

    fn deliver(&mut self, to: usize, from: GuidPrefix, number: u8, change: impl FnOnce(&mut [u8])) {
        let sender = &self.nodes[1 - to];
        let newest = sender.sent.len().checked_sub(1 + usize::from(number % 8));
        let Some(mut octets) = newest.and_then(|at| sender.sent.get(at).cloned()) else { return };
        change(&mut octets);
        self.receive(to, 1, from, &octets);
    }
}

fn trust() -> Trust {
    let authorities = Certificate::from_pem(AUTHORITY).expect("a certificate");
    Trust { identities: TrustAnchors::from_list(authorities), ..Trust::default() }
}

fn node((certificate, key): (&str, &str)) -> Node {
    let certificates = Certificate::from_pem(certificate).expect("a certificate");
    let key = PrivateKey::from_pem(key, None).expect("a key");
    let prefix = adjusted_prefix(&certificates[0], Guid::new(GuidPrefix([1; 12]), EntityId::PARTICIPANT));
    let mut data = Vec::new();
    let guid = Guid::new(prefix, EntityId::PARTICIPANT).to_bytes();
    let mut list = ParameterListWriter::new(&mut data, Endianness::Big);
    list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.octets(&guid));
    list.finish();
    let local = LocalParticipant::new(prefix, &certificates, key, Vec::new(), data).expect("parts that fit");
    let authenticator = Authenticator::new(local, trust(), AuthenticationConfig::default(), Instant(0));
    Node { prefix, authenticator, sent: Vec::new(), keys: Vec::new() }
}

fuzz_target!(|input: &[u8]| {
    let mut nodes = IDENTITIES.map(node);
    nodes.sort_by_key(|node| node.prefix);
    let mut world = World { nodes, now: Instant(0), draws: 0 };
    let (steps, _) = input.as_chunks::<8>();
    steps.iter().take(200).for_each(|step| world.step(*step, input));
});
