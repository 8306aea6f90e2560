//! System calls per sample and while idle, counted by the sockets, over loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use peregrine::qos::{Limit, ResourceLimits};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, InterfaceSelection, Selector, WaitSet,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// So long that no periodic announcement is due during a test.
const LEASE: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Blob {
    number: u32,
    octets: Vec<u8>,
}

/// Two participants with separate sockets, as in two processes: participants with different settings share none.
fn sides(domain: u32) -> [DomainParticipant; 2] {
    sides_with(domain, false)
}

/// Two such participants, with shared memory or with the network only.
fn sides_with(domain: u32, shared_memory: bool) -> [DomainParticipant; 2] {
    [255, 256].map(|receive_buffers| {
        let mut config = DomainConfig::default();
        config.same_process = false;
        config.shared_memory = shared_memory;
        config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
        config.receive_buffers = receive_buffers;
        DomainParticipant::builder(domain).config(config).lease(LEASE).build().unwrap()
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Calls {
    sent: u64,
    received: u64,
    datagrams_sent: u64,
}

impl Calls {
    fn of(participant: &DomainParticipant) -> Self {
        participant.transport_statistics().iter().fold(Self::default(), |sum, (_, s)| Self {
            sent: sum.sent + s.send_calls,
            received: sum.received + s.receive_calls,
            datagrams_sent: sum.datagrams_sent + s.datagrams_sent,
        })
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent - earlier.sent,
            received: self.received - earlier.received,
            datagrams_sent: self.datagrams_sent - earlier.datagrams_sent,
        }
    }

    fn all(self) -> u64 {
        self.sent + self.received
    }
}

/// Waits until the burst of announcements is over: no datagram is sent or received for longer than its last pause.
fn settle(sides: &[DomainParticipant; 2]) {
    let end = Instant::now() + PATIENCE;
    let mut before = sides.each_ref().map(Calls::of);
    loop {
        std::thread::sleep(Duration::from_millis(1100));
        let now = sides.each_ref().map(Calls::of);
        if now == before {
            return;
        }
        before = now;
        assert!(Instant::now() < end, "the participants keep sending");
    }
}

fn pair(sides: &[DomainParticipant; 2], reliable: bool) -> (DataWriter<Blob>, DataReader<Blob>) {
    let writer = sides[0].topic::<Blob>("blobs").unwrap().writer_builder().keep_all();
    let reader = sides[1].topic::<Blob>("blobs").unwrap().reader_builder().keep_all();
    let (writer, reader) =
        if reliable { (writer.reliable(), reader.reliable()) } else { (writer.best_effort(), reader.best_effort()) };
    let (writer, reader) = (writer.build().unwrap(), reader.build().unwrap());
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    (writer, reader)
}

fn exchange(writer: &DataWriter<Blob>, reader: &DataReader<Blob>, blob: &Blob) {
    writer.write(blob).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().value(), Some(blob));
}

#[test]
fn best_effort_sample_costs_writer_one_system_call() {
    let sides = sides(70);
    let (writer, reader) = pair(&sides, false);
    settle(&sides);
    let before = Calls::of(&sides[0]);
    for number in 0..1000 {
        exchange(&writer, &reader, &Blob { number, octets: vec![7; 100] });
    }
    let calls = Calls::of(&sides[0]).since(before);
    assert_eq!((calls.sent, calls.datagrams_sent), (1000, 1000));
    assert_eq!(calls.received, 0, "a best-effort reader sends no datagram");
}

/// Heartbeats are part of sample messages. On a busy machine a late acknowledgement makes the writer send a separate
/// heartbeat, so the round with the fewest calls counts.
#[test]
fn reliable_sample_costs_writer_one_system_call() {
    let sides = sides(71);
    let (writer, reader) = pair(&sides, true);
    settle(&sides);
    let rounds = (0..10).map(|round| {
        let before = Calls::of(&sides[0]);
        for number in 0..100 {
            exchange(&writer, &reader, &Blob { number: round * 100 + number, octets: vec![7; 100] });
        }
        let calls = Calls::of(&sides[0]).since(before);
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        calls.sent
    });
    assert_eq!(rounds.min(), Some(100));
}

/// A thread that is late splits the answers of a sample.
#[test]
fn acknowledgements_of_many_readers_of_a_participant_travel_together() {
    const READERS: usize = 50;
    const SAMPLES: u32 = 10;
    let sides = sides(80);
    let writer = sides[0].topic::<Blob>("many").unwrap().writer_builder().keep_all().reliable().build().unwrap();
    let topic = sides[1].topic::<Blob>("many").unwrap();
    let reader = || topic.reader_builder().keep_all().reliable().build().unwrap();
    let _readers: Vec<_> = (0..READERS).map(|_| reader()).collect();
    writer.wait_for_readers(READERS, PATIENCE).unwrap();
    settle(&sides);
    let before = Calls::of(&sides[1]);
    for number in 0..SAMPLES {
        writer.write(&Blob { number, octets: vec![7; 100] }).unwrap();
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    }
    let datagrams = Calls::of(&sides[1]).since(before).datagrams_sent;
    let acknowledgements = u64::from(SAMPLES) * READERS as u64;
    assert!(datagrams > 0 && datagrams < acknowledgements / 5, "{datagrams} datagrams, {acknowledgements} answers");
}

/// Each sample demands an acknowledgement, which travels with the sample that the other side returns. A thread that is
/// late on a busy machine has its acknowledgements sent by another thread for a while, so the test waits for one round
/// without such a thread. Both threads go on from round to round: the start of a thread would be such a delay.
#[test]
fn acknowledgement_of_a_sample_that_is_returned_costs_no_datagram() {
    const ROUND: u64 = 50;
    /// The datagrams of a round besides its samples.
    const EXTRA_MAX: u64 = 8;
    let sides = sides(79);
    let ends = |from: usize, to: usize, name: &str| {
        let two = Limit::At(2);
        let limits = ResourceLimits { max_samples: two, max_samples_per_instance: two, ..ResourceLimits::default() };
        let writer = sides[from].topic::<Blob>(name).unwrap().writer_builder().keep_all().reliable();
        let writer = writer.resource_limits(limits).build().unwrap();
        let reader = sides[to].topic::<Blob>(name).unwrap().reader_builder().keep_all().reliable().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
        (writer, reader)
    };
    let (ping, ping_reader) = ends(0, 1, "ping");
    let (pong, pong_reader) = ends(1, 0, "pong");
    settle(&sides);
    let last = u32::MAX;
    let exchange = |number: u32| {
        ping.write(&Blob { number, octets: vec![7; 100] }).unwrap();
        assert_eq!(pong_reader.wait_and_take(PATIENCE).unwrap().value().map(|blob| blob.number), Some(number));
    };
    let sent = || sides.iter().map(|side| Calls::of(side).datagrams_sent).sum::<u64>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let blob = ping_reader.wait_and_take(PATIENCE).unwrap().value().cloned().unwrap();
                pong.write(&blob).unwrap();
                if blob.number == last {
                    return;
                }
            }
        });
        let end = Instant::now() + PATIENCE;
        let mut rounds = Vec::new();
        while rounds.last().is_none_or(|extra| *extra > EXTRA_MAX) && Instant::now() < end {
            let before = sent();
            (0..ROUND as u32).for_each(exchange);
            // The other thread may not have counted its last datagram yet.
            rounds.push((sent() - before).saturating_sub(2 * ROUND));
        }
        exchange(last);
        let extra = *rounds.last().unwrap();
        assert!(extra <= EXTRA_MAX, "datagrams besides {} samples, round by round: {rounds:?}", 2 * ROUND);
    });
}

