//! The traffic that reliability causes, by loss and by size of the samples.

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::Reliability;
use peregrine_rtps::reader::ReaderCounters;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::WriterCounters;
use peregrine_sim::network::{Faults, Link, NodeId};
use peregrine_sim::world::{World, WorldConfig};

const SAMPLES: usize = 200;
const FROM: NodeId = NodeId(0);
const TO: NodeId = NodeId(1);

fn world(loss: f64) -> World {
    world_of(1, loss)
}

fn world_of(seed: u64, loss: f64) -> World {
    let faults =
        Faults { loss, duplication: 0.0, delay_min: Span::from_micros(100), delay_max: Span::from_micros(200) };
    let (lease, announce_period) = (Span::from_secs(600), Span::from_secs(200));
    World::new(WorldConfig { seed, faults, lease, announce_period, mtu_bytes: 1500 })
}

fn pass(world: &mut World, span: Span) {
    let end = world.now() + span;
    while world.run_until(end) {
        world.happenings();
    }
}

/// A matched writer and reader.
fn pair(world: &mut World) -> (Guid, Guid) {
    world.start(FROM);
    world.start(TO);
    let describe = |reliability: &mut Reliability| *reliability = Reliability::RELIABLE;
    let writer = world.add_writer(
        FROM,
        "topic",
        false,
        |data| describe(&mut data.qos.reliability),
        |config| {
            config.history = HistoryKind::KeepAll;
            config.default_message_bytes = 1472;
        },
    );
    let reader = world.add_reader(
        TO,
        "topic",
        false,
        |data| describe(&mut data.qos.reliability),
        |config| {
            config.reliable = true;
            config.cache.history = HistoryKind::KeepAll;
        },
    );
    pass(world, Span::from_secs(5));
    (writer.unwrap(), reader.unwrap())
}

fn write(world: &mut World, writer: Guid, value: u8, bytes: usize) {
    let change = Change {
        kind: ChangeKind::Alive,
        instance: KeyHash::NIL,
        source_timestamp: world.wall(),
        payload: Payload::copy_of(&vec![value; bytes]),
    };
    world.write(FROM, writer.entity, change).unwrap();
}

/// The number of datagrams in both directions per sample until the last one is acknowledged, and the number of
/// fragments of a sample.
fn cost(loss: f64, bytes: usize, pause: Span) -> (f64, f64) {
    let mut world = world(0.0);
    let (writer, reader) = pair(&mut world);
    world.network().set_faults(Faults { loss, ..CLEAN });
    let before = world.network().counters().sent;
    for n in 0..SAMPLES {
        write(&mut world, writer, n as u8, bytes);
        pass(&mut world, pause);
    }
    pass(&mut world, Span::from_secs(60));
    assert_eq!(world.take(TO, reader.entity).len(), SAMPLES);
    let sent = world.network().counters().sent - before;
    let fragments = if bytes > 1400 { (bytes as f64 / 1344.0).ceil() } else { 1.0 };
    (sent as f64 / SAMPLES as f64, fragments)
}

/// Sends samples of many fragments over a link of 100 Mbit/s with this share of loss. Returns the counters of both
/// ends, and the time until all samples were acknowledged.
fn over_a_slow_link(seed: u64, loss: f64, bytes: usize) -> (WriterCounters, ReaderCounters, Span) {
    let mut world = world_of(seed, 0.0);
    let (writer, reader) = pair(&mut world);
    world.network().set_faults(Faults { loss, duplication: 0.0, ..Faults::NONE });
    world.network().set_link(Link { bytes_per_second: 12_500_000, wake_every: Span::from_micros(400) });
    let started = world.now();
    // Samples of one packet between fragmented ones, so that heartbeats are sent between the trains.
    for n in 0..SAMPLES {
        write(&mut world, writer, n as u8, if n % 3 == 0 { 100 } else { bytes });
        pass(&mut world, Span::from_micros(700));
    }
    for _ in 0..60_000 {
        let node = world.member(FROM).unwrap();
        if node.writers[&writer.entity].is_acknowledged(SequenceNumber(SAMPLES as i64)) {
            break;
        }
        pass(&mut world, Span::from_millis(1));
    }
    let took = world.now().since(started);
    let numbers: Vec<i64> = world.take(TO, reader.entity).iter().map(|s| s.info.sequence_number.0).collect();
    assert_eq!(numbers, (1..=SAMPLES as i64).collect::<Vec<_>>());
    let sent = world.member(FROM).unwrap().writers[&writer.entity].counters();
    let heard = world.member(TO).unwrap().readers[&reader.entity].counters();
    (sent, heard, took)
}

