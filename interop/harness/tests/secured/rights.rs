//! Access control between processes: data tags, relay rules, and revoked certificates.

use std::time::Duration;

use peregrine_interop::{DataType, NetNs, Participant, Peer, Program, Qos};
use peregrine_rtps::protection::ProtectionKind::{Encrypt, None as Plain, Sign};

use super::documents::{Levels, Member, Realm, Rules};
use super::refusals::{programs, refused};
use super::{LIMIT, TOPIC, durable, expect, join, sample};

const SIGNED: Levels = [Sign, Plain, Plain, Plain];
/// Tags are announced for topics with protected discovery only.
const HIDDEN: Levels = [Sign, Encrypt, Plain, Plain];

/// Writing and reading all topics, with the tag `level=secret` or without one.
const TAGGED: &str = "<allow_rule><domains><id_range><min>0</min><max>230</max></id_range></domains>\
    <publish><topics><topic>*</topic></topics>\
    <data_tags><tag><name>level</name><value>secret</value></tag></data_tags></publish>\
    <subscribe><topics><topic>*</topic></topics>\
    <data_tags><tag><name>level</name><value>secret</value></tag></data_tags></subscribe></allow_rule>";
/// Writing and relaying all topics, and no reading.
const RELAYS: &str = "<allow_rule><domains><id_range><min>0</min><max>230</max></id_range></domains>\
    <publish><topics><topic>*</topic></topics></publish>\
    <relay><topics><topic>*</topic></topics></relay></allow_rule>";
/// Writing and reading all topics, and no relaying. The first rule that matches decides: the rule that denies comes
/// before the one about reading. The very first rule allows, so that participants may join.
const RELAYS_NOT: &str = "<allow_rule><domains><id_range><min>0</min><max>230</max></id_range></domains>\
    <publish><topics><topic>*</topic></topics></publish></allow_rule>\
    <deny_rule><domains><id_range><min>0</min><max>230</max></id_range></domains>\
    <relay><topics><topic>*</topic></topics></relay></deny_rule>\
    <allow_rule><domains><id_range><min>0</min><max>230</max></id_range></domains>\
    <subscribe><topics><topic>*</topic></topics></subscribe></allow_rule>";

/// More samples than a reader can have in these tests.
const TAKE_COUNT: u32 = 100;
/// More refused messages than a participant can send in the time of a test.
const REFUSALS_MAX: usize = 20;

fn tagged(level: &'static str) -> Qos {
    Qos { tags: vec![("level", level)], ..durable() }
}

fn own(host: &NetNs, documents: &Participant) -> Peer {
    join(&Program::peregrine().unwrap(), host, documents).unwrap()
}

