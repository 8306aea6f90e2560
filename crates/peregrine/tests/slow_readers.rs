//! Readers that hold up a writer: the bounds, and how the application learns of them.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{PATIENCE, Reading, config, eventually};
use peregrine::error::{RoomLimit, Timeout};
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::status::{ReliableWriterCacheChangedStatus, Watermarks};
use peregrine::{
    DataReader, DataWriter, DataWriterListener, DomainConfig, DomainParticipant, Error, StatusMask, Topic, WaitSet,
};

fn topic(domain: u32, config: DomainConfig) -> Topic<Reading> {
    let participant = DomainParticipant::builder(domain).config(config).build().unwrap();
    participant.topic("slow readers").unwrap()
}

fn samples(max: u32) -> ResourceLimits {
    ResourceLimits {
        max_samples: Limit::At(max),
        max_samples_per_instance: Limit::At(max),
        ..ResourceLimits::default()
    }
}

/// A reader with room for one sample, which holds up the writer until the test takes the sample.
fn narrow_reader(topic: &Topic<Reading>) -> DataReader<Reading> {
    topic.reader_builder().keep_all().reliable().resource_limits(samples(1)).build().unwrap()
}

/// Takes samples until the newest one has come. Returns their values.
fn take_up_to(reader: &DataReader<Reading>, last: u32) -> Vec<u32> {
    let mut values = Vec::new();
    eventually("the newest sample comes", || {
        values.extend(reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()).map(|r| r.value));
        values.last() == Some(&last)
    });
    values
}

#[test]
fn nonprogressing_reader_is_inactive_until_it_takes_samples() {
    // By reference, and by messages.
    for (domain, same_process) in [(36, true), (37, false)] {
        let topic = topic(domain, config().with_same_process(same_process).with_shared_memory(false));
        let writer = topic.writer_builder().keep_all().reliable().resource_limits(samples(2));
        let writer = writer.inactivate_nonprogressing_readers(Duration::from_millis(300));
        let writer = writer.max_blocking_time(PATIENCE).build().unwrap();
        let slow = narrow_reader(&topic);
        let fast = topic.reader_builder().keep_all().reliable().build().unwrap();
        writer.wait_for_readers(2, PATIENCE).unwrap();
        // Without the setting, one of these calls would wait for ever.
        for value in 0..50 {
            writer.write(&Reading::new(1, value)).unwrap();
        }
        assert_eq!(take_up_to(&fast, 49), Vec::from_iter(0..50));
        let activity = writer.reliable_reader_activity_changed_status();
        assert_eq!((activity.active_count, activity.inactive_count, activity.last), (1, 1, Some(slow.guid())));
        let taken = take_up_to(&slow, 49);
        assert!(taken.is_sorted(), "{taken:?}");
        assert!(taken.len() as u64 + slow.sample_lost_status().total_count <= 50, "{taken:?}");
        eventually("the reader is active again", || {
            writer.reliable_reader_activity_changed_status().inactive_count == 0
        });
        assert_eq!(writer.counters().readers_inactive, 1);
    }
}

#[test]
fn writer_without_limits_is_bounded_and_names_the_reader_that_is_behind() {
    let topic = topic(55, config().with_max_unacknowledged_samples(5));
    let writer = topic.writer_builder().keep_all().reliable().max_blocking_time(Duration::from_millis(20));
    let writer = writer.build().unwrap();
    let reader = narrow_reader(&topic);
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let mut written = 0;
    let refusal = loop {
        match writer.write(&Reading::new(1, written)) {
            Ok(_) => written += 1,
            Err(refusal) => break refusal,
        }
        assert!(written < 100);
    };
    let Error::Timeout(Timeout::NoRoom { limit: RoomLimit::Unacknowledged, behind: 1, reader: named, held: 5, .. }) =
        &refusal
    else {
        panic!("{refusal:?}")
    };
    assert_eq!(*named, Some(reader.guid()));
    assert!(refusal.to_string().contains("max_unacknowledged_samples"), "{refusal}");
    assert_eq!(take_up_to(&reader, written - 1), Vec::from_iter(0..written));
    writer.write(&Reading::new(1, written)).unwrap();
}

/// Notes the changes of the cache that a listener of a writer gets.
#[derive(Default)]
struct Caches(Mutex<Vec<ReliableWriterCacheChangedStatus>>);

impl DataWriterListener<Reading> for Caches {
    fn on_reliable_writer_cache_changed(&self, _: &DataWriter<Reading>, status: ReliableWriterCacheChangedStatus) {
        self.0.lock().unwrap().push(status);
    }
}

#[test]
fn cache_of_writer_is_reported_to_listener_condition_and_reader_of_the_status() {
    let topic = topic(65, config());
    let builder = topic.writer_builder().keep_all().reliable().resource_limits(samples(4));
    let builder = builder.cache_watermarks(Watermarks { low: 1, high: 3 });
    let writer = builder.max_blocking_time(Duration::from_millis(20)).build().unwrap();
    let reader = narrow_reader(&topic);
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let condition = writer.status_condition();
    condition.set_enabled_statuses(StatusMask::RELIABLE_WRITER_CACHE_CHANGED);
    let set = WaitSet::new();
    set.attach(condition);
    assert!(!condition.trigger_value());
    // The reader has one sample, the writer keeps four.
    writer.write(&Reading::new(1, 0)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    for value in 1..5 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    assert!(writer.write(&Reading::new(1, 5)).is_err());
    set.wait(PATIENCE).unwrap();
    let status = writer.reliable_writer_cache_changed_status();
    assert_eq!((status.high_watermark.total_count, status.full.total_count), (1, 1));
    assert_eq!((status.high_watermark.total_count_change, status.full.total_count_change), (1, 1));
    assert_eq!((status.unacknowledged_sample_count, status.unacknowledged_sample_count_peak), (4, 4));
    assert!(!condition.trigger_value());
    assert_eq!(writer.reliable_writer_cache_changed_status().full.total_count_change, 0);

    let caches = Arc::new(Caches::default());
    writer.set_listener(Some(Arc::clone(&caches) as _), StatusMask::RELIABLE_WRITER_CACHE_CHANGED);
    assert_eq!(take_up_to(&reader, 4), [0, 1, 2, 3, 4]);
    eventually("the listener gets the empty cache", || {
        caches.0.lock().unwrap().last().is_some_and(|status| status.unacknowledged_sample_count == 0)
    });
    let told = caches.0.lock().unwrap().last().copied().unwrap();
    assert_eq!((told.low_watermark.total_count, told.replaced_unacknowledged_sample_count), (1, 0));
    assert!(told.empty.total_count >= 1);
}
