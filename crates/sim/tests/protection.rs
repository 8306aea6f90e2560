//! Participants that protect messages, submessages and payloads, on a network with faults.

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::protection::{Protection, ProtectionKind, ProtectionLevels, Scope, Text};
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Span;
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{
    CryptoContent, CryptoFooter, DataHead, Endianness, Header, InfoSource, InlineQos, ParameterId, ParameterListWriter,
    PayloadKind, ReceiverMac, StatusInfo, Submessage, SubmessageId, Submessages,
};
use peregrine_sim::network::{Datagram, Faults, NodeId, ParticipantId};
use peregrine_sim::protection::MockProtection;
use peregrine_sim::world::{DOMAIN_KEY, Happening, World, WorldConfig};

const KINDS: [ProtectionKind; 5] = [
    ProtectionKind::None,
    ProtectionKind::Sign,
    ProtectionKind::Encrypt,
    ProtectionKind::SignWithOriginAuthentication,
    ProtectionKind::EncryptWithOriginAuthentication,
];
const WRITER: NodeId = NodeId(0);
const READER: NodeId = NodeId(1);

fn world(seed: u64, faults: Faults, levels: Option<ProtectionLevels>) -> World {
    let mut world = World::new(WorldConfig {
        seed,
        faults,
        lease: Span::from_secs(600),
        announce_period: Span::from_secs(2),
        mtu_bytes: 1500,
    });
    world.protect(levels);
    world
}

fn pass(world: &mut World, span: Span) {
    let end = world.now() + span;
    while world.run_until(end) {
        world.happenings();
    }
}

fn writer(world: &mut World) -> Guid {
    world.start(WRITER);
    let reliable = |data: &mut peregrine_rtps::discovery::data::PublicationData| {
        data.qos.reliability = Reliability::RELIABLE;
        data.qos.durability = Durability::TransientLocal;
    };
    let writer = world.add_writer(WRITER, "topic", false, reliable, |config| {
        config.history = HistoryKind::KeepAll;
        config.durable = true;
    });
    writer.unwrap()
}

fn reader(world: &mut World, at: impl Into<ParticipantId>, reliable: bool) -> Guid {
    let reader = world.add_reader(
        at,
        "topic",
        false,
        |data| {
            data.qos.durability = Durability::TransientLocal;
            if reliable {
                data.qos.reliability = Reliability::RELIABLE;
            }
        },
        |config| {
            config.reliable = reliable;
            config.wants_history = true;
            config.cache.history = HistoryKind::KeepAll;
        },
    );
    reader.unwrap()
}

fn content(n: u8, bytes: usize) -> Vec<u8> {
    let body = (0..bytes).map(|at| (at as u8).wrapping_mul(n | 1).wrapping_add(n));
    [0, 1, 0, 0].into_iter().chain(body).collect()
}

fn write(world: &mut World, writer: Guid, n: u8, bytes: usize) {
    let change = Change {
        kind: ChangeKind::Alive,
        instance: KeyHash::NIL,
        source_timestamp: world.wall(),
        payload: Payload::copy_of(&content(n, bytes)),
    };
    world.write(WRITER, writer.entity, change).unwrap();
}

/// The samples taken, without the padding that the encapsulation header of a protected payload states.
fn taken(world: &mut World, at: impl Into<ParticipantId>, reader: Guid) -> Vec<Vec<u8>> {
    let samples = world.take(at, reader.entity).into_iter().map(|sample| {
        let mut payload = sample.payload.to_vec();
        let padding = usize::from(payload[3] & 3);
        payload[3] &= !3;
        payload.truncate(payload.len() - padding);
        payload
    });
    samples.collect()
}

fn submessage_ids(datagram: &Datagram) -> Vec<SubmessageId> {
    let (_, rest) = Header::parse(&datagram.bytes).unwrap();
    let ids = Submessages::new(rest).map(|submessage| match submessage.unwrap() {
        Submessage::Security { id, .. } => id,
        Submessage::Data(_) => SubmessageId::DATA,
        Submessage::InfoTimestamp(_) => SubmessageId::INFO_TS,
        _ => SubmessageId::PAD,
    });
    ids.collect()
}

fn drops(world: &World, at: impl Into<ParticipantId>) -> peregrine_rtps::participant::Drops {
    world.member(at).unwrap().participant.counters().drops
}

