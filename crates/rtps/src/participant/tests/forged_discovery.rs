//! Discovery samples in the name of another participant, and what becomes of them.

use super::*;
use crate::discovery::data::emit_endpoint_key;
use crate::limits::{CONTRADICTION_INTERVAL, PARKED_WRITERS_MAX};
use crate::seq::{Count, SequenceNumberSet};
use crate::wire::{DataHead, Endianness, Gap, Header, Heartbeat, InfoDestination};

pub(super) const LITTLE: Endianness = Endianness::Little;
/// How soon the effect of a lie has to end.
pub(super) const HEALED_WITHIN: Span = Span::from_secs(1);

/// A message from host 2 to host 1.
pub(super) fn from_2_to_1(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(2) }
        .emit(&mut out);
    InfoDestination { prefix: prefix(1) }.emit(LITTLE, &mut out);
    body(&mut out);
    out
}

/// The built-in reader and writer of the announcements of this endpoint.
fn topic_of(endpoint: EntityId) -> [EntityId; 2] {
    match endpoint.is_writer() {
        true => [EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER],
        false => [EntityId::SEDP_SUBSCRIPTIONS_READER, EntityId::SEDP_SUBSCRIPTIONS_WRITER],
    }
}

fn put_sample(endpoint: EntityId, number: i64, payload: Option<&[u8]>, out: &mut Vec<u8>) {
    let [reader, writer] = topic_of(endpoint);
    let mut key = vec![];
    emit_endpoint_key(Guid::new(prefix(2), endpoint), &mut key);
    let mut qos = InlineQos::default();
    if payload.is_none() {
        qos.status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
    }
    let mut inline_qos = vec![];
    if payload.is_none() {
        qos.emit(LITTLE, &mut inline_qos);
    }
    let kind = if payload.is_none() { PayloadKind::Key } else { PayloadKind::Data };
    let payload = payload.unwrap_or(&key);
    let sequence_number = SequenceNumber(number);
    DataHead { reader, writer, sequence_number, inline_qos: &inline_qos, payload: kind }.emit(
        LITTLE,
        payload.len(),
        out,
    );
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The disposal of an endpoint of host 2, as sample `number` of its topic.
pub(super) fn disposal(endpoint: EntityId, number: i64) -> Vec<u8> {
    from_2_to_1(|out| put_sample(endpoint, number, None, out))
}

pub(super) fn announced(data: &PublicationData, number: i64) -> Vec<u8> {
    let mut payload = vec![];
    data.emit(&mut payload);
    from_2_to_1(|out| put_sample(data.guid.entity, number, Some(&payload), out))
}

/// A HEARTBEAT of the built-in writer that announces `endpoint`.
pub(super) fn heartbeat(endpoint: EntityId, last: i64, count: i32) -> Vec<u8> {
    let [reader, writer] = topic_of(endpoint);
    let (first, last) = (SequenceNumber(1), SequenceNumber(last));
    let heartbeat =
        Heartbeat { reader, writer, first, last, count: Count(count), is_final: false, liveliness: false, group: None };
    from_2_to_1(|out| heartbeat.emit(LITTLE, out))
}

/// A GAP from `start` up to, not including, `end`.
pub(super) fn gap(endpoint: EntityId, start: i64, end: i64) -> Vec<u8> {
    let [reader, writer] = topic_of(endpoint);
    let (start, list) = (SequenceNumber(start), SequenceNumberSet::empty(SequenceNumber(end)));
    let gap = Gap { reader, writer, start, list, group: None, filtered_count: None };
    from_2_to_1(|out| gap.emit(LITTLE, out))
}

/// Host 1 with a reader and a writer, and host 2 with a writer and a reader that match them. All is final.
pub(super) fn pair() -> Domain {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(1, publication(1, 2, "other"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.put_reader(2, subscription(2, 2, "other"));
    domain.run(Span::from_secs(5));
    assert!(is_whole(&mut domain));
    domain.events(1);
    domain
}

pub(super) fn writer_of_2() -> Guid {
    publication(2, 1, "topic").guid
}

pub(super) fn reader_of_2() -> Guid {
    subscription(2, 2, "other").guid
}

/// A writer of host 2, whose user data may differ from one announcement to the next.
fn writer_with_user_data(key: u32, user_data: u8) -> PublicationData {
    let mut data = publication(2, key, "topic");
    data.qos.user_data = UserData(vec![user_data]);
    data
}

/// Whether host 1 knows the endpoints of `pair` with which host 2 began, and has them matched.
pub(super) fn is_whole(domain: &mut Domain) -> bool {
    let host = domain.at(1);
    let reader = &host.readers[&subscription(1, 1, "topic").guid.entity];
    let writer = &host.writers[&publication(1, 2, "other").guid.entity];
    reader.matched.contains(&writer_of_2())
        && writer.matched.contains(&reader_of_2())
        && host.remote_publication(&writer_of_2()) == Some(&publication(2, 1, "topic"))
        && host.remote_subscription(&reader_of_2()) == Some(&subscription(2, 2, "other"))
}

/// The questions and answers of a built-in topic: requests for a HEARTBEAT that host 1 has sent since `from`.
fn questions(domain: &Domain, from: usize) -> usize {
    let asks = |m: &&Sent| {
        Submessages::new(&m.bytes[20..])
            .any(|s| matches!(s, Ok(Submessage::AckNack(acknack)) if !acknack.is_final && acknack.state.is_empty()))
    };
    domain.sent[from..].iter().filter(|m| m.from == prefix(1)).filter(asks).count()
}

#[test]
fn forged_disposals_are_taken_back() {
    let mut domain = pair();
    domain.hear(1, &disposal(writer_of_2().entity, 2));
    domain.hear(1, &disposal(reader_of_2().entity, 2));
    assert!(!is_whole(&mut domain), "the disposals had no effect");
    domain.run(HEALED_WITHIN);
    assert!(is_whole(&mut domain));
    assert_eq!(domain.counters(1).healed, Healed { rereads: 2, ..Healed::default() });
    let events = domain.events(1);
    assert!(
        events.iter().any(|e| matches!(e, ParticipantEvent::WriterUnmatched { may_return: true, .. })),
        "{events:?}"
    );
    assert_eq!((matched_writers(&events), matched_readers(&events)), (vec![writer_of_2()], vec![reader_of_2()]));
}

#[test]
fn sample_with_the_number_of_a_forged_one_is_received() {
    let mut domain = pair();
    domain.hear(1, &disposal(writer_of_2().entity, 2));
    domain.run(HEALED_WITHIN);
    domain.put_writer(2, publication(2, 7, "topic"));
    domain.run(Span::from_millis(10));
    let known = domain.at(1).remote_publication(&publication(2, 7, "topic").guid).is_some();
    assert!(known && is_whole(&mut domain));
}

#[test]
fn forged_disposals_with_forged_heartbeats_are_taken_back() {
    let mut domain = pair();
    for round in 1..40 {
        domain.hear(1, &disposal(writer_of_2().entity, 1 + round));
        domain.hear(1, &heartbeat(writer_of_2().entity, 1 + round, 1000 + round as i32));
        domain.run(Span::from_millis(100));
    }
    domain.run(HEALED_WITHIN);
    assert!(is_whole(&mut domain));
}

#[test]
fn true_disposal_stays() {
    let mut domain = pair();
    let (now, wall) = (domain.now, domain.wall());
    domain.at(2).remove_writer(now, wall, writer_of_2().entity);
    domain.run(Span::from_millis(10));
    assert!(domain.at(1).remote_publication(&writer_of_2()).is_none());
    domain.run(Span::from_secs(10));
    assert!(domain.at(1).remote_publication(&writer_of_2()).is_none());
    assert_eq!(domain.counters(1).healed, Healed::default());
}

#[test]
fn forged_announcement_goes_away() {
    let mut domain = pair();
    let ghost = publication(2, 9, "topic");
    domain.hear(1, &announced(&ghost, 2));
    assert!(domain.at(1).remote_publication(&ghost.guid).is_some());
    domain.run(HEALED_WITHIN);
    assert!(domain.at(1).remote_publication(&ghost.guid).is_none() && is_whole(&mut domain));
    let matched = &domain.at(1).readers[&subscription(1, 1, "topic").guid.entity].matched;
    assert!(!matched.contains(&ghost.guid));
}

#[test]
fn forged_change_of_policies_is_taken_back() {
    let mut domain = pair();
    let mut changed = publication(2, 1, "topic");
    changed.publisher.partition = Partition(vec!["elsewhere".to_string()]);
    domain.hear(1, &announced(&changed, 2));
    assert!(!is_whole(&mut domain));
    domain.run(HEALED_WITHIN);
    assert!(is_whole(&mut domain));
}

/// No writer changes its type: a reader keeps its place for the true announcement.
#[test]
fn writer_with_a_forged_type_may_return_and_one_in_another_partition_may_not() {
    let announcement = publication(2, 1, "topic");
    let [mut of_type, mut of_partition] = [announcement.clone(), announcement];
    of_type.type_name = "Other".into();
    of_partition.publisher.partition = Partition(vec!["elsewhere".to_string()]);
    for (changed, expected) in [(of_type, true), (of_partition, false)] {
        let mut domain = pair();
        domain.hear(1, &announced(&changed, 2));
        let events = domain.events(1);
        let may_return = events.iter().find_map(|event| match event {
            ParticipantEvent::WriterUnmatched { may_return, .. } => Some(*may_return),
            _ => None,
        });
        assert_eq!(may_return, Some(expected), "{events:?}");
    }
}

#[test]
fn heartbeats_that_a_sample_has_overtaken_take_nothing_back() {
    let mut domain = pair();
    let before = domain.sent.len();
    domain.cut = true;
    domain.put_writer(2, publication(2, 7, "topic"));
    domain.cut = false;
    let late: Vec<Sent> = domain.sent[before..].iter().filter(|m| m.from == prefix(2)).cloned().collect();
    assert!(!late.is_empty());
    for message in &late {
        domain.hear(1, &message.bytes);
    }
    // Both were sent before the sample, and come after it; the second even in answer to a question.
    domain.hear(1, &heartbeat(writer_of_2().entity, 1, 900));
    domain.now = domain.now + Span(CONTRADICTION_INTERVAL.0 - 1);
    domain.hear(1, &heartbeat(writer_of_2().entity, 1, 901));
    domain.run(Span::from_secs(5));
    assert!(domain.at(1).remote_publication(&publication(2, 7, "topic").guid).is_some());
    assert_eq!(domain.counters(1).healed, Healed::default());
}

#[test]
fn repeated_heartbeat_takes_nothing_back() {
    let mut domain = pair();
    domain.put_writer(2, publication(2, 7, "topic"));
    for _ in 0..20 {
        domain.hear(1, &heartbeat(writer_of_2().entity, 1, 900));
        domain.now = domain.now + CONTRADICTION_INTERVAL;
    }
    assert!(domain.at(1).remote_publication(&publication(2, 7, "topic").guid).is_some());
}

#[test]
fn forged_heartbeats_after_true_changes_do_no_lasting_damage() {
    for is_disposal in [true, false] {
        let mut domain = pair();
        let (now, wall) = (domain.now, domain.wall());
        let other = publication(2, 7, "topic");
        match is_disposal {
            true => domain.at(2).remove_writer(now, wall, writer_of_2().entity),
            false => domain.put_writer(2, other.clone()),
        }
        domain.run(Span::from_millis(10));
        let holds = |domain: &mut Domain| match is_disposal {
            true => domain.at(1).remote_publication(&writer_of_2()).is_none(),
            false => domain.at(1).remote_publication(&other.guid).is_some() && is_whole(domain),
        };
        assert!(holds(&mut domain));
        // Host 2 cannot refute them.
        domain.cut = true;
        for count in 999_990..1_000_002 {
            domain.hear(1, &heartbeat(writer_of_2().entity, 0, count));
            domain.run(CONTRADICTION_INTERVAL);
        }
        domain.cut = false;
        assert!(domain.counters(1).healed.rereads > 0, "the HEARTBEATs had no effect");
        for round in 2..50 {
            domain.hear(1, &heartbeat(writer_of_2().entity, 0, 1_000_000 + round));
            domain.run(Span::from_millis(60));
        }
        domain.run(HEALED_WITHIN);
        assert!(holds(&mut domain), "{is_disposal}");
        domain.run(Span::from_secs(10));
        assert!(holds(&mut domain));
    }
}

/// Another sample with the number of a forged one, before the forged one was taken back.
#[test]
fn true_sample_replaces_a_forged_one_with_its_number() {
    for confirmed in [false, true] {
        let mut domain = pair();
        domain.hear(1, &disposal(writer_of_2().entity, 2));
        if confirmed {
            domain.hear(1, &heartbeat(writer_of_2().entity, 2, 1000));
        }
        domain.run(Span::from_millis(20));
        domain.put_writer(2, publication(2, 7, "topic"));
        domain.run(HEALED_WITHIN);
        assert!(domain.at(1).remote_publication(&publication(2, 7, "topic").guid).is_some(), "{confirmed}");
        assert!(is_whole(&mut domain), "{confirmed}");
    }
}

#[test]
fn forged_sample_that_waits_does_not_replace_a_true_one() {
    let mut domain = pair();
    domain.hear(1, &disposal(writer_of_2().entity, 3));
    domain.put_writer(2, publication(2, 7, "topic"));
    domain.put_writer(2, publication(2, 8, "topic"));
    domain.run(HEALED_WITHIN);
    for key in [7, 8] {
        assert!(domain.at(1).remote_publication(&publication(2, key, "topic").guid).is_some(), "{key}");
    }
    assert!(is_whole(&mut domain));
}

#[test]
fn burst_of_announcements_and_disposals_costs_few_questions() {
    let mut domain = pair();
    let before = domain.sent.len();
    for key in 100..1100 {
        domain.put_writer(2, publication(2, key, "topic"));
    }
    domain.run(Span::from_secs(10));
    assert_eq!(domain.at(1).remotes[&prefix(2)].publications.len(), 1001);
    let asked = questions(&domain, before);
    assert!((1..=2).contains(&asked), "{asked}");
    let before = domain.sent.len();
    for key in 100..1100 {
        let (now, wall) = (domain.now, domain.wall());
        domain.at(2).remove_writer(now, wall, EntityId::user_writer(key, false));
        domain.run(Span::from_millis(1));
    }
    domain.run(Span::from_secs(10));
    assert_eq!(domain.at(1).remotes[&prefix(2)].publications.len(), 1);
    let asked = questions(&domain, before);
    assert!((1..=8).contains(&asked), "{asked}");
    assert_eq!(domain.counters(1).healed, Healed::default());
}

#[test]
fn flood_of_forged_disposals_does_no_lasting_damage() {
    let mut domain = pair();
    domain.hear(1, &disposal(writer_of_2().entity, 2));
    for number in 3..5000 {
        domain.hear(1, &disposal(EntityId::user_writer(77, false), number));
    }
    domain.run(HEALED_WITHIN);
    assert!(is_whole(&mut domain));
}

#[test]
fn disposed_writers_leave_a_bounded_number_of_places() {
    let mut domain = pair();
    for key in 0..PARKED_WRITERS_MAX as u32 + 10 {
        domain.put_writer(2, publication(2, 100 + key, "topic"));
        let (now, wall) = (domain.now, domain.wall());
        domain.at(2).remove_writer(now, wall, EntityId::user_writer(100 + key, false));
        domain.run(Span::from_millis(1));
    }
    assert!(is_whole(&mut domain));
}

/// A step of the property test.
#[derive(Clone, Debug)]
enum Step {
    Put(u32, bool),
    Remove(u32),
    /// With the number after the last one of the writer that is so far ahead.
    ForgedDisposal(u32, i64),
    ForgedAnnouncement(u32, i64),
    /// How far the last number and the count are ahead of the true ones.
    ForgedHeartbeat(i64, i32),
    /// From how far after the last number on, and of how many samples.
    ForgedGap(i64, i64),
    ForgedGoodbye,
    ForgedMove,
    Wait(u64),
}

fn steps() -> impl proptest::strategy::Strategy<Value = Step> {
    use proptest::prelude::*;
    prop_oneof![
        3 => (1..6_u32, any::<bool>()).prop_map(|(key, is_changed)| Step::Put(key, is_changed)),
        2 => (1..6_u32).prop_map(Step::Remove),
        3 => (1..8_u32, -3..6_i64).prop_map(|(key, ahead)| Step::ForgedDisposal(key, ahead)),
        3 => (1..8_u32, -3..6_i64).prop_map(|(key, ahead)| Step::ForgedAnnouncement(key, ahead)),
        3 => (-5..6_i64, prop_oneof![-3..20_i32, any::<i32>()])
            .prop_map(|(last, count)| Step::ForgedHeartbeat(last, count)),
        2 => (-4..4_i64, 1..5_i64).prop_map(|(ahead, samples)| Step::ForgedGap(ahead, samples)),
        1 => Just(Step::ForgedGoodbye),
        1 => Just(Step::ForgedMove),
        4 => (1..400_u64).prop_map(Step::Wait),
    ]
}

fn take_step(domain: &mut Domain, step: &Step) {
    let (now, wall) = (domain.now, domain.wall());
    let last = domain.at(2).builtin.publications.writer.last().0;
    match *step {
        Step::Put(key, is_changed) => domain.put_writer(2, writer_with_user_data(key, u8::from(is_changed))),
        Step::Remove(key) => domain.at(2).remove_writer(now, wall, EntityId::user_writer(key, false)),
        Step::ForgedDisposal(key, ahead) => {
            domain.hear(1, &disposal(EntityId::user_writer(key, false), (last + ahead).max(1)));
        }
        Step::ForgedAnnouncement(key, ahead) => {
            domain.hear(1, &announced(&writer_with_user_data(key, 7), (last + ahead).max(1)));
        }
        Step::ForgedHeartbeat(ahead, count) => {
            domain.hear(1, &heartbeat(writer_of_2().entity, (last + ahead).max(0), count));
        }
        Step::ForgedGap(ahead, samples) => {
            let start = (last + ahead).max(1);
            domain.hear(1, &gap(writer_of_2().entity, start, start + samples));
        }
        Step::ForgedGoodbye => domain.hear(1, &forged_goodbye::goodbye(domain)),
        Step::ForgedMove => {
            let mut elsewhere = config(2);
            elsewhere.addresses.metatraffic_unicast = vec![Locator::from(address(66, 7410))];
            elsewhere.addresses.default_unicast = vec![Locator::from(address(66, 7411))];
            domain.hear_from(1, address(66, 7410), &announcement(elsewhere, None));
        }
        Step::Wait(ms) => domain.run(Span::from_millis(ms)),
    }
    domain.run_until_idle();
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(cases()))]
    /// One second after the last message of an impostor, host 1 knows what host 2 says.
    #[test]
    fn lies_do_no_damage_for_longer_than_a_second(steps in proptest::collection::vec(steps(), 1..40)) {
        check_lies(&steps);
    }
}

/// `PEREGRINE_SEQUENCES` plays more of them.
fn cases() -> u32 {
    std::env::var("PEREGRINE_SEQUENCES").map_or(64, |number| number.parse().unwrap())
}

fn check_lies(steps: &[Step]) {
    let mut domain = pair();
    steps.iter().for_each(|step| take_step(&mut domain, step));
    // The first true message later than after a true goodbye.
    domain.run(crate::limits::GOODBYE_SILENCE + Span(1));
    domain.hear(1, &forged_goodbye::user_message());
    domain.run(HEALED_WITHIN);
    let said: Vec<PublicationData> = domain.at(2).writers.values().map(|w| w.data.clone()).collect();
    let host = domain.at(1);
    let known: Vec<PublicationData> = host.remotes[&prefix(2)].publications.values().cloned().collect();
    assert_eq!(known, said);
    let matched = &host.readers[&subscription(1, 1, "topic").guid.entity].matched;
    let matched: Vec<Guid> = matched.iter().copied().collect();
    let expected: Vec<Guid> = said.iter().map(|data| data.guid).collect();
    assert_eq!(matched, expected);
    assert_eq!(host.discovery_memory.bytes(), host.remotes[&prefix(2)].held_bytes());
}

/// A step of the property test without lies.
#[derive(Clone, Debug)]
enum TrueStep {
    Put(u32, bool),
    Remove(u32),
    /// Whether the network loses everything from now on.
    Cut(bool),
    Wait(u64),
}

fn true_steps() -> impl proptest::strategy::Strategy<Value = TrueStep> {
    use proptest::prelude::*;
    prop_oneof![
        4 => (1..6_u32, any::<bool>()).prop_map(|(key, is_changed)| TrueStep::Put(key, is_changed)),
        3 => (1..6_u32).prop_map(TrueStep::Remove),
        2 => any::<bool>().prop_map(TrueStep::Cut),
        4 => (1..400_u64).prop_map(TrueStep::Wait),
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(cases()))]
    /// However endpoints come and go, and whatever the network loses, no participant seems to lie.
    #[test]
    fn true_changes_are_not_received_again(steps in proptest::collection::vec(true_steps(), 1..40)) {
        let mut domain = pair();
        for step in steps {
            let (now, wall) = (domain.now, domain.wall());
            match step {
                TrueStep::Put(key, is_changed) => domain.put_writer(2, writer_with_user_data(key, u8::from(is_changed))),
                TrueStep::Remove(key) => domain.at(2).remove_writer(now, wall, EntityId::user_writer(key, false)),
                TrueStep::Cut(is_cut) => domain.cut = is_cut,
                TrueStep::Wait(ms) => domain.run(Span::from_millis(ms)),
            }
            domain.run_until_idle();
        }
        domain.cut = false;
        domain.run(Span::from_secs(3));
        assert_eq!(domain.counters(1).healed, Healed::default());
        let said: Vec<PublicationData> = domain.at(2).writers.values().map(|w| w.data.clone()).collect();
        let known: Vec<PublicationData> = domain.at(1).remotes[&prefix(2)].publications.values().cloned().collect();
        assert_eq!(known, said);
    }
}

