//! The rights of this participant and of its peers, by the documents.

use peregrine_rtps::id::EntityId;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::time::Span;

use super::world::*;
use crate::authentication::Failure;
use crate::documents::{Document, SecurityMasks};
use crate::session::*;
use crate::testing::EC_AUTHORITY;

fn rule(effect: &str, domains: &str, content: &str) -> String {
    format!("<{effect}_rule><domains>{domains}</domains>{content}</{effect}_rule>")
}

fn action(name: &str, topic: &str, more: &str) -> String {
    format!("<{name}><topics><topic>{topic}</topic></topics>{more}</{name}>")
}

const DOMAIN_0: &str = "<id>0</id>";

fn described(topic: &str, partitions: &[&str], tags: &[(&str, &str)]) -> EndpointDescription {
    EndpointDescription {
        topic: topic.to_owned(),
        partitions: partitions.iter().map(|name| (*name).to_owned()).collect(),
        tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    }
}

/// Rights with a denied topic, partitions and tags.
fn restricted() -> Start {
    let partitions = "<partitions><partition>P*</partition></partitions>";
    let tags = "<data_tags><tag><name>n</name><value>v</value></tag></data_tags>";
    let grant = rule("deny", DOMAIN_0, &action("publish", "Secret*", ""))
        + &rule("allow", DOMAIN_0, &(action("publish", "*", partitions) + &action("publish", "Tagged", tags)))
        + &rule("allow", DOMAIN_0, &action("subscribe", "Square", ""))
        + "<default>DENY</default>";
    // A first rule that denies topics would leave the domain itself to the default.
    Start { grant, ..Start::with(Rules { join: false, ..Rules::strict() }) }
}

#[test]
fn local_endpoints_are_decided_with_document_rule_and_remedy() {
    let mut world = World::new(1, PERFECT);
    world.add(&OWNERS[0], &restricted());
    let mut made = |endpoint: EntityId, description: EndpointDescription| {
        world.call(0, |session, input| session.endpoint_made(input, endpoint, description))
    };
    let writer = |number: u32| EntityId::user_writer(number, false);
    let reader = |number: u32| EntityId::user_reader(number, false);
    assert!(made(writer(1), described("Circle", &["P1", "P2"], &[])).is_ok());
    assert!(made(writer(2), described("Tagged", &[], &[("n", "v")])).is_ok());
    assert!(made(reader(1), described("Square", &[], &[])).is_ok());
    let denied = [
        (writer(9), described("SecretPlans", &["P1"], &[]), Some(1), "<deny_rule>"),
        (writer(9), described("Circle", &["Q"], &[]), None, "in partitions `Q`"),
        (writer(9), described("Circle", &["P1", "Q"], &[]), None, "the default is DENY"),
        (writer(9), described("Tagged", &[], &[("n", "w")]), None, "tags n=w"),
        (reader(9), described("Circle", &[], &[]), None, "subscribing to topic `Circle`"),
    ];
    for (endpoint, description, rule, text) in denied {
        let Err(UnusableEndpoint::Denied(denial)) = made(endpoint, description) else { panic!("{text}: permitted") };
        assert_eq!((denial.document, denial.rule), (Document::Permissions, rule), "{denial}");
        assert_eq!(denial.grant.as_deref(), Some(OWNERS[0].name));
        assert!(denial.to_string().contains(text) && denial.remedy.contains("add <"), "{denial}");
    }
    for endpoint in [writer(1), EntityId::PARTICIPANT, EntityId::SEDP_PUBLICATIONS_WRITER] {
        let found = made(endpoint, described("Circle", &["P1"], &[]));
        assert_eq!(found, Err(UnusableEndpoint::Entity(endpoint)));
    }
}

