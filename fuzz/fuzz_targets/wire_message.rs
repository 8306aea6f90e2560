//! A message may consist of any bytes: nothing panics, walking it ends, and a parsed message can be emitted and parsed
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_rtps::discovery::data::{
    ParticipantData, ParticipantMessageData, PublicationData, SubscriptionData, disposed_endpoint, disposed_participant,
};
use peregrine_rtps::id::Guid;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::wire::{
    CryptoContent, CryptoFooter, CryptoHeader, Endianness, Header, HeaderExtension, InlineQos, ParameterList, Payload,
    Submessage, Submessages,
};

fuzz_target!(|message: &[u8]| {
    let _ = HeaderExtension::verify(message);
    let Ok((header, rest)) = Header::parse(message) else { return };
    let mut emitted = Vec::new();
    header.emit(&mut emitted);
    assert_eq!(emitted, message[..Header::LEN]);

    let mut steps = 0;
    for submessage in Submessages::new(rest) {
        steps += 1;
        assert!(steps * 4 <= rest.len() + 4, "each step makes progress");
        let Ok(submessage) = submessage else { continue };
        let _ = submessage.to_string();
        check_emit(&submessage);
        match submessage {
            Submessage::Data(data) => {
                check_inline_qos(data.inline_qos, header.vendor);
                check_payload(data.payload, header.vendor);
            }
            Submessage::DataFrag(data) => {
                check_inline_qos(data.inline_qos, header.vendor);
                assert!(data.offset() < u64::from(data.sample_size));
            }
            Submessage::Security { body, .. } => check_security(body),
            Submessage::HeaderExtension(extension) => drop(extension.parameters.map(|list| list.to_string())),
            _ => {}
        }
    }
});

fn parse_one(octets: &[u8]) -> Submessage<'_> {
    let mut submessages = Submessages::new(octets);
    let one = submessages.next().expect("a submessage").expect("an emitted submessage is well formed");
    assert!(submessages.next().is_none());
    one
}

/// Payloads are padded when they are emitted, so the payload is equal from the second emission on; everything else is
/// equal after the first.
fn check_emit(submessage: &Submessage<'_>) {
    for endianness in [Endianness::Big, Endianness::Little] {
        let mut first = Vec::new();
        submessage.emit(endianness, &mut first);
        let again = parse_one(&first);
        let has_octets = matches!(
            submessage,
            Submessage::Data(_)
                | Submessage::DataFrag(_)
                | Submessage::HeaderExtension(_)
                | Submessage::Security { .. }
                | Submessage::Unknown { .. }
        );
        if !has_octets {
            assert_eq!(again, *submessage);
        }
        let mut second = Vec::new();
        again.emit(endianness, &mut second);
        assert_eq!(first, second);
    }
}

fn check_inline_qos(list: Option<ParameterList<'_>>, vendor: VendorId) {
    let Some(list) = list else { return };
    let _ = InlineQos::is_directed_to(&list, Guid::UNKNOWN);
    let Ok(qos) = InlineQos::parse(&list, vendor) else { return };
    let mut octets = Vec::new();
    qos.emit(Endianness::Big, &mut octets);
    if octets.is_empty() {
        return;
    }
    let (list, rest) = ParameterList::parse(&octets, Endianness::Big).expect("an emitted list is well formed");
    assert!(rest.is_empty());
    let again = InlineQos::parse(&list, VendorId::UNKNOWN).expect("emitted inline QoS is accepted");
    assert_eq!(again, InlineQos { is_directed: false, ..qos });
}

/// The headers and footers around protected bytes are unchanged when they are emitted again.
fn check_security(body: &[u8]) {
    if let Ok((header, rest)) = CryptoHeader::parse(body) {
        assert_eq!([&header.to_bytes()[..], rest].concat(), body);
    }
    if let Ok((footer, rest)) = CryptoFooter::parse(body) {
        let mut out = Vec::new();
        CryptoFooter::emit_bytes(&footer.common_mac, footer.receivers(), &mut out);
        assert_eq!([&out, rest].concat(), body);
    }
    if let Ok((CryptoContent(content), rest)) = CryptoContent::parse(body) {
        assert_eq!(content.len() + rest.len() + CryptoContent::HEAD, body.len());
    }
}

fn check_payload(payload: Payload<'_>, vendor: VendorId) {
    let _ = disposed_participant(payload, None);
    let _ = disposed_endpoint(payload, None);
    let (Payload::Data(octets) | Payload::Key(octets)) = payload else { return };
    let _ = ParticipantData::parse(octets, vendor);
    let _ = PublicationData::parse(octets, vendor);
    let _ = SubscriptionData::parse(octets, vendor);
    let _ = ParticipantMessageData::parse(octets);
}
