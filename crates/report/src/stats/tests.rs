use proptest::prelude::*;

use super::*;

fn result(values: &[u64]) -> LatencyResult {
    let mut moments = Moments::default();
    let mut histogram: Vec<(u64, u64)> = Vec::new();
    for value in values {
        moments.add(*value);
        histogram = merge_histograms(histogram, &[(*value, 1)]);
    }
    LatencyResult::new(&moments, histogram)
}

#[test]
fn moments_of_small_set_equal_hand_computed_values() {
    // 2 4 4 4 5 5 7 9: mean 5, population variance 4.
    let result = result(&[2, 4, 4, 4, 5, 5, 7, 9]);
    assert_eq!((result.count, result.min_ns, result.max_ns), (8, 2, 9));
    assert_eq!((result.mean_ns, result.std_ns), (5.0, 2.0));
}

#[test]
fn deviation_keeps_its_precision_far_from_zero() {
    let mut moments = Moments::default();
    for value in [1_000_000_000_000, 1_000_000_000_002] {
        moments.add(value);
    }
    assert_eq!(moments.std(), 1.0);
}

#[test]
fn deviation_of_largest_values_does_not_overflow() {
    let mut moments = Moments::default();
    for value in [0, 1 << 63] {
        moments.add(value);
    }
    assert!((moments.std() / (1_u64 << 62) as f64 - 1.0).abs() < 1e-9);
}

#[test]
fn percentiles_take_the_index_floor_of_n_times_p() {
    let ten: Vec<u64> = (1..=10).collect();
    let ten = result(&ten);
    // floor(10 × 0.5) = index 5 of 0..=9, the sixth value.
    assert_eq!(ten.p50_ns, 6);
    assert_eq!(ten.p90_ns, 10);
    assert_eq!(ten.p99_9999_ns, 10);
    assert_eq!(result(&[7]).p50_ns, 7);
    assert_eq!(result(&[1, 2]).p50_ns, 2);
    let hundred: Vec<u64> = (1..=100).collect();
    assert_eq!(result(&hundred).p99_ns, 100);
    assert_eq!(result(&hundred).p90_ns, 91);
}

#[test]
fn empty_set_gives_zeros() {
    let nothing = result(&[]);
    assert_eq!(nothing, LatencyResult::default());
    assert_eq!(Moments::default().std(), 0.0);
    assert_eq!(Spread::of([]), None);
}

#[test]
fn merged_sets_equal_a_single_set() {
    let together = result(&[1, 2, 3, 10, 20, 30]);
    let merged = result(&[1, 20, 3]).merged(&result(&[2, 10, 30]));
    assert_eq!(merged.histogram, together.histogram);
    assert_eq!((merged.p50_ns, merged.min_ns, merged.max_ns), (10, 1, 30));
    assert!((merged.mean_ns - together.mean_ns).abs() < 1e-9);
    assert!((merged.std_ns - together.std_ns).abs() < 1e-9);
    assert_eq!(result(&[]).merged(&together), together);
}

#[test]
fn percentile_needs_ten_values_above_it() {
    let up_to = |count: u64| result(&(0..count).collect::<Vec<_>>());
    // The 99th percentile of a thousand values is the 991st: nine lie above it.
    assert!(!up_to(1000).supports(0.99) && up_to(1001).supports(0.99) && up_to(1000).supports(0.9));
    assert!(!up_to(10_000).supports(0.999) && up_to(10_010).supports(0.999));
    assert!(!up_to(20).supports(0.5) && up_to(21).supports(0.5));
    for count in [11, 12, 100, 1000, 12_345] {
        let all = up_to(count);
        let largest = all.largest_supported().unwrap();
        assert!(all.supports(largest) && all.value_at(largest) == count - 11, "{count}");
    }
    assert_eq!(up_to(10).largest_supported(), None);
    let eight: Vec<u64> = (0..8).collect();
    assert!(!result(&eight).supports(0.5));
    assert_eq!(result(&eight).largest_supported(), None);
}

