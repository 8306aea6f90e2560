//! Attacks on participants with DDS Security, by an attacker that has recorded their messages: changed bits, parts put
//! together anew, and repetitions. Samples are protected with real keys.

use std::net::SocketAddr;

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::time::Span;
use peregrine_sim::network::{Cut, CutId, Datagram, Faults, NodeId};
use peregrine_sim::secure::identity::{HOME, Rules};
use peregrine_sim::world::{World, WorldConfig};

const WRITER: NodeId = NodeId(0);
const READER: NodeId = NodeId(1);
const HEADER: usize = 20;
const DATA_FRAG: u8 = 0x16;
const SEC_PREFIX: u8 = 0x31;
const SRTPS_PREFIX: u8 = 0x33;

const KINDS: [ProtectionKind; 5] = [
    ProtectionKind::None,
    ProtectionKind::Sign,
    ProtectionKind::Encrypt,
    ProtectionKind::SignWithOriginAuthentication,
    ProtectionKind::EncryptWithOriginAuthentication,
];

/// Every combination of levels that protects samples.
fn combinations() -> impl Iterator<Item = ProtectionLevels> {
    let levels = |message| KINDS.into_iter().map(move |submessage| (message, submessage));
    let all = KINDS.into_iter().flat_map(levels).flat_map(|(message, submessage)| {
        KINDS.into_iter().take(3).map(move |payload| ProtectionLevels { message, submessage, payload })
    });
    all.filter(|levels| *levels != ProtectionLevels::default())
}

struct Pair {
    world: World,
    writer: Guid,
    reader: Guid,
    best_effort: Guid,
    cuts: Vec<CutId>,
}

impl Pair {
    /// A writer, and a reliable and a best-effort reader at another node, which have all matched.
    fn matched(levels: ProtectionLevels) -> Self {
        Self::with_lease(levels, Span::from_secs(600))
    }

    fn with_lease(levels: ProtectionLevels, lease: Span) -> Self {
        let config =
            WorldConfig { seed: 1, faults: Faults::NONE, lease, announce_period: Span::from_secs(2), mtu_bytes: 1500 };
        let mut world = World::new(config);
        let discovery = ProtectionKind::Encrypt;
        let rules = Rules { levels, discovery, allows_unauthenticated: false, is_controlled: true };
        for node in [WRITER, READER] {
            world.secure(node, &HOME, rules);
            world.start(node);
        }
        let writer = world.add_writer(
            WRITER,
            "topic",
            false,
            |data| {
                data.qos.reliability = Reliability::RELIABLE;
                data.qos.durability = Durability::Volatile;
            },
            |config| config.history = HistoryKind::KeepAll,
        );
        let [reader, best_effort] = [true, false].map(|is_reliable| {
            let reader = world.add_reader(
                READER,
                "topic",
                false,
                |data| {
                    if is_reliable {
                        data.qos.reliability = Reliability::RELIABLE;
                    }
                },
                |config| {
                    config.reliable = is_reliable;
                    config.cache.history = HistoryKind::KeepAll;
                },
            );
            reader.unwrap()
        });
        let mut pair = Self { world, writer: writer.unwrap(), reader, best_effort, cuts: Vec::new() };
        pair.pass(Span::from_secs(5));
        let member = pair.world.member(WRITER).unwrap();
        assert_eq!(member.writers[&pair.writer.entity].matched_readers().count(), 2, "{levels:?}");
        pair
    }

    fn pass(&mut self, span: Span) {
        let end = self.world.now() + span;
        while self.world.run_until(end) {
            self.world.happenings();
        }
    }

    /// Writes a sample that does not arrive. Returns its datagrams.
    fn intercepted(&mut self, number: u8) -> Vec<Datagram> {
        self.intercepted_content(&content(number))
    }

    fn intercepted_content(&mut self, content: &[u8]) -> Vec<Datagram> {
        self.world.network().partition(&[0, 1]);
        self.world.record();
        let source_timestamp = self.world.wall();
        let payload = Payload::copy_of(content);
        let change = Change { kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp, payload };
        self.world.write(WRITER, self.writer.entity, change).unwrap();
        let sent = self.world.record();
        self.world.end_record();
        // The next messages come from the attacker alone.
        self.world.network().heal();
        let cut = self.world.network().cut(Cut { from: Some(WRITER), ..Cut::default() });
        self.cuts.push(cut);
        sent.into_iter().filter(|datagram| datagram.to == READER && datagram.port == 7411).collect()
    }