#[test]
fn topics_and_domains_without_rule_are_refused() {
    let start = Start { domain: 10, ..restricted() };
    let refused = start.credential(&OWNERS[0], &EC_AUTHORITY, crate::testing::NOW).unwrap_err();
    let UnusableCredential::Denied(denial) = &refused else { panic!("{refused}") };
    assert_eq!(denial.document, Document::Governance);
    assert!(denial.to_string().contains("domain 10"), "{denial}");
    let grant = rule("allow", DOMAIN_0, &action("publish", "A", "")) + "<default>DENY</default>";
    let start = Start { domain: 5, grant: grant.clone(), ..Start::with(Rules::strict()) };
    let refused = start.credential(&OWNERS[0], &EC_AUTHORITY, crate::testing::NOW).unwrap_err();
    let UnusableCredential::Denied(denial) = &refused else { panic!("{refused}") };
    assert_eq!(denial.document, Document::Permissions, "domain 5 is in the governance only");
    assert!(denial.remedy.contains("<id>5</id>"), "{denial}");
    let credential = restricted().credential(&OWNERS[0], &EC_AUTHORITY, crate::testing::NOW).unwrap();
    let rights = credential.rights();
    assert!(rights.participant(crate::testing::NOW).is_ok());
    assert!(rights.topic("Square", crate::testing::NOW).is_ok());
    let closed = Start { grant, ..restricted() };
    let credential = closed.credential(&OWNERS[0], &EC_AUTHORITY, crate::testing::NOW).unwrap();
    assert!(credential.rights().topic("B", crate::testing::NOW).is_err());
}

#[test]
fn masks_of_participant_and_endpoints_follow_from_the_governance() {
    let cases = [
        (
            ProtectionKind::None,
            ProtectionKind::None,
            ProtectionKind::None,
            (0x8000_0000, 0x8000_0000),
            (0x8000_0000, 0x8000_0000),
        ),
        (
            ProtectionKind::Sign,
            ProtectionKind::None,
            ProtectionKind::None,
            (0x8000_0001, 0x8000_0000),
            (0x8000_0000, 0x8000_0000),
        ),
        (
            ProtectionKind::SignWithOriginAuthentication,
            ProtectionKind::None,
            ProtectionKind::Encrypt,
            (0x8000_0001, 0x8000_0008),
            (0x8000_0030, 0x8000_0002),
        ),
        (
            ProtectionKind::Sign,
            ProtectionKind::EncryptWithOriginAuthentication,
            ProtectionKind::Encrypt,
            (0x8000_0001, 0x8000_0000),
            (0x8000_0038, 0x8000_0007),
        ),
    ];
    for (message, submessage, payload, participant, endpoint) in cases {
        let levels = ProtectionLevels { message, submessage, payload };
        let rules = Rules { controlled: false, ..Rules::of(levels) };
        let credential = Start::with(rules).credential(&OWNERS[0], &EC_AUTHORITY, crate::testing::NOW).unwrap();
        let masks = |(standard, plugin)| SecurityMasks { standard, plugin };
        assert_eq!(credential.rights().participant_masks(), masks(participant));
        let security = credential.rights().security_of("Square").unwrap();
        assert_eq!((security.masks, security.levels), (masks(endpoint), levels));
    }
}

#[test]
fn remote_endpoints_that_its_permissions_deny_do_not_match() {
    let mut world = World::new(1, PERFECT);
    world.add(&OWNERS[0], &restricted());
    world.add(&OWNERS[1], &Start::with(restricted().rules));
    world.meet();
    let remote_writer = EntityId::user_writer(1, false);
    let mut matched = |topic: &str, partitions: &[&str], tags: &[(&str, &str)], number: u32| {
        let description = described(topic, partitions, tags);
        let local = EntityId::user_reader(number, false);
        let own = described(topic, &[], &[]);
        world.call(1, |session, input| session.endpoint_made(input, local, own)).unwrap();
        world.try_discover(1, local, 0, remote_writer, &description)
    };
    assert!(matched("Circle", &["P7"], &[], 1).is_ok());
    assert!(matched("Tagged", &[], &[("n", "v")], 2).is_ok());
    for (topic, partitions, tags, number, text) in [
        ("SecretPlans", &["P7"][..], &[][..], 3, "rule 1"),
        ("Circle", &["Q"], &[], 4, "in partitions `Q`"),
        ("Tagged", &[], &[("n", "w")], 5, "n=w"),
    ] {
        let Err(reason) = matched(topic, partitions, tags, number) else { panic!("{topic} matches") };
        assert!(matches!(reason, NonMatch::RemoteDenied { .. }), "{reason}");
        let shown = reason.to_string();
        let subject = format!("CN={}", OWNERS[0].name);
        assert!(shown.contains(text) && shown.contains(&subject) && shown.contains("permissions"), "{shown}");
    }
}

