//! Records for tests: a small one with round numbers, and large ones with the shape of real ones.

mod campaign;
mod plain;
mod shape;

pub use self::campaign::{campaign, raspberry_pi, secured_rates, security};
pub use self::plain::characterization;

use crate::record::{
    Header, HostFacts, Interface, Measurement, Record, SCHEMA_VERSION, SendResult, Series, Side, SideResult, Test,
    ThroughputResult, Warning,
};
use crate::stats::{LatencyResult, Moments};

/// Two series, two sizes, three repetitions; `dds` takes twice the time of `raw`.
pub fn record() -> Record {
    let series = |id: &str, label: &str, floor| Series {
        id: id.into(),
        label: label.into(),
        short_label: String::new(),
        floor,
        options: vec![],
        peer: None,
    };
    let mut record = Record {
        header: Header {
            schema: SCHEMA_VERSION,
            tool: "perftest".into(),
            version: "0.1.0".into(),
            created_utc: "2026-11-21T08:00:00Z".into(),
            command_line: vec!["perftest".into(), "--quick".into()],
            series: vec![series("raw", "raw UDP", true), series("dds", "DDS <reliable>", false)],
            data_lens: vec![32, 1024],
            repetitions: 3,
            measurement_ms: 100,
            pinned_cores: vec![0, 1],
            idle_states_disabled: true,
            plan: None,
        },
        host: HostFacts {
            cpu_model: "Example CPU".into(),
            cores: 2,
            interfaces: vec![Interface { name: "lo".into(), mtu: Some(65_536), ..Interface::default() }],
            ..HostFacts::default()
        },
        warnings: vec![Warning { text: "Loud & busy neighbours".into() }],
        ..Record::default()
    };
    for repetition in 0..3 {
        for (series, factor) in [("raw", 1), ("dds", 2)] {
            for data_len in [32, 1024] {
                for test in [Test::Latency, Test::Throughput] {
                    record.measurements.push(measurement(series, test, data_len, repetition, factor));
                }
            }
        }
    }
    record
}

fn measurement(series: &str, test: Test, data_len: u64, repetition: u32, factor: u64) -> Measurement {
    let p50_ns = (3_000 + 1_000 * u64::from(repetition)) * factor;
    let mut moments = Moments::default();
    (0..100).for_each(|_| moments.add(p50_ns));
    let samples = 100 / factor;
    let side = |side| SideResult { side, data_len, cpu_percent: 50.0, ..SideResult::default() };
    Measurement {
        series: series.into(),
        test,
        data_len,
        repetition,
        block: None,
        case: None,
        others: Vec::new(),
        publisher: SideResult {
            latency: (test == Test::Latency).then(|| LatencyResult::new(&moments, vec![(p50_ns, 100)])),
            send: Some(SendResult { samples: 100, ..SendResult::default() }),
            ..side(Side::Publisher)
        },
        subscriber: SideResult {
            throughput: Some(ThroughputResult {
                samples,
                bytes: samples * data_len,
                duration_ns: 100_000_000,
                lost: factor - 1,
                duplicate: 0,
                reordered: 0,
            }),
            ..side(Side::Subscriber)
        },
    }
}
