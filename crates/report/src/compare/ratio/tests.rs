use proptest::prelude::*;

use super::*;

/// A block of a machine that gets slower by `drift` from run to run, in the order A, B, B, A.
fn drifting(a: f64, b: f64, drift: f64) -> Block {
    let at = |value: f64, place: i32| value * drift.powi(place);
    Block { a: [at(a, 0), at(a, 3)], b: [at(b, 1), at(b, 2)] }
}

/// Multiplies by a factor that is symmetric around 1, of about the given width.
fn noisy(random: &mut Random, value: f64, width: f64) -> f64 {
    let uniform = |random: &mut Random| random.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5;
    value * (width * (uniform(random) + uniform(random) + uniform(random))).exp()
}

fn noisy_block(random: &mut Random, ratio: f64, width: f64) -> Block {
    Block {
        a: std::array::from_fn(|_| noisy(random, 1.0, width)),
        b: std::array::from_fn(|_| noisy(random, ratio, width)),
    }
}

fn noisy_blocks(seed: u64, count: usize, ratio: f64, width: f64) -> Vec<Block> {
    let mut random = Random(seed);
    (0..count).map(|_| noisy_block(&mut random, ratio, width)).collect()
}

#[test]
fn linear_drift_does_not_affect_the_ratio() {
    let blocks: Vec<_> = (0..8).map(|number| drifting(100.0 + f64::from(number), 0.0, 1.0)).collect();
    assert_eq!(Ratio::of_blocks(&blocks), None, "a value of 0 is not a time");
    let blocks: Vec<_> = (0..8).map(|number| drifting(100.0, 80.0, 1.0 + f64::from(number) / 50.0)).collect();
    let ratio = Ratio::of_blocks(&blocks).unwrap();
    let Interval { low, high, coverage } = ratio.interval.unwrap();
    assert_eq!(coverage, CONFIDENCE);
    for value in [ratio.median, low, high] {
        assert!((value - 0.8).abs() < 1e-12, "{ratio:?}");
    }
    assert_eq!((ratio.count, ratio.verdict(FEWEST_BLOCKS, None)), (8, Verdict::Lower));
}

#[test]
fn median_of_blocks_equals_hand_computed_value() {
    let pairs = [(1.0, 2.0), (1.0, 3.0), (1.0, 8.0)];
    let ratio = Ratio::of_pairs(&pairs).unwrap();
    assert!((ratio.median - 3.0).abs() < 1e-12);
    let Interval { low, high, coverage } = ratio.interval.unwrap();
    assert!((low - 2.0).abs() < 1e-12 && (high - 8.0).abs() < 1e-12 && coverage == 0.75, "{ratio:?}");
    assert_eq!(ratio.verdict(FEWEST_BLOCKS, None), Verdict::TooFew);
    let even = Ratio::of_pairs(&[(1.0, 2.0), (1.0, 8.0)]).unwrap();
    assert!((even.median - 4.0).abs() < 1e-12, "the median of two blocks is their geometric mean");
}

#[test]
fn few_pairs_have_the_coverage_of_their_order_statistics() {
    let of = |count: u32| Ratio::of_pairs(&(0..count).map(|at| (1.0, f64::from(at) + 1.0)).collect::<Vec<_>>());
    let coverage = |count| of(count).unwrap().interval.map(|interval| interval.coverage);
    assert_eq!([1, 2, 3, 4].map(coverage), [None, Some(0.5), Some(0.75), Some(0.875)]);
    assert_eq!([5, 6, 100].map(coverage), [Some(0.9375), Some(CONFIDENCE), Some(CONFIDENCE)]);
    let five = of(5).unwrap().interval.unwrap();
    assert!((five.low - 1.0).abs() < 1e-12 && (five.high - 5.0).abs() < 1e-12, "{five:?}");
    assert_eq!(
        (five.coverage_text(), of(6).unwrap().interval.unwrap().coverage_text()),
        (" at 93.8 %".into(), "".into())
    );
}

#[test]
fn equal_separate_series_rarely_get_a_verdict() {
    let differs = |seed: u64| {
        let mut random = Random(seed * 1_000_003);
        let mut runs = || std::array::from_fn::<_, 8, _>(|_| noisy(&mut random, 1.0, 0.1));
        let verdict = Ratio::of_series(&runs(), &runs()).unwrap().verdict(FEWEST_REPETITIONS, None);
        matches!(verdict, Verdict::Lower | Verdict::Higher)
    };
    let count = (0..1000).filter(|seed| differs(*seed)).count();
    assert!(count <= 70, "{count} of 1000");
}

#[test]
fn equal_alternatives_rarely_get_a_verdict() {
    let said = |blocks: &dyn Fn(u64) -> Vec<Block>| {
        let judge = |seed| Ratio::of_blocks(&blocks(seed)).unwrap().verdict(FEWEST_BLOCKS, None);
        (0..1000).filter(|seed| matches!(judge(seed * 1_000_003), Verdict::Lower | Verdict::Higher)).count()
    };
    // At most 50 of 1000 are promised, plus random variation.
    for count in [FEWEST_BLOCKS, 12] {
        let even = said(&|seed| noisy_blocks(seed, count, 1.0, 0.1));
        assert!(even <= 70, "{even} of {count} blocks");
    }
    // Machines have long tails: about every eighth run takes up to three times as long.
    for count in [8, 20] {
        let tailed = said(&|seed| {
            let mut random = Random(seed);
            let mut run = || {
                let hiccup = if random.below(8) == 0 { 1.0 + random.below(1000) as f64 / 500.0 } else { 1.0 };
                noisy(&mut random, hiccup, 0.05)
            };
            (0..count).map(|_| Block { a: [run(), run()], b: [run(), run()] }).collect()
        });
        assert!(tailed <= 70, "{tailed} of {count} blocks");
    }
}