#[test]
fn endpoint_that_loses_its_rights_by_new_partitions_loses_its_match() {
    let mut world = World::new(1, PERFECT);
    world.add(&OWNERS[0], &restricted());
    world.add(&OWNERS[1], &Start::with(restricted().rules));
    world.meet();
    let (local, remote) = (READER, WRITER);
    world.call(1, |session, input| session.endpoint_made(input, local, described("Circle", &[], &[]))).unwrap();
    assert!(world.try_discover(1, local, 0, remote, &described("Circle", &["P1"], &[])).is_ok());
    let matches = world.nodes[1].session.usage().matches;
    assert!(world.try_discover(1, local, 0, remote, &described("Circle", &["Q"], &[])).is_err());
    assert_eq!(world.nodes[1].session.usage().matches, matches - 1);
}

#[test]
fn local_endpoint_is_judged_by_its_new_partitions() {
    let mut world = World::new(1, PERFECT);
    world.add(&OWNERS[0], &restricted());
    world.add(&OWNERS[1], &Start::with(restricted().rules));
    world.meet();
    let mut change = |partitions: &[&str]| {
        let description = described("Circle", partitions, &[]);
        let changed = world.call(0, |session, input| session.endpoint_changed(input, WRITER, description));
        (changed, world.try_discover(0, WRITER, 1, READER, &described("Circle", &[], &[])))
    };
    assert_eq!(change(&["P1"]).0, Err(UnusableEndpoint::Entity(WRITER)), "no such endpoint");
    world.call(0, |session, input| session.endpoint_made(input, WRITER, described("Circle", &["P1"], &[]))).unwrap();
    let mut change = |partitions: &[&str]| {
        let description = described("Circle", partitions, &[]);
        let changed = world.call(0, |session, input| session.endpoint_changed(input, WRITER, description));
        (changed.map(drop), world.try_discover(0, WRITER, 1, READER, &described("Circle", &[], &[])).map(drop))
    };
    let (changed, matched) = change(&["P1", "Q"]);
    assert!(matches!(changed, Err(UnusableEndpoint::Denied(_))), "{changed:?}");
    assert!(matches!(matched, Err(NonMatch::LocalDenied(_))), "{matched:?}");
    assert_eq!(change(&["P2"]), (Ok(()), Ok(())));
}

#[test]
fn endpoints_of_differently_protected_topics_do_not_match() {
    let mut world = World::pair(1, PERFECT, &Rules::strict());
    world.meet();
    world.call(0, |session, input| session.endpoint_made(input, WRITER, described(TOPIC, &[], &[]))).unwrap();
    let guid = peregrine_rtps::id::Guid::new(world.nodes[1].prefix, READER);
    let plain = SecurityMasks { standard: 1 << 31, plugin: 1 << 31 };
    let endpoint = RemoteEndpoint {
        guid,
        description: described(TOPIC, &[], &[]),
        masks: Some(plain),
        is_announced_securely: false,
    };
    let reason = world.call(0, |session, input| session.remote_endpoint_discovered(input, &endpoint)).unwrap_err();
    assert!(matches!(&reason, NonMatch::Protection { remote, .. } if *remote == plain), "{reason}");
    assert!(reason.to_string().contains("0x80000000"), "{reason}");
    let found = world.call(0, |session, input| session.match_endpoints(input, WRITER, guid));
    assert_eq!(found, Err(NonMatch::UnknownRemote(guid)));
}

#[test]
fn pairs_that_are_no_writer_and_reader_of_one_topic_do_not_match() {
    let mut world = World::connected(&Rules::strict());
    let other = EntityId::user_reader(9, false);
    let writer = EntityId::user_writer(9, false);
    let found = world.try_discover(0, WRITER, 1, other, &described("Circle", &[], &[]));
    assert_eq!(found, Err(NonMatch::Topics { local: TOPIC.to_owned(), remote: "Circle".to_owned() }));
    let found = world.try_discover(0, WRITER, 1, writer, &described(TOPIC, &[], &[]));
    assert_eq!(found, Err(NonMatch::SameKind(WRITER, writer)));
}

