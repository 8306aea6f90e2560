//! A thousand worlds with a nemesis, and what each of its attacks does.
//!
//! `PEREGRINE_NEMESIS_SEEDS=7 cargo test -p peregrine-sim --profile checked --test nemesis seeds` repeats one of the
//! worlds, `PEREGRINE_NEMESIS_SEEDS=1..1000000` plays as many.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use peregrine_sim::nemesis::{Kind, checks, run, trace::Trace};

const SEEDS: Range<u64> = 1..1001;

fn seeds() -> (Range<u64>, bool) {
    let Ok(stated) = std::env::var("PEREGRINE_NEMESIS_SEEDS") else { return (SEEDS, true) };
    let number = |text: &str| text.parse::<u64>().expect("a seed is a number");
    match stated.split_once("..") {
        Some((first, end)) => (number(first)..number(end), false),
        None => (number(&stated)..number(&stated) + 1, false),
    }
}

/// Sums over worlds.
#[derive(Default)]
struct Sums {
    failures: Vec<String>,
    effects: std::collections::BTreeMap<Kind, u64>,
    worlds: u64,
    received: u64,
    strict_pairs: u64,
    stalls: u64,
    differences: u64,
    datagrams: u64,
}

impl Sums {
    fn add(&mut self, seed: u64, result: Result<Trace, String>) {
        self.worlds += 1;
        let trace = match result {
            Ok(trace) => trace,
            Err(why) => return self.failures.push(format!("seed {seed}: {why}")),
        };
        for (kind, amount) in &trace.effects {
            *self.effects.entry(*kind).or_default() += amount;
        }
        self.received += trace.received;
        self.strict_pairs += checks::strict_pairs(&trace).len() as u64;
        self.stalls += trace.stalls;
        self.differences += trace.differences;
        self.datagrams += trace.datagrams.network.sent;
    }

    fn merge(mut self, other: Self) -> Self {
        self.failures.extend(other.failures);
        other.effects.into_iter().for_each(|(kind, amount)| *self.effects.entry(kind).or_default() += amount);
        self.worlds += other.worlds;
        self.received += other.received;
        self.strict_pairs += other.strict_pairs;
        self.stalls += other.stalls;
        self.differences += other.differences;
        self.datagrams += other.datagrams;
        self
    }
}

#[test]
fn guarantees_hold_for_all_seeds_with_a_nemesis() {
    let (seeds, is_usual) = seeds();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let sums = std::thread::scope(|scope| {
        let work = || {
            let mut sums = Sums::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !seeds.contains(&seed) {
                    return sums;
                }
                sums.add(seed, run(seed));
            }
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let sums = handles.into_iter().map(|handle| handle.join().expect("a world panicked"));
        sums.fold(Sums::default(), Sums::merge)
    });
    println!(
        "{} worlds: {} samples received, {} strict pairs, {} stalls reported, {} differences of other vendors, {} \
         datagrams, effects {:?}",
        sums.worlds, sums.received, sums.strict_pairs, sums.stalls, sums.differences, sums.datagrams, sums.effects
    );
    let count = sums.failures.len();
    assert!(count == 0, "{count} of {} worlds failed\n{}", sums.worlds, sums.failures.join("\n"));
    if is_usual {
        for kind in Kind::ALL {
            assert!(sums.effects.get(&kind).is_some_and(|amount| *amount > 30), "{kind:?}: {:?}", sums.effects);
        }
    }
}
