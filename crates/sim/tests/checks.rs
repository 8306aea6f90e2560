//! What simulated machines promise to tests, and what they find.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use peregrine::config::WaitStrategy;
use peregrine::{DdsType, DomainParticipant};
use peregrine_sim::machines::{Config, Trace, run};
use peregrine_sim::network::NodeId;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Number {
    value: u64,
}

/// One sample between two processes of a host, by shared memory. `meanwhile` runs while both are there.
fn exchange_on_one_host(meanwhile: impl FnOnce() + Send + 'static) -> Result<(u64, Trace), String> {
    run(Config { seed: 4, ..Config::default() }, |simulation| {
        let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(0)));
        let is_attached = Arc::new(AtomicBool::new(false));
        let (config, attached, inside) =
            (reading.config(WaitStrategy::Block), Arc::clone(&is_attached), simulation.clone());
        let reader = reading.spawn("reader", move || {
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let topic = participant.topic::<Number>("numbers").unwrap();
            let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
            inside.wait_for("a channel", PATIENCE, || participant.shared_memory_statistics().writers == 1);
            attached.store(true, Ordering::SeqCst);
            assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value: 1 }));
            participant.shared_memory_statistics().received
        });
        let config = writing.config(WaitStrategy::Block);
        let inside = simulation.clone();
        let writer = writing.spawn("writer", move || {
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let topic = participant.topic::<Number>("numbers").unwrap();
            let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
            inside.wait_for("a channel", PATIENCE, || is_attached.load(Ordering::SeqCst));
            meanwhile();
            writer.write(&Number { value: 1 }).unwrap();
            writer.wait_for_acknowledgments(PATIENCE).unwrap();
        });
        writer.join();
        reader.join()
    })
}

#[test]
fn simulations_with_one_seed_at_one_time_share_no_names() {
    let (given, inner) = std::sync::mpsc::sync_channel(1);
    let outer = exchange_on_one_host(move || given.send(exchange_on_one_host(|| {})).unwrap()).unwrap();
    let inner = inner.recv().unwrap().unwrap();
    assert_eq!(inner.0, 1, "the sample has come by shared memory");
    assert_eq!(outer, inner, "equal seeds, equal runs");
}