    /// Sends a datagram to the readers from the address of the writer, and returns what both took.
    fn inject(&mut self, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let source: SocketAddr = "10.0.0.1:7411".parse().unwrap();
        let now = self.world.now();
        self.world.network().send(now, Datagram { from: NodeId(9), source, to: READER, port: 7411, bytes });
        self.pass(Span::from_millis(1));
        let taken = [self.reader, self.best_effort].map(|reader| self.world.take(READER, reader.entity));
        taken.into_iter().flatten().filter(|s| s.info.valid_data).map(|s| without_padding(&s.payload)).collect()
    }

    fn dropped(&self) -> u64 {
        let member = self.world.member(READER).unwrap();
        let of_readers: u64 = member.readers.values().map(|reader| reader.counters().not_authentic).sum();
        let counters = member.participant.counters();
        let drops = &counters.drops;
        of_readers + counters.not_rtps + drops.not_authentic + drops.protected + drops.unprotected + drops.malformed
    }
}

fn content(number: u8) -> Vec<u8> {
    [0, 1, 0, 0].into_iter().chain((0..40).map(|at| number.wrapping_mul(7).wrapping_add(at))).collect()
}

fn without_padding(payload: &Payload) -> Vec<u8> {
    let mut payload = payload.to_vec();
    let padding = usize::from(payload[3] & 3);
    payload[3] &= !3;
    payload.truncate(payload.len() - padding);
    payload
}

/// The submessages of a message, each with its header.
fn parts(message: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut rest = &message[HEADER..];
    while rest.len() >= 4 {
        let stated = usize::from(u16::from_le_bytes([rest[2], rest[3]]));
        let len = if stated == 0 { rest.len() } else { 4 + stated };
        let (part, after) = rest.split_at(len);
        parts.push(part.to_vec());
        rest = after;
    }
    parts
}

fn joined(head: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    [&head[..HEADER], &parts.concat()].concat()
}

/// Where the fields of a DATA_FRAG are, from the beginning of the submessage.
const STARTING: usize = 24;
const FRAGMENT_SIZE: usize = 30;
const SAMPLE_SIZE: usize = 32;

/// The place of the DATA_FRAG that is readable in a message.
fn fragment_at(message: &[u8]) -> usize {
    let mut at = HEADER;
    while message[at] != DATA_FRAG {
        at += 4 + usize::from(u16::from_le_bytes([message[at + 2], message[at + 3]]));
    }
    at
}

#[test]
fn fragments_with_other_sizes_or_places_are_not_joined_with_true_ones() {
    let (none, sign) = (ProtectionKind::None, ProtectionKind::Sign);
    let levels = |message, submessage, payload| ProtectionLevels { message, submessage, payload };
    let large: Vec<u8> = [0, 1, 0, 0].into_iter().chain((0..4996u16).map(|at| (at % 251) as u8)).collect();
    let all = [
        levels(none, none, ProtectionKind::Encrypt),
        levels(none, none, sign),
        levels(none, sign, none),
        levels(none, sign, ProtectionKind::Encrypt),
        levels(sign, none, none),
        levels(sign, sign, sign),
    ];
    for levels in all {
        let only_payload = levels.message.is_none() && levels.submessage.is_none();
        for (what, field, change) in [
            ("a larger sample", SAMPLE_SIZE, 1000),
            ("a smaller sample", SAMPLE_SIZE, 1u16.wrapping_neg()),
            ("larger fragments", FRAGMENT_SIZE, 4),
            ("smaller fragments", FRAGMENT_SIZE, 4u16.wrapping_neg()),
            ("another place", STARTING, 1),
        ] {
            // One of the fragments is changed, and comes before and after the true ones.
            for changed in 0..4 {
                let mut pair = Pair::matched(levels);
                let sent: Vec<Vec<u8>> = pair.intercepted_content(&large).into_iter().map(|d| d.bytes).collect();
                let mut forged = sent[changed].clone();
                let at = fragment_at(&forged) + field;
                let value = u16::from_le_bytes([forged[at], forged[at + 1]]).wrapping_add(change);
                forged[at..at + 2].copy_from_slice(&value.to_le_bytes());
                let others = sent.iter().enumerate().filter(|(index, _)| *index != changed).map(|(_, bytes)| bytes);
                let before = pair.dropped();
                let mut taken = pair.inject(forged.clone());
                for bytes in others.cloned().chain([forged]) {
                    taken.extend(pair.inject(bytes));
                }
                // Without the fragment that was changed, the sample is not complete.
                assert_eq!(taken, Vec::<Vec<u8>>::new(), "{levels:?}: {what}, fragment {changed}");
                if !only_payload {
                    assert!(pair.dropped() > before, "{levels:?}: {what} is not counted");
                    assert_eq!(
                        pair.inject(sent[changed].clone()),
                        [large.clone(), large.clone()],
                        "{levels:?}: {what}"
                    );
                }
            }
        }
    }
}

