//! Causes of errors that a program can match, with the setting and the permitted range.

mod common;

use std::net::IpAddr;

use common::config;
use peregrine::error::{
    Argument, BadParameter, GroupFault, NoInterface, PeerFault, Unit, Unsupported, UnsupportedValue,
};
use peregrine::qos::{
    DataRepresentation, Durability, DurabilityService, History, PolicyId, Presentation, PublisherQos, RepresentationId,
    Span, TopicQos, TransportPriority,
};
use peregrine::{
    DomainConfig, DomainParticipant, Error, FlowController, InterfaceSelection, Peer, ThreadSettings, TokenBucketConfig,
};

fn refused(domain: u32, config: DomainConfig) -> BadParameter {
    match DomainParticipant::builder(domain).config(config).build() {
        Err(Error::BadParameter(cause)) => cause,
        other => panic!("{other:?}"),
    }
}

fn peer(text: &str) -> PeerFault {
    match text.parse::<Peer>() {
        Err(Error::BadParameter(BadParameter::Peer { peer, fault })) if peer == text => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_of_a_domain_are_refused_with_their_name_and_range() {
    let out_of_range =
        |argument, value, max| BadParameter::OutOfRange { argument, value, min: 0, max, unit: Unit::None };
    assert_eq!(refused(233, config()), out_of_range(Argument::Domain, 233, 232));
    assert_eq!(refused(42, config().with_dscp(64)), out_of_range(Argument::Dscp, 64, 63));
    let threads = ThreadSettings::default().with_name_prefix("p\0g");
    let cause = refused(42, config().with_threads(threads));
    assert_eq!(cause, BadParameter::NulCharacter { argument: Argument::ThreadNamePrefix });
    assert!(cause.to_string().contains("threads.name_prefix"), "{cause}");
    assert_eq!(refused(42, config().with_udp_v4(false)), BadParameter::NoTransport);
    let (group, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "ff02::1:1".parse().unwrap());
    let cause = refused(42, config().with_multicast_groups(vec![group]));
    assert_eq!(cause, BadParameter::Group { group, fault: GroupFault::NotMulticast });
    let cause = refused(42, config().with_multicast_groups(vec![other]));
    assert_eq!(cause, BadParameter::Group { group: other, fault: GroupFault::NotInUse });
    let missing = "no such interface".to_owned();
    let cause = refused(42, config().with_interfaces(InterfaceSelection::Only(vec![missing.clone()])));
    let BadParameter::NoInterface(NoInterface { pattern, present }) = cause else { panic!("{cause:?}") };
    assert_eq!(pattern, Some(missing));
    assert!(present.contains(&"lo".to_owned()), "{present:?}");
}

#[test]
fn peers_are_refused_with_their_fault() {
    assert_eq!(peer("500@10.1.2.3"), PeerFault::Index { max: 119 });
    assert_eq!(peer("tcpv4_lan://127.1.2.3"), PeerFault::Transport { name: "tcpv4_lan".to_owned() });
    assert_eq!(peer(""), PeerFault::NoHost);
    assert_eq!(peer("host:port"), PeerFault::Port);
    let link_local = config().with_peers(vec!["[fe80::1]:9000".parse().unwrap()]);
    let cause = refused(43, link_local);
    assert_eq!(cause, BadParameter::Peer { peer: "fe80::1".to_owned(), fault: PeerFault::NoInterface });
}

#[test]
fn flow_controllers_are_refused_with_the_field_that_is_zero() {
    let zero = |outcome: Result<FlowController, Error>| match outcome {
        Err(Error::BadParameter(BadParameter::OutOfRange { argument, value: 0, min: 1, .. })) => argument,
        other => panic!("{other:?}"),
    };
    assert_eq!(zero(FlowController::bits_per_second(0)), Argument::BitsPerSecond);
    let (tokens_per_period, tokens_max, bytes_per_token, period) = (1, 1, 1, Span::from_secs(1));
    let valid = TokenBucketConfig { tokens_per_period, tokens_max, bytes_per_token, period };
    for (config, argument) in [
        (TokenBucketConfig { tokens_per_period: 0, ..valid }, Argument::TokensPerPeriod),
        (TokenBucketConfig { tokens_max: 0, ..valid }, Argument::TokensMax),
        (TokenBucketConfig { bytes_per_token: 0, ..valid }, Argument::BytesPerToken),
        (TokenBucketConfig { period: Span::ZERO, ..valid }, Argument::TokenPeriod),
    ] {
        assert_eq!(zero(FlowController::token_bucket(config)), argument);
    }
}

#[test]
fn policies_that_are_not_available_are_refused_with_their_value() {
    let participant = DomainParticipant::builder(44).config(config()).build().unwrap();
    let unsupported = |outcome: Result<(), Error>| match outcome {
        Err(Error::Unsupported(Unsupported::Policy { policy, value })) => (policy, value),
        other => panic!("{other:?}"),
    };
    let of_topic = |qos| unsupported(participant.set_default_topic_qos(qos));
    let durability = TopicQos { durability: Durability::Persistent, ..TopicQos::default() };
    let value = UnsupportedValue::Durability(Durability::Persistent);
    assert_eq!(of_topic(durability), (PolicyId::Durability, value));
    let service = DurabilityService { history: History::KeepAll, ..DurabilityService::default() };
    let service = TopicQos { durability_service: service, ..TopicQos::default() };
    assert_eq!(of_topic(service), (PolicyId::DurabilityService, UnsupportedValue::DurabilityService));
    let priority = TopicQos { transport_priority: TransportPriority(3), ..TopicQos::default() };
    assert_eq!(of_topic(priority), (PolicyId::TransportPriority, UnsupportedValue::TransportPriority(3)));
    let xml = DataRepresentation(vec![RepresentationId::XML]);
    let representation = TopicQos { data_representation: xml, ..TopicQos::default() };
    let value = UnsupportedValue::DataRepresentation(RepresentationId::XML);
    assert_eq!(of_topic(representation), (PolicyId::DataRepresentation, value));
    let presentation = Presentation { coherent: true, ..Presentation::default() };
    let coherent = PublisherQos { presentation, ..PublisherQos::default() };
    let refused = unsupported(participant.set_default_publisher_qos(coherent));
    assert_eq!(refused, (PolicyId::Presentation, UnsupportedValue::CoherentAccess));
}
