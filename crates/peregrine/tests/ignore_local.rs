//! Endpoints of one participant or process that do not match by the choice of the application.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{PATIENCE, Reading, config};
use peregrine::error::{Timeout, Unmatched};
use peregrine::qos::{IgnoreLocal, NonMatch};
use peregrine::{DataReader, DataWriter, DomainConfig, DomainParticipant, Error, ParticipantBuilder};

const KINDS: [IgnoreLocal; 3] = [IgnoreLocal::None, IgnoreLocal::Participant, IgnoreLocal::Process];

fn builder(domain: u32, config: DomainConfig) -> ParticipantBuilder {
    DomainParticipant::builder(domain).domain_tag(std::process::id().to_string()).config(config)
}

/// A writer and a reader of a topic of their own.
fn endpoints(
    (a, of_writer): (&DomainParticipant, Option<IgnoreLocal>),
    (b, of_reader): (&DomainParticipant, Option<IgnoreLocal>),
) -> (DataWriter<Reading>, DataReader<Reading>) {
    static TOPICS: AtomicUsize = AtomicUsize::new(0);
    let name = format!("readings {}", TOPICS.fetch_add(1, Ordering::Relaxed));
    let mut writer = a.topic::<Reading>(&name).unwrap().writer_builder().reliable();
    let mut reader = b.topic::<Reading>(&name).unwrap().reader_builder().reliable();
    if let Some(kind) = of_writer {
        writer = writer.ignore_local(kind);
    }
    if let Some(kind) = of_reader {
        reader = reader.ignore_local(kind);
    }
    (writer.build().unwrap(), reader.build().unwrap())
}

/// Both sides know that they match, or both have the reason why they do not.
fn assert_matched(writer: &DataWriter<Reading>, reader: &DataReader<Reading>, expected: bool) {
    if expected {
        writer.wait_for_readers(1, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
        writer.write(&Reading::new(1, 1)).unwrap();
        assert!(reader.wait_and_take(PATIENCE).unwrap().value().is_some());
        return;
    }
    let reason = NonMatch::IgnoreLocal { offered: writer.ignore_local(), requested: reader.ignore_local() };
    common::eventually("both sides have the reason", || {
        let (of_writer, of_reader) = (writer.last_non_match(), reader.last_non_match());
        of_writer == Some((reader.guid(), reason.clone())) && of_reader == Some((writer.guid(), reason.clone()))
    });
    assert_eq!((writer.matched_subscriptions().len(), reader.matched_publications().len()), (0, 0));
    let why = |error| match error {
        Err(Error::Timeout(Timeout::NotMatched { why, .. })) => *why,
        other => panic!("{other:?}"),
    };
    let of_writer = Unmatched::Mismatch { endpoint: reader.guid(), reason: reason.clone() };
    assert_eq!(why(writer.wait_for_readers(1, Duration::ZERO)), of_writer);
    assert_eq!(
        why(reader.wait_for_writers(1, Duration::ZERO)),
        Unmatched::Mismatch { endpoint: writer.guid(), reason }
    );
    assert!(of_writer.to_string().contains("ignore_local"), "{of_writer}");
    // No policy is at fault.
    assert_eq!(writer.offered_incompatible_qos_status().total_count, 0);
    assert_eq!(reader.requested_incompatible_qos_status().total_count, 0);
}

#[test]
fn endpoints_of_one_participant_match_unless_either_ignores_it() {
    let participant = builder(20, config()).build().unwrap();
    for kind in KINDS {
        for (of_writer, of_reader) in [(kind, IgnoreLocal::None), (IgnoreLocal::None, kind)] {
            let (writer, reader) = endpoints((&participant, Some(of_writer)), (&participant, Some(of_reader)));
            assert_matched(&writer, &reader, kind == IgnoreLocal::None);
        }
    }
}

/// With and without delivery within the process.
#[test]
fn endpoints_of_two_participants_match_unless_either_ignores_the_process() {
    for (domain, config) in [(21, config()), (22, config().with_same_process(true))] {
        let [a, b] = [config.clone(), config].map(|config| builder(domain, config).build().unwrap());
        for kind in KINDS {
            for (of_writer, of_reader) in [(kind, IgnoreLocal::None), (IgnoreLocal::None, kind)] {
                let (writer, reader) = endpoints((&a, Some(of_writer)), (&b, Some(of_reader)));
                assert_matched(&writer, &reader, kind != IgnoreLocal::Process);
            }
        }
    }
}

#[test]
fn endpoints_without_a_choice_have_that_of_their_participant() {
    let router = builder(23, config()).ignore_local(IgnoreLocal::Participant).build().unwrap();
    assert_eq!(router.ignore_local(), IgnoreLocal::Participant);
    let (writer, reader) = endpoints((&router, None), (&router, None));
    assert_eq!((writer.ignore_local(), reader.ignore_local()), (router.ignore_local(), router.ignore_local()));
    assert_matched(&writer, &reader, false);
    let none = (&router, Some(IgnoreLocal::None));
    let (writer, reader) = endpoints(none, none);
    assert_matched(&writer, &reader, true);
}

#[test]
fn announcements_of_endpoints_have_their_choice() {
    let [a, b] = [(); 2].map(|()| builder(24, config()).build().unwrap());
    let kind = Some(IgnoreLocal::Participant);
    let (writer, reader) = endpoints((&a, kind), (&b, kind));
    assert_matched(&writer, &reader, true);
    let data = reader.matched_publication_data(writer.guid()).unwrap();
    assert_eq!(data.ignore_local, IgnoreLocal::Participant);
    let data = writer.matched_subscription_data(reader.guid()).unwrap();
    assert_eq!(data.ignore_local, IgnoreLocal::Participant);
}
