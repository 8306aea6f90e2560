//! Every shipped plan, briefly, between the hosts of a lab: the record and the page.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::process::Command;

use peregrine_report::record::{Case, Measurement, Record, Skipped, Test};
use perftest::campaign::cases::{Cases, Conditions};
use perftest::campaign::peer::PeerPrograms;
use perftest::campaign::spec::Plan;

use crate::common::{Folder, PROGRAM, start_command};

const PLANS: [&str; 6] = ["raspberry-pi", "large-data", "security", "readme", "periodic", "tsc-2021"];
/// Time limit of one plan, in seconds.
const WITHIN_S: u32 = 15;
/// A separate cache, so that the available peers do not depend on other tests.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/plans");

/// The other middleware of these plans: one that is built here, and one that is not.
const BUILT: &str = "cyclonedds";
const ABSENT: &str = "fastdds";

#[test]
fn every_shipped_plan_runs_in_a_lab() {
    let build = Command::new(PROGRAM).args(["peers", "--build", BUILT]).env("XDG_CACHE_HOME", CACHE).output().unwrap();
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let unknown = Command::new(PROGRAM).args(["run", "no-such-plan"]).output().unwrap();
    let shipped = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(shipped.matches(".toml").count(), PLANS.len(), "each plan is tested here: {shipped}");
    for plan in PLANS {
        assert!(shipped.contains(plan), "{shipped}");
        run_briefly(plan);
    }
}

fn run_briefly(plan: &str) {
    let folder = Folder::new(&format!("lab-plan-{plan}"));
    let mut command = Command::new(PROGRAM);
    command.env("XDG_CACHE_HOME", CACHE);
    let line = format!("lab -- run {plan} --quick --within {WITHIN_S} --out {}", folder.path("out"));
    let outcome = start_command(command, &line).finish();
    assert_eq!(outcome.code, 0, "{plan}: {outcome:?}");

    let file = std::fs::File::open(folder.path("out/record.jsonl")).unwrap();
    let record = Record::read(BufReader::new(file)).unwrap();
    assert!(record.end.as_ref().is_some_and(|end| end.complete), "{plan}");
    let facts = record.header.plan.as_ref().unwrap();
    assert!(facts.name == plan && facts.place.contains("lab"), "{facts:?}");
    check_completeness(plan, &record, &facts.source);
    check_peers(plan, &record, &outcome.stderr);
    check_page(plan, &record, &std::fs::read_to_string(folder.path("out/report.html")).unwrap());
}

/// Every case of the plan, of every series at every place, is measured or skipped with a reason.
fn check_completeness(plan: &str, record: &Record, source: &str) {
    let whole = Plan::read(plan, source).unwrap();
    let conditions =
        Conditions { two_hosts: true, peers: PeerPrograms::none("no program is searched here"), quick: None };
    let whole = Cases::of(&whole, &conditions);
    let key = |series: &str, test: Option<Test>, len: u64, case: &Case| format!("{series} {test:?} {len} {case:?}");
    let of_skipped = |one: &Skipped| key(&one.series, one.test, one.data_len, &one.case);
    let mut asked: BTreeSet<_> =
        whole.planned.iter().map(|one| key(&one.series.id, Some(one.test()), one.data_len, &one.case)).collect();
    asked.extend(whole.skipped.iter().map(of_skipped));

    let of_measurement = |one: &Measurement| key(&one.series, Some(one.test), one.data_len, one.case.as_ref().unwrap());
    let measured: BTreeSet<_> = record.measurements.iter().map(of_measurement).collect();
    let named: BTreeSet<_> = record.not_measured().map(of_skipped).collect();
    assert!(measured.iter().any(|key| key.starts_with("peregrine")), "{plan}: {measured:?}");
    assert_eq!(measured.union(&named).cloned().collect::<BTreeSet<_>>(), asked, "{plan}");
    assert!(measured.is_disjoint(&named), "{plan}");
    assert!(record.not_measured().all(|skipped| !skipped.reason.is_empty()), "{plan}");
    assert!(record.warnings.iter().any(|warning| warning.text.starts_with("Quick run")), "{plan}");
}

/// A built peer is measured, and a missing one is named with the command that builds it.
fn check_peers(plan: &str, record: &Record, stderr: &str) {
    let of_peer = |name: &str| {
        let series = record.header.series.iter().map(|series| &*series.id);
        series.filter(|id| id.starts_with(name)).map(String::from).collect::<BTreeSet<_>>()
    };
    let (built, absent) = (of_peer(BUILT), of_peer(ABSENT));
    let is_asked = record.header.plan.as_ref().is_some_and(|plan| plan.source.contains(&format!("\"{BUILT}")));
    assert_eq!((built.is_empty(), absent.is_empty()), (!is_asked, !is_asked), "{plan}");
    if is_asked {
        let has_run = |id: &String| record.measurements.iter().any(|measurement| measurement.series == *id);
        assert!(!absent.iter().any(has_run), "{plan}: {absent:?}");
        let why = |id: &String| record.not_measured().filter(|one| one.series == *id).map(|one| &*one.reason).next();
        assert!(absent.iter().all(|id| why(id).is_some_and(|reason| reason.contains("--build"))), "{plan}: {absent:?}");
        assert!(stderr.contains(&format!("perftest peers --build {ABSENT}")), "{plan}: {stderr}");
    }
}

fn check_page(plan: &str, record: &Record, page: &str) {
    let title = &record.header.plan.as_ref().unwrap().title;
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"), "{plan}");
    assert!(page.contains(title.as_str()) && !page.contains("NaN"), "{plan}");
    for series in &record.header.series {
        assert!(page.contains(&series.label), "{plan}: {}", series.label);
    }
    assert!(record.not_measured().all(|skipped| page.contains(skipped.reason.split(" (").next().unwrap())), "{plan}");
    assert!(page.contains("<svg"), "{plan}: there is a plot");
}