#[test]
fn large_reliable_sample_costs_at_most_forty_system_calls() {
    let sides = sides(72);
    let (writer, reader) = pair(&sides, true);
    settle(&sides);
    let rounds: Vec<[u64; 2]> = (0..10)
        .map(|number| {
            let before = sides.each_ref().map(Calls::of);
            exchange(&writer, &reader, &Blob { number, octets: vec![number as u8; 1_000_000] });
            writer.wait_for_acknowledgments(PATIENCE).unwrap();
            let after = sides.each_ref().map(Calls::of);
            [after[0].since(before[0]).all(), after[1].since(before[1]).all()]
        })
        .collect();
    let mut totals: Vec<u64> = rounds.iter().map(|[a, b]| *a.max(b)).collect();
    totals.sort_unstable();
    assert!(totals[5] <= 40, "system calls of the two sides, round by round: {rounds:?}");
}

/// How often the threads of domains have fallen asleep.
#[cfg(target_os = "linux")]
fn sleeps_of_threads(domain: u32) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let Ok(status) = std::fs::read_to_string(task.unwrap().path().join("status")) else { continue };
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let name = field("Name:").unwrap_or_default().to_owned();
        let mut parts = name.split('-');
        let is_ours = parts.next() == Some("pg") && parts.nth(1) == Some(&*domain.to_string());
        if is_ours {
            all.push((name, field("voluntary_ctxt_switches:").unwrap().parse().unwrap()));
        }
    }
    all.sort();
    all
}