#[test]
fn forged_sample_before_denied_ones_does_no_lasting_damage() {
    use Step::{ForgedAnnouncement, ForgedDisposal, ForgedGoodbye, Put, Remove, Wait};
    check_lies(&[
        ForgedDisposal(1, 3),
        ForgedAnnouncement(2, 1),
        Remove(1),
        ForgedGoodbye,
        Wait(201),
        ForgedDisposal(1, 2),
        Put(1, false),
    ]);
}

#[test]
fn true_disposal_that_a_forged_announcement_follows_at_once_stays() {
    use Step::{ForgedAnnouncement, Put, Remove};
    check_lies(&[Put(4, false), ForgedAnnouncement(4, 2), Remove(4), Remove(1)]);
}

#[test]
fn forged_gap_of_samples_that_are_received_again_does_no_lasting_damage() {
    use Step::{ForgedGap, ForgedGoodbye, ForgedHeartbeat, Put, Wait};
    let again = [ForgedHeartbeat(-1, 0), ForgedGoodbye, Put(1, false), Put(1, false), Put(2, false)];
    let lies = [Wait(201), ForgedHeartbeat(-4, 1), ForgedGap(-2, 2)];
    check_lies(&[&again[..], &lies].concat());
}

/// A writer passes over an announcement that it has replaced, and the network loses the replacement.
#[test]
fn endpoint_whose_replaced_announcement_is_passed_over_stays() {
    let mut domain = pair();
    let changed = |is_changed| writer_with_user_data(7, u8::from(is_changed));
    domain.put_writer(2, changed(false));
    domain.run(Span::from_millis(300));
    domain.events(1);
    domain.cut = true;
    domain.put_writer(2, changed(true));
    let last = domain.at(2).builtin.publications.writer.last().0;
    for count in 0..5 {
        domain.hear(1, &gap(writer_of_2().entity, last - 1, last));
        domain.hear(1, &heartbeat(writer_of_2().entity, last, 1_000_000 + count));
        domain.run(CONTRADICTION_INTERVAL + Span(1));
        assert_eq!(domain.at(1).remote_publication(&changed(false).guid), Some(&changed(false)));
    }
    let is_lost = |event: &ParticipantEvent| matches!(event, ParticipantEvent::PublicationLost(_));
    assert!(!domain.events(1).iter().any(is_lost));
    domain.cut = false;
    domain.run(HEALED_WITHIN);
    assert_eq!(domain.at(1).remote_publication(&changed(true).guid), Some(&changed(true)));
    assert!(!domain.events(1).iter().any(is_lost));
}

