//! Errors of waits for matches.

mod common;

use std::time::Duration;

use common::{GLANCE, Reading, config, eventually, participant};
use peregrine::error::{Timeout, Unmatched};
use peregrine::qos::{DataReaderQos, Deadline, NonMatch, Span};
use peregrine::{DdsType, DomainParticipant, Error};

/// A [`Reading`] without a key and with another name.
#[derive(Clone, Debug, PartialEq, DdsType)]
struct Plain {
    id: u32,
}

/// A type with the name of [`Reading`] and without a key.
mod same_name {
    #[derive(Clone, Debug, PartialEq, peregrine::DdsType)]
    pub(super) struct Reading {
        id: u32,
    }
}

fn why<T: std::fmt::Debug>(result: Result<T, Error>) -> (Unmatched, String) {
    match result {
        Err(error @ Error::Timeout(Timeout::NotMatched { found: 0, wanted: 1, .. })) => {
            let text = error.to_string();
            let Error::Timeout(Timeout::NotMatched { why, .. }) = error else { unreachable!() };
            (*why, text)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn failed_wait_without_participants_gives_that_reason() {
    let participant = participant(19);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let (writer, reader) = (topic.writer().unwrap(), topic.clone());
    let (cause, text) = why(writer.wait_for_readers(1, Duration::ZERO));
    assert_eq!(cause, Unmatched::NoParticipant);
    assert!(text.contains("topic \"readings\" has 0 of 1 matches") && text.contains("peers"), "{text}");
    drop(writer);
    let reader = reader.reader().unwrap();
    assert_eq!(why(reader.wait_for_writers(1, Duration::ZERO)).0, Unmatched::NoParticipant);
}

#[test]
fn failed_wait_without_endpoints_gives_that_reason() {
    let (a, b) = (participant(20), participant(20));
    let reader = a.topic::<Reading>("readings").unwrap().reader().unwrap();
    let _other = b.topic::<Reading>("other").unwrap().writer().unwrap();
    eventually("they meet", || !a.discovered_participants().is_empty());
    assert_eq!(why(reader.wait_for_writers(1, GLANCE)).0, Unmatched::NoEndpoint { participants: 1 });
}

#[test]
fn failed_wait_names_policy_with_both_values() {
    let deadline = |ms| Deadline { period: Span::from_millis(ms) };
    for kind in 0..4 {
        let a = DomainParticipant::builder(21).config(config()).build().unwrap();
        let b = participant(21);
        let name = format!("readings {kind}");
        let of_b = b.topic::<Reading>(&name).unwrap();
        let reader = of_b.reader_builder().qos(DataReaderQos { deadline: deadline(20), ..DataReaderQos::default() });
        let (cause, text) = match kind {
            0 => {
                let writer = a.topic::<Reading>(&name).unwrap().writer_builder().best_effort().build().unwrap();
                let _reader = of_b.reader_builder().reliable().build().unwrap();
                eventually("it is found", || writer.last_non_match().is_some());
                why(writer.wait_for_readers(1, GLANCE))
            }
            1 => {
                let writer = a.topic::<Plain>(&name).unwrap().writer().unwrap();
                let reader = of_b.reader_builder().build().unwrap();
                eventually("it is found", || reader.last_non_match().is_some());
                drop(writer);
                why(reader.wait_for_writers(1, GLANCE))
            }
            2 => {
                let writer = a.topic::<same_name::Reading>(&name).unwrap().writer().unwrap();
                let _reader = of_b.reader_builder().build().unwrap();
                eventually("it is found", || writer.last_non_match().is_some());
                why(writer.wait_for_readers(1, GLANCE))
            }
            _ => {
                let writer = a.topic::<Reading>(&name).unwrap().writer().unwrap();
                let _reader = reader.build().unwrap();
                eventually("it is found", || writer.last_non_match().is_some());
                why(writer.wait_for_readers(1, GLANCE))
            }
        };
        let Unmatched::Mismatch { reason, .. } = cause else { panic!("{cause:?}") };
        let (is_expected, part) = match kind {
            0 => (matches!(reason, NonMatch::Reliability { .. }), "offered BEST_EFFORT, requested RELIABLE"),
            1 | 2 => (matches!(reason, NonMatch::TopicKind { .. }), "offered NO_KEY, requested WITH_KEY"),
            _ => (matches!(reason, NonMatch::Deadline { .. }), "offered infinite, requested 20000000 ns"),
        };
        assert!(is_expected && text.contains(part), "{text}");
    }
}