/// Each sample of a ping-pong by shared memory wakes the thread that waits for it, while the shared-memory threads
/// sleep. On a busy machine a thread may miss its turn, and two threads may share a core, so the test waits for one
/// round in which few samples woke others.
#[cfg(target_os = "linux")]
#[test]
fn sample_by_shared_memory_wakes_the_thread_that_waits_and_no_other() {
    const ROUND: u32 = 500;
    /// Sleeps of the shared-memory threads in a round, in which each would sleep for each sample that it takes.
    const SLEEPS_MAX: u64 = ROUND as u64 / 4;
    const DOMAIN: u32 = 74;
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sides = sides_with(DOMAIN, true);
    let ends = |from: usize, to: usize, name: &str| {
        let writer = sides[from].topic::<Blob>(name).unwrap().writer_builder().keep_all().reliable().build().unwrap();
        let reader = sides[to].topic::<Blob>(name).unwrap().reader_builder().keep_all().reliable().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
        (writer, reader)
    };
    let (ping, ping_reader) = ends(0, 1, "ping");
    let (pong, pong_reader) = ends(1, 0, "pong");
    let end = Instant::now() + PATIENCE;
    while ping.shared_memory_readers() + pong.shared_memory_readers() < 2 {
        assert!(Instant::now() < end, "shared memory is not used");
        std::thread::yield_now();
    }
    let take = |reader: &DataReader<Blob>| reader.wait_and_take(PATIENCE).unwrap().value().cloned().unwrap();
    let last = u32::MAX;
    let exchange = |number: u32| {
        ping.write(&Blob { number, octets: vec![7; 100] }).unwrap();
        assert_eq!(take(&pong_reader).number, number);
    };
    let sleeps = || {
        let threads = sleeps_of_threads(DOMAIN).into_iter().filter(|(name, _)| name.starts_with("pg-shm"));
        threads.map(|(_, sleeps)| sleeps).sum::<u64>()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let blob = take(&ping_reader);
                pong.write(&blob).unwrap();
                if blob.number == last {
                    return;
                }
            }
        });
        let end = Instant::now() + PATIENCE;
        let mut rounds = Vec::new();
        while rounds.last().is_none_or(|sleeps| *sleeps > SLEEPS_MAX) && Instant::now() < end {
            let before = sleeps();
            assert!(before > 0, "shared-memory threads have slept");
            (0..ROUND).for_each(exchange);
            rounds.push(sleeps() - before);
        }
        exchange(last);
        let sleeps = *rounds.last().unwrap();
        assert!(sleeps <= SLEEPS_MAX, "sleeps of the shared-memory threads in {ROUND} exchanges: {rounds:?}");
    });
}

/// Tests that count sleeps run one after the other: each takes the core from threads that another one counts.
#[cfg(target_os = "linux")]
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// How the application gets its samples.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Take,
    WaitSet,
    Listener,
}

/// Writes each sample when the thread of the application that waits for it sleeps, until a round in which the threads
/// of the domain have fallen asleep at most `per_sample` times for each sample, and a few times besides: each sleep
/// follows a wake-up. On a busy machine a thread may miss its turn, so that other rounds occur.
#[cfg(target_os = "linux")]
fn assert_wake_ups_by_udp(domain: u32, waiting: Waiting, per_sample: u32) {
    const ROUND: u32 = 300;
    const LAST: u32 = u32::MAX;
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sleeps_max = u64::from(per_sample * ROUND + ROUND / 4);
    let sides = sides(domain);
    let received = Arc::new(AtomicU32::new(0));
    let note = {
        let received = Arc::clone(&received);
        move |reader: &DataReader<Blob>| {
            let numbers = reader.take().unwrap().into_iter().filter_map(|sample| Some(sample.value()?.number));
            numbers.for_each(|number| received.store(number, Ordering::SeqCst));
        }
    };
    let writer = sides[0].topic::<Blob>("woken").unwrap().writer_builder().keep_all().best_effort().build().unwrap();
    let reader = sides[1].topic::<Blob>("woken").unwrap().reader_builder().keep_all().best_effort();
    let reader = if waiting == Waiting::Listener { reader.on_data(note.clone()) } else { reader };
    let reader = reader.build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    settle(&sides);
    let sleeps = || sleeps_of_threads(domain).into_iter().map(|(_, sleeps)| sleeps).sum::<u64>();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        if waiting != Waiting::Listener {
            let received = Arc::clone(&received);
            scope.spawn(move || {
                tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
                while received.load(Ordering::SeqCst) != LAST {
                    if waiting == Waiting::WaitSet {
                        let waits = WaitSet::new();
                        waits.attach(&reader.read_condition(Selector::ANY));
                        waits.wait(PATIENCE).unwrap();
                    } else {
                        reader.wait_for_data(PATIENCE).unwrap();
                    }
                    note(&reader);
                }
            });
        } else {
            drop(tell);
        }
        let stat = told.recv().ok().map(|task| std::path::Path::new("/proc").join(task).join("stat"));
        let is_asleep = || {
            let stat = stat.as_ref().map(|stat| std::fs::read_to_string(stat).unwrap());
            stat.is_none_or(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('S'))
        };
        let exchange = |number: u32| {
            let end = Instant::now() + PATIENCE;
            while !is_asleep() {
                assert!(Instant::now() < end, "the thread does not wait");
            }
            writer.write(&Blob { number, octets: vec![7; 100] }).unwrap();
            while received.load(Ordering::SeqCst) != number {
                assert!(Instant::now() < end, "sample {number} does not come");
                std::thread::yield_now();
            }
        };
        let end = Instant::now() + PATIENCE;
        let mut rounds = Vec::new();
        while rounds.last().is_none_or(|sleeps| *sleeps > sleeps_max) && Instant::now() < end {
            let before = sleeps();
            assert!(before > 0, "the threads of the domain have slept");
            (1..=ROUND).for_each(exchange);
            rounds.push(sleeps() - before);
        }
        exchange(LAST);
        let least = *rounds.last().unwrap();
        assert!(
            least <= sleeps_max,
            "sleeps of the threads of the domain for {ROUND} samples: {:?}",
            rounds.iter().min()
        );
    });
}