#[test]
fn protected_submessage_arrives_encrypted() {
    let submessage = ProtectionKind::EncryptWithOriginAuthentication;
    let mut world = world(1, Faults::NONE, Some(ProtectionLevels { submessage, ..ProtectionLevels::default() }));
    let writer = writer(&mut world);
    world.start(READER);
    let reader = reader(&mut world, READER, true);
    pass(&mut world, Span::from_secs(3));
    world.record();
    write(&mut world, writer, 1, 20);
    pass(&mut world, Span::from_secs(1));
    assert_eq!(taken(&mut world, READER, reader), [content(1, 20)]);
    let sent = world.record();
    let of_writer: Vec<_> = sent.iter().filter(|datagram| datagram.from == WRITER && datagram.port == 7411).collect();
    let sealed = [SubmessageId::SEC_PREFIX, SubmessageId::SEC_BODY, SubmessageId::SEC_POSTFIX];
    assert_eq!(submessage_ids(of_writer[0])[..4], [&[SubmessageId::INFO_TS], &sealed[..]].concat());
    assert!(
        !of_writer[0].bytes.windows(20).any(|window| window == &content(1, 20)[4..]),
        "the sample is not encrypted"
    );
    assert_eq!(drops(&world, READER), Default::default());
    assert_eq!(drops(&world, WRITER), Default::default());
}

/// All combinations of the three levels. Payloads have no receiver-specific MACs.
fn combinations() -> impl Iterator<Item = ProtectionLevels> {
    let levels = |message, submessage, payload| ProtectionLevels { message, submessage, payload };
    KINDS.into_iter().flat_map(move |message| {
        KINDS.into_iter().flat_map(move |submessage| {
            KINDS.into_iter().take(3).map(move |payload| levels(message, submessage, payload))
        })
    })
}

/// From samples within one datagram to fragments; some lengths are not multiples of 4.
const SIZES: [usize; 9] = [0, 13, 100, 1001, 1283, 1350, 1400, 5003, 20_000];

#[test]
fn samples_arrive_in_order_at_every_combination_of_levels() {
    for (seed, levels) in combinations().enumerate() {
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let faults = Faults {
            loss: [0.0, 0.05, 0.2][rng.usize(0..3)],
            duplication: 0.1,
            delay_min: Span::from_micros(30),
            delay_max: Span::from_micros([30, 2000][rng.usize(0..2)]),
        };
        let mut world = world(seed as u64, faults, Some(levels));
        let writer = writer(&mut world);
        // Two participants of one process, one of them with two readers, and one of another process.
        let at = [READER.participant(0), READER.participant(0), READER.participant(1), NodeId(2).participant(0)];
        [at[0], at[2], at[3]].into_iter().for_each(|id| world.start(id));
        let readers = at.map(|at| (at, reader(&mut world, at, true)));
        let best_effort = reader(&mut world, NodeId(2), false);
        let mut expected = Vec::new();
        for n in 0..60 {
            let bytes = SIZES[rng.usize(0..SIZES.len())];
            // Without protection of the payload, the padding of a DATA is part of the sample.
            let bytes = if levels.payload.is_none() { bytes.next_multiple_of(4) } else { bytes };
            write(&mut world, writer, n, bytes);
            expected.push(content(n, bytes));
            pass(&mut world, Span::from_micros(rng.u64(0..3000)));
        }
        // The writer holds the samples: this reader receives them as repair.
        let late = NodeId(3).participant(0);
        world.start(late);
        let late = (late, reader(&mut world, late, true));
        pass(&mut world, Span::from_secs(60));
        for (at, reader) in readers.into_iter().chain([late]) {
            assert!(taken(&mut world, at, reader) == expected, "{levels:?}, seed {seed}: {at:?}");
        }
        let received = taken(&mut world, NodeId(2), best_effort);
        assert!(received.iter().all(|sample| expected.contains(sample)), "{levels:?}, seed {seed}");
        let sent = world.member(WRITER).unwrap().writers[&writer.entity].counters();
        assert_eq!(sent.unprotectable, 0, "{levels:?}, seed {seed}");
    }
}

