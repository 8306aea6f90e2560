//! Outages of Peregrine with every vendor in both directions, side by side.

use std::thread;
use std::time::Duration;

use peregrine_interop::outage::{Figures, Flow, Kind, Matching, Outage, PairOf, Setup, Stalls, Watch, observe_awake};
use peregrine_interop::outage::{pairs, program};
use peregrine_interop::{Qos, Result};

/// An outage, and the lease of the participants.
#[derive(Clone, Copy)]
struct Case {
    outage: Outage,
    lease_ms: u32,
}

/// Short, so that a test takes seconds. Each peer announces itself more often than once per lease.
const LEASE_MS: u32 = 2000;
/// Long enough that a participant which is forgotten after the outage is seen, and patient with a slow machine.
const WATCH: Watch = Watch { at_least: Duration::from_secs(4), at_most: Duration::from_secs(30) };
const ATTEMPTS: u32 = 5;

impl Case {
    const fn longer_than_lease(kind: Kind) -> Self {
        Self { outage: Outage { kind, length: Duration::from_secs(6) }, lease_ms: LEASE_MS }
    }

    const fn shorter_than_lease(kind: Kind) -> Self {
        Self { outage: Outage { kind, length: Duration::from_secs(2) }, lease_ms: 10_000 }
    }
}

/// The figures of Peregrine with every vendor in both directions, and with itself.
fn figures_of_all_pairs(case: Case) -> Vec<(PairOf, Figures)> {
    let pairs: Vec<PairOf> = pairs().into_iter().filter(|pair| [pair.0, pair.1].contains(&"peregrine")).collect();
    assert_eq!(pairs.len(), 7, "{pairs:?}");
    let stalls = Stalls::watch();
    thread::scope(|scope| {
        let run =
            |pair: &PairOf| observe_pair(*pair, case, &stalls).unwrap_or_else(|error| panic!("{pair:?}: {error}"));
        let threads: Vec<_> = pairs.iter().map(|pair| scope.spawn(move || (*pair, run(pair)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn observe_pair(pair: PairOf, case: Case, stalls: &Stalls) -> Result<Figures> {
    let setup = Setup {
        writer: program(pair.0)?,
        reader: program(pair.1)?,
        lease_ms: Some(case.lease_ms),
        security: None,
        qos: Qos::default(),
        watch: WATCH,
    };
    observe_awake(&setup, case.outage, stalls, ATTEMPTS)
}

/// Two announcement periods of any peer are shorter than two leases.
fn assert_data_flow_again(pair: PairOf, figures: &Figures) {
    let limit = 2 * Duration::from_millis(LEASE_MS.into());
    assert!(matches!(figures.flow, Flow::After(time) if time < limit), "{pair:?}: {figures:?}");
    assert_eq!([figures.writer.at_end, figures.reader.at_end], [1, 1], "{pair:?}: {figures:?}");
    assert_eq!(figures.repeated, 0, "{pair:?}: {figures:?}");
}

fn assert_no_match_ends_and_no_sample_is_lost(pair: PairOf, figures: &Figures) {
    let kept = Matching { unmatched: None, at_end: 1, new_matches: 0 };
    assert_eq!([figures.writer, figures.reader], [kept, kept], "{pair:?}: {figures:?}");
    assert_eq!(figures.lost, 0, "{pair:?}: {figures:?}");
}

#[test]
fn lost_multicast_ends_no_match_and_loses_no_sample() {
    for (pair, figures) in figures_of_all_pairs(Case::longer_than_lease(Kind::Multicast)) {
        assert_data_flow_again(pair, &figures);
        assert_no_match_ends_and_no_sample_is_lost(pair, &figures);
    }
}

/// The interface without a link loses its addresses, which is no move. The kernel keeps some messages until the link is
/// back.
#[test]
fn link_down_for_less_than_the_lease_ends_no_match_and_loses_no_sample() {
    for (pair, figures) in figures_of_all_pairs(Case::shorter_than_lease(Kind::Link)) {
        assert_data_flow_again(pair, &figures);
        assert_no_match_ends_and_no_sample_is_lost(pair, &figures);
    }
}

#[test]
fn writer_that_was_stopped_is_matched_again() {
    for (pair, figures) in figures_of_all_pairs(Case::longer_than_lease(Kind::StopWriter)) {
        assert_data_flow_again(pair, &figures);
    }
}

#[test]
fn reader_that_was_stopped_is_matched_again() {
    for (pair, figures) in figures_of_all_pairs(Case::longer_than_lease(Kind::StopReader)) {
        assert_data_flow_again(pair, &figures);
    }
}

/// The participants announce themselves by multicast, and no acknowledgement or no sample arrives.
#[test]
fn half_open_firewall_ends_no_match_and_loses_no_sample() {
    for kind in [Kind::UnicastToReader, Kind::UnicastToWriter] {
        for (pair, figures) in figures_of_all_pairs(Case::longer_than_lease(kind)) {
            assert_data_flow_again(pair, &figures);
            assert_no_match_ends_and_no_sample_is_lost(pair, &figures);
        }
    }
}

/// The new process is another participant, and comes after the lease of the former one has ended.
#[test]
fn process_that_was_killed_and_started_again_is_matched() {
    for kind in [Kind::KillWriter, Kind::KillReader] {
        for (pair, figures) in figures_of_all_pairs(Case::longer_than_lease(kind)) {
            assert_data_flow_again(pair, &figures);
        }
    }
}
