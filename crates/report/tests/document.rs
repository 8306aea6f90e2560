//! The documented format of records matches the written one: every field, no more and no less.

use std::collections::{BTreeMap, BTreeSet};

use peregrine_report::record::{
    BlockPlace, Case, ClockOffset, End, Header, HostFacts, Interface, Interval, Line, Measurement, OneWay, PayloadUse,
    PeerFacts, PlanFacts, ProbeOutcome, ResourceUse, Role, SCHEMA_VERSION, ScaleResult, ScaleValue, SearchResult,
    SearchStep, SecurityUse, SendResult, Series, Side, SideResult, Skipped, Test, ThroughputResult, Wait, Warning,
    WireUse,
};
use peregrine_report::stats::LatencyResult;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/record.md");

#[test]
fn document_lists_exactly_the_fields_of_each_object() {
    let documented = documented();
    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in lines() {
        let mut bytes = Vec::new();
        line.write_to(&mut bytes).unwrap();
        let mut object: Value = serde_json::from_slice(&bytes).unwrap();
        let kind = object.as_object_mut().unwrap().remove("kind").unwrap();
        let place = format!("| `{}` |", kind.as_str().unwrap());
        let row = DOCUMENT.lines().find(|row| row.starts_with(&place)).unwrap_or_else(|| panic!("no line {kind}"));
        collect(&object, &linked(row).unwrap(), &documented, &mut written);
    }
    for (name, fields) in &documented {
        let found: BTreeSet<String> = fields.keys().cloned().collect();
        assert_eq!(written.get(name), Some(&found), "{name}: written, and documented");
    }
    assert_eq!(written.len(), documented.len());
}

#[test]
fn document_states_the_written_version() {
    assert!(
        DOCUMENT
            .contains(&format!("This version of the tool writes {SCHEMA_VERSION} and reads 1 to {SCHEMA_VERSION}."))
    );
    assert!(DOCUMENT.lines().any(|line| line.starts_with(&format!("| {SCHEMA_VERSION} |"))));
}

/// The fields of each object, and for each field the object that its type links to.
fn documented() -> BTreeMap<String, BTreeMap<String, Option<String>>> {
    let mut objects: BTreeMap<String, BTreeMap<String, Option<String>>> = BTreeMap::new();
    for section in DOCUMENT.split("\n## ").skip(1) {
        let (name, text) = section.split_once('\n').unwrap();
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let field = |row: &str| Some((row.split('`').nth(1)?.to_owned(), linked(row)));
        if text.contains("| field | type | meaning |") {
            objects.insert(name.to_lowercase(), rows.filter_map(field).collect());
        }
    }
    objects
}

fn linked(row: &str) -> Option<String> {
    Some(row.split_once("](#")?.1.split_once(')')?.0.to_owned())
}

fn collect(
    value: &Value,
    name: &str,
    documented: &BTreeMap<String, BTreeMap<String, Option<String>>>,
    written: &mut BTreeMap<String, BTreeSet<String>>,
) {
    let fields = documented.get(name).unwrap_or_else(|| panic!("no section {name}"));
    for (key, value) in value.as_object().unwrap() {
        written.entry(name.to_owned()).or_default().insert(key.clone());
        let link = fields.get(key).unwrap_or_else(|| panic!("{name} has no row for {key}"));
        let objects = match value {
            Value::Object(_) => vec![value],
            Value::Array(values) => values.iter().filter(|value| value.is_object()).collect(),
            _ => Vec::new(),
        };
        for object in objects {
            let link = link.as_ref().unwrap_or_else(|| panic!("{name}.{key} links to no section"));
            collect(object, link, documented, written);
        }
    }
}

/// Every kind of line, with every possible field.
fn lines() -> Vec<Line> {
    let series = Series {
        id: "a".into(),
        label: "A".into(),
        short_label: "a".into(),
        floor: true,
        options: vec![String::new()],
        peer: Some(Box::new(PeerFacts::default())),
    };
    let header = Header { series: vec![series], plan: Some(Box::new(PlanFacts::default())), ..Header::default() };
    let host = HostFacts { interfaces: vec![Interface::default()], ..HostFacts::default() };
    let case = Case { wait: Some(Wait::Block), ..Case::default() };
    let measurement = Measurement {
        series: "a".into(),
        test: Test::OpenLoop,
        data_len: 1,
        repetition: 0,
        block: Some(BlockPlace { number: 0, place: 0, role: Role::A, control: false }),
        case: Some(Box::new(case.clone())),
        publisher: side(),
        subscriber: side(),
        others: vec![side()],
    };
    vec![
        Line::Header(header),
        Line::Host(Box::new(host)),
        Line::Measurement(Box::new(measurement)),
        Line::Search(Box::new(SearchResult { steps: vec![SearchStep::default()], ..SearchResult::default() })),
        Line::Scale(Box::new(ScaleResult {
            values: vec![ScaleValue { goal: Some(1.0), ..ScaleValue::default() }],
            ..ScaleResult::default()
        })),
        Line::Skipped(Box::new(Skipped {
            series: "a".into(),
            test: Some(Test::Latency),
            data_len: 1,
            repetition: Some(0),
            case,
            reason: String::new(),
        })),
        Line::Warning(Warning { text: String::new() }),
        Line::End(End { complete: true, reason: String::new() }),
    ]
}

fn side() -> SideResult {
    SideResult {
        side: Side::Publisher,
        latency: Some(LatencyResult::default()),
        scheduled_latency: Some(LatencyResult::default()),
        send: Some(SendResult { delay: Some(LatencyResult::default()), ..SendResult::default() }),
        throughput: Some(ThroughputResult::default()),
        probes: Some(ProbeOutcome::default()),
        one_way: Some(OneWay { clock: ClockOffset::default(), ..OneWay::default() }),
        resources: Some(ResourceUse { intervals: vec![Interval::default()], ..ResourceUse::default() }),
        wire: Some(WireUse::default()),
        payload: Some(PayloadUse { max_octets: Some(1), ..PayloadUse::default() }),
        security: Some(SecurityUse::default()),
        ..SideResult::default()
    }
}
