//! A thousand worlds. Repeats one of them: `PEREGRINE_SIM_SEED=7 cargo test -p peregrine-sim --release --test seeds`.

use peregrine_sim::scenario::{Outcome, run};

const SEEDS: u64 = 1000;

#[test]
fn guarantees_hold_for_all_seeds() {
    let only = std::env::var("PEREGRINE_SIM_SEED").ok().map(|s| s.parse::<u64>().expect("a seed is a number"));
    let seeds: Vec<u64> = only.map_or_else(|| (1..=SEEDS).collect(), |seed| vec![seed]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<(u64, Result<Outcome, String>)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|t| {
                let mine: Vec<u64> = seeds.iter().copied().skip(t).step_by(threads).collect();
                scope.spawn(move || mine.into_iter().map(|seed| (seed, run(seed))).collect::<Vec<_>>())
            })
            .collect();
        handles.into_iter().flat_map(|h| h.join().expect("a world panicked")).collect()
    });
    let failures: Vec<String> =
        results.iter().filter_map(|(seed, r)| r.as_ref().err().map(|e| format!("seed {seed}: {e}"))).collect();
    assert!(failures.is_empty(), "{} of {} worlds failed\n{}", failures.len(), seeds.len(), failures.join("\n"));
    let outcomes: Vec<Outcome> = results.into_iter().filter_map(|(_, r)| r.ok()).collect();
    let sum = |f: fn(&Outcome) -> u64| outcomes.iter().map(f).sum::<u64>();
    println!(
        "{} worlds: {} samples written, {} received, {} strict pairs, {} of them with other writers, the last n kept of {} instances with one writer \
         and of {} with several, {} datagrams, {} of them lost",
        outcomes.len(),
        sum(|o| o.written),
        sum(|o| o.received),
        sum(|o| o.strict_pairs),
        sum(|o| o.shared_pairs),
        sum(|o| o.kept_of_one),
        sum(|o| o.kept_of_several),
        sum(|o| o.datagrams),
        sum(|o| o.lost),
    );
    if only.is_none() {
        // Measured: 6,933 pairs, 3,222 with further writers, 1,099 and 3,632 instances. The margin allows for other
        // worlds.
        assert!(sum(|o| o.strict_pairs) > 6_200, "the scenarios no longer test that samples must arrive");
        assert!(sum(|o| o.shared_pairs) > 2_800, "the scenarios no longer test replacement by several writers");
        assert!(sum(|o| o.kept_of_one) > 950, "the scenarios no longer test the last samples of one writer");
        assert!(sum(|o| o.kept_of_several) > 3_200, "the scenarios no longer test the last samples of several writers");
        assert!(sum(|o| o.lost) > 10_000, "the network no longer loses datagrams");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in [3, 14, 159] {
        assert_eq!(run(seed), run(seed));
    }
}
