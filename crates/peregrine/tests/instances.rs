//! Instances of a writer: limits, registration, disposal.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, Reading, participant};
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::{DataReader, DomainConfig, DomainParticipant, Error, InstanceHandle, InterfaceSelection, Timestamp};

fn one_instance() -> ResourceLimits {
    ResourceLimits { max_instances: Limit::At(1), ..ResourceLimits::default() }
}

fn one_sample() -> ResourceLimits {
    ResourceLimits { max_samples: Limit::At(1), max_samples_per_instance: Limit::At(1), ..ResourceLimits::default() }
}

/// Polls a future once.
fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn instance_past_max_instances_is_refused_at_once() {
    for is_matched in [false, true] {
        let participant = participant(10);
        let topic = participant.topic::<Reading>("readings").unwrap();
        let builder = topic.writer_builder().keep_all().resource_limits(one_instance());
        // Longer than the test may take, so that a wait fails the test.
        let writer = builder.max_blocking_time(10 * PATIENCE).build().unwrap();
        let _reader = is_matched.then(|| {
            let reader = topic.reader_builder().reliable().build().unwrap();
            writer.wait_for_readers(1, PATIENCE).unwrap();
            reader
        });
        writer.write(&Reading::new(1, 1)).unwrap();
        writer.write(&Reading::new(1, 2)).unwrap();
        let start = Instant::now();
        for refused in [
            writer.write(&Reading::new(2, 1)),
            writer.write_shared(std::sync::Arc::new(Reading::new(2, 1))),
            writer.dispose(&Reading::new(2, 1)),
            poll_once(writer.write_async(&Reading::new(2, 1))).unwrap(),
            writer.register_instance(&Reading::new(2, 1)).map(|_| unreachable!()),
        ] {
            assert!(matches!(refused, Err(Error::OutOfResources(_))), "{refused:?}");
        }
        assert!(start.elapsed() < PATIENCE, "nothing waits");
        assert_eq!(writer.lookup_instance(&Reading::new(2, 1)), None);
        // The place of an unregistered instance is free again, at the latest when readers have acknowledged the
        // unregistration.
        writer.unregister_instance(&Reading::new(1, 0)).unwrap();
        writer.write(&Reading::new(2, 1)).unwrap();
        assert_eq!(writer.get_key_value(writer.lookup_instance(&Reading::new(2, 0)).unwrap()).unwrap().id, 2);
    }
}

#[test]
fn register_instance_waits_until_the_unregistered_one_is_acknowledged() {
    let participant = participant(15);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let reader = topic.reader_builder().reliable().keep_all().resource_limits(one_sample()).build().unwrap();
    let builder = topic.writer_builder().keep_all().resource_limits(one_instance());
    let writer = builder.max_blocking_time(PATIENCE).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    // The reader has room for the first sample only, so it does not acknowledge the second one.
    writer.write(&Reading::new(1, 1)).unwrap();
    writer.write(&Reading::new(1, 2)).unwrap();
    writer.unregister_instance(&Reading::new(1, 0)).unwrap();
    std::thread::scope(|scope| {
        let registering = scope.spawn(|| writer.register_instance(&Reading::new(2, 0)));
        while !registering.is_finished() {
            reader.take().unwrap();
            std::thread::yield_now();
        }
        registering.join().unwrap().unwrap();
    });
    assert!(writer.lookup_instance(&Reading::new(2, 0)).is_some());
}

#[test]
fn register_instance_times_out_while_the_unregistered_one_is_not_acknowledged() {
    let participant = participant(16);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let _reader = topic.reader_builder().reliable().keep_all().resource_limits(one_sample()).build().unwrap();
    let builder = topic.writer_builder().keep_all().resource_limits(one_instance());
    let writer = builder.max_blocking_time(Duration::from_millis(1)).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    writer.write(&Reading::new(1, 2)).unwrap();
    writer.unregister_instance(&Reading::new(1, 0)).unwrap();
    let refused = writer.register_instance(&Reading::new(2, 0));
    assert!(matches!(refused, Err(Error::Timeout(_))), "{refused:?}");
}