/// A sample in the place of one that its writer has replaced, and that the reader receives again.
#[test]
fn forged_sample_in_the_place_of_a_replaced_one_is_taken_back() {
    let mut domain = pair();
    let changed = |is_changed| writer_with_user_data(7, u8::from(is_changed));
    domain.put_writer(2, changed(false));
    domain.put_writer(2, changed(true));
    domain.run(Span::from_secs(5));
    domain.cut = true;
    for count in 1_000_000..1_000_004 {
        domain.hear(1, &heartbeat(writer_of_2().entity, 0, count));
        domain.run(CONTRADICTION_INTERVAL);
    }
    assert!(domain.counters(1).healed.rereads > 0, "the HEARTBEATs had no effect");
    domain.hear(1, &disposal(writer_of_2().entity, 2));
    domain.cut = false;
    domain.run(HEALED_WITHIN);
    assert!(is_whole(&mut domain));
    assert_eq!(domain.at(1).remote_publication(&changed(true).guid), Some(&changed(true)));
}

/// An announcement in the name of host 2 that states another vendor, which does not summarize its endpoints.
#[test]
fn announcement_of_another_vendor_does_not_end_the_healing() {
    let mut domain = pair();
    domain.hear(1, &disposal(writer_of_2().entity, 2));
    let mut other = announcement(config(2), None);
    let vendor = other.windows(6).position(|bytes| bytes == [0x16, 0, 4, 0, 0x01, 0x7e]).unwrap();
    other[vendor + 4..vendor + 6].copy_from_slice(&VendorId::FAST_DDS.0);
    domain.hear(1, &other);
    assert_eq!(domain.at(1).remotes[&prefix(2)].data.vendor, VendorId::PEREGRINE);
    domain.run(HEALED_WITHIN);
    assert!(is_whole(&mut domain));
}