#[cfg(target_os = "linux")]
#[test]
fn sample_by_udp_wakes_the_thread_that_waits_and_no_other() {
    assert_wake_ups_by_udp(75, Waiting::Take, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn sample_by_udp_wakes_the_thread_in_a_wait_set_and_no_other() {
    assert_wake_ups_by_udp(76, Waiting::WaitSet, 0);
}

/// The thread that receives the sample runs the listener.
#[cfg(target_os = "linux")]
#[test]
fn sample_by_udp_for_a_listener_wakes_one_thread() {
    assert_wake_ups_by_udp(77, Waiting::Listener, 1);
}

#[cfg(target_os = "linux")]
#[test]
fn idle_participant_makes_no_system_calls() {
    let sides = sides_with(73, true);
    let topic = |side: usize, number: u32| sides[side].topic::<Blob>(&format!("topic{number}")).unwrap();
    let readers: Vec<_> = (0..10).map(|n| topic(1, n).reader_builder().reliable().build().unwrap()).collect();
    let writers: Vec<_> = (0..10).map(|n| topic(0, n).writer_builder().reliable().build().unwrap()).collect();
    for (writer, reader) in writers.iter().zip(&readers) {
        writer.wait_for_readers(1, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
    }
    let text = "a data and a control thread on each side, and one for shared memory where the readers are";
    await_idleness(&sides, 73, 5, text);
}

/// A writer that has released the memory of large samples makes no system calls.
#[cfg(target_os = "linux")]
#[test]
fn idle_writer_after_trimming_makes_no_system_calls() {
    let sides = sides_with(34, true);
    let (writer, reader) = pair(&sides, true);
    let end = Instant::now() + PATIENCE;
    let await_that = |what: &str, happened: &dyn Fn() -> bool| {
        while !happened() {
            assert!(Instant::now() < end, "{what}");
            std::thread::yield_now();
        }
    };
    await_that("shared memory is used", &|| writer.shared_memory_readers() == 1);
    for number in 0..3 {
        exchange(&writer, &reader, &Blob { number, octets: vec![7; 5_000_000] });
    }
    await_that("memory is released", &|| sides[0].shared_memory_statistics().memory.bytes < 5_000_000);
    // No other test here has samples in shared memory.
    await_that("the reader has unmapped it as well", &|| largest_segment() < 5_000_000);
    await_idleness(&sides, 34, 5, "as above");
}

/// The length in bytes of the largest mapped segment, of either side.
#[cfg(target_os = "linux")]
fn largest_segment() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|line| line.contains("memfd:peregrine-samples"));
    let len = |line: &str| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some(u64::from_str_radix(to, 16).ok()? - u64::from_str_radix(from, 16).ok()?)
    };
    lines.filter_map(len).max().unwrap_or(0)
}

/// Waits for a window of three seconds in which neither the threads of the domain nor its sockets are active.
#[cfg(target_os = "linux")]
fn await_idleness(sides: &[DomainParticipant; 2], domain: u32, threads: usize, which: &str) {
    settle(sides);
    // Another participant of the machine on this domain may disturb one window, never all of them.
    let mut seen = Vec::new();
    for _ in 0..10 {
        let before = (sides.each_ref().map(Calls::of), sleeps_of_threads(domain));
        assert_eq!(before.1.len(), threads, "{which}: {:?}", before.1);
        std::thread::sleep(Duration::from_secs(3));
        let after = (sides.each_ref().map(Calls::of), sleeps_of_threads(domain));
        if after == before {
            return;
        }
        seen.push((before, after));
    }
    panic!("no window of three seconds was idle: {seen:?}");
}