#[test]
fn repair_of_protected_payload_sends_same_bytes() {
    for (bytes, payload) in
        [(100, ProtectionKind::Sign), (1000, ProtectionKind::Encrypt), (9001, ProtectionKind::Encrypt)]
    {
        let mut world = world(1, Faults::NONE, Some(ProtectionLevels { payload, ..ProtectionLevels::default() }));
        let writer = writer(&mut world);
        write(&mut world, writer, 1, bytes);
        world.record();
        let mut fields = Vec::new();
        for host in 1..4 {
            // Each reader receives the history separately.
            world.start(NodeId(host));
            let reader = reader(&mut world, NodeId(host), true);
            pass(&mut world, Span::from_secs(5));
            assert_eq!(taken(&mut world, NodeId(host), reader), [content(1, bytes)]);
            fields.push(payload_fields(&world.record()));
        }
        assert!(!fields[0].is_empty());
        assert!(fields.iter().all(|of_one| *of_one == fields[0]), "{bytes} bytes: a payload was protected twice");
    }
}

/// The payloads of DATA and DATA_FRAG of user writers, each once, in order.
fn payload_fields(datagrams: &[Datagram]) -> Vec<Vec<u8>> {
    let mut fields = Vec::new();
    for datagram in datagrams {
        let (_, rest) = Header::parse(&datagram.bytes).unwrap();
        for submessage in Submessages::new(rest) {
            match submessage.unwrap() {
                Submessage::Data(data) if !data.writer.is_builtin() => fields.push(data.payload.as_bytes().to_vec()),
                Submessage::DataFrag(frag) if !frag.writer.is_builtin() => fields.push(frag.payload.to_vec()),
                _ => {}
            }
        }
    }
    fields.sort();
    fields.dedup();
    fields
}

/// The datagrams for the reader's participant when a writer with this protection writes a sample.
fn forgeries(levels: Option<ProtectionLevels>) -> Vec<Vec<u8>> {
    let mut world = world(1, Faults::NONE, levels);
    let writer = writer(&mut world);
    world.start(READER);
    let reader = reader(&mut world, READER, true);
    pass(&mut world, Span::from_secs(3));
    world.record();
    write(&mut world, writer, 1, 20);
    pass(&mut world, Span::from_secs(1));
    assert_eq!(taken(&mut world, READER, reader).len(), 1);
    let sent = world.record().into_iter();
    sent.filter(|datagram| datagram.from == WRITER && datagram.port == 7411).map(|datagram| datagram.bytes).collect()
}

/// A reader that requires these levels and has received all samples of its writer.
fn victim(levels: ProtectionLevels) -> (World, Guid, Guid) {
    let mut world = world(1, Faults::NONE, Some(levels));
    let writer = writer(&mut world);
    world.start(READER);
    let reader = reader(&mut world, READER, true);
    pass(&mut world, Span::from_secs(3));
    (world, writer, reader)
}

/// Sends a datagram to the reader's participant from the address of the writer's participant.
fn inject(world: &mut World, bytes: Vec<u8>) {
    let source = "10.0.0.1:7411".parse().unwrap();
    let now = world.now();
    world.network().send(now, Datagram { from: READER, source, to: READER, port: 7411, bytes });
    pass(world, Span::from_millis(1));
}

#[test]
fn plain_submessages_for_protected_endpoint_are_dropped_and_counted() {
    let protected = [
        ProtectionLevels { message: ProtectionKind::Sign, ..ProtectionLevels::default() },
        ProtectionLevels { submessage: ProtectionKind::Encrypt, ..ProtectionLevels::default() },
    ];
    for levels in protected {
        // Both worlds have the same seed and hence the same GUIDs.
        let (mut world, _, reader) = victim(levels);
        let datagrams = forgeries(None);
        let before = world.member(READER).unwrap().readers[&reader.entity].counters();
        for bytes in datagrams.iter().cloned() {
            inject(&mut world, bytes);
        }
        assert_eq!(taken(&mut world, READER, reader).len(), 0, "{levels:?}");
        assert_eq!(world.member(READER).unwrap().readers[&reader.entity].counters(), before, "{levels:?}");
        assert!(drops(&world, READER).unprotected >= datagrams.len() as u64, "{levels:?}");
    }
}