#[test]
fn order_statistics_equal_hand_computed_bounds() {
    let values = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
    // Of 8 values only the extremes suffice, with 1 - 2/256; of 9 the second, with 1 - 2 (1 + 9)/512; of 12 the third.
    let interval = |values: &[f64]| {
        let Interval { low, high, .. } = exact_interval(values)?;
        Some([low.ln().round(), high.ln().round()])
    };
    assert_eq!(interval(&values(8)), Some([1.0, 8.0]));
    assert_eq!(interval(&values(9)), Some([2.0, 8.0]));
    assert_eq!(interval(&values(12)), Some([3.0, 10.0]));
    assert_eq!(interval(&values(2)), Some([1.0, 2.0]));
    assert_eq!((interval(&[]), interval(&values(61))), (None, None));
}

#[test]
fn difference_above_noise_gets_a_verdict() {
    for seed in 0..50 {
        let slower = Ratio::of_blocks(&noisy_blocks(seed, 12, 1.2, 0.05)).unwrap();
        assert_eq!(slower.verdict(FEWEST_BLOCKS, None), Verdict::Higher);
        let Interval { low, high, .. } = slower.interval.unwrap();
        assert!(low <= 1.2 * 1.03 && high >= 1.2 / 1.03, "{slower:?}");
    }
}

#[test]
fn differing_control_withholds_the_verdict() {
    let ratio = Ratio::of_pairs(&[(1.0, 2.0); 8]).unwrap();
    let around_one = [0.9, 1.1, 1.0, 0.95, 1.05, 1.0, 1.02, 0.98].map(|b| (1.0, b));
    let steady = Ratio::of_pairs(&around_one).unwrap();
    let failed = Ratio::of_pairs(&[(1.0, 1.3); 8]).unwrap();
    assert_eq!(ratio.verdict(FEWEST_BLOCKS, Some(&steady)), Verdict::Higher);
    assert_eq!(ratio.verdict(FEWEST_BLOCKS, Some(&failed)), Verdict::ControlFailed);
    // Too few control blocks prove nothing.
    let thin = Ratio::of_pairs(&[(1.0, 1.3); 2]).unwrap();
    assert_eq!(ratio.verdict(FEWEST_BLOCKS, Some(&thin)), Verdict::Higher);
}

#[test]
fn separate_series_compare_their_medians() {
    let a = [10.0, 11.0, 9.0, 10.0, 10.0, 10.0, 11.0, 9.0];
    let ratio = Ratio::of_series(&a, &a.map(|value| 2.0 * value)).unwrap();
    assert!((ratio.median - 2.0).abs() < 1e-12);
    assert_eq!(ratio.verdict(FEWEST_REPETITIONS, None), Verdict::Higher);
    assert_eq!(Ratio::of_series(&[], &[1.0]), None);
    assert_eq!(Ratio::of_series(&[f64::NAN, 0.0], &[1.0]), None);
}

#[test]
fn same_blocks_give_same_interval() {
    let blocks = noisy_blocks(7, 10, 1.1, 0.3);
    assert_eq!(Ratio::of_blocks(&blocks), Ratio::of_blocks(&blocks));
    let ratio = Ratio::of_blocks(&blocks).unwrap();
    // The order of the blocks affects only the random draw.
    let reversed: Vec<_> = blocks.into_iter().rev().collect();
    assert!((Ratio::of_blocks(&reversed).unwrap().median - ratio.median).abs() < 1e-12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn interval_contains_its_median(pairs in prop::collection::vec((0.001..1e9_f64, 0.001..1e9_f64), 2..20)) {
        let ratio = Ratio::of_pairs(&pairs).unwrap();
        let Interval { low, high, .. } = ratio.interval.unwrap();
        prop_assert!(low <= ratio.median * (1.0 + 1e-12) && ratio.median <= high * (1.0 + 1e-12));
        prop_assert_eq!(ratio.count, pairs.len());
    }

    #[test]
    fn factor_shifts_only_the_interval(
        pairs in prop::collection::vec((0.5..2.0_f64, 0.5..2.0_f64), 2..20),
        factor in 0.01..100.0_f64,
    ) {
        let scaled: Vec<_> = pairs.iter().map(|(a, b)| (*a, b * factor)).collect();
        let (ratio, scaled) = (Ratio::of_pairs(&pairs).unwrap(), Ratio::of_pairs(&scaled).unwrap());
        let (own, other) = (ratio.interval.unwrap(), scaled.interval.unwrap());
        for (one, other) in [(own.low, other.low), (ratio.median, scaled.median), (own.high, other.high)] {
            prop_assert!((one * factor / other - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn exchanging_a_and_b_inverts_the_ratio(pairs in prop::collection::vec((0.5..2.0_f64, 0.5..2.0_f64), 1..20)) {
        let exchanged: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let (ratio, inverse) = (Ratio::of_pairs(&pairs).unwrap(), Ratio::of_pairs(&exchanged).unwrap());
        prop_assert!((ratio.median * inverse.median - 1.0).abs() < 1e-9);
    }

    #[test]
    fn more_noise_never_creates_a_verdict(seed in any::<u64>()) {
        let narrow = Ratio::of_blocks(&noisy_blocks(seed, 20, 1.0, 0.01)).unwrap();
        let wide = Ratio::of_blocks(&noisy_blocks(seed, 20, 1.0, 0.2)).unwrap();
        let width = |ratio: Ratio| ratio.interval.map(|interval| interval.high / interval.low).unwrap();
        prop_assert!(width(wide) >= width(narrow));
    }
}
