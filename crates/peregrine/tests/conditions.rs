//! Wait sets and conditions, over real sockets.

mod common;

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use common::{GLANCE, PATIENCE, Reading, config, participant, polled};
use peregrine::{
    DataReader, DataWriter, DomainConfig, DomainParticipant, Error, GuardCondition, Selector, StatusMask, WaitSet,
};

struct Pair {
    writer: DataWriter<Reading>,
    reader: DataReader<Reading>,
}

fn pair(domain: u32, config: DomainConfig) -> Pair {
    let participant = DomainParticipant::builder(domain).config(config).build().unwrap();
    let topic = participant.topic::<Reading>("readings").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    Pair { writer, reader }
}

#[test]
fn samples_in_selected_states_trigger_read_condition() {
    for (domain, config) in [(60, config()), (61, polled())] {
        let Pair { writer, reader } = pair(domain, config);
        let (fresh, any) = (reader.read_condition(Selector::NOT_READ), reader.read_condition(Selector::ANY));
        let set = WaitSet::new();
        set.attach(&fresh);
        assert!(matches!(set.wait(Duration::ZERO), Err(Error::Timeout(_))));
        for n in 0..20 {
            writer.write(&Reading::new(1, n)).unwrap();
            assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(&fresh));
            let read = reader.read_w_condition(&fresh, usize::MAX).unwrap();
            assert_eq!(read[0].value(), Some(&Reading::new(1, n)));
            assert!(!fresh.trigger_value() && any.trigger_value());
        }
        set.attach(&any);
        assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(&any));
        assert_eq!(reader.take_w_condition(&any, 5).unwrap().len(), 5);
        set.detach(&any).unwrap();
        assert!(matches!(set.detach(&any), Err(Error::PreconditionNotMet(_))));
        assert!(set.wait(GLANCE).is_err());
    }
}

#[test]
fn values_accepted_by_query_trigger_query_condition() {
    let Pair { writer, reader } = pair(62, config());
    let high = reader.query_condition(Selector::ANY, |reading: &Reading| reading.value >= 100);
    let set = WaitSet::new();
    set.attach(&high);
    for value in [1, 100, 2, 300] {
        writer.write(&Reading::new(value % 2, value)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(&high));
    let next = reader.take_next_instance_w_condition(None, &high, usize::MAX).unwrap();
    let taken: Vec<_> = next.into_iter().map(|s| s.into_value().unwrap().value).collect();
    assert_eq!(taken, [100, 300]);
    assert!(!high.trigger_value());
    assert!(reader.take_w_condition(&high, usize::MAX).unwrap().is_empty());
    assert_eq!(reader.take().unwrap().len(), 2);
    let other = reader.topic().reader().unwrap();
    assert!(matches!(other.take_w_condition(&high, 1), Err(Error::PreconditionNotMet(_))));
}

#[test]
fn guard_condition_ends_wait_of_another_thread() {
    for (domain, config) in [(63, config()), (64, polled())] {
        let Pair { reader, .. } = pair(domain, config);
        let guard = GuardCondition::new();
        let set = Arc::new(WaitSet::new());
        set.attach(&guard);
        set.attach(&reader.read_condition(Selector::ANY));
        let waiting = {
            let set = Arc::clone(&set);
            std::thread::spawn(move || set.wait(PATIENCE))
        };
        guard.set_trigger_value(true);
        assert_eq!(waiting.join().unwrap().unwrap(), from_ref(&guard));
        guard.set_trigger_value(false);
        assert!(set.wait(Duration::ZERO).is_err());
    }
}

#[test]
fn second_thread_waiting_on_wait_set_is_refused() {
    let set = Arc::new(WaitSet::new());
    let guard = GuardCondition::new();
    set.attach(&guard);
    let waiting = {
        let set = Arc::clone(&set);
        // The call may come while the other thread waits.
        std::thread::spawn(move || {
            loop {
                match set.wait(PATIENCE) {
                    Err(Error::PreconditionNotMet(_)) => std::thread::yield_now(),
                    outcome => return outcome,
                }
            }
        })
    };
    common::eventually("the other thread waits", || {
        matches!(set.wait(Duration::ZERO), Err(Error::PreconditionNotMet(_)))
    });
    guard.set_trigger_value(true);
    waiting.join().unwrap().unwrap();
}

#[test]
fn enabled_statuses_trigger_status_condition() {
    let Pair { writer, reader } = pair(65, config());
    let (of_writer, of_reader) = (writer.status_condition(), reader.status_condition());
    assert_eq!(of_writer.enabled_statuses(), StatusMask::ALL);
    of_writer.set_enabled_statuses(StatusMask::PUBLICATION_MATCHED);
    of_reader.set_enabled_statuses(StatusMask::SUBSCRIPTION_MATCHED);
    let set = WaitSet::new();
    set.attach(of_writer);
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(of_writer));
    assert_eq!(writer.publication_matched_status().current_count, 1);
    assert!(!of_writer.trigger_value());

    let of_subscriber = reader.subscriber().status_condition();
    set.attach(of_subscriber);
    assert!(set.wait(Duration::ZERO).is_err());
    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(of_subscriber));
    assert_eq!(reader.subscriber().readers(&Selector::ANY).len(), 1);
    assert_eq!(reader.take().unwrap().len(), 1);
    assert!(!of_subscriber.trigger_value());

    drop(reader);
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(of_writer));
    assert_eq!(writer.publication_matched_status().current_count, 0);
}