#[test]
fn plain_payload_for_reader_of_protected_payloads_is_dropped_and_counted() {
    for payload in [ProtectionKind::Sign, ProtectionKind::Encrypt] {
        let (mut world, _, reader) = victim(ProtectionLevels { payload, ..ProtectionLevels::default() });
        forgeries(None).into_iter().take(1).for_each(|bytes| inject(&mut world, bytes));
        assert_eq!(taken(&mut world, READER, reader).len(), 0, "{payload:?}");
        assert_eq!(world.member(READER).unwrap().readers[&reader.entity].counters().not_authentic, 1, "{payload:?}");
    }
}

#[test]
fn protected_datagram_with_changed_bit_is_dropped_and_counted() {
    for levels in [
        ProtectionLevels { message: ProtectionKind::Sign, ..ProtectionLevels::default() },
        ProtectionLevels { message: ProtectionKind::Encrypt, ..ProtectionLevels::default() },
        ProtectionLevels {
            message: ProtectionKind::SignWithOriginAuthentication,
            submessage: ProtectionKind::EncryptWithOriginAuthentication,
            payload: ProtectionKind::Encrypt,
        },
    ] {
        let (mut world, writer, reader) = victim(levels);
        world.record();
        // The partition stops the writer's own datagrams, including repairs.
        world.network().partition(&[0, 1]);
        write(&mut world, writer, 1, 20);
        let sent = world.record();
        let good = sent.into_iter().find(|d| d.to == READER && d.port == 7411).unwrap().bytes;
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let before = world.member(READER).unwrap().participant.counters();
            inject(&mut world, bytes);
            let after = world.member(READER).unwrap().participant.counters();
            assert_eq!(taken(&mut world, READER, reader).len(), 0, "{levels:?}, bit {bit}");
            assert!(after.drops != before.drops || after.not_rtps > before.not_rtps, "{levels:?}, bit {bit}");
        }
        inject(&mut world, good);
        assert_eq!(
            taken(&mut world, READER, reader),
            [content(1, 20)],
            "{levels:?}: the unchanged datagram is accepted"
        );
    }
}

const MESSAGE_SIGNED: ProtectionLevels =
    ProtectionLevels { message: ProtectionKind::Sign, submessage: ProtectionKind::None, payload: ProtectionKind::None };
const SUBMESSAGE_SIGNED: ProtectionLevels =
    ProtectionLevels { message: ProtectionKind::None, submessage: ProtectionKind::Sign, payload: ProtectionKind::None };

/// A DATA of this writer with its first sequence number.
fn data_of(writer: Guid) -> Vec<u8> {
    let mut out = Vec::new();
    let head = DataHead {
        reader: EntityId::UNKNOWN,
        writer: writer.entity,
        sequence_number: SequenceNumber(1),
        inline_qos: &[],
        payload: PayloadKind::Data,
    };
    let payload = content(9, 20);
    head.emit(Endianness::Little, payload.len(), &mut out);
    out.extend_from_slice(&payload);
    out
}

/// Submessages protected with the key of `sender`, or with a forged key. `receivers` get MACs.
fn sealed(
    scope: Scope,
    sender: Guid,
    levels: ProtectionLevels,
    domain_key: u64,
    receivers: &[Guid],
    text: &[u8],
) -> Vec<u8> {
    let protection = MockProtection::new(sender.prefix, levels, domain_key);
    let (kind, prefix, postfix) = match scope {
        Scope::Message => (levels.message, SubmessageId::SRTPS_PREFIX, SubmessageId::SRTPS_POSTFIX),
        _ => (levels.submessage, SubmessageId::SEC_PREFIX, SubmessageId::SEC_POSTFIX),
    };
    let mut octets = text.to_vec();
    let text = if kind.encrypts() { Text::Encrypted(&mut octets) } else { Text::Signed(&octets) };
    let seal = protection.seal(scope, sender.entity, None, text).unwrap();
    let macs =
        receivers.iter().map(|receiver| protection.receiver_mac(scope, sender.entity, &seal, *receiver).unwrap());
    let macs: Vec<ReceiverMac> = macs.collect();
    let mut out = Vec::new();
    seal.header.emit(prefix, Endianness::Little, &mut out);
    if kind.encrypts() {
        CryptoContent(&octets).emit(Endianness::Little, &mut out);
    } else {
        out.extend_from_slice(&octets);
    }
    CryptoFooter::emit(postfix, Endianness::Little, &seal.common_mac, macs.into_iter(), &mut out);
    out
}

