use super::*;
use crate::stats::LatencyResult;

fn lines() -> Vec<Line> {
    let side = |side| SideResult { side, data_len: 64, cpu_percent: 12.5, ..SideResult::default() };
    vec![
        Line::Header(Header { schema: SCHEMA_VERSION, tool: "perftest".into(), ..Header::default() }),
        Line::Host(Box::new(HostFacts { cores: 2, ..HostFacts::default() })),
        Line::Measurement(Box::new(Measurement {
            series: "raw".into(),
            test: Test::Latency,
            data_len: 64,
            repetition: 1,
            block: Some(BlockPlace { number: 3, place: 2, role: Role::B, control: false }),
            case: None,
            others: Vec::new(),
            publisher: SideResult {
                latency: Some(LatencyResult { count: 1, histogram: vec![(5, 1)], ..LatencyResult::default() }),
                ..side(Side::Publisher)
            },
            subscriber: SideResult {
                throughput: Some(ThroughputResult { samples: 3, lost: 1, ..ThroughputResult::default() }),
                ..side(Side::Subscriber)
            },
        })),
        Line::Search(Box::new(SearchResult { rate_per_s: 5e4, ..SearchResult::default() })),
        Line::Scale(Box::new(ScaleResult {
            series: "dds".into(),
            row: "pairs:2x2".into(),
            repetition: 1,
            values: vec![ScaleValue { quantity: "matched".into(), unit: "ms".into(), value: 1.5, goal: Some(2.0) }],
        })),
        Line::Warning(Warning { text: "loud neighbours".into() }),
        Line::End(End { complete: true, reason: String::new() }),
    ]
}