#[test]
fn datagram_with_one_changed_bit_delivers_nothing_that_was_not_written() {
    let mut changed = 0u64;
    for levels in combinations() {
        let mut pair = Pair::matched(levels);
        let sent = pair.intercepted(1);
        let [good] = sent.as_slice() else { panic!("{} datagrams", sent.len()) };
        let good = good.bytes.clone();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let before = pair.dropped();
            let taken = pair.inject(bytes);
            changed += 1;
            if levels.message.is_none() {
                // An attacker can forge the parts that are not protected: the number and the time of a sample.
                assert!(taken.iter().all(|sample| *sample == content(1)), "{levels:?}, bit {bit}: {taken:?}");
            } else {
                assert!(taken.is_empty(), "{levels:?}, bit {bit}");
                assert!(pair.dropped() > before, "{levels:?}, bit {bit} is not counted");
            }
        }
        if !levels.message.is_none() {
            assert_eq!(pair.inject(good), [content(1), content(1)], "{levels:?}: the datagram itself is accepted");
        }
    }
    assert!(changed > 100_000, "{changed}");
}

#[test]
fn parts_of_protected_submessages_that_are_put_together_anew_deliver_nothing() {
    for submessage in KINDS.into_iter().skip(1) {
        let levels = ProtectionLevels { submessage, ..ProtectionLevels::default() };
        let mut pair = Pair::matched(levels);
        let sent = [1, 2].map(|number| pair.intercepted(number).remove(0).bytes);
        let triples = sent.each_ref().map(|message| {
            let parts = parts(message);
            let at = parts.iter().position(|part| part[0] == SEC_PREFIX).unwrap();
            [parts[at].clone(), parts[at + 1].clone(), parts[at + 2].clone()]
        });
        let head = &sent[0];
        let [[prefix, body, postfix], [other_prefix, other_body, other_postfix]] = &triples;
        let mut shorter = body[..body.len() - 4].to_vec();
        let len = (shorter.len() as u16 - 4).to_le_bytes();
        shorter[2..4].copy_from_slice(&len);
        let mut stranger = sent[0].clone();
        stranger[8..20].copy_from_slice(&pair.reader.prefix.0);
        let forged: [Vec<u8>; 12] = [
            joined(head, &[prefix, other_body, postfix]),
            joined(head, &[prefix, other_body, other_postfix]),
            joined(head, &[other_prefix, body, postfix]),
            joined(head, &[prefix, body, other_postfix]),
            joined(head, &[prefix, body]),
            joined(head, &[prefix, postfix]),
            joined(head, &[body, postfix]),
            joined(head, &[prefix, prefix, postfix]),
            joined(head, &[prefix, body, body, postfix]),
            joined(head, &[prefix, &shorter, postfix]),
            joined(head, &[postfix, body, prefix]),
            stranger,
        ];
        for (index, message) in forged.into_iter().enumerate() {
            assert_eq!(pair.inject(message), Vec::<Vec<u8>>::new(), "{submessage:?}, forgery {index}");
        }
        let [first, second] = sent;
        assert_eq!(pair.inject(first), [content(1), content(1)], "{submessage:?}");
        assert_eq!(pair.inject(second), [content(2), content(2)], "{submessage:?}");
    }
}