/// Submessages signed with the key of `sender`, or with a forged key, for all receivers.
fn signed(scope: Scope, sender: Guid, levels: ProtectionLevels, domain_key: u64, text: &[u8]) -> Vec<u8> {
    sealed(scope, sender, levels, domain_key, &[], text)
}

fn message_of(prefix: GuidPrefix, submessages: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header_of(prefix).emit(&mut out);
    out.extend_from_slice(submessages);
    out
}

fn header_of(prefix: GuidPrefix) -> Header {
    Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix }
}

fn source(prefix: GuidPrefix) -> Vec<u8> {
    let mut out = Vec::new();
    InfoSource::of(&header_of(prefix)).emit(Endianness::Little, &mut out);
    out
}

/// Injects a message. Returns the number of samples received and of parts dropped because of it.
fn effect(world: &mut World, reader: Guid, message: Vec<u8>) -> (usize, u64) {
    let before = drops(world, READER);
    inject(world, message);
    let after = drops(world, READER);
    (
        taken(world, READER, reader).len(),
        after.not_authentic + after.protected - before.not_authentic - before.protected,
    )
}

#[test]
fn submessage_under_key_of_other_endpoint_is_rejected() {
    let (mut world, writer, reader) = victim(SUBMESSAGE_SIGNED);
    world.network().partition(&[0, 1]);
    let other = Guid::new(writer.prefix, EntityId::user_writer(77, false));
    let stranger = Guid::new(GuidPrefix([7; 12]), writer.entity);
    let forged = |sender, key| signed(Scope::Submessage, sender, SUBMESSAGE_SIGNED, key, &data_of(writer));
    for (sender, key) in [(other, DOMAIN_KEY), (stranger, DOMAIN_KEY), (writer, DOMAIN_KEY + 1)] {
        let message = message_of(writer.prefix, &forged(sender, key));
        assert_eq!(effect(&mut world, reader, message), (0, 1), "{sender:?}, key {key}");
    }
    let honest = message_of(writer.prefix, &forged(writer, DOMAIN_KEY));
    assert_eq!(effect(&mut world, reader, honest), (1, 0));
}

#[test]
fn protected_message_in_name_of_other_participant_is_rejected() {
    let (mut world, writer, reader) = victim(MESSAGE_SIGNED);
    world.network().partition(&[0, 1]);
    let insider = GuidPrefix([7; 12]);
    let sealed = |by: GuidPrefix, text: &[u8]| {
        let sender = Guid::new(by, EntityId::PARTICIPANT);
        signed(Scope::Message, sender, MESSAGE_SIGNED, DOMAIN_KEY, text)
    };
    let data = data_of(writer);
    // The insider names the writer's participant after its own INFO_SRC, or instead of it, or in the header.
    let forgeries = [
        message_of(insider, &sealed(insider, &[source(insider), source(writer.prefix), data.clone()].concat())),
        message_of(insider, &sealed(insider, &[source(writer.prefix), data.clone()].concat())),
        message_of(writer.prefix, &sealed(insider, &[source(writer.prefix), data.clone()].concat())),
        message_of(writer.prefix, &sealed(insider, &[source(insider), data.clone()].concat())),
    ];
    for (index, message) in forgeries.into_iter().enumerate() {
        assert_eq!(effect(&mut world, reader, message), (0, 1), "forgery {index}");
    }
    let honest = sealed(writer.prefix, &[source(writer.prefix), data].concat());
    let followed = |submessage: &[u8]| message_of(writer.prefix, &[&honest, submessage].concat());
    let before = drops(&world, READER).malformed;
    assert_eq!(effect(&mut world, reader, followed(&data_of(writer))), (0, 0));
    assert_eq!(drops(&world, READER).malformed, before + 1, "no standard submessage may follow a protected message");
    assert_eq!(
        effect(&mut world, reader, followed(&[0x80, 1, 4, 0, 1, 2, 3, 4])),
        (1, 0),
        "a vendor's submessage may follow"
    );
}

