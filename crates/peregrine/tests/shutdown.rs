//! A deleted participant leaves no thread and no descriptor.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{PATIENCE, Reading, config, polled};
use peregrine::{DomainConfig, DomainParticipant, FlowController, PublishMode, Selector, WaitSet};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Counts the logged warnings.
struct Warnings;

static WARNINGS: AtomicUsize = AtomicUsize::new(0);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        eprintln!("{event:?}");
        WARNINGS.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn live_and_die(domain: u32, config: DomainConfig) {
    let (a, b) = (
        DomainParticipant::builder(domain).config(config.clone()).build().unwrap(),
        DomainParticipant::builder(domain).config(config).build().unwrap(),
    );
    let writer = a.topic::<Reading>("readings").unwrap().writer_builder().reliable().build().unwrap();
    let reader = b.topic::<Reading>("readings").unwrap().reader_builder().reliable().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let set = WaitSet::new();
    set.attach(&reader.read_condition(Selector::ANY));
    set.attach(writer.status_condition());
    let events = a.discovery_events();
    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 1)));
    // The writer sends its queued samples before it is deleted.
    let flow = FlowController::bits_per_second(1_000_000).unwrap();
    let asynchronous = a.topic::<Reading>("readings").unwrap().writer_builder().reliable().keep_all();
    let asynchronous = asynchronous.publish_mode(PublishMode::Asynchronous { flow }).build().unwrap();
    asynchronous.wait_for_readers(1, PATIENCE).unwrap();
    for value in 0..100 {
        asynchronous.write(&Reading::new(2, value)).unwrap();
    }
    // An unusual order of drops. The readers still exist and acknowledge the last samples of the writer.
    let warnings = WARNINGS.load(Ordering::Relaxed);
    drop((a, writer, asynchronous, b));
    assert_eq!(WARNINGS.load(Ordering::Relaxed), warnings, "the writer has got its acknowledgements");
    assert!(reader.take_next().unwrap().is_none() || set.wait(Duration::ZERO).is_ok());
    drop((reader, events, set));
}

fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).collect()
}

/// A single test, because threads of other tests would count.
#[test]
fn dropped_participants_release_threads_and_descriptors() {
    tracing::subscriber::set_global_default(Warnings).unwrap();
    let mut named = config();
    named.threads.name_prefix = "arm".to_owned();
    let participant = DomainParticipant::builder(76).config(named.clone()).build().unwrap();
    let topic = participant.topic::<Reading>("readings").unwrap();
    let mode = PublishMode::Asynchronous { flow: FlowController::fast() };
    let writer = topic.writer_builder().publish_mode(mode).build().unwrap();
    common::eventually("threads have their names", || {
        let names = thread_names();
        ["arm-ctrl-76", "arm-data-76-0", "arm-pub-76"].iter().all(|name| names.iter().any(|n| n == name))
    });
    drop((writer, topic, participant));
    named.threads.name_prefix = "a\0b".to_owned();
    assert!(DomainParticipant::builder(76).config(named).build().unwrap_err().to_string().contains("name_prefix"));
    common::eventually("those threads have ended", || !thread_names().iter().any(|name| name.starts_with("arm")));
    let (threads, descriptors) = (entries("/proc/self/task"), entries("/proc/self/fd"));
    for round in 0..3 {
        live_and_die(74, config());
        live_and_die(75, polled());
        // A joined thread may remain listed for a moment.
        common::eventually("all threads have ended", || entries("/proc/self/task") == threads);
        assert_eq!(entries("/proc/self/fd"), descriptors, "round {round}");
    }
}