#[test]
fn peer_that_may_not_join_the_domain_is_refused() {
    let elsewhere = rule("allow", "<id>1</id>", &action("publish", "*", "")) + "<default>DENY</default>";
    let mut world = World::new(1, PERFECT);
    world.add(&OWNERS[0], &Start::with(Rules::strict()));
    // The peer has another governance, which does not ask for this permission.
    let open = Rules { join: false, ..Rules::strict() };
    world.add(&OWNERS[1], &Start { grant: elsewhere, ..Start::with(open) });
    world.meet();
    let peer = world.nodes[1].prefix;
    let Some(Admission::Refused(PeerRefusal::Denied(denial))) = world.nodes[0].session.admission(peer) else {
        panic!("{:?}", world.nodes[0].session.admission(peer))
    };
    assert_eq!(denial.document, Document::Permissions);
    assert!(denial.remedy.contains("<id>0</id>"), "{denial}");
    assert_eq!(world.nodes[0].volatile_sent, 0, "no key goes to it");
}

/// A governance that admits participants without authentication to topics that begin with `Open`.
fn open_rules() -> Rules {
    let levels = ProtectionLevels { message: ProtectionKind::None, ..STRICT };
    Rules { allow_unauthenticated: true, has_open_topics: true, ..Rules::of(levels) }
}

#[test]
fn unauthenticated_participant_takes_part_in_unprotected_topics_only() {
    let mut world = World::pair(1, PERFECT, &open_rules());
    world.nodes[1].tokens = None;
    world.nodes[1].is_online = false;
    world.meet();
    let peer = world.nodes[1].prefix;
    assert_eq!(world.nodes[0].session.admission(peer), Some(&Admission::Unauthenticated));
    let event = SecurityEvent::Unauthenticated { peer, cause: Failure::NoIdentity };
    assert_eq!(world.count(0, |found| *found == event), 1);
    let open = EntityId::user_writer(1, false);
    for (endpoint, topic) in [(WRITER, TOPIC), (open, "OpenSquare")] {
        world.call(0, |session, input| session.endpoint_made(input, endpoint, described(topic, &[], &[]))).unwrap();
    }
    let reader = EntityId::user_reader(1, false);
    let found = world.try_discover(0, open, 1, reader, &described("OpenSquare", &[], &[]));
    assert_eq!(found, Ok(Matched::Ready));
    let found = world.try_discover(0, WRITER, 1, READER, &described(TOPIC, &[], &[]));
    let Err(NonMatch::Unauthenticated { element, .. }) = found else { panic!("{found:?}") };
    assert_eq!(element, "metadata_protection_kind");
    assert_eq!(world.nodes[0].volatile_sent, 0);
}

#[test]
fn unauthenticated_participant_is_refused_unless_all_documents_allow() {
    let closed = Rules { allow_unauthenticated: false, ..open_rules() };
    // Where messages are protected, nothing is left for participants without keys.
    let protected = Rules { levels: STRICT, ..open_rules() };
    for rules in [closed, protected] {
        let mut world = World::pair(1, PERFECT, &rules);
        world.nodes[1].tokens = None;
        world.nodes[1].is_online = false;
        world.meet();
        let peer = world.nodes[1].prefix;
        let expected = Admission::Refused(PeerRefusal::NotAuthenticated(Failure::NoIdentity));
        assert_eq!(world.nodes[0].session.admission(peer), Some(&expected));
        let guid = peregrine_rtps::id::Guid::new(peer, READER);
        world
            .call(0, |session, input| session.endpoint_made(input, WRITER, described("OpenSquare", &[], &[])))
            .unwrap();
        let found = world.try_discover(0, WRITER, 1, READER, &described("OpenSquare", &[], &[]));
        assert_eq!(found, Err(NonMatch::NotAdmitted(guid)));
    }
}

#[test]
fn unauthenticated_participant_that_shows_an_identity_later_is_authenticated() {
    let mut world = World::pair(1, PERFECT, &open_rules());
    let tokens = world.nodes[1].tokens.take();
    world.nodes[1].is_online = false;
    world.meet();
    let peer = world.nodes[1].prefix;
    assert_eq!(world.nodes[0].session.admission(peer), Some(&Admission::Unauthenticated));
    world.nodes[1].is_online = true;
    world.nodes[1].tokens = tokens;
    world.announce(2);
    world.run_for(Span::from_secs(2));
    assert!(world.is_authenticated(1, 0) && world.is_authenticated(0, 1));
}
