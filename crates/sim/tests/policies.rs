//! The guarantees of each policy, in many worlds. Repeats one of them:
//! `PEREGRINE_SIM_SEED=7 cargo test -p peregrine-sim --test policies`.

use peregrine_sim::policy::{Policy, run};

const SEEDS: u64 = 60;

#[test]
fn policies_hold_for_all_seeds() {
    let only = std::env::var("PEREGRINE_SIM_SEED").ok().map(|s| s.parse::<u64>().expect("a seed is a number"));
    let seeds: Vec<u64> = only.map_or_else(|| (1..=SEEDS).collect(), |seed| vec![seed]);
    let mut failures = Vec::new();
    for policy in Policy::ALL {
        let mut taken = 0;
        for seed in &seeds {
            match run(policy, *seed) {
                Ok(samples) => taken += samples,
                Err(why) => failures.push(format!("{policy:?}, seed {seed}: {why}")),
            }
        }
        println!("{policy:?}: {taken} samples taken in {} worlds", seeds.len());
        assert!(taken > 0 || !failures.is_empty(), "{policy:?} tests nothing");
    }
    assert!(failures.is_empty(), "{} worlds failed\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn equal_seeds_give_equal_runs() {
    for policy in Policy::ALL {
        assert_eq!(run(policy, 7), run(policy, 7));
    }
}