#[test]
fn slow_link_without_loss_causes_no_request() {
    for bytes in [4096, 16_384, 63_000, 250_000] {
        let (sent, heard, _) = over_a_slow_link(1, 0.0, bytes);
        assert_eq!((heard.requested, heard.duplicate_fragments, heard.duplicates), (0, 0, 0), "{bytes}");
        assert_eq!((sent.fragments_repaired, sent.samples_repaired), (0, 0), "{bytes}");
    }
}

#[test]
fn slow_link_with_loss_delivers_in_bounded_time() {
    const SEEDS: u64 = 45;
    for bytes in [4096, 16_384, 63_000] {
        let (_, _, clean) = over_a_slow_link(1, 0.0, bytes);
        for loss in [0.01, 0.05, 0.2] {
            let mut requested = 0;
            let mut times: Vec<Span> = (1..=SEEDS)
                .map(|seed| {
                    let (_, heard, took) = over_a_slow_link(seed, loss, bytes);
                    requested += heard.requested;
                    took
                })
                .collect();
            assert!(requested > 0, "nothing was lost");
            times.sort_unstable();
            // Where one datagram of five is lost, the writer's window is at its minimum, and each window takes a few
            // round trips in which requests and answers may be lost again. Single runs spread widely.
            let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
            println!("{bytes} bytes, loss {loss}: median {median}, longest {longest}; without loss {clean}");
            let pauses = Span::from_millis(250);
            assert!(median < clean.times(6) + pauses, "{bytes} bytes, loss {loss}: {times:?}, without loss {clean}");
            assert!(longest < clean.times(15) + pauses, "{bytes} bytes, loss {loss}: {times:?}, without loss {clean}");
        }
    }
}

const CLEAN: Faults =
    Faults { loss: 0.0, duplication: 0.0, delay_min: Span::from_micros(100), delay_max: Span::from_micros(200) };

#[test]
fn datagrams_are_bounded_by_loss() {
    println!("datagrams per fragment   loss 0 %   5 %   20 %   30 %");
    let mut worst = Vec::new();
    for (name, bytes, pause) in [
        ("100 B, one at a time", 100, Span::from_millis(2)),
        ("100 B, back to back", 100, Span::ZERO),
        ("40 kB, one at a time", 40_000, Span::from_millis(5)),
        ("40 kB, back to back", 40_000, Span::ZERO),
    ] {
        let row: Vec<f64> = [0.0, 0.05, 0.2, 0.3]
            .into_iter()
            .map(|loss| {
                let (sent, fragments) = cost(loss, bytes, pause);
                let per_fragment = sent / fragments;
                // A datagram has to be sent 1 / (1 - loss) times. In addition, there are at most two acknowledgements
                // and repair requests for each, themselves repeated.
                let bound = 3.0 / (1.0 - loss) / (1.0 - loss);
                if per_fragment > bound {
                    worst.push(format!("{name}, loss {loss}: {per_fragment:.2} datagrams, more than {bound:.2}"));
                }
                per_fragment
            })
            .collect();
        println!("{name:<24} {:8.2} {:5.2} {:6.2} {:6.2}", row[0], row[1], row[2], row[3]);
    }
    assert!(worst.is_empty(), "{}", worst.join("\n"));
}

#[test]
fn steady_flow_causes_one_answer_per_fifty_samples_or_per_second() {
    for pause in [Span::from_micros(100), Span::from_millis(1), Span::from_millis(10), Span::from_millis(100)] {
        let mut world = world(0.0);
        let (writer, reader) = pair(&mut world);
        let acknowledgements =
            |world: &World| world.member(TO).unwrap().readers[&reader.entity].counters().acknowledgements;
        let send = |world: &mut World, samples: u32| {
            for n in 0..samples {
                write(world, writer, n as u8, 100);
                pass(world, pause);
            }
        };
        send(&mut world, 100);
        let before = acknowledgements(&world);
        send(&mut world, 1000);
        let answers = acknowledgements(&world) - before;
        // A slow flow: one per second.
        let at_most = if pause == Span::from_millis(100) { 101 } else { 20 };
        assert!((10..=at_most).contains(&answers), "{answers} ACKNACKs for 1000 samples, one each {pause}");
        pass(&mut world, Span::from_secs(1));
        assert!(world.member(FROM).unwrap().writers[&writer.entity].is_acknowledged(SequenceNumber(1100)));
        assert_eq!(world.take(TO, reader.entity).len(), 1100);
    }
}

/// A network that reorders datagrams and loses none.
const REORDERING: Faults =
    Faults { loss: 0.0, duplication: 0.0, delay_min: Span::from_micros(100), delay_max: Span::from_micros(400) };

