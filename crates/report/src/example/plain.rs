//! Example records of `perftest` without a plan.

use super::shape::{Behaviour, unpaced};
use crate::record::{End, Header, HostFacts, Interface, Record, SCHEMA_VERSION, Series, Test, Warning};

pub(super) const SIZES: [u64; 12] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 63_000];
pub(super) const REPETITIONS: u32 = 8;

/// Five series over twelve sizes, as on one machine.
pub fn characterization() -> Record {
    let series = [
        ("raw-udp", "raw UDP", "-rawTransport -nic 127.0.0.1"),
        ("peregrine-best-effort", "Peregrine best effort", "-bestEffort -nic 127.0.0.1"),
        ("peregrine-reliable", "Peregrine reliable", "-nic 127.0.0.1"),
        (
            "peregrine-best-effort-batched",
            "Peregrine best effort batched",
            "-bestEffort -nic 127.0.0.1 -batchSize 8192",
        ),
        ("peregrine-reliable-batched", "Peregrine reliable batched", "-nic 127.0.0.1 -batchSize 8192"),
    ];
    let mut record = empty("perftest --repetitions 8");
    record.header.series = series.iter().map(|(id, label, options)| plain_series(id, label, options)).collect();
    record.header.series[0].floor = true;
    for repetition in 0..REPETITIONS {
        for (place, (id, ..)) in series.iter().enumerate() {
            for data_len in SIZES {
                let how = behaviour(place, data_len);
                if place < 3 {
                    record.measurements.push(unpaced(id, Test::Latency, data_len, repetition, how));
                }
                record.measurements.push(unpaced(id, Test::Throughput, data_len, repetition, how));
            }
        }
    }
    record
}

pub(super) fn plain_series(id: &str, label: &str, options: &str) -> Series {
    Series {
        id: id.into(),
        label: label.into(),
        short_label: String::new(),
        floor: false,
        options: options.split_whitespace().map(String::from).collect(),
        peer: None,
    }
}

/// Times and rates that grow with size like those of copies and wake-ups, more for later series.
pub(super) fn behaviour(place: usize, data_len: u64) -> Behaviour {
    let bytes = data_len as f64;
    let extra = [0.0, 1_150.0, 1_400.0, 1_150.0, 1_400.0][place.min(4)];
    let p50_ns = 3_050.0 + extra + bytes * 0.13;
    let per_sample = 900.0 + extra * 0.7 + bytes * 0.075;
    let batched = place >= 3 && data_len <= 4096;
    let cpu_ns = if batched { 160.0 + bytes * 0.1 } else { per_sample };
    Behaviour {
        p50_ns,
        tail: 1.0 + place as f64 * 0.12,
        samples_per_s: 1e9 / cpu_ns,
        lost_percent: if place == 1 && data_len > 30_000 { 4.5 } else { 0.0 },
        cpu_ns,
        rss_bytes: (6 + place as u64) << 20,
    }
}

/// A header and a machine, and nothing measured.
pub(super) fn empty(command: &str) -> Record {
    Record {
        header: Header {
            schema: SCHEMA_VERSION,
            tool: "perftest".into(),
            version: "0.1.0".into(),
            created_utc: "2026-11-21T08:00:00Z".into(),
            command_line: command.split_whitespace().map(String::from).collect(),
            data_lens: SIZES.to_vec(),
            repetitions: REPETITIONS,
            measurement_ms: 1_000,
            pinned_cores: vec![0, 1],
            idle_states_disabled: true,
            ..Header::default()
        },
        host: HostFacts {
            cpu_model: "Example CPU at 3.0 GHz".into(),
            cores: 4,
            threads_per_core: Some(2),
            governor: "performance".into(),
            idle_driver: "intel_idle".into(),
            idle_governor: "menu".into(),
            kernel: "Linux 6.1.0 x86_64".into(),
            mitigations: vec!["spectre_v2: Mitigation: Enhanced IBRS".into(), "meltdown: Not affected".into()],
            clock_source: "tsc".into(),
            virtualisation: "none".into(),
            memory_bytes: Some(16 << 30),
            socket_limits: vec!["net.core.rmem_max = 8388608".into(), "net.core.wmem_max = 4194304".into()],
            load: "0.05 0.03 0.01".into(),
            interfaces: vec![Interface { name: "lo".into(), mtu: Some(65_536), ..Interface::default() }],
            ..HostFacts::default()
        },
        warnings: vec![Warning {
            text: "The processor may change its clock rate; set the governor to performance".into(),
        }],
        end: Some(End { complete: true, reason: String::new() }),
        ..Record::default()
    }
}
