//! Participants, topics and domains that the documents do not permit.

use std::collections::BTreeSet;
use std::time::Duration;

use peregrine_interop::{DataType, Error, NetNs, Participant, Peer, Program, Qos, Result};
use peregrine_security::issue::DomainText;

use super::documents::{ALL, GOVERNANCES, Levels, Member, OPEN, Realm, Rules};
use super::{LIMIT, Maker, TOPIC, durable, expect, join, sample};

const MAKERS: [Maker; 3] = [Program::cyclone_dds, Program::fast_dds, Program::peregrine];
/// Message protection without anything else, with which all refusals depend on the handshake alone.
const SIGNED: Levels = GOVERNANCES[1].1;

/// The strangers of each program: the first one begins the handshake with Vera, Vera begins that with the second one.
/// The participant with the lower GUID begins, whose upper half is a hash of the name.
const STRANGERS: [[&str; 2]; 3] = [["Bert", "Dora"], ["Gina", "Emil"], ["Mara", "Lena"]];

/// The cause of a refusal: both authorities have the same name, and different keys.
fn of_another_authority(name: &str) -> String {
    format!("certificate of CN={name},O=Test: not signed by the authority that it names")
}

pub(crate) fn programs() -> [Program; 3] {
    MAKERS.map(|maker| maker().unwrap())
}

fn reader(peer: &mut Peer, name: &str) {
    peer.reader(name, TOPIC, DataType::KeyedSample, &durable()).unwrap();
}

fn writer(peer: &mut Peer, name: &str) {
    peer.writer(name, TOPIC, DataType::KeyedSample, &durable()).unwrap();
}

/// Starts a reader of this program, whose sample shows that the writer has handled what came before.
fn friend(host: &NetNs, writer: &mut Peer, documents: &Participant, seq: u32, matched: u32) -> Peer {
    let mut friend = join(&Program::peregrine().unwrap(), host, documents).unwrap();
    reader(&mut friend, "f");
    writer.wait_matched("w", matched, LIMIT).unwrap();
    writer.write("w", &sample(seq, 100)).unwrap();
    let history: Vec<(u32, u32)> = (1..=seq).map(|seq| (seq, 100)).collect();
    expect(&mut friend, "f", &history).unwrap();
    friend
}

