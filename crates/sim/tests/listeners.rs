//! Listeners that block, on simulated machines.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use peregrine::config::WaitStrategy;
use peregrine::{DataReader, DdsType, DomainParticipant, Sample};
use peregrine_sim::machines::{Config, Program, Simulation, Task, run};
use peregrine_sim::network::NodeId;

const PATIENCE: Duration = Duration::from_secs(30);
/// The longest time that a blocked listener may delay other entities.
const LISTENER_TIME_MAX: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Number {
    value: u64,
}

fn participant(program: &Program) -> DomainParticipant {
    DomainParticipant::builder(0).config(program.config(WaitStrategy::Block)).build().unwrap()
}

/// Takes all samples and returns the number of those with values.
fn take(reader: &DataReader<Number>) -> u64 {
    reader.take().unwrap().into_iter().filter_map(Sample::into_value).count() as u64
}

/// Writes a sample per millisecond to two readers.
fn write_on(simulation: &Simulation, program: &Program, samples: u64) -> Task<()> {
    let (simulation, process) = (simulation.clone(), program.clone());
    program.spawn("writer", move || {
        let participant = participant(&process);
        let topic = participant.topic::<Number>("numbers").unwrap();
        let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(2, PATIENCE).unwrap();
        for value in 0..samples {
            writer.write(&Number { value }).unwrap();
            simulation.sleep(Duration::from_millis(1));
        }
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    })
}

/// The longest interval between two samples of a stream at one reader, while the listener of another reader is blocked.
fn longest_gap_beside_a_blocked_listener(writing_host: u32) -> Duration {
    longest_gap_beside(writing_host, |participant, simulation| {
        let topic = participant.topic::<Number>("numbers").unwrap();
        let block = move |reader: &DataReader<Number>| {
            take(reader);
            simulation.sleep(Duration::from_secs(1));
        };
        let reader = topic.reader_builder().reliable().keep_all().on_data(block).build().unwrap();
        Box::new(reader)
    })
}

/// The same beside the waker of a task.
fn longest_gap_beside_a_blocked_waker(writing_host: u32) -> Duration {
    longest_gap_beside(writing_host, blocking_task)
}

/// A task that takes samples of a reader, and whose wake-ups block.
fn blocking_task(participant: &DomainParticipant, simulation: Simulation) -> Blocking {
    let topic = participant.topic::<Number>("numbers").unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    let take_all = async move { while reader.next().await.is_ok() {} };
    let task = Arc::new(BlockingTask { task: Mutex::new(Some(Box::pin(take_all))), simulation });
    task.poll();
    Box::new(Running(task))
}

/// How long after the write of one sample the listener of a reader has it, while the waker of a task at another reader
/// is blocked. No other sample comes.
fn delay_of_single_sample_beside_a_blocked_waker(writing_host: u32) -> Duration {
    let played = run(Config { seed: 6, ..Config::default() }, move |simulation| {
        let (reading, writing) = (simulation.process(NodeId(0)), simulation.process(NodeId(writing_host)));
        let arrival = Arc::new(Mutex::new(None));
        let (inside, own, time) = (simulation.clone(), reading.clone(), Arc::clone(&arrival));
        let readers = reading.spawn("readers", move || {
            let participant = participant(&own);
            let topic = participant.topic::<Number>("numbers").unwrap();
            let simulation = inside.clone();
            let note = move |reader: &DataReader<Number>| {
                if take(reader) == 1 {
                    *time.lock().unwrap() = Some(simulation.now_ns());
                }
            };
            let blocking = blocking_task(&participant, inside.clone());
            let noting = topic.reader_builder().reliable().keep_all().on_data(note).build().unwrap();
            noting.wait_for_writers(1, PATIENCE).unwrap();
            while !noting.matched_publications().is_empty() {
                inside.sleep(Duration::from_millis(1));
            }
            drop(blocking);
        });
        let (inside, own) = (simulation.clone(), writing.clone());
        let writer = writing.spawn("writer", move || {
            let participant = participant(&own);
            let topic = participant.topic::<Number>("numbers").unwrap();
            let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
            writer.wait_for_readers(2, PATIENCE).unwrap();
            // Samples by shared memory begin when its channels are there.
            inside.sleep(Duration::from_secs(1));
            let written = inside.now_ns();
            writer.write(&Number { value: 1 }).unwrap();
            inside.sleep(Duration::from_secs(3));
            written
        });
        let written = writer.join();
        readers.join();
        let arrived = arrival.lock().unwrap().expect("the listener was called");
        Duration::from_nanos(arrived - written)
    });
    played.unwrap().0
}

