//! Threads that wait under `WaitStrategy::Poll`, where no thread of the domain ends their sleep.

mod common;

use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Reading, eventually, participant, polled};
use peregrine::error::Timeout;
use peregrine::{Condition, DataWriter, DomainParticipant, Error, GuardCondition, Selector, StatusMask, WaitSet};

fn polling_participant(domain: u32) -> DomainParticipant {
    DomainParticipant::builder(domain).config(polled()).build().unwrap()
}

/// Polls until a writer of another participant matches a reader of this one.
fn matched(here: &DomainParticipant, writer: &DataWriter<Reading>) {
    eventually("the reader matches", || {
        here.poll(Duration::from_millis(1));
        writer.matched_subscriptions().len() == 1
    });
}

/// The waiting thread runs the timers itself.
#[test]
fn deadline_missed_by_a_writer_ends_the_wait() {
    let (here, there) = (polling_participant(70), participant(70));
    let deadline = Duration::from_millis(50);
    let topic = here.topic::<Reading>("deadline").unwrap();
    let reader = topic.reader_builder().reliable().deadline(deadline).build().unwrap();
    let writer = there.topic::<Reading>("deadline").unwrap().writer_builder().reliable().deadline(deadline);
    let writer = writer.build().unwrap();
    matched(&here, &writer);
    writer.write(&Reading::new(1, 1)).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let condition = reader.status_condition();
    condition.set_enabled_statuses(StatusMask::REQUESTED_DEADLINE_MISSED);
    let waits = WaitSet::new();
    waits.attach(condition);
    assert_eq!(waits.wait(PATIENCE).unwrap().len(), 1);
    assert!(reader.requested_deadline_missed_status().total_count > 0);
}

#[test]
fn guard_condition_of_another_thread_ends_the_wait() {
    let here = polling_participant(71);
    let reader = here.topic::<Reading>("guard").unwrap().reader().unwrap();
    let (guard, waits) = (GuardCondition::new(), WaitSet::new());
    waits.attach(&guard);
    waits.attach(reader.status_condition());
    thread::scope(|scope| {
        let guard = &guard;
        scope.spawn(move || {
            thread::park_timeout(Duration::from_millis(20));
            guard.set_trigger_value(true);
        });
        assert_eq!(waits.wait(PATIENCE).unwrap().len(), 1);
    });
}

/// One of two threads polls. The other thread sleeps, and polls after the first has got its data.
#[test]
fn two_waiting_threads_get_their_data() {
    let (here, there) = (polling_participant(72), participant(72));
    let names = ["first", "second"];
    let readers = names.map(|name| here.topic::<Reading>(name).unwrap().reader_builder().reliable().build().unwrap());
    let writers = names.map(|name| there.topic::<Reading>(name).unwrap().writer_builder().reliable().build().unwrap());
    writers.iter().for_each(|writer| matched(&here, writer));
    for round in 0..20 {
        thread::scope(|scope| {
            let waiting = readers.each_ref().map(|reader| scope.spawn(move || reader.wait_and_take(PATIENCE)));
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for number in order {
                writers[number].write(&Reading::new(1, round)).unwrap();
            }
            for thread in waiting {
                assert_eq!(thread.join().unwrap().unwrap().into_value(), Some(Reading::new(1, round)));
            }
        });
    }
}

/// No thread but the waiting one receives for either domain.
#[test]
fn wait_set_receives_for_each_of_its_domains() {
    let domains = [74, 75];
    let (here, there) = (domains.map(polling_participant), domains.map(participant));
    let readers = here.each_ref().map(|side| side.topic::<Reading>("domains").unwrap().reader().unwrap());
    let writers = there.each_ref().map(|side| side.topic::<Reading>("domains").unwrap().writer().unwrap());
    here.iter().zip(&writers).for_each(|(side, writer)| matched(side, writer));
    let conditions = readers.each_ref().map(|reader| reader.read_condition(Selector::ANY));
    let waits = WaitSet::new();
    conditions.iter().for_each(|condition| waits.attach(condition));
    for round in 0..20 {
        // Twice in a row by the same domain as well.
        let at = [0, 1, 1, 0][round % 4];
        let sample = Reading::new(1, u32::try_from(round).unwrap());
        writers[at].write(&sample).unwrap();
        assert_eq!(waits.wait(PATIENCE).unwrap(), [Condition::from(&conditions[at])], "round {round}");
        assert_eq!(readers[at].take_next().unwrap().and_then(|taken| taken.into_value()), Some(sample));
    }
    // The sample comes while the thread waits, or before.
    for at in [1, 0] {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waits.wait(PATIENCE));
            writers[at].write(&Reading::new(2, 0)).unwrap();
            assert_eq!(waiting.join().unwrap().unwrap(), [Condition::from(&conditions[at])]);
        });
        assert!(readers[at].take_next().unwrap().is_some());
    }
}

/// The processor time shows whether the second thread sleeps: a spinning thread would use a whole core.
#[test]
fn thread_waiting_for_polling_thread_uses_no_processor_time() {
    let here = polling_participant(73);
    let readers = ["a", "b"].map(|name| here.topic::<Reading>(name).unwrap().reader().unwrap());
    let pause = Duration::from_millis(500);
    let used: Vec<Duration> = thread::scope(|scope| {
        let threads = readers.each_ref().map(|reader| {
            scope.spawn(move || {
                let (begin, clock) = (thread_time(), Instant::now());
                assert!(matches!(reader.wait_for_data(pause), Err(Error::Timeout(Timeout::NoData { .. }))));
                assert!(clock.elapsed() >= pause);
                thread_time() - begin
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(used.iter().all(|used| *used < pause / 4), "{used:?}");
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}
