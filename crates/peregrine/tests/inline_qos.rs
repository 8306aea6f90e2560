//! Readers that request inline QoS, which readers of Peregrine never do: written by hand, on real sockets.

mod common;

use std::net::{Ipv4Addr, UdpSocket};

use common::{PATIENCE, Reading, config};
use peregrine::qos::{DataWriterQos, Ownership, OwnershipStrength};
use peregrine::{DdsType, DomainParticipant, GuidPrefix};
use peregrine_rtps::discovery::data::{BuiltinEndpointSet, ParticipantData, SubscriptionData};
use peregrine_rtps::id::{DomainId, EntityId, Guid};
use peregrine_rtps::locator::{Locator, Ports};
use peregrine_rtps::time::Span;
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{
    DataHead, Endianness, Header, InfoDestination, InlineQos, ParameterId, PayloadKind, Submessage, Submessages,
};

const DOMAIN: u32 = 37;
const TOPIC: &str = "inline";

/// The topic name (as on the wire) and ownership strength from inline QoS.
#[derive(Debug, PartialEq)]
struct Told {
    topic: Vec<u8>,
    strength: Option<i32>,
}

/// A hand-written participant with one best-effort reader.
struct HandMade {
    socket: UdpSocket,
    prefix: GuidPrefix,
}

impl HandMade {
    fn new(number: u8) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, prefix: GuidPrefix::new(VendorId::PEREGRINE, [number; 10]) }
    }

    /// Announces the participant and its reader to another participant.
    fn announce(&self, to: &DomainParticipant, expects_inline_qos: bool) {
        let address = Locator::from(self.socket.local_addr().unwrap());
        let mut participant = ParticipantData::new(self.prefix, ProtocolVersion::V2_5, VendorId::PEREGRINE);
        participant.domain = Some(DomainId(DOMAIN));
        participant.builtin_endpoints = BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS;
        participant.lease_duration = Span::from_secs(600);
        participant.metatraffic_unicast = vec![address];
        participant.default_unicast = vec![address];
        let mut payload = Vec::new();
        participant.emit(&mut payload);
        self.say(to, EntityId::SPDP_READER, EntityId::SPDP_WRITER, &payload);

        let guid = Guid::new(self.prefix, EntityId::user_reader(1, true));
        let mut subscription = SubscriptionData::new(guid, TOPIC.to_owned(), Reading::TYPE_NAME.to_owned());
        subscription.expects_inline_qos = expects_inline_qos;
        subscription.qos.ownership = Ownership::Exclusive;
        payload.clear();
        subscription.emit(&mut payload);
        let (reader, writer) = (EntityId::SEDP_SUBSCRIPTIONS_READER, EntityId::SEDP_SUBSCRIPTIONS_WRITER);
        self.say(to, reader, writer, &payload);
    }

    /// Sends the first sample of a built-in writer.
    fn say(&self, to: &DomainParticipant, reader: EntityId, writer: EntityId, payload: &[u8]) {
        let mut message = Vec::new();
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: self.prefix }.emit(&mut message);
        InfoDestination { prefix: to.guid().prefix }.emit(Endianness::Little, &mut message);
        let sequence_number = peregrine::SequenceNumber(1);
        let head = DataHead { reader, writer, sequence_number, inline_qos: &[], payload: PayloadKind::Data };
        head.emit(Endianness::Little, payload.len(), &mut message);
        message.extend_from_slice(payload);
        message.resize(message.len().next_multiple_of(4), 0);
        let port = Ports::of(DomainId(DOMAIN)).metatraffic_unicast(0).unwrap();
        self.socket.send_to(&message, (Ipv4Addr::LOCALHOST, port)).unwrap();
    }

    /// The next sample of this writer: its payload without encapsulation, and its inline QoS.
    fn next_sample(&self, writer: Guid) -> (Vec<u8>, Option<Told>) {
        let mut bytes = vec![0; 65_536];
        for _ in 0..1000 {
            let len = self.socket.recv(&mut bytes).unwrap();
            let (header, rest) = Header::parse(&bytes[..len]).unwrap();
            for submessage in Submessages::new(rest) {
                let Submessage::Data(data) = submessage.unwrap() else { continue };
                if Guid::new(header.prefix, data.writer) != writer {
                    continue;
                }
                let told = data.inline_qos.map(|list| {
                    let topic = list.find(ParameterId::TOPIC_NAME).unwrap_or_default().to_vec();
                    Told { topic, strength: InlineQos::parse(&list, VendorId::PEREGRINE).unwrap().ownership_strength }
                });
                return (data.payload.as_bytes()[4..].to_vec(), told);
            }
        }
        panic!("a thousand datagrams, and none with a sample");
    }
}

#[test]
fn inline_qos_is_sent_only_to_readers_that_request_it() {
    let here = DomainParticipant::builder(DOMAIN).config(config()).build().unwrap();
    let strong = |strength| DataWriterQos {
        ownership: Ownership::Exclusive,
        ownership_strength: OwnershipStrength(strength),
        ..DataWriterQos::default()
    };
    let writer = here.topic::<Reading>(TOPIC).unwrap().writer_builder().qos(strong(7)).build().unwrap();
    let (asking, plain) = (HandMade::new(1), HandMade::new(2));
    asking.announce(&here, true);
    plain.announce(&here, false);
    writer.wait_for_readers(2, PATIENCE).unwrap();
    let name = |text: &str| {
        let mut string = u32::try_from(text.len() + 1).unwrap().to_le_bytes().to_vec();
        string.extend(text.bytes().chain([0]));
        string.resize(string.len().next_multiple_of(4), 0);
        string
    };
    for (value, strength) in [(1, 7), (2, 7), (3, 9)] {
        if strength != 7 {
            writer.set_qos(strong(strength)).unwrap();
        }
        writer.write(&Reading::new(5, value)).unwrap();
        let told = Told { topic: name(TOPIC), strength: Some(strength) };
        let octets = [5, 0, 0, 0, value as u8, 0, 0, 0].to_vec();
        assert_eq!(asking.next_sample(writer.guid()), (octets.clone(), Some(told)));
        assert_eq!(plain.next_sample(writer.guid()), (octets, None));
    }
}