fn assert_names(reason: &str, parts: &[&str]) {
    for part in parts {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

/// The governance of one peer leaves its endpoints to all, so that this peer makes endpoints with tags that its
/// permissions do not list.
#[test]
fn endpoint_with_tags_that_permissions_do_not_list_is_refused_with_the_tags() {
    let (realm, rules) = (Realm::new("tags"), Rules::of(HIDDEN));
    let lax = Rules { is_controlled: false, ..rules.clone() };
    let host = NetNs::isolated().unwrap();
    let documents =
        |rules: &Rules, name| realm.participant(rules, &Member { rules: Some(TAGGED), ..Member::named(name) });
    let mut first = own(&host, &documents(&rules, "Anna"));
    let writer = refused(first.writer("w", "ToPeer", DataType::KeyedSample, &tagged("public")), "Anna");
    let reader = refused(first.reader("r", "FromPeer", DataType::KeyedSample, &tagged("public")), "Anna");
    for (reason, action) in [(writer, "publishing topic `ToPeer`"), (reader, "subscribing to topic `FromPeer`")] {
        assert_names(&reason, &["permissions", action, "with tags level=public", "<data_tags>", "the default is DENY"]);
    }
    first.writer("w", "ToPeer", DataType::KeyedSample, &tagged("secret")).unwrap();
    first.reader("r", "FromPeer", DataType::KeyedSample, &tagged("secret")).unwrap();
    first.write("w", &sample(1, 100)).unwrap();

    let mut other = own(&host, &documents(&lax, "Bert"));
    other.reader("r", "ToPeer", DataType::KeyedSample, &tagged("public")).unwrap();
    other.writer("w", "FromPeer", DataType::KeyedSample, &tagged("public")).unwrap();
    for denied in ["subscribing to topic `ToPeer`", "publishing topic `FromPeer`"] {
        let cause = ["peer CN=Bert,O=Test: permissions:", denied, "with tags level=public", "the default is DENY"];
        first.wait_reason(&cause, LIMIT).unwrap();
    }
    // The side that is refused compares what both announce.
    for topic in ["ToPeer", "FromPeer"] {
        let cause = [&format!("topic `{topic}`"), "give both the same governance document"];
        other.wait_reason(&cause, LIMIT).unwrap();
    }

    // Listed tags match: the refusals above are not for want of a path.
    let mut friend = own(&host, &documents(&rules, "Cora"));
    friend.reader("f", "ToPeer", DataType::KeyedSample, &tagged("secret")).unwrap();
    friend.writer("g", "FromPeer", DataType::KeyedSample, &durable()).unwrap();
    expect(&mut friend, "f", &[(1, 100)]).unwrap();
    friend.write("g", &sample(8, 100)).unwrap();
    expect(&mut first, "r", &[(8, 100)]).unwrap();
    for endpoint in ["w", "r"] {
        assert_eq!(first.status(endpoint).unwrap().matched_total, 1, "{endpoint} matched other tags");
        assert_eq!(other.status(endpoint).unwrap().matched_total, 0, "{endpoint} with other tags matched");
    }
}

/// Peregrine sends nothing to readers that may relay only.
#[test]
fn reader_that_may_relay_only_is_refused_with_its_cause() {
    let (realm, rules) = (Realm::new("relays"), Rules::of(SIGNED));
    let lax = Rules { is_controlled: false, ..rules.clone() };
    let relays = |rules: &Rules, name| realm.participant(rules, &Member { rules: Some(RELAYS), ..Member::named(name) });
    let host = NetNs::isolated().unwrap();
    let mut relay = own(&host, &relays(&rules, "Gina"));
    let reason = refused(relay.reader("r", TOPIC, DataType::KeyedSample, &durable()), "Gina");
    assert_names(&reason, &["permissions", "no rule allows subscribing to topic `Topic`", "add <subscribe>"]);
    relay.leave();

    let mut writer = own(&host, &realm.participant(&rules, &Member::named("Anna")));
    writer.writer("w", TOPIC, DataType::KeyedSample, &durable()).unwrap();
    writer.write("w", &sample(1, 100)).unwrap();
    for (program, name) in programs().iter().zip(["Bert", "Cora", "Dora"]) {
        let mut peer = join(program, &host, &relays(&lax, name)).unwrap();
        peer.reader("r", TOPIC, DataType::KeyedSample, &durable()).unwrap();
        let cause = [&format!("peer CN={name},O=Test: permissions:"), "no rule allows subscribing to topic `Topic`"];
        writer.wait_reason(&cause, LIMIT).unwrap();
        assert_eq!(peer.status("r").unwrap().matched_total, 0, "{}", peer.version());
    }
    assert_eq!(writer.status("w").unwrap().matched_total, 0);
}

/// A rule about relays decides about relays alone.
#[test]
fn reader_that_may_not_relay_gets_samples() {
    let (realm, rules) = (Realm::new("relays-not"), Rules::of(SIGNED));
    let documents = |name| realm.participant(&rules, &Member { rules: Some(RELAYS_NOT), ..Member::named(name) });
    let host = NetNs::isolated().unwrap();
    let mut writer = own(&host, &documents("Anna"));
    writer.writer("w", TOPIC, DataType::KeyedSample, &durable()).unwrap();
    writer.write("w", &sample(1, 100)).unwrap();
    for (program, name) in programs().iter().zip(["Bert", "Cora", "Dora"]) {
        let mut peer = join(program, &host, &documents(name)).unwrap();
        peer.reader("r", TOPIC, DataType::KeyedSample, &durable()).unwrap();
        expect(&mut peer, "r", &[(1, 100)]).unwrap();
    }
}

/// The cause of a refusal of a revoked certificate.
fn revoked(name: &str) -> String {
    format!("certificate of CN={name},O=Test: revoked")
}

/// The participant that a report names: `… participant GUID_PREFIX …`.
fn participant_in(reason: &str) -> &str {
    reason.split_whitespace().skip_while(|word| *word != "participant").nth(1).unwrap_or_else(|| panic!("{reason}"))
}

/// Waits until a handshake message with this name is refused that is not of the former participant, which tries again,
/// too.
fn wait_refusal_of_another(peer: &mut Peer, name: &str, former: &str) {
    for count in 1..=REFUSALS_MAX {
        let reasons = peer.wait_reasons(count, &["a handshake message", "is refused", &revoked(name)], LIMIT).unwrap();
        if reasons.iter().any(|reason| participant_in(reason) != former) {
            return;
        }
    }
    panic!("{REFUSALS_MAX} refused messages of {former}, and none of another participant of {name}");
}

/// One side has the list from the start. The other side begins the handshake, or is asked.
#[test]
fn participant_with_a_revoked_certificate_does_not_match() {
    let (realm, rules) = (Realm::new("revoked"), Rules::of(SIGNED));
    let of = |name| realm.participant(&rules, &Member::named(name));
    let host = NetNs::isolated().unwrap();
    let names = ["Bert", "Dora", "Gina", "Emil", "Mara", "Lena"];
    let documents = names.map(of);
    let list = realm.revoking(&documents.iter().collect::<Vec<_>>());
    let mut first = own(&host, &Participant { revocations: Some(list), ..of("Vera") });
    first.writer("w", TOPIC, DataType::KeyedSample, &durable()).unwrap();
    first.write("w", &sample(1, 100)).unwrap();
    let programs = programs();
    let peers = documents.iter().enumerate().map(|(at, documents)| {
        let mut peer = join(&programs[at / 2], &host, documents).unwrap();
        peer.reader("r", TOPIC, DataType::KeyedSample, &durable()).unwrap();
        peer
    });
    let mut peers: Vec<Peer> = peers.collect();
    // The side that does not begin refuses the request, with the cause, and answers nothing; the other one refuses the
    // reply.
    for name in names {
        first.wait_reason(&["a handshake message", "is refused", &revoked(name)], LIMIT).unwrap();
    }
    let mut friend = own(&host, &of("Karl"));
    friend.reader("f", TOPIC, DataType::KeyedSample, &durable()).unwrap();
    expect(&mut friend, "f", &[(1, 100)]).unwrap();
    assert_eq!(first.status("w").unwrap().matched_total, 1, "a revoked certificate was accepted");
    for peer in &mut peers {
        let matched = peer.status("r").unwrap().matched_total;
        assert_eq!(matched, 0, "{}", peer.version());
    }
}

#[test]
fn participant_that_is_revoked_while_it_runs_is_let_go() {
    let (realm, rules) = (Realm::new("revoked-later"), Rules::of(SIGNED));
    let of = |name| realm.participant(&rules, &Member::named(name));
    let host = NetNs::isolated().unwrap();
    let names = ["Bert", "Cora", "Dora"];
    let documents = names.map(of);
    let mut first = own(&host, &Participant { revocations: Some(realm.revoking(&[])), ..of("Anna") });
    first.writer("w", TOPIC, DataType::KeyedSample, &durable()).unwrap();
    let mut friend = own(&host, &of("Emil"));
    friend.reader("f", TOPIC, DataType::KeyedSample, &durable()).unwrap();
    let peers = programs().into_iter().zip(&documents).map(|(program, documents)| {
        let mut peer = join(&program, &host, documents).unwrap();
        peer.reader("r", TOPIC, DataType::KeyedSample, &durable()).unwrap();
        peer
    });
    let mut peers: Vec<Peer> = peers.collect();
    first.wait_matched("w", 4, LIMIT).unwrap();
    first.write("w", &sample(1, 100)).unwrap();
    peers.iter_mut().for_each(|peer| expect(peer, "r", &[(1, 100)]).unwrap());
    expect(&mut friend, "f", &[(1, 100)]).unwrap();

    first.revoke(&realm.revoking(&documents.iter().collect::<Vec<_>>())).unwrap();
    first.wait_matched("w", 1, LIMIT).unwrap();
    let former = names.map(|name| {
        let reason = first.wait_reason(&["is let go", &revoked(name)], LIMIT).unwrap();
        participant_in(&reason).to_owned()
    });
    first.write("w", &sample(2, 100)).unwrap();
    expect(&mut friend, "f", &[(2, 100)]).unwrap();
    // The same certificates with new participants.
    let again = programs().into_iter().zip(&documents).map(|(program, documents)| {
        let mut peer = join(&program, &host, documents).unwrap();
        peer.reader("r", TOPIC, DataType::KeyedSample, &durable()).unwrap();
        peer
    });
    let again: Vec<Peer> = again.collect();
    for (name, former) in names.iter().zip(&former) {
        wait_refusal_of_another(&mut first, name, former);
    }
    first.write("w", &sample(3, 100)).unwrap();
    expect(&mut friend, "f", &[(3, 100)]).unwrap();
    for peer in peers.iter_mut().chain(&mut { again }) {
        // The end of the instance may come before a sample.
        let taken = peer.take("r", TAKE_COUNT, Duration::ZERO).unwrap();
        assert!(taken.iter().all(|sample| !sample.valid), "{}: {taken:?}", peer.version());
    }
    assert_eq!(first.status("w").unwrap().matched_total, 4, "a revoked certificate was accepted again");
}