/// The refusal of a command; panics if the peer accepts it.
pub(crate) fn refused(result: Result<()>, what: &str) -> String {
    match result {
        Err(Error::Refused { reason, .. }) => reason,
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn participant_with_a_certificate_of_another_authority_does_not_match() {
    let [one, other] = ["one", "other"].map(|name| Realm::new(&format!("strangers-{name}")));
    let rules = Rules::of(SIGNED);
    let host = NetNs::isolated().unwrap();
    let documents = one.participant(&rules, &Member::named("Vera"));
    let mut own = join(&Program::peregrine().unwrap(), &host, &documents).unwrap();
    writer(&mut own, "w");
    let all = programs();
    let strangers = all.iter().zip(STRANGERS).map(|(program, names)| {
        names.map(|name| {
            let documents = other.participant(&rules, &Member::named(name));
            let mut stranger = join(program, &host, &documents).unwrap();
            reader(&mut stranger, "r");
            stranger
        })
    });
    let mut strangers: Vec<[Peer; 2]> = strangers.collect();
    // A participant of the same authority matches meanwhile, so that the wait ends with an event.
    let _friend = friend(&host, &mut own, &one.participant(&rules, &Member::named("Karl")), 1, 1);
    // The side that does not begin refuses the request, with the cause, and answers nothing.
    for [name, _] in STRANGERS {
        own.wait_reason(&["a handshake message", "is refused", &of_another_authority(name)], LIMIT).unwrap();
    }
    let [.., [_, asked]] = strangers.as_mut_slice() else { panic!("strangers of each program") };
    asked.wait_reason(&["a handshake message", "is refused", &of_another_authority("Vera")], LIMIT).unwrap();
    for mut stranger in strangers.into_iter().flatten() {
        assert_eq!(stranger.status("r").unwrap().matched_total, 0, "{}", stranger.version());
    }
    assert_eq!(own.status("w").unwrap().matched_total, 1);
}

#[test]
fn expired_certificate_is_refused_at_the_start() {
    let realm = Realm::new("expired");
    let member = Member { valid_seconds: (-7200, -3600), ..Member::named("Anna") };
    let documents = realm.participant(&Rules::of(SIGNED), &member);
    let host = NetNs::isolated().unwrap();
    for program in programs() {
        let reason = refused(join(&program, &host, &documents).map(drop), &program.name);
        if program == Program::peregrine().unwrap() {
            assert!(reason.contains("expired"), "{reason}");
        }
    }
}

/// A certificate that expires while its participant runs ends the match, and admits no new one.
#[test]
fn participant_whose_certificate_expires_is_let_go() {
    let (realm, rules) = (Realm::new("expiring"), Rules::of(SIGNED));
    let host = NetNs::isolated().unwrap();
    let own = Program::peregrine().unwrap();
    let of = |name| realm.participant(&rules, &Member::named(name));
    let mut first = join(&own, &host, &of("Anna")).unwrap();
    writer(&mut first, "w");
    let brief = ["Bert", "Cora", "Dora"].map(|name| Member { valid_seconds: (-60, 8), ..Member::named(name) });
    let expiring = programs().into_iter().zip(brief).map(|(program, member)| {
        let mut peer = join(&program, &host, &realm.participant(&rules, &member)).unwrap();
        reader(&mut peer, "r");
        peer
    });
    let expiring: Vec<Peer> = expiring.collect();
    first.wait_matched("w", 3, Duration::from_secs(7)).unwrap();
    first.wait_matched("w", 0, LIMIT).unwrap();
    let told = first.wait_reasons(3, &["is let go: its certificate was valid until"], LIMIT).unwrap();
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>().len(), 3, "one for each peer");
    let mut second = join(&own, &host, &of("Emil")).unwrap();
    writer(&mut second, "w");
    let mut friend = join(&own, &host, &of("Fred")).unwrap();
    reader(&mut friend, "f");
    friend.wait_matched("f", 2, LIMIT).unwrap();
    second.wait_matched("w", 1, LIMIT).unwrap();
    assert_eq!(second.status("w").unwrap().matched_total, 1, "an expired certificate was accepted");
    // Cyclone DDS sends no certificate that has expired.
    for name in ["Cora", "Dora"] {
        let cause = format!("certificate of CN={name},O=Test: expired at");
        second.wait_reason(&["a handshake message", "is refused", &cause], LIMIT).unwrap();
    }
    // The keys that the expired participants have are no longer in use.
    first.write("w", &sample(1, 100)).unwrap();
    expect(&mut friend, "f", &[(1, 100)]).unwrap();
    drop(expiring);
}

#[test]
fn endpoint_of_a_topic_without_permission_is_refused() {
    let realm = Realm::new("topic");
    let member = Member { topics: "Allowed*", ..Member::named("Anna") };
    let documents = realm.participant(&Rules::of(SIGNED), &member);
    let host = NetNs::isolated().unwrap();
    for program in programs() {
        let mut peer = join(&program, &host, &documents).unwrap();
        let writer = peer.writer("w", TOPIC, DataType::KeyedSample, &Qos::default());
        let reader = peer.reader("r", TOPIC, DataType::KeyedSample, &Qos::default());
        for reason in [refused(writer, &program.name), refused(reader, &program.name)] {
            if program == Program::peregrine().unwrap() {
                assert!(reason.contains(TOPIC) && reason.contains("permissions"), "{reason}");
            }
        }
        peer.writer("w", "AllowedTopic", DataType::KeyedSample, &Qos::default()).unwrap();
    }
}

/// The governance of the peer leaves its endpoints to all, so that the peer makes those which its permissions do not
/// name. Both sides protect messages alike, so that they authenticate each other.
#[test]
fn endpoint_of_an_authenticated_peer_without_permission_is_refused_with_its_cause() {
    let (realm, rules) = (Realm::new("remote-topic"), Rules::of(SIGNED));
    let lax = Rules { is_controlled: false, ..rules.clone() };
    let host = NetNs::isolated().unwrap();
    let mut own =
        join(&Program::peregrine().unwrap(), &host, &realm.participant(&rules, &Member::named("Anna"))).unwrap();
    own.writer("w", "ToPeer", DataType::KeyedSample, &durable()).unwrap();
    own.reader("r", "FromPeer", DataType::KeyedSample, &durable()).unwrap();
    own.write("w", &sample(1, 100)).unwrap();
    for (program, name) in programs().iter().zip(["Bert", "Cora", "Dora"]) {
        let member = Member { topics: "Allowed*", ..Member::named(name) };
        let mut peer = join(program, &host, &realm.participant(&lax, &member)).unwrap();
        peer.reader("r", "ToPeer", DataType::KeyedSample, &durable()).unwrap();
        peer.writer("w", "FromPeer", DataType::KeyedSample, &durable()).unwrap();
        peer.write("w", &sample(7, 100)).unwrap();
        own.wait_reason(&["is authenticated as", &format!("CN={name},")], LIMIT).unwrap();
        for denied in ["subscribing to topic `ToPeer`", "publishing topic `FromPeer`"] {
            let cause = [&format!("peer CN={name},O=Test: permissions:"), denied, "the default is DENY"];
            own.wait_reason(&cause, LIMIT).unwrap();
        }
        assert!(peer.take("r", 1, Duration::ZERO).unwrap().is_empty(), "{} has a sample", peer.version());
        for endpoint in ["r", "w"] {
            assert_eq!(peer.status(endpoint).unwrap().matched_total, 0, "{endpoint} of {}", peer.version());
        }
    }
    // One with the permission matches: the refusals above are not for want of a path.
    let mut friend =
        join(&Program::peregrine().unwrap(), &host, &realm.participant(&rules, &Member::named("Emil"))).unwrap();
    friend.reader("f", "ToPeer", DataType::KeyedSample, &durable()).unwrap();
    friend.writer("g", "FromPeer", DataType::KeyedSample, &durable()).unwrap();
    expect(&mut friend, "f", &[(1, 100)]).unwrap();
    friend.write("g", &sample(8, 100)).unwrap();
    expect(&mut own, "r", &[(8, 100)]).unwrap();
    for endpoint in ["w", "r"] {
        assert_eq!(own.status(endpoint).unwrap().matched_total, 1, "{endpoint} matched a peer without permission");
    }
}

#[test]
fn participant_of_a_domain_without_permission_takes_part_in_nothing() {
    const DOMAIN: u32 = 5;
    let (realm, rules) = (Realm::new("domain"), Rules::of(SIGNED));
    let elsewhere = Member { domains: DomainText { first: 0, last: 4 }, ..Member::named("Bert") };
    let documents = realm.participant(&rules, &elsewhere);
    let host = NetNs::isolated().unwrap();
    let own = Program::peregrine().unwrap();
    for program in [Program::cyclone_dds().unwrap(), own.clone()] {
        let mut peer = Peer::start(&program, &host).unwrap();
        refused(peer.participant(DOMAIN, &documents), &program.name);
    }
    // Fast DDS does not check its own permission for the domain: the others refuse the participant.
    let mut stranger = Peer::start(&Program::fast_dds().unwrap(), &host).unwrap();
    stranger.participant(DOMAIN, &documents).unwrap();
    reader(&mut stranger, "r");
    let [mut first, mut friend] = ["Anna", "Cora"].map(|name| {
        let mut peer = Peer::start(&own, &host).unwrap();
        peer.participant(DOMAIN, &realm.participant(&rules, &Member::named(name))).unwrap();
        peer
    });
    writer(&mut first, "w");
    reader(&mut friend, "f");
    first.wait_matched("w", 1, LIMIT).unwrap();
    first.write("w", &sample(1, 100)).unwrap();
    expect(&mut friend, "f", &[(1, 100)]).unwrap();
    first.wait_reason(&["is refused: the peer may not join: permissions", "<id>5</id>"], LIMIT).unwrap();
    assert_eq!((stranger.status("r").unwrap().matched_total, first.status("w").unwrap().matched_total), (0, 1));
}

/// Both directions between a secured Peregrine and participants without security.
fn with_plain_peers(rules: &Rules, name: &str, is_matched: bool) {
    let realm = Realm::new(name);
    let host = NetNs::isolated().unwrap();
    let own = Program::peregrine().unwrap();
    let mut secured = join(&own, &host, &realm.participant(rules, &Member::named("Anna"))).unwrap();
    secured.writer("w", "FromSecured", DataType::KeyedSample, &durable()).unwrap();
    secured.reader("r", "ToSecured", DataType::KeyedSample, &durable()).unwrap();
    secured.write("w", &sample(1, 100)).unwrap();
    let plain = programs().into_iter().map(|program| {
        let mut peer = join(&program, &host, &Participant::default()).unwrap();
        peer.reader("r", "FromSecured", DataType::KeyedSample, &durable()).unwrap();
        peer.writer("w", "ToSecured", DataType::KeyedSample, &durable()).unwrap();
        peer.write("w", &sample(7, 100)).unwrap();
        peer
    });
    let mut plain: Vec<Peer> = plain.collect();
    if is_matched {
        secured.wait_matched("w", 3, LIMIT).unwrap();
        secured.wait_matched("r", 3, LIMIT).unwrap();
        let [cyclone, fast, peregrine] = plain.as_mut_slice() else { panic!("one of each program") };
        for peer in [cyclone, peregrine] {
            expect(peer, "r", &[(1, 100)]).unwrap();
        }
        expect(&mut secured, "r", &[(7, 100); 2]).unwrap();
        // Fast DDS refuses endpoints that announce their protection, even if there is none.
        assert_eq!(fast.status("r").unwrap().matched_total, 0);
        return;
    }
    let mut friend = join(&own, &host, &realm.participant(rules, &Member::named("Bert"))).unwrap();
    friend.reader("f", "FromSecured", DataType::KeyedSample, &durable()).unwrap();
    friend.writer("g", "ToSecured", DataType::KeyedSample, &durable()).unwrap();
    expect(&mut friend, "f", &[(1, 100)]).unwrap();
    friend.write("g", &sample(8, 100)).unwrap();
    expect(&mut secured, "r", &[(8, 100)]).unwrap();
    for endpoint in ["w", "r"] {
        assert_eq!(secured.status(endpoint).unwrap().matched_total, 1, "{endpoint} matched a stranger");
    }
    for mut peer in plain {
        assert!(peer.take("r", 1, Duration::ZERO).unwrap().is_empty(), "{} has a sample", peer.version());
    }
}

#[test]
fn participants_without_security_take_part_where_the_governance_allows() {
    let rules = Rules { allows_unauthenticated: true, is_controlled: false, ..Rules::of(OPEN) };
    with_plain_peers(&rules, "plain-allowed", true);
}

#[test]
fn participants_without_security_take_part_in_nothing_where_the_governance_forbids() {
    for (name, levels) in [("plain-open", OPEN), ("plain-all", ALL)] {
        with_plain_peers(&Rules::of(levels), name, false);
    }
}