#[test]
fn spread_has_median_range_and_half_width() {
    assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0, count: 3 }));
    assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 1.5);
    assert_eq!(Spread::of([9.0, 10.0, 11.0]).unwrap().relative_half_width(), Some(0.1));
    assert_eq!(Spread::of([9.0]).unwrap().relative_half_width(), None, "one repetition has no spread");
}

/// The value at index floor(n × fraction) of the sorted values.
fn exact(values: &[u64], fraction: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[((sorted.len() as f64 * fraction).floor() as usize).min(sorted.len() - 1)]
}

proptest! {
    #[test]
    fn every_percentile_of_single_values_is_exact(
        values in prop::collection::vec(0..1_000_000_u64, 1..200),
        fraction in 0.0..=1.0_f64,
    ) {
        prop_assert_eq!(result(&values).value_at(fraction), exact(&values, fraction));
    }

    #[test]
    fn moments_merge_as_if_added_one_by_one(left in prop::collection::vec(any::<u64>(), 0..20), right in prop::collection::vec(any::<u64>(), 0..20)) {
        let moments = |values: &[u64]| {
            let mut moments = Moments::default();
            values.iter().for_each(|value| moments.add(*value));
            moments
        };
        let mut merged = moments(&left);
        merged.merge(&moments(&right));
        prop_assert_eq!(merged, moments(&[left, right].concat()));
    }

    #[test]
    fn percentiles_are_monotonic(
        values in prop::collection::vec(any::<u32>(), 1..100),
        one in 0.0..=1.0_f64,
        other in 0.0..=1.0_f64,
    ) {
        let result = result(&values.iter().map(|value| u64::from(*value)).collect::<Vec<_>>());
        prop_assert!(result.value_at(one.min(other)) <= result.value_at(one.max(other)));
    }

    #[test]
    fn merge_is_independent_of_division(
        values in prop::collection::vec(0..1_000_000_u64, 1..100),
        at in any::<prop::sample::Index>(),
    ) {
        let (left, right) = values.split_at(at.index(values.len()));
        let (merged, together) = (result(left).merged(&result(right)), result(&values));
        prop_assert_eq!(&merged.histogram, &together.histogram);
        prop_assert_eq!((merged.min_ns, merged.max_ns, merged.p99_ns), (together.min_ns, together.max_ns, together.p99_ns));
        prop_assert!((merged.mean_ns - together.mean_ns).abs() < 1e-3);
        prop_assert!((merged.std_ns - together.std_ns).abs() < 1e-2);
    }
}

#[test]
fn coarser_buckets_keep_exact_values_and_are_narrow() {
    let histogram: Vec<(u64, u64)> = (1..5_000).map(|value| (value * 7, value % 3 + 1)).collect();
    let mut moments = Moments::default();
    histogram.iter().for_each(|(value, count)| (0..*count).for_each(|_| moments.add(*value)));
    let fine = LatencyResult::new(&moments, histogram);
    let coarse = fine.coarsened();
    assert_eq!(
        (coarse.count, coarse.p50_ns, coarse.p99_99_ns, coarse.max_ns),
        (fine.count, fine.p50_ns, fine.p99_99_ns, fine.max_ns)
    );
    assert_eq!(coarse.histogram.iter().map(|(_, count)| count).sum::<u64>(), fine.count);
    assert!(coarse.histogram.len() < 700 && coarse.histogram.is_sorted(), "{}", coarse.histogram.len());
    for fraction in [0.01, 0.5, 0.9, 0.999] {
        let (exact, rough) = (fine.value_at(fraction) as f64, coarse.value_at(fraction) as f64);
        assert!(rough >= exact && rough <= exact * (1.0 + 1.0 / 64.0), "{fraction}: {exact} {rough}");
    }
    assert_eq!(coarse.coarsened(), coarse);
    assert_eq!(LatencyResult::default().coarsened(), LatencyResult::default());
}
