use super::*;
use crate::example;
use crate::record::{BlockPlace, Case, Reliability, Wait};

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
fn interval_around_one_shows_no_difference_or_equivalence() {
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

/// Eight repetitions of both series in two cases: the first as in [`record`], the second ten times slower.
fn two_cases(cases: [Case; 2]) -> Record {
    let mut both = record(8, 1.0);
    let slower = record(8, 10.0).measurements;
    let [first, second] = cases.map(|case| Some(Box::new(case)));
    for one in &mut both.measurements {
        one.case = first.clone();
    }
    both.measurements.extend(slower.into_iter().map(|one| Measurement { case: second.clone(), ..one }));
    both
}

fn p50_of_32(compared: &[Compared]) -> Vec<(f64, f64, f64)> {
    let of_32 = compared.iter().filter(|one| one.data_len == 32 && one.metric == Metric::LatencyP50);
    of_32.map(|one| (one.a.round(), one.b.round(), one.ratio.median.round())).collect()
}

#[test]
fn cases_of_a_campaign_are_compared_each_with_itself() {
    let case = |reliability| Case { reliability, subscribers: 1, ..Case::default() };
    let both = two_cases([case(Reliability::Reliable), case(Reliability::BestEffort)]);
    let compared = compare(&both, &both, Some(("raw", "dds")));
    assert_eq!(p50_of_32(&compared), [(3_004.0, 6_004.0, 2.0), (30_004.0, 60_004.0, 2.0)]);
    let text = render(&compared);
    assert!(
        text.contains("latency p50, 32 B, reliable: ") && text.contains("latency p50, 32 B, best effort: "),
        "{text}"
    );
    assert_eq!(render(&compare(&record(8, 1.0), &record(8, 1.0), Some(("raw", "dds")))).matches("reliable").count(), 0);

    let mut only_second = both.clone();
    only_second.measurements.retain(|one| one.case.as_ref().unwrap().reliability == Reliability::BestEffort);
    let separate = compare(&both, &only_second, Some(("raw", "raw")));
    assert_eq!(p50_of_32(&separate), [(30_004.0, 30_004.0, 1.0)], "the first case has no partner");
}

#[test]
fn floor_is_the_partner_of_each_case_with_its_layout() {
    let case = |wait| Case { wait: Some(wait), subscribers: 1, ..Case::default() };
    let mut both = two_cases([case(Wait::Block), case(Wait::Listener)]);
    both.header.series[0].floor = true;
    both.measurements.retain(|one| one.series != "raw" || one.case.as_ref().unwrap().wait == Some(Wait::Block));
    let expected = [(3_004.0, 6_004.0, 2.0), (3_004.0, 60_004.0, 20.0)];
    assert_eq!(p50_of_32(&compare(&both, &both, Some(("raw", "dds")))), expected);
    let reversed = compare(&both, &both, Some(("dds", "raw")));
    assert_eq!(
        p50_of_32(&reversed).iter().map(|one| (one.1, one.0)).collect::<Vec<_>>(),
        expected.map(|one| (one.0, one.1))
    );
}

#[test]
fn other_rate_of_a_schedule_is_another_measurement() {
    let at = |rate_per_s, factor| {
        let mut record = record(8, factor);
        record.measurements.retain(|one| one.test == Test::Latency);
        for one in &mut record.measurements {
            (one.test, one.case) =
                (Test::OpenLoop, Some(Box::new(Case { rate_per_s: Some(rate_per_s), ..Case::default() })));
            one.publisher.scheduled_latency = one.publisher.latency.take();
        }
        record
    };
    assert_eq!(compare(&at(100.0, 1.0), &at(1000.0, 2.0), None), []);
    let same = compare(&at(100.0, 1.0), &at(100.0, 2.0), None);
    assert_eq!((same.len(), same[0].metric, same[0].conditions.rate_per_s), (4, Metric::LatencyP50, Some(100.0)));
}

#[test]
fn verdict_with_few_control_blocks_states_that() {
    let with_controls = |controls: u32| {
        let mut record = record(1, 1.0);
        let is_run = |one: &&Measurement| one.series == "raw" && one.test == Test::Throughput && one.data_len == 32;
        let run = record.measurements.iter().find(is_run).cloned().unwrap();
        let dds = Measurement { series: "dds".into(), ..run.clone() };
        record.measurements.clear();
        for number in 0..8 {
            for (place, role) in [Role::A, Role::B, Role::B, Role::A].into_iter().enumerate() {
                for control in [false, true].into_iter().filter(|control| !control || number < controls) {
                    let run = if role == Role::B && !control { &dds } else { &run };
                    let block = Some(BlockPlace { number, place: place as u8, role, control });
                    record.measurements.push(Measurement { block, ..run.clone() });
                }
            }
        }
        render(&compare(&record, &record, None))
    };
    let told = "1 comparison has a verdict without a control: fewer than 8 blocks of A against A are complete.";
    let (none, three, eight) = (with_controls(0), with_controls(3), with_controls(8));
    assert!(none.contains("no A/A (too few for a control)") && none.contains(told), "{none}");
    assert!(three.contains("of 3 (too few for a control)") && three.contains(told), "{three}");
    assert!(!eight.contains("too few") && !eight.contains("without a control"), "{eight}");
}