#[test]
fn forged_sample_that_waits_is_dropped_when_it_is_denied() {
    let mut domain = pair();
    domain.hear(1, &disposal(writer_of_2().entity, 5));
    let writer = Guid::new(prefix(2), EntityId::SEDP_PUBLICATIONS_WRITER);
    let newest = |domain: &mut Domain| domain.at(1).builtin.publications.reader.newest_received(writer);
    assert_eq!(newest(&mut domain), Some(SequenceNumber(5)));
    domain.put_writer(2, publication(2, 7, "topic"));
    domain.run(HEALED_WITHIN);
    assert_eq!(newest(&mut domain), Some(SequenceNumber(2)));
    assert!(is_whole(&mut domain));
    let events = domain.events(1);
    assert!(!events.iter().any(|e| matches!(e, ParticipantEvent::PublicationLost(_))), "{events:?}");
}

#[test]
fn forged_samples_before_their_predecessors_do_no_lasting_damage() {
    use Step::{ForgedAnnouncement, ForgedDisposal, Put};
    check_lies(&[ForgedAnnouncement(7, 2), ForgedDisposal(7, 1), Put(2, false), Put(1, false)]);
}

#[test]
fn forged_gap_before_a_restored_participant_does_no_lasting_damage() {
    use Step::{ForgedAnnouncement, ForgedGap, ForgedGoodbye, ForgedHeartbeat, Wait};
    check_lies(&[
        ForgedAnnouncement(2, 1),
        ForgedHeartbeat(0, 0),
        ForgedGoodbye,
        Wait(201),
        ForgedGap(0, 4),
        ForgedHeartbeat(1, 1),
    ]);
}

