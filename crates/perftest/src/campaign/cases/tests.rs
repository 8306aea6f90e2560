//! Tests of the expansion: the cases, their order, and their number with `--quick`.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;
use crate::peers::catalog::Environment;

fn plan(matrix: &str) -> Plan {
    let head = "title = \"t\"\nseries = [\"raw-udp\", \"peregrine\", \"dustdds-udp\"]\nduration_s = 2\nrepetitions = 2\n[[matrix]]\n";
    Plan::read("p.toml", &format!("{head}{matrix}")).unwrap()
}

/// Conditions of one machine without peers.
fn here() -> Conditions {
    Conditions { two_hosts: false, peers: PeerPrograms::none("it is not built"), quick: None }
}

fn quick() -> Conditions {
    Conditions { quick: Some(Duration::from_secs(150)), ..here() }
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
fn repetitions_cycle_through_all_series_with_rotating_start() {
    let cases = Cases::of(&plan("rates = [\"unpaced\"]\nsizes = [64, 128]\n"), &here());
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
fn floor_is_measured_once_for_unsupported_settings() {
    let cases = Cases::of(
        &plan(
            "rates = [30]\ntypes = [\"Struct256\"]\nreliability = [\"best_effort\", \"reliable\"]\npublishing = [\"synchronous\", \"asynchronous\"]\n",
        ),
        &here(),
    );
    let floor: Vec<_> = cases.planned.iter().filter(|planned| planned.series.is_floor()).collect();
    assert_eq!(floor.len(), 2, "one per repetition");
    assert_eq!((floor[0].data_len, floor[0].data_type), (528, DataType::Octets));
    assert_eq!(cases.planned.len(), 2 + 2 * 4);
}

#[test]
fn unmeasurable_case_is_skipped_once_with_its_reason() {
    let cases = Cases::of(
        &plan(
            "rates = [\"ping-pong\", \"unpaced\"]\nsizes = [64, 100000]\ndelivery = [\"same_host\", \"two_hosts\"]\n",
        ),
        &here(),
    );
    let reasons = |series: &str| -> Vec<_> {
        let of_series = cases.skipped.iter().filter(|skipped| skipped.series == series);
        let of_test = of_series.filter(|skipped| skipped.test == Some(Test::Latency));
        of_test.map(|skipped| (skipped.data_len, skipped.case.delivery, skipped.reason.as_str())).collect()
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
    assert_eq!(reasons("dustdds-udp").len(), 4);
    assert_eq!(cases.planned.iter().filter(|planned| planned.series.id == "peregrine").count(), 2 * 2 * 2);
    let there = Cases::of(
        &plan("rates = [30]\nsizes = [64]\ndelivery = [\"two_hosts\"]\n"),
        &Conditions { two_hosts: true, ..here() },
    );
    assert_eq!((there.planned.len(), there.skipped.len()), (4, 1));
    assert_eq!(cases.skipped.iter().filter(|skipped| skipped.test == Some(Test::Throughput)).count(), 9);
}

#[test]
fn possible_paths_of_peregrine_are_measured() {
    let text = "rates = [\"ping-pong\"]\ntypes = [\"octets\", \"Array4k\", \"Struct256\"]\nsizes = [64]\n\
                delivery = [\"same_process\", \"same_host\", \"two_hosts\"]\nseries = [\"peregrine-udp-flat-data\", \
                \"peregrine-shared-memory\", \"peregrine-flat-data\", \"peregrine-zero-copy\", \"peregrine-same-process\"]\n";
    let cases = Cases::of(&plan(text), &Conditions { two_hosts: true, ..here() });
    let asked = |series: &str, delivery| {
        let is_of = |planned: &&PlannedCase| {
            (&*planned.series.id, planned.case.delivery, planned.repetition) == (series, delivery, 0)
        };
        cases.planned.iter().filter(is_of).map(|planned| planned.data_type.name()).collect::<Vec<_>>()
    };
    let (one, host, two) = (Delivery::SameProcess, Delivery::SameHost, Delivery::TwoHosts);
    let all = ["octets", "Array4k", "Struct256"];
    for (series, expected) in [
        ("peregrine-udp-flat-data", [&all[..1], &all[..1], &all[..1]]),
        ("peregrine-shared-memory", [&[], &all, &[]]),
        ("peregrine-flat-data", [&[], &all[..1], &[]]),
        ("peregrine-zero-copy", [&[], &all[..2], &[]]),
        ("peregrine-same-process", [&all, &[], &[]]),
    ] {
        for (delivery, types) in [one, host, two].into_iter().zip(expected) {
            assert_eq!(asked(series, delivery), types, "{series}, {delivery}");
        }
        let told = cases.skipped.iter().filter(|skipped| skipped.series == series).count();
        assert_eq!(told, 9 - expected.iter().map(|types| types.len()).sum::<usize>(), "{series}");
    }
    let why = |series: &str, data_type: &str, delivery| {
        let found = cases.skipped.iter().find(|skipped| {
            (&*skipped.series, &*skipped.case.data_type, skipped.case.delivery) == (series, data_type, delivery)
        });
        found.map(|skipped| skipped.reason.clone()).unwrap_or_default()
    };
    assert_eq!(why("peregrine-zero-copy", "octets", two), "shared memory does not leave a host");
    assert!(why("peregrine-shared-memory", "octets", one).contains("peregrine-same-process"));
    assert!(why("peregrine-zero-copy", "Struct256", host).starts_with("Struct256 is neither plain nor flat"));
    assert_eq!(why("peregrine-same-process", "octets", host), "samples go by reference within a process only");
}

#[test]
fn exclude_removes_cases_that_match_all_keys() {
    let cases = Cases::of(
        &plan(
            "rates = [30, \"unpaced\"]\nsizes = [64, 128]\nseries = [\"peregrine\"]\n[[matrix.exclude]]\nrates = [30]\nsizes = [128]\n",
        ),
        &here(),
    );
    let first: Vec<_> = brief(&cases).into_iter().filter(|text| text.starts_with('0')).collect();
    assert_eq!(
        first,
        ["0 peregrine 30 Hz 64 reliable", "0 peregrine unpaced 64 reliable", "0 peregrine unpaced 128 reliable"]
    );
    assert_eq!(cases.series.iter().map(|series| &*series.id).collect::<Vec<_>>(), ["peregrine"]);
    assert_eq!((cases.data_lens, cases.repetitions), (vec![64, 128], 2));
}

#[test]
fn quick_run_keeps_ends_and_middle_of_lists() {
    let cases = Cases::of(&plan("rates = [1, 3]\nsizes = [64, 128, 256, 512]\nseries = [\"peregrine\"]\n"), &quick());
    let briefs = brief(&cases);
    assert_eq!(
        briefs,
        [
            "0 peregrine 1 Hz 64 reliable",
            "0 peregrine 1 Hz 256 reliable",
            "0 peregrine 1 Hz 512 reliable",
            "0 peregrine 3 Hz 64 reliable",
            "0 peregrine 3 Hz 256 reliable",
            "0 peregrine 3 Hz 512 reliable",
        ]
    );
    assert!(cases.planned.iter().all(|planned| planned.duration == QUICK_DURATION && planned.warm_up == QUICK_WARM_UP));
    let estimate = Cases::estimate(&cases.planned);
    assert_eq!(estimate, (QUICK_DURATION + QUICK_WARM_UP + CASE_COST + 2 * PROCESS_COST) * 6);
}

#[test]
fn unsupported_wait_method_is_reported() {
    let conditions = Conditions { peers: PeerPrograms::all_at("/bin/true"), ..here() };
    let text = "rates = [30]\nsizes = [64]\nwait = [\"block\", \"poll\", \"listener\"]\npeers = [\"cyclonedds\"]\n\
                [[matrix.exclude]]\nwait = [\"poll\"]\nseries = [\"peregrine\"]\n";
    let cases = Cases::of(&plan(text), &conditions);
    let waits = |series: &str| {
        let of = cases.planned.iter().filter(|planned| planned.series.id == series && planned.repetition == 0);
        of.map(|planned| (planned.wait, planned.case.wait)).collect::<Vec<_>>()
    };
    let all = |waits: &[Wait]| waits.iter().map(|wait| (*wait, Some(*wait))).collect::<Vec<_>>();
    assert_eq!(waits("raw-udp"), all(&[Wait::Block, Wait::Poll]));
    assert_eq!(waits("peregrine"), all(&[Wait::Block, Wait::Listener]));
    assert_eq!(waits("cyclonedds-udp"), all(&[Wait::Block, Wait::Poll, Wait::Listener]));
    let cannot = cases.skipped.iter().find(|one| one.series == "raw-udp").unwrap();
    assert_eq!((cannot.case.wait, &*cannot.reason), (Some(Wait::Listener), "plain sockets have no listener"));
    assert_eq!(cases.waits, [Wait::Block, Wait::Poll, Wait::Listener]);
    assert!(cases.planned.iter().any(|planned| planned.describe().contains("same host, wait poll, 1 to 1")));
}

const PING_AND_RATE: &str = "rates = [\"ping-pong\", \"unpaced\"]\nsizes = [64]\npeers = [\"cyclonedds\"]\n";

#[test]
fn peers_alternate_with_other_series_in_every_case() {
    let conditions = Conditions { peers: PeerPrograms::all_at("/bin/true"), ..here() };
    let cases = Cases::of(&plan(PING_AND_RATE), &conditions);
    let first: Vec<_> = brief(&cases).into_iter().filter(|text| text.starts_with('0')).collect();
    assert_eq!(
        first,
        [
            "0 raw-udp ping-pong 64 best effort",
            "0 peregrine ping-pong 64 reliable",
            "0 dustdds-udp ping-pong 64 reliable",
            "0 cyclonedds-udp ping-pong 64 reliable",
            "0 raw-udp unpaced 64 best effort",
            "0 peregrine unpaced 64 reliable",
            "0 dustdds-udp unpaced 64 reliable",
            "0 cyclonedds-udp unpaced 64 reliable",
            "0 cyclonedds-udp-batched unpaced 64 reliable",
        ],
        "with one sample in flight there is no batch"
    );
}

#[test]
fn missing_peer_is_skipped_with_its_build_command() {
    let peers = PeerPrograms::find(&Environment { path: "/nowhere".into(), cache: None });
    let cases = Cases::of(&plan(PING_AND_RATE), &Conditions { peers, ..here() });
    let skipped: Vec<_> = cases.skipped.iter().filter(|skipped| skipped.series.starts_with("cyclonedds")).collect();
    assert_eq!(
        skipped.iter().map(|skipped| skipped.test.unwrap()).collect::<Vec<_>>(),
        [Test::Latency, Test::Throughput, Test::Throughput]
    );
    assert!(skipped.iter().all(|skipped| skipped.reason.contains("perftest peers --build cyclonedds")));
    assert!(cases.planned.iter().all(|planned| matches!(planned.mover, CaseProgram::Own(_))));
}

#[test]
fn case_unsupported_by_peers_is_skipped_with_its_reason() {
    let conditions = Conditions { peers: PeerPrograms::all_at("/bin/true"), two_hosts: true, quick: None };
    for (matrix, expected) in [
        ("rates = [30]\nsizes = [64]\ndelivery = [\"same_process\"]", "two processes"),
        ("rates = [30]\nsizes = [64]\ndelivery = [\"two_hosts\"]", "loopback"),
        ("rates = [30]\nsizes = [64]\nsubscribers = [3]", "one subscriber"),
        ("rates = [30]\ntypes = [\"Array4k\"]", "only the type octets"),
        ("rates = [30]\nsizes = [64]\nhistory_depth = 10", "keep all samples"),
        ("rates = [0.5]\nsizes = [64]", "whole samples per second"),
        ("rates = [30]\nsizes = [64]\nwait = \"spin\"", "before they block"),
    ] {
        let cases = Cases::of(&plan(&format!("{matrix}\npeers = [\"cyclonedds\"]\n")), &conditions);
        let reasons: Vec<_> = cases.skipped.iter().filter(|one| one.series == "cyclonedds-udp").collect();
        assert_eq!(reasons.len(), 1, "{matrix}");
        assert!(reasons[0].reason.contains(expected), "{}", reasons[0].reason);
    }
}

#[test]
fn time_of_peers_for_large_samples_is_estimated() {
    let conditions = Conditions { peers: PeerPrograms::all_at("/bin/true"), ..here() };
    let estimate = |len: u32| {
        let text = format!("rates = [\"ping-pong\"]\nsizes = [{len}]\nseries = [\"cyclonedds-udp\"]\n");
        let cases = Cases::of(&plan(&text), &conditions);
        assert_eq!(cases.planned.len(), 2, "each repetition");
        Cases::estimate(&cases.planned)
    };
    assert_eq!(estimate(48_000_000) - estimate(64), Duration::from_secs(8));
}

#[test]
fn short_time_limit_skips_whole_cases() {
    let text = "rates = [\"unpaced\"]\nsizes = [64, 128, 256]\ntypes = [\"octets\", \"Array4k\"]\n";
    let short = Conditions { quick: Some(Duration::from_secs(2)), ..here() };
    let cases = Cases::of(&plan(text), &short);
    assert!(Cases::estimate(&cases.planned) <= Duration::from_secs(2));
    let lens: HashSet<_> = cases.planned.iter().map(|planned| planned.data_len).collect();
    assert_eq!(cases.planned.len(), 2 * lens.len(), "each is put to both series");
}

/// Keys of the planned and of the skipped cases.
fn asked_or_told(cases: &Cases) -> BTreeSet<String> {
    let mut keys: Vec<_> =
        cases.planned.iter().filter(|planned| planned.repetition == 0).map(PlannedCase::key).collect();
    keys.extend(cases.skipped.iter().map(|one| key(&one.series, one.test.unwrap(), one.data_len, 0, Some(&one.case))));
    let count = keys.len();
    let keys: BTreeSet<_> = keys.into_iter().collect();
    assert_eq!(keys.len(), count, "each once");
    keys
}

#[test]
fn cases_skipped_by_a_quick_run_have_a_reason() {
    let text = "rates = [\"unpaced\"]\nsizes = [64, 128, 256, 512, 1024]\ntypes = [\"octets\", \"Array4k\"]\n\
                delivery = [\"same_host\", \"two_hosts\"]\nseries = [\"peregrine\", \"dustdds-udp\"]\n";
    let plan = plan(text);
    let cases = Cases::of(&plan, &Conditions { quick: Some(Duration::from_secs(1)), ..here() });
    let reasons = |series: &str, delivery| {
        let of = cases.skipped.iter().filter(|one| one.series == series && one.case.delivery == delivery);
        of.map(|one| (one.data_len, one.reason.as_str())).collect::<BTreeSet<_>>()
    };
    let own = reasons("peregrine", Delivery::SameHost);
    assert!(own.contains(&(128, quick::THINNED_OUT)) && own.contains(&(512, quick::THINNED_OUT)), "{own:?}");
    assert!(own.iter().any(|(_, reason)| *reason == quick::NO_TIME), "{own:?}");
    let elsewhere = reasons("peregrine", Delivery::TwoHosts);
    assert!(elsewhere.iter().all(|(_, reason)| reason.contains("takes two hosts")), "unmeasurable cases come first");
    assert_eq!(asked_or_told(&cases), asked_or_told(&Cases::of(&plan, &here())));
    assert_eq!(cases.data_lens, [64, 128, 256, 512, 1024, 4096]);
}

proptest! {
    #[test]
    fn every_combination_occurs_once_per_repetition_and_series(
        rates in prop::collection::btree_set(1..2000_u32, 1..4),
        sizes in prop::collection::btree_set(32..5000_u32, 1..4),
        subscribers in prop::collection::btree_set(1..10_u32, 1..3),
        repetitions in 1..4_u32,
    ) {
        let mut plan = plan(&format!("rates = {rates:?}\nsizes = {sizes:?}\nsubscribers = {subscribers:?}\n").replace('{', "[").replace('}', "]"));
        plan.repetitions.0 = repetitions;
        let cases = Cases::of(&plan, &here());
        let combinations = rates.len() * sizes.len() * subscribers.len();
        prop_assert_eq!(cases.planned.len(), combinations * 2 * repetitions as usize);
        prop_assert_eq!(cases.skipped.len(), combinations);
        let keys: HashSet<_> = cases.planned.iter().map(PlannedCase::key).collect();
        prop_assert_eq!(keys.len(), cases.planned.len());
        prop_assert!(cases.planned.is_sorted_by_key(|planned| planned.repetition));
        // Every case of a quick run is also a case of the whole run.
        let quick = Cases::of(&plan, &quick());
        prop_assert!(quick.planned.iter().all(|planned| keys.contains(&planned.key())));
        prop_assert!(!quick.planned.is_empty() && Cases::estimate(&quick.planned) <= Duration::from_secs(150));
        // Every case of the whole run is planned or reported as skipped.
        prop_assert_eq!(asked_or_told(&quick), asked_or_told(&cases));
    }
}
