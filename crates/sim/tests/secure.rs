//! A hundred worlds with DDS Security. `PEREGRINE_SECURE_SEEDS=7` repeats one of them, `PEREGRINE_SECURE_SEEDS=1..5000`
//! plays as many.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use peregrine_sim::secure::scenario::{Outcome, run};

const SEEDS: Range<u64> = 1..101;

fn seeds() -> (Range<u64>, bool) {
    let Ok(stated) = std::env::var("PEREGRINE_SECURE_SEEDS") else { return (SEEDS, true) };
    let number = |text: &str| text.parse::<u64>().expect("a seed is a number");
    match stated.split_once("..") {
        Some((first, end)) => (number(first)..number(end), false),
        None => (number(&stated)..number(&stated) + 1, false),
    }
}

fn play(seeds: &Range<u64>) -> Vec<(u64, Result<Outcome, String>)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let seed = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| seeds.contains(seed));
        std::iter::from_fn(seed).map(|seed| (seed, run(seed))).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a world panicked")).collect()
    })
}

#[test]
fn guarantees_hold_for_all_seeds_with_security() {
    let (seeds, is_usual) = seeds();
    let results = play(&seeds);
    let worlds = results.len();
    let (mut failures, mut sum) = (Vec::new(), Outcome::default());
    for (seed, result) in results {
        match result {
            Ok(outcome) => sum = add(sum, &outcome),
            Err(why) => failures.push(format!("seed {seed}: {why}")),
        }
    }
    println!("{worlds} worlds: {sum:?}");
    assert!(failures.is_empty(), "{} of {worlds} worlds failed\n{}", failures.len(), failures.join("\n"));
    if is_usual {
        assert!(sum.pairs > 400, "the worlds no longer test that samples must arrive");
        for (what, amount) in [
            ("restarts", sum.restarts),
            ("replays", sum.replayed),
            ("changed bits", sum.flipped),
            ("forged messages", sum.forged),
            ("renewals", sum.renewals),
            ("standstills", sum.standstills),
            ("cuts", sum.cuts),
            ("strangers", sum.strangers),
            ("lost datagrams", sum.lost),
            ("messages that are not authentic", sum.not_authentic),
        ] {
            assert!(amount > 10, "the worlds no longer have {what}: {amount}");
        }
    }
}

/// The bit that changes depends on the length of a message, and that of a handshake depends on random signatures.
#[test]
fn equal_seeds_give_equal_runs() {
    let outcomes = (1..).map(|seed| (seed, run(seed).expect("the guarantees hold")));
    for (seed, outcome) in outcomes.filter(|(_, outcome)| outcome.flipped == 0 && outcome.restarts > 0).take(3) {
        assert_eq!(run(seed), Ok(outcome), "seed {seed}");
    }
}

fn add(a: Outcome, b: &Outcome) -> Outcome {
    Outcome {
        written: a.written + b.written,
        received: a.received + b.received,
        pairs: a.pairs + b.pairs,
        restarts: a.restarts + b.restarts,
        replayed: a.replayed + b.replayed,
        flipped: a.flipped + b.flipped,
        forged: a.forged + b.forged,
        renewals: a.renewals + b.renewals,
        authenticated: a.authenticated + b.authenticated,
        standstills: a.standstills + b.standstills,
        cuts: a.cuts + b.cuts,
        strangers: a.strangers + b.strangers,
        datagrams: a.datagrams + b.datagrams,
        lost: a.lost + b.lost,
        not_authentic: a.not_authentic + b.not_authentic,
    }
}