/// Sends this number of samples over such a network, with a pause after each. Returns the counters of both ends.
fn overtaken(seed: u64, bytes: usize, samples: usize, pause: Span) -> (WriterCounters, ReaderCounters) {
    let mut world = world_of(seed, 0.0);
    let (writer, reader) = pair(&mut world);
    world.network().set_faults(REORDERING);
    for n in 0..samples {
        write(&mut world, writer, n as u8, bytes);
        pass(&mut world, pause);
    }
    pass(&mut world, Span::from_secs(10));
    assert_eq!(world.take(TO, reader.entity).len(), samples);
    let sent = world.member(FROM).unwrap().writers[&writer.entity].counters();
    (sent, world.member(TO).unwrap().readers[&reader.entity].counters())
}

#[test]
fn reordered_samples_are_rarely_requested() {
    const SEEDS: u64 = 6;
    const SAMPLES: usize = 2000;
    println!("requested and repaired per thousand datagrams   samples  fragments");
    let mut worst = Vec::new();
    // Repairs come in clumps, so that single runs spread widely. In the first row, 80 samples are under way at a time,
    // in any order.
    for (bytes, pause_us, at_most) in [
        (100, 5, 8.0),
        (100, 50, 2.0),
        (100, 400, 1.0),
        (100, 1500, 1.0),
        (5000, 50, 3.0),
        (5000, 1500, 3.0),
        (40_000, 100, 1.0),
        (40_000, 3000, 1.0),
        (250_000, 5000, 1.0),
    ] {
        let counters = (1..=SEEDS).map(|seed| overtaken(seed, bytes, SAMPLES, Span::from_micros(pause_us)));
        let (requested, repaired) = counters.fold((0, 0), |(requested, repaired), (sent, heard)| {
            (requested + heard.requested, repaired + sent.samples_repaired + sent.fragments_repaired)
        });
        let datagrams = (SEEDS as usize * SAMPLES) as f64 * (bytes as f64 / 1344.0).ceil();
        let per_thousand = |count: u64| count as f64 * 1000.0 / datagrams;
        let repaired = per_thousand(repaired);
        println!("{bytes:>8} B, every {pause_us:>5} us: {:8.2} {repaired:8.2}", per_thousand(requested));
        if repaired > at_most {
            worst.push(format!("{bytes} B, every {pause_us} us: {repaired:.1} repairs per thousand datagrams"));
        }
    }
    assert!(worst.is_empty(), "{}", worst.join("\n"));
}

/// The mean time until a burst of twenty samples has arrived completely, on a network with this loss: the median of
/// several worlds, because one burst whose repairs are lost again and again takes longer than hundreds of others.
fn burst_time(faults: Faults, loss: f64, bytes: usize) -> Span {
    const SEEDS: u64 = 9;
    let mut times: Vec<Span> = (1..=SEEDS).map(|seed| burst_time_of(seed, faults, loss, bytes)).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn burst_time_of(seed: u64, faults: Faults, loss: f64, bytes: usize) -> Span {
    const BURSTS: u64 = 100;
    let mut world = world_of(seed, 0.0);
    let (writer, reader) = pair(&mut world);
    world.network().set_faults(Faults { loss, ..faults });
    let mut sum = Span::ZERO;
    for _ in 0..BURSTS {
        let started = world.now();
        (0..20).for_each(|n| write(&mut world, writer, n, bytes));
        let mut taken = 0;
        for _ in 0..1_000_000 {
            pass(&mut world, Span::from_micros(10));
            taken += world.take(TO, reader.entity).len();
            if taken == 20 {
                break;
            }
        }
        assert_eq!(taken, 20);
        sum = sum + world.now().since(started);
        pass(&mut world, Span::from_millis(20));
    }
    sum.divided_by(BURSTS)
}

#[test]
fn lost_samples_of_burst_are_repaired_in_bounded_time() {
    let in_order = Faults { delay_min: Span::from_micros(250), delay_max: Span::from_micros(250), ..REORDERING };
    println!("mean time of a burst, us   in order   reordered");
    let mut slow = Vec::new();
    // The bounds have a margin of a third. On a network that reorders, the reader waits for late datagrams before it
    // requests them.
    for (bytes, loss, ordered_max_us, reordered_max_us) in [
        (100, 0.0, 300, 500),
        (100, 0.01, 550, 1_200),
        (100, 0.05, 1_000, 2_800),
        (100, 0.2, 2_400, 6_200),
        (5000, 0.0, 300, 500),
        (5000, 0.01, 1_400, 2_100),
        (5000, 0.05, 3_000, 4_900),
        (5000, 0.2, 13_000, 19_000),
    ] {
        let [ordered, reordered] = [in_order, REORDERING].map(|faults| burst_time(faults, loss, bytes).0 / 1000);
        println!("{bytes:>6} B, loss {loss:4}: {ordered:8} {reordered:8}");
        if ordered > ordered_max_us || reordered > reordered_max_us {
            slow.push(format!("{bytes} B, loss {loss}: {ordered} us in order, {reordered} us reordered"));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