/// Conditions are checked in the order of attachment: when the query runs, the status condition was false.
#[test]
fn status_enabled_during_wait_ends_the_wait() {
    for (domain, config) in [(67, config()), (68, polled())] {
        let Pair { writer, reader } = pair(domain, config);
        writer.write(&Reading::new(1, 1)).unwrap();
        reader.wait_for_data(PATIENCE).unwrap();
        let statuses = reader.status_condition().clone();
        statuses.set_enabled_statuses(StatusMask::NONE);
        let (asked, was_asked) = std::sync::mpsc::sync_channel(1);
        let never = reader.query_condition(Selector::ANY, move |_| {
            let _ = asked.try_send(());
            false
        });
        let set = WaitSet::new();
        set.attach(&statuses);
        set.attach(&never);
        let (done, is_done) = std::sync::mpsc::sync_channel(1);
        let waiting = std::thread::spawn(move || {
            let found = set.wait(Duration::from_secs(3600));
            done.send(found.map(|conditions| conditions.len())).unwrap();
        });
        was_asked.recv_timeout(PATIENCE).unwrap();
        statuses.set_enabled_statuses(StatusMask::SUBSCRIPTION_MATCHED);
        assert_eq!(is_done.recv_timeout(PATIENCE).expect("the wait ends").unwrap(), 1);
        waiting.join().unwrap();
    }
}

/// The query consumes the wake-up of the guard condition, which was checked before the query.
#[test]
fn wake_up_consumed_by_a_waiting_query_ends_the_wait() {
    for (domain, config) in [(58, config()), (59, polled())] {
        let Pair { writer, reader } = pair(domain, config);
        writer.write(&Reading::new(1, 1)).unwrap();
        reader.wait_for_data(PATIENCE).unwrap();
        let (guard, idle) = (GuardCondition::new(), reader.topic().reader().unwrap());
        let of_query = guard.clone();
        let query = reader.query_condition(Selector::ANY, move |_| {
            of_query.set_trigger_value(true);
            assert!(idle.wait_for_data(Duration::from_millis(1)).is_err());
            false
        });
        let set = WaitSet::new();
        set.attach(&guard);
        set.attach(&query);
        let (done, is_done) = std::sync::mpsc::sync_channel(1);
        let waiting = std::thread::spawn(move || {
            let found = set.wait(Duration::from_secs(3600));
            done.send(found.map(|conditions| conditions.len())).unwrap();
        });
        assert_eq!(is_done.recv_timeout(PATIENCE).expect("the wait ends").unwrap(), 1);
        waiting.join().unwrap();
    }
}

#[test]
fn wait_set_works_after_panic_of_query() {
    let Pair { writer, reader } = pair(69, config());
    writer.write(&Reading::new(1, 1)).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let panics = std::sync::atomic::AtomicBool::new(true);
    let query = reader.query_condition(Selector::ANY, move |_| {
        assert!(!panics.swap(false, std::sync::atomic::Ordering::SeqCst), "as the test wants it");
        true
    });
    let set = WaitSet::new();
    set.attach(&query);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| set.wait(PATIENCE)));
    assert!(panicked.is_err());
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(&query));
}

#[test]
fn endpoint_with_another_type_makes_topic_inconsistent() {
    #[derive(Clone, Debug, peregrine::DdsType)]
    struct Other {
        #[dds(key)]
        id: u32,
    }
    let (a, b) = (participant(66), participant(66));
    let topic = a.topic::<Reading>("readings").unwrap();
    let _writer = topic.writer().unwrap();
    assert!(matches!(a.topic::<Other>("readings"), Err(Error::PreconditionNotMet(_))));
    let _reader = b.topic::<Other>("readings").unwrap().reader().unwrap();
    let set = WaitSet::new();
    set.attach(topic.status_condition());
    set.wait(PATIENCE).unwrap();
    assert_eq!(topic.inconsistent_topic_status().total_count, 1);
    assert_eq!(a.topic::<Reading>("readings").unwrap().inconsistent_topic_status().total_count_change, 0);
    assert_eq!(Other { id: 1 }.clone().id, 1);
}