#[test]
fn parts_of_protected_messages_that_are_put_together_anew_deliver_nothing() {
    for message in KINDS.into_iter().skip(1) {
        let levels = ProtectionLevels { message, ..ProtectionLevels::default() };
        let mut pair = Pair::matched(levels);
        let sent = [1, 2].map(|number| pair.intercepted(number).remove(0).bytes);
        let [one, other] = sent.each_ref().map(|message| parts(message));
        assert_eq!((one[0][0], other[0][0]), (SRTPS_PREFIX, SRTPS_PREFIX), "the protection comes first");
        let head = &sent[0];
        let [inner, other_inner] = [&one, &other].map(|parts| parts[1..parts.len() - 1].concat());
        let (prefix, postfix) = (&one[0], &one[one.len() - 1]);
        let (other_prefix, other_postfix) = (&other[0], &other[other.len() - 1]);
        let whole = parts(head).concat();
        let forged: [Vec<u8>; 9] = [
            joined(head, &[prefix, &other_inner, postfix]),
            joined(head, &[prefix, &other_inner, other_postfix]),
            joined(head, &[other_prefix, &inner, postfix]),
            joined(head, &[prefix, &inner, other_postfix]),
            joined(head, &[prefix, &inner]),
            joined(head, &[&inner, postfix]),
            joined(head, &[&inner]),
            joined(head, &[prefix, &whole, postfix]),
            joined(head, &[prefix, &inner, &inner, postfix]),
        ];
        for (index, message_bytes) in forged.into_iter().enumerate() {
            assert_eq!(pair.inject(message_bytes), Vec::<Vec<u8>>::new(), "{message:?}, forgery {index}");
        }
        // Submessages behind a protected message do not count. The message itself may count.
        let followed = pair.inject(joined(head, &[&whole, &other.concat()]));
        assert!(!followed.contains(&content(2)), "{message:?}");
        let second = sent[1].clone();
        assert_eq!(pair.inject(joined(head, &[&whole])).len() + followed.len(), 2, "{message:?}");
        assert_eq!(pair.inject(second), [content(2), content(2)], "{message:?}");
    }
}

#[test]
fn recorded_datagrams_of_the_session_deliver_no_sample_again() {
    for levels in combinations() {
        let mut pair = Pair::matched(levels);
        let mut recorded = Vec::new();
        for number in 1..=8 {
            let sent = pair.intercepted(number);
            let taken: Vec<_> = sent.iter().flat_map(|datagram| pair.inject(datagram.bytes.clone())).collect();
            assert_eq!(taken, [content(number), content(number)], "{levels:?}");
            recorded.extend(sent);
        }
        // Again, in another order, also after keys were renewed.
        for round in 0..3 {
            for datagram in recorded.iter().rev() {
                let taken = pair.inject(datagram.bytes.clone());
                assert!(taken.is_empty(), "{levels:?}, round {round}: a sample came twice");
            }
            pair.world.renew_keys(WRITER);
            pair.pass(Span::from_secs(20));
        }
    }
}

/// The readers have lost the participant of the writer, and found it again: it has the same keys as before.
#[test]
fn recorded_datagrams_deliver_no_sample_again_after_a_lease_has_ended() {
    for levels in combinations().filter(|levels| !levels.message.is_none() || !levels.submessage.is_none()) {
        let mut pair = Pair::with_lease(levels, Span::from_secs(10));
        let mut recorded = Vec::new();
        for number in 1..=4 {
            let sent = pair.intercepted(number);
            assert!(
                !sent.iter().flat_map(|datagram| pair.inject(datagram.bytes.clone())).collect::<Vec<_>>().is_empty()
            );
            recorded.extend(sent);
        }
        pair.pass(Span::from_secs(15));
        assert_eq!(pair.world.member(READER).unwrap().readers[&pair.reader.entity].matched_writers().count(), 0);
        pair.cuts.drain(..).for_each(|cut| _ = pair.world.network().end_cut(cut));
        pair.pass(Span::from_secs(30));
        let member = pair.world.member(READER).unwrap();
        assert!(member.readers.values().all(|reader| reader.matched_writers().count() == 1), "{levels:?}");
        for datagram in &recorded {
            assert!(pair.inject(datagram.bytes.clone()).is_empty(), "{levels:?}: a sample came twice");
        }
    }
}