#[test]
fn forged_samples_that_wait_beyond_true_ones_do_no_lasting_damage() {
    use Step::{ForgedAnnouncement, ForgedDisposal, ForgedHeartbeat, Put, Wait};
    check_lies(&[
        ForgedDisposal(1, 1),
        Wait(201),
        Put(1, false),
        ForgedAnnouncement(1, 1),
        ForgedAnnouncement(1, 4),
        ForgedHeartbeat(0, 7),
        Put(2, false),
        Put(1, false),
    ]);
}

#[test]
fn forged_sample_that_waits_over_a_goodbye_does_no_lasting_damage() {
    use Step::{ForgedAnnouncement, ForgedGoodbye, ForgedHeartbeat, Put, Wait};
    check_lies(&[
        ForgedAnnouncement(1, 3),
        Put(1, false),
        ForgedGoodbye,
        Wait(201),
        ForgedAnnouncement(2, 1),
        ForgedHeartbeat(-2, 5),
    ]);
}

#[test]
fn forged_gap_after_a_forged_move_does_no_lasting_damage() {
    use Step::{ForgedDisposal, ForgedGap, ForgedHeartbeat, ForgedMove, Put, Wait};
    let first = [ForgedDisposal(1, 0), Put(1, false), ForgedMove, ForgedGap(0, 2), Wait(300)];
    check_lies(&[&first[..], &[ForgedMove, ForgedHeartbeat(-2, 7)]].concat());
}

#[test]
fn forged_gaps_one_after_the_other_do_no_lasting_damage() {
    use Step::{ForgedAnnouncement, ForgedGap, Wait};
    check_lies(&[ForgedGap(0, 2), Wait(300), ForgedGap(0, 1), Wait(100), ForgedAnnouncement(1, 0)]);
}