#[test]
fn unregistering_unregistered_instance_is_refused() {
    let participant = participant(11);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let writer = topic.writer().unwrap();
    assert!(matches!(writer.unregister_instance(&Reading::new(1, 0)), Err(Error::PreconditionNotMet(_))));
    writer.write(&Reading::new(1, 0)).unwrap();
    writer.unregister_instance(&Reading::new(1, 0)).unwrap();
    assert!(matches!(writer.unregister_instance(&Reading::new(1, 0)), Err(Error::PreconditionNotMet(_))));
    let handle = writer.register_instance(&Reading::new(2, 0)).unwrap();
    writer.write_serialized(handle, 12, |octets| octets.fill(0)).unwrap();
    let unknown = InstanceHandle([7; 16]);
    assert!(matches!(writer.write_serialized(unknown, 12, |_| unreachable!()), Err(Error::BadParameter(_))));
    writer.unregister_instance_at(&Reading::new(2, 0), Timestamp::from_unix_nanos(1)).unwrap();
}

#[test]
fn disposing_registers_an_instance() {
    let participant = participant(12);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let writer = topic.writer_builder().transient_local().build().unwrap();
    let reader = topic.reader_builder().reliable().transient_local().build().unwrap();
    let at = Timestamp::from_unix_nanos(5_000_000_000);
    writer.dispose_at(&Reading::new(1, 0), at).unwrap();
    let handle = writer.lookup_instance(&Reading::new(1, 0)).unwrap();
    writer.write(&Reading::new(1, 3)).unwrap();
    assert_eq!(writer.get_key_value(handle).unwrap().id, 1);
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().info().instance, handle);
    writer.unregister_instance(&Reading::new(1, 0)).unwrap();
}

/// The listener runs before the call that caused it returns: the sample of the listener follows the change.
#[test]
fn instance_written_during_unregistration_stays_registered() {
    let mut config = DomainConfig::default();
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    let participant = DomainParticipant::builder(13).config(config).build().unwrap();
    let topic = participant.topic::<Reading>("readings").unwrap();
    let writer = topic.writer_builder().keep_all().build().unwrap();
    let (again, has_written) = (writer.clone(), std::sync::Arc::new(AtomicBool::new(false)));
    let flag = std::sync::Arc::clone(&has_written);
    let on_data = move |reader: &DataReader<Reading>| {
        let samples = reader.take().unwrap();
        if samples.iter().any(|sample| !sample.info().valid_data) && !flag.swap(true, Ordering::SeqCst) {
            again.write(&Reading::new(1, 2)).unwrap();
        }
    };
    let reader = topic.reader_builder().reliable().keep_all().on_data(on_data).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    writer.unregister_instance(&Reading::new(1, 0)).unwrap();
    assert!(has_written.load(Ordering::SeqCst), "the listener runs on the thread that writes");
    let handle = writer.lookup_instance(&Reading::new(1, 0)).expect("it was written again");
    assert_eq!(writer.get_key_value(handle).unwrap().id, 1);
    reader.set_listener(None, peregrine::StatusMask::NONE);
}

/// While a write waits for room, another thread unregisters its instance: the write registers the instance again.
#[test]
fn waiting_write_registers_instance_unregistered_meanwhile() {
    let participant = participant(14);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let limits = ResourceLimits { max_samples: Limit::At(2), ..ResourceLimits::default() };
    let full = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let writer = topic.writer_builder().keep_all().resource_limits(limits).max_blocking_time(PATIENCE).build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().resource_limits(full).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let writing = {
        let writer = writer.clone();
        std::thread::spawn(move || {
            for value in 0..8 {
                writer.write(&Reading::new(1, value)).unwrap();
            }
        })
    };
    let ending = {
        let writer = writer.clone();
        std::thread::spawn(move || {
            for _ in 0..4 {
                // The call fails while the instance is not registered.
                let _ = writer.unregister_instance(&Reading::new(1, 0));
            }
        })
    };
    let end = Instant::now() + PATIENCE;
    while !(writing.is_finished() && ending.is_finished()) {
        assert!(Instant::now() < end);
        let _ = reader.wait_for_data(Duration::from_millis(1));
        reader.take().unwrap();
    }
    writing.join().unwrap();
    ending.join().unwrap();
    // In either order, the state that the writer reports for the instance agrees with its behaviour.
    match writer.lookup_instance(&Reading::new(1, 0)) {
        Some(handle) => {
            assert_eq!(writer.get_key_value(handle).unwrap().id, 1);
        }
        None => {
            writer.register_instance(&Reading::new(1, 0)).unwrap();
        }
    }
    reader.take().unwrap();
    let end = Instant::now() + PATIENCE;
    while writer.unregister_instance(&Reading::new(1, 0)).is_err() {
        assert!(Instant::now() < end);
        reader.take().unwrap();
    }
}
