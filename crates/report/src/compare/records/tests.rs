use super::*;
use crate::example;
use crate::record::BlockPlace;

/// The example with `repetitions` repetitions of every measurement, all times multiplied by `factor`.
fn record(repetitions: u32, factor: f64) -> Record {
    let mut record = example::record();
    let template: Vec<_> = record.measurements.iter().filter(|one| one.repetition == 0).cloned().collect();
    record.measurements.clear();
    for repetition in 0..repetitions {
        for measurement in &template {
            let mut measurement = Measurement { repetition, ..measurement.clone() };
            if let Some(latency) = &mut measurement.publisher.latency {
                for bucket in &mut latency.histogram {
                    bucket.0 = (bucket.0 as f64 * factor) as u64 + u64::from(repetition);
                    (latency.min_ns, latency.max_ns) = (0, u64::MAX);
                }
            }
            record.measurements.push(measurement);
        }
    }
    record
}

#[test]
fn records_are_compared_series_by_series() {
    let compared = compare(&record(8, 1.0), &record(8, 2.0), None);
    assert!(compared.iter().all(|one| one.series_a == one.series_b && one.pairing == Pairing::Separate));
    let p50: Vec<_> = compared.iter().filter(|one| one.metric == Metric::LatencyP50).collect();
    assert_eq!(p50.len(), 4);
    for one in p50 {
        assert_eq!(one.verdict, Verdict::Higher, "{one:?}");
        assert!((one.ratio.median - 2.0).abs() < 0.01);
    }
    let rates = compared.iter().filter(|one| one.metric == Metric::SamplesPerS);
    assert!(rates.clone().count() == 4 && rates.clone().all(|one| one.verdict == Verdict::Equivalent));
    // A hundred samples do not have a 99th percentile.
    assert!(compared.iter().all(|one| one.metric != Metric::LatencyP99));
    let text = render(&compared);
    assert!(text.contains("raw -> raw, latency p50, 32 B: 3.00 us -> 6.00 us, ratio 1.999"), "{text}");
    assert!(text.contains("worse by 99.9 %") && text.contains("equivalent within 5 % (+0.0 % to +0.0 %)"), "{text}");
    assert!(text.contains("8 comparisons at 95 %:") && text.contains("about 0.4 of them would show one"), "{text}");
    assert!(text.contains("measured separately"), "{text}");
}

#[test]
fn few_repetitions_give_no_verdict() {
    let compared = compare(&record(3, 1.0), &record(3, 2.0), None);
    assert!(compared.iter().all(|one| one.verdict == Verdict::TooFew));
    let text = render(&compared);
    assert!(text.contains("8 comparisons have too few runs"), "{text}");
    assert!(!text.contains('['), "a bootstrap over three runs has no known coverage: {text}");
}

#[test]
fn one_repetition_has_no_interval_and_few_state_their_coverage() {
    let text = |repetitions| {
        let record = record(repetitions, 1.0);
        render(&compare(&record, &record, Some(("raw", "dds"))))
    };
    let (one, three, eight) = (text(1), text(3), text(8));
    assert!(one.contains("ratio 2.000 of 1: too few runs"), "{one}");
    assert!(three.contains("] at 75 % of 3: too few runs"), "{three}");
    assert!(eight.contains("] of 8: worse by"), "{eight}");
}

#[test]
fn an_interval_around_one_shows_no_difference_unless_it_is_narrow() {
    let pairs = |spread: f64| [-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0].map(|step: f64| (1.0, 1.0 + spread * step));
    let say = |spread| {
        let ratio = Ratio::of_pairs(&pairs(spread)).unwrap();
        verdict_text(&ratio, ratio.verdict(FEWEST_BLOCKS, None), true)
    };
    assert_eq!(say(0.05), "no difference shown (-20.0 % to +20.0 %)");
    assert_eq!(say(0.01), "equivalent within 5 % (-4.0 % to +4.0 %)");
}

#[test]
fn two_series_of_one_record_are_paired_by_repetition() {
    let record = record(8, 1.0);
    let compared = compare(&record, &record, Some(("raw", "dds")));
    assert_eq!(compared.len(), 4);
    assert!(compared.iter().all(|one| one.pairing == Pairing::SameRecord));
    assert_eq!(compared[0].verdict, Verdict::Higher);
    assert!(render(&compared).contains("raw -> dds, throughput samples/s, 32 B: 1000/s -> 500/s"));
    assert_eq!(compare(&record, &record, Some(("raw", "tcp"))), []);
}

#[test]
fn blocks_of_a_record_are_compared_with_their_control() {
    let mut record = record(1, 1.0);
    let of = |series: &str| {
        let mut found = record.measurements.iter().filter(|one| one.series == series && one.test == Test::Throughput);
        found.next().cloned().unwrap()
    };
    let (a, b) = (of("raw"), of("dds"));
    record.measurements.clear();
    for number in 0..8 {
        for (place, role) in [Role::A, Role::B, Role::B, Role::A].into_iter().enumerate() {
            for control in [false, true] {
                let run = if role == Role::B && !control { &b } else { &a };
                let block = Some(BlockPlace { number, place: place as u8, role, control });
                record.measurements.push(Measurement { block, ..run.clone() });
            }
        }
    }
    let compared = compare(&record, &record, None);
    let [one] = &compared[..] else { panic!("{compared:?}") };
    assert_eq!((one.series_a.as_str(), one.series_b.as_str(), one.pairing), ("raw", "dds", Pairing::Interleaved));
    assert_eq!((one.ratio.count, one.verdict), (8, Verdict::Lower));
    assert!((one.ratio.median - 0.5).abs() < 1e-12);
    assert!(one.control.is_some_and(|control| control.spans_one() && control.count == 8));
    assert!(render(&compared).contains("A/A 1.000 [1.000, 1.000] of 8: worse by 50.0 %"), "{}", render(&compared));

    // An incomplete block does not count, and then there are too few.
    record.measurements.pop();
    record.measurements.pop();
    let compared = compare(&record, &record, None);
    assert_eq!((compared[0].ratio.count, compared[0].verdict), (7, Verdict::TooFew));
}