/// A task that takes samples, of an executor whose wake-ups block.
struct BlockingTask {
    task: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    simulation: Simulation,
}

impl BlockingTask {
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut task = self.task.lock().unwrap();
        let is_ready =
            task.as_mut().is_some_and(|task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        assert!(!is_ready, "the reader is there");
    }
}

impl Wake for BlockingTask {
    fn wake(self: Arc<Self>) {
        self.simulation.sleep(Duration::from_secs(1));
        self.poll();
    }
}

/// Drops the task at the end.
struct Running(Arc<BlockingTask>);

impl Drop for Running {
    fn drop(&mut self) {
        let task = self.0.task.lock().unwrap().take();
        drop(task);
    }
}

/// A reader that stands in the way of another one.
type Blocking = Box<dyn Send>;

fn longest_gap_beside(
    writing_host: u32,
    block: impl Fn(&DomainParticipant, Simulation) -> Blocking + Send + 'static,
) -> Duration {
    let config = Config { seed: 6, ..Config::default() };
    let played = run(config, move |simulation| {
        let (reading, writing) = (simulation.process(NodeId(0)), simulation.process(NodeId(writing_host)));
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let (inside, own, times) = (simulation.clone(), reading.clone(), Arc::clone(&arrivals));
        let readers = reading.spawn("readers", move || {
            let participant = participant(&own);
            let topic = participant.topic::<Number>("numbers").unwrap();
            let simulation = inside.clone();
            let note = move |reader: &DataReader<Number>| {
                let taken = take(reader);
                times.lock().unwrap().push((simulation.now_ns(), taken));
            };
            let blocking = block(&participant, inside.clone());
            let noting = topic.reader_builder().reliable().keep_all().on_data(note).build().unwrap();
            noting.wait_for_writers(1, PATIENCE).unwrap();
            // The writer leaves when both readers have received all samples.
            while !noting.matched_publications().is_empty() {
                inside.sleep(Duration::from_millis(1));
            }
            drop(blocking);
        });
        write_on(simulation, &writing, 500).join();
        readers.join();
        arrivals.lock().unwrap().clone()
    });
    let (arrivals, _) = played.unwrap();
    assert_eq!(arrivals.iter().map(|(_, taken)| taken).sum::<u64>(), 500);
    let gaps = arrivals.windows(2).map(|pair| Duration::from_nanos(pair[1].0 - pair[0].0));
    gaps.max().unwrap()
}

#[test]
fn blocked_listener_delays_readers_of_socket_up_to_limit() {
    let gap = longest_gap_beside_a_blocked_listener(1);
    assert!(gap < LISTENER_TIME_MAX + Duration::from_millis(3), "{gap:?}");
}

#[test]
fn blocked_listener_delays_readers_of_shared_memory_up_to_limit() {
    let gap = longest_gap_beside_a_blocked_listener(0);
    assert!(gap < LISTENER_TIME_MAX + Duration::from_millis(3), "{gap:?}");
}

#[test]
fn blocked_waker_delays_readers_of_its_socket_no_longer_than_the_limit() {
    let gap = longest_gap_beside_a_blocked_waker(1);
    assert!(gap < LISTENER_TIME_MAX + Duration::from_millis(3), "{gap:?}");
}

#[test]
fn blocked_waker_delays_readers_of_shared_memory_no_longer_than_the_limit() {
    let gap = longest_gap_beside_a_blocked_waker(0);
    assert!(gap < LISTENER_TIME_MAX + Duration::from_millis(3), "{gap:?}");
}

#[test]
fn blocked_waker_delays_the_only_sample_at_its_socket_no_longer_than_the_limit() {
    let delay = delay_of_single_sample_beside_a_blocked_waker(1);
    assert!(delay < LISTENER_TIME_MAX + Duration::from_millis(3), "{delay:?}");
}

#[test]
fn blocked_waker_delays_the_only_sample_in_shared_memory_no_longer_than_the_limit() {
    let delay = delay_of_single_sample_beside_a_blocked_waker(0);
    assert!(delay < LISTENER_TIME_MAX + Duration::from_millis(3), "{delay:?}");
}
