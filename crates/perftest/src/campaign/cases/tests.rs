//! Expansion: which cases, in which order, how many with `--quick`.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn plan(matrix: &str) -> Plan {
    let head = "title = \"t\"\nseries = [\"raw-udp\", \"peregrine\", \"fastdds\"]\nduration_s = 2\nrepetitions = 2\n[[matrix]]\n";
    Plan::read("p.toml", &format!("{head}{matrix}")).unwrap()
}

fn brief(cases: &Cases) -> Vec<String> {
    let of = |planned: &PlannedCase| {
        format!(
            "{} {} {} {} {}",
            planned.repetition, planned.series.id, planned.pace, planned.data_len, planned.case.reliability
        )
    };
    cases.planned.iter().map(of).collect()
}

#[test]
fn repetitions_go_round_all_series_and_begin_with_another_one_each_time() {
    let cases = Cases::of(&plan("rates = [\"unpaced\"]\nsizes = [64, 128]\n"), false, false);
    assert_eq!(
        brief(&cases),
        [
            "0 raw-udp unpaced 64 best effort",
            "0 peregrine unpaced 64 reliable",
            "0 raw-udp unpaced 128 best effort",
            "0 peregrine unpaced 128 reliable",
            "1 peregrine unpaced 64 reliable",
            "1 raw-udp unpaced 64 best effort",
            "1 peregrine unpaced 128 reliable",
            "1 raw-udp unpaced 128 best effort",
        ]
    );
}

#[test]
fn the_floor_is_measured_once_whatever_it_does_not_know() {
    let cases = Cases::of(
        &plan(
            "rates = [30]\ntypes = [\"Struct256\"]\nreliability = [\"best_effort\", \"reliable\"]\npublishing = [\"synchronous\", \"asynchronous\"]\n",
        ),
        false,
        false,
    );
    let floor: Vec<_> = cases.planned.iter().filter(|planned| planned.series.is_floor()).collect();
    assert_eq!(floor.len(), 2, "one per repetition");
    assert_eq!((floor[0].data_len, floor[0].data_type), (528, DataType::Octets));
    assert_eq!(cases.planned.len(), 2 + 2 * 4);
}

#[test]
fn what_cannot_be_measured_is_skipped_once_with_its_reason() {
    let cases = Cases::of(
        &plan(
            "rates = [\"ping-pong\", \"unpaced\"]\nsizes = [64, 100000]\ndelivery = [\"same_host\", \"two_hosts\"]\n",
        ),
        false,
        false,
    );
    let reasons = |series: &str| -> Vec<_> {
        let of_series = cases.skipped.iter().filter(|skipped| skipped.series == series);
        of_series.map(|skipped| (skipped.data_len, skipped.case.delivery, skipped.reason.as_str())).collect()
    };
    const ONE: &str = "the plan runs on one machine; this takes two hosts";
    assert_eq!(
        reasons("raw-udp"),
        [
            (64, Delivery::TwoHosts, ONE),
            (100_000, Delivery::SameHost, "a datagram carries 65507 bytes at most"),
            (100_000, Delivery::TwoHosts, ONE),
        ]
    );
    assert_eq!(reasons("peregrine"), [(64, Delivery::TwoHosts, ONE), (100_000, Delivery::TwoHosts, ONE)]);
    assert_eq!(reasons("fastdds").len(), 4);
    assert_eq!(cases.planned.iter().filter(|planned| planned.series.id == "peregrine").count(), 2 * 2 * 2);
    let there = Cases::of(&plan("rates = [30]\nsizes = [64]\ndelivery = [\"two_hosts\"]\n"), true, false);
    assert_eq!((there.planned.len(), there.skipped.len()), (4, 1));
}

#[test]
fn an_exclude_leaves_out_what_matches_each_of_its_keys() {
    let cases = Cases::of(
        &plan(
            "rates = [30, \"unpaced\"]\nsizes = [64, 128]\nseries = [\"peregrine\"]\n[[matrix.exclude]]\nrates = [30]\nsizes = [128]\n",
        ),
        false,
        false,
    );
    let first: Vec<_> = brief(&cases).into_iter().filter(|text| text.starts_with('0')).collect();
    assert_eq!(
        first,
        ["0 peregrine 30 Hz 64 reliable", "0 peregrine unpaced 64 reliable", "0 peregrine unpaced 128 reliable"]
    );
    assert_eq!(cases.series.iter().map(|series| series.id).collect::<Vec<_>>(), ["peregrine"]);
    assert_eq!((cases.data_lens, cases.repetitions), (vec![64, 128], 2));
}

#[test]
fn quick_keeps_the_ends_of_every_list_and_measures_once() {
    let cases =
        Cases::of(&plan("rates = [1, 2, 3]\nsizes = [64, 128, 256, 512]\nseries = [\"peregrine\"]\n"), false, true);
    let briefs = brief(&cases);
    assert_eq!(
        briefs,
        [
            "0 peregrine 1 Hz 64 reliable",
            "0 peregrine 1 Hz 512 reliable",
            "0 peregrine 3 Hz 64 reliable",
            "0 peregrine 3 Hz 512 reliable",
        ]
    );
    assert!(cases.planned.iter().all(|planned| planned.duration == QUICK_DURATION && planned.warm_up == QUICK_WARM_UP));
    let estimate = Cases::estimate(&cases.planned);
    assert_eq!(estimate, (QUICK_DURATION + QUICK_WARM_UP + CASE_COST + 2 * PROCESS_COST) * 4);
}

proptest! {
    #[test]
    fn every_combination_comes_once_per_repetition_and_series(
        rates in prop::collection::btree_set(1..2000_u32, 1..4),
        sizes in prop::collection::btree_set(32..5000_u32, 1..4),
        subscribers in prop::collection::btree_set(1..10_u32, 1..3),
        repetitions in 1..4_u32,
    ) {
        let mut plan = plan(&format!("rates = {rates:?}\nsizes = {sizes:?}\nsubscribers = {subscribers:?}\n").replace('{', "[").replace('}', "]"));
        plan.repetitions.0 = repetitions;
        let cases = Cases::of(&plan, false, false);
        let combinations = rates.len() * sizes.len() * subscribers.len();
        prop_assert_eq!(cases.planned.len(), combinations * 2 * repetitions as usize);
        prop_assert_eq!(cases.skipped.len(), combinations);
        let keys: HashSet<_> = cases.planned.iter().map(PlannedCase::key).collect();
        prop_assert_eq!(keys.len(), cases.planned.len());
        prop_assert!(cases.planned.is_sorted_by_key(|planned| planned.repetition));
        // A quick run asks nothing that the whole one does not.
        let quick = Cases::of(&plan, false, true);
        prop_assert!(quick.planned.iter().all(|planned| keys.contains(&planned.key())));
        prop_assert!(!quick.planned.is_empty() && quick.planned.len() <= QUICK_CASES);
    }

    #[test]
    fn thinning_keeps_so_many_in_order(len in 0..500_usize, most in 1..200_usize) {
        let mut values: Vec<usize> = (0..len).collect();
        keep_evenly(&mut values, most);
        prop_assert_eq!(values.len(), len.min(most));
        prop_assert!(values.is_sorted());
    }
}
