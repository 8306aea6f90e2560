//! An announcement may consist of any bytes: nothing panics, the limits hold, and a parsed announcement that is emitted
//! is parsed as the same announcement. The first two bytes of the input are the vendor of the sender.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_rtps::discovery::data::{
    LOCATORS_MAX, NAME_BYTES_MAX, ParticipantData, ParticipantMessageData, PublicationData, SubscriptionData,
};
use peregrine_rtps::qos::check_compatibility;
use peregrine_rtps::vendor::VendorId;

fuzz_target!(|bytes: &[u8]| {
    let Some((&vendor, payload)) = bytes.split_first_chunk() else { return };
    let vendor = VendorId(vendor);
    if let Ok(data) = ParticipantData::parse(payload, vendor) {
        assert!(data.metatraffic_unicast.len() <= LOCATORS_MAX && data.default_multicast.len() <= LOCATORS_MAX);
        assert!(data.domain_tag.len() <= NAME_BYTES_MAX);
        let mut out = Vec::new();
        data.emit(&mut out);
        assert_eq!(ParticipantData::parse(&out, VendorId::UNKNOWN), Ok(data));
    }
    let publication = PublicationData::parse(payload, vendor).map(check_publication);
    let subscription = SubscriptionData::parse(payload, vendor).map(check_subscription);
    // One parameter list is either a publication or a subscription, so each is compared with a default of the other
    // kind.
    if let Ok(mut offered) = publication {
        let mut requested = SubscriptionData::new(offered.guid, offered.topic_name.clone(), offered.type_name.clone());
        requested.subscriber.partition = offered.publisher.partition.clone();
        let _ = check_compatibility(&offered, &requested).map_err(|reason| reason.to_string());
        offered.publisher.partition.0.reverse();
        let _ = offered.publisher.partition.meets(&requested.subscriber.partition);
    }
    if let Ok(requested) = subscription {
        let offered = PublicationData::new(requested.guid, requested.topic_name.clone(), requested.type_name.clone());
        let _ = check_compatibility(&offered, &requested).map_err(|reason| reason.to_string());
    }
    if let Ok(data) = ParticipantMessageData::parse(payload) {
        let mut out = Vec::new();
        data.emit(&mut out);
        assert_eq!(ParticipantMessageData::parse(&out), Ok(data));
    }
});

fn check_publication(mut data: PublicationData) -> PublicationData {
    assert!(data.unicast.len() <= LOCATORS_MAX && data.topic_name.len() <= NAME_BYTES_MAX);
    pad(&mut data.type_information);
    let mut out = Vec::new();
    data.emit(&mut out);
    assert_eq!(PublicationData::parse(&out, VendorId::UNKNOWN).as_ref(), Ok(&data));
    data
}

fn check_subscription(mut data: SubscriptionData) -> SubscriptionData {
    assert!(data.unicast.len() <= LOCATORS_MAX && data.topic_name.len() <= NAME_BYTES_MAX);
    pad(&mut data.type_information);
    // Expressed by a vendor-specific parameter only, which is not emitted for an unknown vendor.
    data.positive_acks_disabled = false;
    let mut out = Vec::new();
    data.emit(&mut out);
    assert_eq!(SubscriptionData::parse(&out, VendorId::UNKNOWN).as_ref(), Ok(&data));
    data
}

/// Values are padded when they are written.
fn pad(bytes: &mut Option<Vec<u8>>) {
    if let Some(bytes) = bytes {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
}
