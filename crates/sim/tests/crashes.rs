//! Processes that end without a message to their peers, on simulated machines.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peregrine::config::WaitStrategy;
use peregrine::{DataReader, DdsType, DomainParticipant, FlowController, InstanceState, PublishMode};
use peregrine_sim::machines::{Config, Program, Simulation, Task, run};
use peregrine_sim::network::NodeId;

const PATIENCE: Duration = Duration::from_secs(60);
/// The lease of participants is 20 s.
const LEASE: Duration = Duration::from_secs(21);

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Reading {
    #[dds(key)]
    sensor: u32,
    value: u64,
}

/// Writes a sample per millisecond, until `is_over`.
fn write_on(simulation: &Simulation, program: &Program, sensor: u32, is_over: &Arc<AtomicBool>) -> Task<()> {
    let (config, simulation, is_over) = (program.config(WaitStrategy::Block), simulation.clone(), Arc::clone(is_over));
    program.spawn("writer", move || {
        let participant = DomainParticipant::builder(0).config(config).build().unwrap();
        let topic = participant.topic::<Reading>("readings").unwrap();
        let writer = topic.writer_builder().reliable().keep_last(4).build().unwrap();
        for value in 0.. {
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            writer.write(&Reading { sensor, value }).unwrap();
            simulation.sleep(Duration::from_millis(1));
        }
    })
}

/// The state of the world as the reader observes it.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The last value of each sensor, and whether it has a writer.
    sensors: [Option<(u64, bool)>; 2],
    /// The number of writers whose memory the reader's process has mapped.
    mapped: u64,
    matched: usize,
}

fn read_on(simulation: &Simulation, program: &Program, is_over: &Arc<AtomicBool>, seen: &Arc<Mutex<Seen>>) -> Task<()> {
    let (config, simulation) = (program.config(WaitStrategy::Block), simulation.clone());
    let (is_over, seen) = (Arc::clone(is_over), Arc::clone(seen));
    program.spawn("reader", move || {
        let participant = DomainParticipant::builder(0).config(config).build().unwrap();
        let topic = participant.topic::<Reading>("readings").unwrap();
        let reader: DataReader<Reading> = topic.reader_builder().reliable().keep_last(4).build().unwrap();
        let mut keys = std::collections::BTreeMap::new();
        while !is_over.load(Ordering::SeqCst) {
            for sample in reader.take().unwrap() {
                let info = sample.info();
                let (instance, is_alive) = (info.instance, info.instance_state == InstanceState::Alive);
                let mut seen = seen.lock().unwrap();
                if let Some(Reading { sensor, value }) = sample.into_value() {
                    keys.insert(instance, sensor as usize);
                    seen.sensors[sensor as usize] = Some((value, is_alive));
                } else if let Some((_, has_writer)) = &mut seen.sensors[keys[&instance]] {
                    *has_writer = is_alive;
                }
            }
            let mut seen = seen.lock().unwrap();
            seen.mapped = participant.shared_memory_statistics().writers;
            seen.matched = reader.matched_publications().len();
            drop(seen);
            simulation.sleep(Duration::from_millis(1));
        }
    })
}

/// A writer process on this host crashes while it writes to a reader process on host 0, and starts again.
fn crash_and_restart(writing_host: u32) {
    let config = Config { seed: 11, ..Config::default() };
    let played = run(config, move |simulation| {
        let (reading, writing) = (simulation.process(NodeId(0)), simulation.process(NodeId(writing_host)));
        let (is_over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Seen::default())));
        let now = || *seen.lock().unwrap();
        let reader = read_on(simulation, &reading, &is_over, &seen);
        let doomed = write_on(simulation, &writing, 0, &is_over);
        simulation.wait_for("samples of the first writer", PATIENCE, || {
            now().sensors[0].is_some_and(|(value, is_alive)| value > 100 && is_alive)
        });
        assert_eq!(now().mapped, u64::from(writing_host == 0), "{:?}", now());

        simulation.crash(&writing);
        let crashed_ns = simulation.now_ns();
        if writing_host == 0 {
            simulation.wait_for("the memory is unmapped", Duration::from_secs(1), || now().mapped == 0);
        }
        let again = simulation.process(NodeId(writing_host));
        let writer = write_on(simulation, &again, 1, &is_over);
        simulation.wait_for("samples of the second writer", Duration::from_secs(2), || {
            now().sensors[1].is_some_and(|(value, is_alive)| value > 100 && is_alive)
        });
        simulation.wait_for("the first writer is lost", LEASE, || {
            now().matched == 1 && now().sensors[0].is_some_and(|(_, is_alive)| !is_alive)
        });
        assert!(simulation.now_ns() - crashed_ns > 1_000_000_000, "no process has announced the end of the writer");
        assert!(!doomed.has_ended());

        is_over.store(true, Ordering::SeqCst);
        reader.join();
        writer.join();
        assert_eq!(simulation.left(), (vec![], 0), "no thread or socket of the crashed process remains");
        simulation.free(&writing);
        doomed.join();
    });
    played.unwrap();
}

#[test]
fn crashed_writer_on_other_host_is_lost_with_lease() {
    crash_and_restart(1);
}

#[test]
fn crashed_writer_on_same_host_leaves_no_memory() {
    crash_and_restart(0);
}

/// A participant deletes a reader whose writer, in another participant of the process, receives no notice: the process
/// is cut off from the network, including its own host.
#[test]
fn deleted_reader_that_stays_matched_causes_no_busy_loop() {
    let config = Config { seed: 12, ..Config::default() };
    let played = run(config, |simulation| {
        let process = simulation.process(NodeId(0));
        let (is_matched, is_deleted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (matched, deleted) = (Arc::clone(&is_matched), Arc::clone(&is_deleted));
        let (config, inside) = (process.config(WaitStrategy::Block), simulation.clone());
        let program = process.clone();
        let main = program.spawn("main", move || {
            let participants = [(); 2].map(|()| DomainParticipant::builder(0).config(config.clone()).build().unwrap());
            let [reading, writing] =
                participants.each_ref().map(|participant| participant.topic::<Reading>("readings").unwrap());
            let reader = reading.reader_builder().reliable().keep_all().build().unwrap();
            let asynchronous = PublishMode::Asynchronous { flow: FlowController::fast() };
            let writer = writing.writer_builder().reliable().keep_all().publish_mode(asynchronous);
            let writer = writer.build().unwrap();
            writer.wait_for_readers(1, PATIENCE).unwrap();
            matched.store(true, Ordering::SeqCst);
            inside.wait_for("the crash", PATIENCE, || deleted.load(Ordering::SeqCst));
            drop(reader);
            writer.write(&Reading { sensor: 0, value: 1 }).unwrap();
            inside.sleep(Duration::from_secs(1));
            assert_eq!(writer.matched_subscriptions().len(), 1, "the reader has not been unmatched");
        });
        simulation.wait_for("a match", PATIENCE, || is_matched.load(Ordering::SeqCst));
        simulation.crash(&process);
        is_deleted.store(true, Ordering::SeqCst);
        simulation.free(&process);
        main.join();
    });
    played.unwrap();
}