fn text(lines: &[Line]) -> String {
    let mut bytes = Vec::new();
    for line in lines {
        line.write_to(&mut bytes).unwrap();
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn written_record_reads_back_unchanged() {
    let lines = lines();
    let record = Record::read(text(&lines).as_bytes()).unwrap();
    assert_eq!(Line::Header(record.header), lines[0]);
    assert_eq!(Line::Host(Box::new(record.host)), lines[1]);
    assert_eq!(record.measurements.into_iter().map(Box::new).map(Line::Measurement).collect::<Vec<_>>(), lines[2..3]);
    assert_eq!(record.searches[0].rate_per_s, 5e4);
    assert_eq!(record.scales.into_iter().map(Box::new).map(Line::Scale).collect::<Vec<_>>(), lines[4..5]);
    assert_eq!(record.warnings[0].text, "loud neighbours");
    assert_eq!(record.end, Some(End { complete: true, reason: String::new() }));
}

#[test]
fn first_line_names_kind_and_schema() {
    assert!(text(&lines()).starts_with(r#"{"kind":"header","schema":8,"tool":"perftest","#));
}

#[test]
fn truncated_record_keeps_whole_lines() {
    let whole = text(&lines());
    let record = Record::read(&whole.as_bytes()[..whole.len() - 10]).unwrap();
    assert_eq!(record.measurements.len(), 1);
    assert_eq!(record.end, None);
}

#[test]
fn damaged_or_foreign_record_is_refused_with_line() {
    let read = |text: &str| Record::read(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(read(""), "line 1 of the record: the record is empty");
    assert!(read("{").starts_with("line 1 of the record"));
    let mut lines = lines();
    lines.swap(0, 1);
    assert!(read(&text(&lines)).contains("line 1 of the record: the header must be the first line"));
    let header = Line::Header(Header { schema: SCHEMA_VERSION + 1, ..Header::default() });
    assert!(read(&text(&[header])).contains("schema version 9 is not supported, only 1 to 8"));
    assert!(read("{\"kind\":\"poem\"}\n").contains("poem"));
}

#[test]
fn rates_and_shares_equal_hand_computed_values() {
    let result =
        ThroughputResult { samples: 300, bytes: 30_000, duration_ns: 2_000_000_000, lost: 100, ..Default::default() };
    assert_eq!(result.samples_per_s(), 150.0);
    assert_eq!(result.mbit_per_s(), 0.12);
    assert_eq!(result.lost_percent(), 25.0);
    let nothing = ThroughputResult::default();
    assert_eq!((nothing.samples_per_s(), nothing.mbit_per_s(), nothing.lost_percent()), (0.0, 0.0, 0.0));
}

/// Written by version 0.1.0 of the tool on another machine.
const VERSION_1: &str = include_str!("fixtures/version-1.jsonl");

#[test]
fn record_of_version_1_is_read_and_rendered() {
    let record = Record::read(VERSION_1.as_bytes()).unwrap();
    assert_eq!((record.header.schema, record.measurements.len()), (1, 2));
    let first = &record.measurements[0];
    assert_eq!((first.block, first.publisher.resources.as_ref(), first.publisher.payload), (None, None, None));
    assert_eq!(first.publisher.latency.as_ref().unwrap().value_at(0.5), 3000);
    assert_eq!((record.host.cpu_dma_latency_us, record.host.interfaces[0].offloads.len()), (None, 0));
    let table = crate::table::Table::of(&record);
    let ratio = table.rows[1].latency.as_ref().unwrap().ratio_to_floor;
    assert_eq!(ratio, None, "ten samples hold no median to compare");
    let source = crate::table::Source { name: String::new(), record };
    assert!(crate::render::html(&[source]).contains("Example CPU"));
}

/// Written by intermediate versions of the tool.
const VERSION_2: &str = include_str!("fixtures/version-2.jsonl");

#[test]
fn record_of_version_2_is_read_and_rendered() {
    let record = Record::read(VERSION_2.as_bytes()).unwrap();
    assert_eq!((record.header.schema, record.measurements.len(), record.searches.len()), (2, 2, 1));
    assert!(record.end.as_ref().is_some_and(|end| end.complete));
    let [load, block] = &record.measurements[..] else { panic!() };
    assert_eq!((&record.header.plan, &load.case, load.others.len(), record.skipped.len()), (&None, &None, 0, 0));
    assert_eq!(load.publisher.probes.as_ref().unwrap().from_intended.p50_ns, 14_000);
    assert_eq!(load.publisher.resources.as_ref().unwrap().total.pss_bytes, Some(5_000_000));
    assert!(load.publisher.one_way.as_ref().unwrap().clock.same_clock);
    assert_eq!(block.block, Some(BlockPlace { number: 0, place: 1, role: Role::B, control: false }));
    assert_eq!((record.host.stolen_percent, record.host.interfaces[0].receive_queues), (Some(0.25), Some(1)));
    let sources = [crate::table::Source { name: String::new(), record }];
    // Half of 14 us, at the requested rate.
    let row = crate::table::Table::of_all(&sources).rows.into_iter().find(|row| row.series == "open-loop").unwrap();
    assert_eq!((row.rate_per_s, row.latency.unwrap().p50_ns.median), (Some(1000.0), 7000.0));
    assert!(crate::render::html(&sources).contains("Highest sustained rate"));
    assert!(crate::render::csv(&sources).lines().nth(1).unwrap().contains("open_loop"));
}

#[test]
fn additions_of_version_2_read_back_unchanged() {
    let mut measurement = crate::example::record().measurements.swap_remove(0);
    measurement.test = Test::OpenLoop;
    measurement.publisher = SideResult {
        probes: Some(ProbeOutcome { offered_per_s: 1e4, answered: 5, ..ProbeOutcome::default() }),
        one_way: Some(OneWay { clock: ClockOffset { offset_ns: -5, ..ClockOffset::default() }, ..OneWay::default() }),
        resources: Some(ResourceUse { intervals: vec![Interval::default()], ..ResourceUse::default() }),
        wire: Some(WireUse { repairs: Some(3), path: vec!["UDPv4".into()], ..WireUse::default() }),
        payload: Some(PayloadUse { written: true, ..PayloadUse::default() }),
        ..measurement.publisher
    };
    let lines = [
        Line::Header(Header { schema: SCHEMA_VERSION, ..Header::default() }),
        Line::Measurement(Box::new(measurement.clone())),
    ];
    assert_eq!(Record::read(text(&lines).as_bytes()).unwrap().measurements, [measurement]);
}

#[test]
fn additions_of_version_3_read_back_unchanged() {
    let measurement = crate::example::record().measurements.swap_remove(0);
    let case = Case {
        rate_per_s: Some(300.0),
        publishers: 1,
        subscribers: 3,
        topics: 1,
        delivery: Delivery::TwoHosts,
        ..Case::default()
    };
    let header = Header {
        schema: SCHEMA_VERSION,
        series: vec![Series {
            id: "other".into(),
            label: "Other".into(),
            short_label: String::new(),
            floor: false,
            options: vec![],
            peer: Some(Box::new(PeerFacts { name: "Other".into(), ..PeerFacts::default() })),
        }],
        plan: Some(Box::new(PlanFacts { name: "all".into(), ..PlanFacts::default() })),
        ..Header::default()
    };
    let measurement = Measurement {
        case: Some(Box::new(case.clone())),
        others: vec![SideResult { side: Side::Subscriber, ..SideResult::default() }],
        ..measurement
    };
    let skipped = Skipped {
        series: "other".into(),
        test: Some(Test::Latency),
        data_len: 32,
        repetition: Some(2),
        case,
        reason: "it cannot".into(),
    };
    let lines = [
        Line::Header(header.clone()),
        Line::Measurement(Box::new(measurement.clone())),
        Line::Skipped(Box::new(skipped.clone())),
    ];
    let record = Record::read(text(&lines).as_bytes()).unwrap();
    assert_eq!((record.header, record.measurements, record.skipped), (header, vec![measurement], vec![skipped]));
}

#[test]
fn payload_checks_are_listed_by_series() {
    let mut record = crate::example::record();
    assert_eq!(record.payloads(), [], "no side reports payloads");
    let use_of = |written, checked| {
        Some(PayloadUse { written, checked, corrupt: 2, max_octets: Some(256), ..PayloadUse::default() })
    };
    let [first, second] = [0, 1].map(|index| record.header.series[index].clone());
    for measurement in &mut record.measurements {
        let is_first = measurement.series == first.id;
        measurement.publisher.payload = use_of(is_first, false);
        measurement.subscriber.payload = use_of(is_first, is_first);
    }
    let told = record.payloads();
    assert_eq!(told[0], ("written and checked, at most 256 bytes of each sample".into(), vec![&*first.label]));
    assert_eq!((&*told[1].0, told[1].1[0]), ("neither written nor checked", &*second.label));
    assert_eq!(record.measurements[0].corrupt(), 4);
    let sources = [crate::table::Source { name: String::new(), record }];
    for text in [crate::render::text(&sources), crate::render::html(&sources)] {
        assert!(text.contains("written and checked, at most 256 bytes of each sample"), "{text}");
    }
}

#[test]
fn processor_time_equals_hand_computed_value() {
    let interval = Interval { wall_ns: 2_000, user_ns: 300, system_ns: 700, ..Interval::default() };
    assert_eq!((interval.cpu_ns(), interval.cpu_percent_of_core()), (1_000, 50.0));
    assert_eq!(Interval::default().cpu_percent_of_core(), 0.0);
}

#[test]
fn later_measurement_removes_a_skipped_one() {
    let case = Case::default();
    let of = |repetition| Skipped {
        series: "a".into(),
        test: Some(Test::Latency),
        data_len: 32,
        repetition,
        case: case.clone(),
        reason: "failed".into(),
    };
    let measurement = Measurement {
        series: "a".into(),
        data_len: 32,
        repetition: 1,
        case: Some(Box::new(case.clone())),
        ..crate::example::record().measurements[0].clone()
    };
    assert_eq!(measurement.test, Test::Latency);
    let record = Record {
        measurements: vec![measurement],
        skipped: vec![
            of(Some(1)),
            of(Some(2)),
            of(None),
            Skipped { test: Some(Test::Throughput), ..of(Some(1)) },
            Skipped { test: Some(Test::Throughput), ..of(None) },
        ],
        ..Record::default()
    };
    let left: Vec<_> = record.not_measured().map(|skipped| (skipped.test, skipped.repetition)).collect();
    assert_eq!(
        left,
        [(Some(Test::Latency), Some(2)), (Some(Test::Throughput), Some(1)), (Some(Test::Throughput), None)],
        "an entry for all repetitions is removed once one of them was measured"
    );
}