/// All readers of a writer have its key, so without MACs for receivers any of them can protect a submessage with it.
/// The MAC of the message is of the participant that sends it, and proves nothing about others.
#[test]
fn submessage_of_other_participant_in_a_message_with_origin_authentication_is_rejected() {
    let messages = [ProtectionKind::SignWithOriginAuthentication, ProtectionKind::EncryptWithOriginAuthentication];
    let submessages = [ProtectionKind::Sign, ProtectionKind::Encrypt];
    for (message, submessage) in messages.into_iter().flat_map(|kind| submessages.map(|inner| (kind, inner))) {
        let levels = ProtectionLevels { message, submessage, payload: ProtectionKind::None };
        let (mut world, writer, reader) = victim(levels);
        world.network().partition(&[0, 1]);
        let receiver = Guid::new(reader.prefix, EntityId::PARTICIPANT);
        let in_message = |by: GuidPrefix, submessages: &[u8]| {
            let sender = Guid::new(by, EntityId::PARTICIPANT);
            let text = [&source(by), submessages].concat();
            message_of(by, &sealed(Scope::Message, sender, levels, DOMAIN_KEY, &[receiver], &text))
        };
        let insider = GuidPrefix([7; 12]);
        let forged = |text: &[u8], of: Guid| {
            let inner = sealed(Scope::Submessage, of, levels, DOMAIN_KEY, &[], text);
            in_message(insider, &[source(writer.prefix), inner].concat())
        };
        world.happenings();
        let discovery = Guid::new(writer.prefix, EntityId::SEDP_PUBLICATIONS_WRITER);
        let sample = forged(&data_of(writer), writer);
        assert_eq!(effect(&mut world, reader, sample), (0, 1), "{levels:?}: a sample");
        let disposal = forged(&disposal_of(writer, discovery.entity), discovery);
        assert_eq!(effect(&mut world, reader, disposal), (0, 1), "{levels:?}: the end of the writer");
        let events = world.happenings();
        let is_of_reader = |(at, happening): &(ParticipantId, Happening)| {
            *at == READER.participant(0) && matches!(happening, Happening::Reader(..))
        };
        assert!(!events.iter().any(is_of_reader), "{levels:?}: {events:?}");

        let honest = sealed(Scope::Submessage, writer, levels, DOMAIN_KEY, &[], &data_of(writer));
        let honest = in_message(writer.prefix, &honest);
        assert_eq!(effect(&mut world, reader, honest), (1, 0), "{levels:?}: the writer's participant");
    }
}

/// The end of this writer, as its participant announces it.
fn disposal_of(writer: Guid, by: EntityId) -> Vec<u8> {
    let mut inline_qos = Vec::new();
    let status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
    InlineQos { status_info, ..InlineQos::default() }.emit(Endianness::Little, &mut inline_qos);
    let mut key = vec![0, 3, 0, 0];
    let mut list = ParameterListWriter::new(&mut key, Endianness::Little);
    list.parameter(ParameterId::ENDPOINT_GUID, |value| value.guid(writer));
    list.finish();
    let mut out = Vec::new();
    let head = DataHead {
        reader: EntityId::UNKNOWN,
        writer: by,
        sequence_number: SequenceNumber(2),
        inline_qos: &inline_qos,
        payload: PayloadKind::Key,
    };
    head.emit(Endianness::Little, key.len(), &mut out);
    out.extend_from_slice(&key);
    out
}

#[test]
fn many_receivers_with_macs_get_separate_messages() {
    let kind = ProtectionKind::EncryptWithOriginAuthentication;
    let levels = ProtectionLevels { message: kind, submessage: kind, payload: ProtectionKind::Encrypt };
    let mut world = world(1, Faults { loss: 0.05, ..Faults::NONE }, Some(levels));
    let writer = writer(&mut world);
    let readers: Vec<(NodeId, Guid)> = (1..=40)
        .map(|host| {
            world.start(NodeId(host));
            (NodeId(host), reader(&mut world, NodeId(host), true))
        })
        .collect();
    pass(&mut world, Span::from_secs(5));
    let expected: Vec<Vec<u8>> = (0..20).map(|n| content(n, 100 * usize::from(n))).collect();
    for n in 0..20 {
        write(&mut world, writer, n, 100 * usize::from(n));
        pass(&mut world, Span::from_millis(2));
    }
    pass(&mut world, Span::from_secs(20));
    for (at, reader) in readers {
        assert!(taken(&mut world, at, reader) == expected, "{at:?}");
        assert_eq!(drops(&world, at), Default::default(), "{at:?}");
    }
}
