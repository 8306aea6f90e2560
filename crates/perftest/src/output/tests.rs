use std::sync::{Arc, Mutex};

use peregrine_report::record::Side;

use super::OutputFormat::{Csv, Json, Legacy};
use super::Quantity::{Latency, Throughput};
use super::*;
use peregrine_report::record::ThroughputResult;
use peregrine_report::stats::{LatencyResult, Moments};

/// Every combination of the print options with synthetic numbers, compared with literal text.
fn print(format: OutputFormat, quantity: Quantity, options: &str) -> String {
    let has = |option| options.split(' ').any(|given| given == option);
    let plan = OutputPlan {
        format,
        file: None,
        intervals: !has("noPrintIntervals"),
        headers: !has("noOutputHeaders"),
        cpu: has("cpu"),
        ns_resolution: has("nsResolution"),
        record_file: None,
    };
    let sink = Sink::default();
    let mut output = Output::new(&plan, Box::new(sink.clone()), None);
    if quantity == Latency {
        let time = SerializationTime { serialize_ns: 1234.6, deserialize_ns: 20.0 };
        print_latency(&mut output, has("showSerializationTime").then_some(time));
    } else {
        print_throughput(&mut output);
    }
    output.end().unwrap();
    String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
}

fn print_latency(output: &mut Output, serialization: Option<SerializationTime>) {
    let mut moments = Moments::default();
    for value in [15_400, 20_600] {
        moments.add(value);
    }
    output.begin(Latency, 64);
    output.begin(Latency, 64);
    let interval = LatencyInterval { latency_ns: 20_600, so_far: &moments, cpu_percent: 25.0 };
    output.latency_interval(64, &interval);
    output.latency_interval(64, &interval);
    let latency = LatencyResult {
        count: 2,
        min_ns: 15_400,
        max_ns: 41_999,
        mean_ns: 18_499.6,
        std_ns: 1_249.0,
        p50_ns: 18_001,
        p90_ns: 19_002,
        p99_ns: 22_003,
        p99_99_ns: 38_004,
        p99_9999_ns: 41_005,
        histogram: Vec::new(),
    };
    for data_len in [64, 128] {
        output.latency_summary(&SideResult { latency: Some(latency.clone()), ..result(data_len) }, serialization);
    }
}

fn print_throughput(output: &mut Output) {
    output.begin(Throughput, 64);
    for _ in 0..2 {
        output.throughput_interval(&ThroughputInterval {
            data_len: 64,
            total_samples: 2_410_010,
            samples_per_s: 1_205_459,
            mean_samples_per_s: 1_204_885.4,
            mbit_per_s: 617.19,
            mean_mbit_per_s: 616.9,
            lost: 7,
            lost_percent: 0.0003,
            cpu_percent: 25.0,
        });
    }
    let throughput = ThroughputResult {
        samples: 36_150_912,
        bytes: 36_150_912 * 64,
        duration_ns: 30_000_940_000,
        lost: 12,
        duplicate: 1,
        reordered: 2,
    };
    for data_len in [64, 128] {
        output.throughput_summary(&SideResult { throughput: Some(throughput.clone()), ..result(data_len) });
    }
}

fn result(data_len: u64) -> SideResult {
    SideResult { side: Side::Publisher, data_len, cpu_percent: 37.128, ..SideResult::default() }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn csv_latency_has_expected_lines() {
    assert_eq!(
        print(Csv, Latency, ""),
        "
Intervals One-Way Latency for 64 Bytes:
Length (Bytes), Latency (μs), Ave (μs), Std (μs), Min (μs), Max (μs)
            64,           20,       18,      2.6,       15,       20
            64,           20,       18,      2.6,       15,       20

One-way Latency Summary:
Sample Size (Bytes), Ave (μs), Std (μs), Min (μs), Max (μs), 50% (μs), 90% (μs), 99% (μs), 99.99% (μs), 99.9999% (μs)
                 64,       18,      1.2,       15,       41,       18,       19,       22,          38,            41

Intervals One-Way Latency for 128 Bytes:
Length (Bytes), Latency (μs), Ave (μs), Std (μs), Min (μs), Max (μs)

One-way Latency Summary:
Sample Size (Bytes), Ave (μs), Std (μs), Min (μs), Max (μs), 50% (μs), 90% (μs), 99% (μs), 99.99% (μs), 99.9999% (μs)
                128,       18,      1.2,       15,       41,       18,       19,       22,          38,            41
"
    );
}

#[test]
fn csv_latency_without_intervals_has_summary_only() {
    assert_eq!(
        print(Csv, Latency, "noPrintIntervals"),
        "\
Sample Size (Bytes), Ave (μs), Std (μs), Min (μs), Max (μs), 50% (μs), 90% (μs), 99% (μs), 99.99% (μs), 99.9999% (μs)
                 64,       18,      1.2,       15,       41,       18,       19,       22,          38,            41
                128,       18,      1.2,       15,       41,       18,       19,       22,          38,            41
"
    );
}

#[test]
fn csv_latency_without_headers_has_values_only() {
    assert_eq!(
        print(Csv, Latency, "noOutputHeaders"),
        "            64,           20,       18,      2.6,       15,       20
            64,           20,       18,      2.6,       15,       20
                 64,       18,      1.2,       15,       41,       18,       19,       22,          38,            41
                128,       18,      1.2,       15,       41,       18,       19,       22,          38,            41
"
    );
    assert_eq!(
        print(Csv, Latency, "noOutputHeaders noPrintIntervals cpu"),
        "                 64,       18,      1.2,       15,       41,       18,       19,       22,          38,            41,   37.13
                128,       18,      1.2,       15,       41,       18,       19,       22,          38,            41,   37.13
"
    );
}

#[test]
fn csv_latency_with_ns_resolution_has_three_decimals() {
    assert_eq!(
        print(Csv, Latency, "noPrintIntervals nsResolution cpu"),
        "\
Sample Size (Bytes), Ave (μs), Std (μs), Min (μs), Max (μs), 50% (μs), 90% (μs), 99% (μs), 99.99% (μs), 99.9999% (μs), CPU (%)
                 64,   18.500,    1.249,   15.400,   41.999,   18.001,   19.002,   22.003,      38.004,        41.005,   37.13
                128,   18.500,    1.249,   15.400,   41.999,   18.001,   19.002,   22.003,      38.004,        41.005,   37.13
"
    );
}

#[test]
fn serialization_times_add_three_columns() {
    assert_eq!(
        print(Csv, Latency, "noPrintIntervals showSerializationTime cpu").lines().take(2).collect::<Vec<_>>(),
        [
            "Sample Size (Bytes), Ave (μs), Std (μs), Min (μs), Max (μs), 50% (μs), 90% (μs), 99% (μs), 99.99% (μs), 99.9999% (μs), Serialization (μs), Deserialization (μs), Total (μs), CPU (%)",
            "                 64,       18,      1.2,       15,       41,       18,       19,       22,          38,            41,              1.235,                0.020,      1.255,   37.13",
        ]
    );
    assert!(
        print(Legacy, Latency, "noPrintIntervals showSerializationTime")
            .contains("us\nSerialization/Deserialization: 1.235 us / 0.020 us / TOTAL: 1.255 us\n")
    );
    let document: serde_json::Value = serde_json::from_str(&print(Json, Latency, "showSerializationTime")).unwrap();
    assert_eq!(document["perftest"][1]["summary"]["total_s"], 1.255);
}

#[test]
fn csv_throughput_has_expected_lines() {
    assert_eq!(
        print(Csv, Throughput, ""),
        "
Interval Throughput for 64 Bytes:
Length (Bytes), Total Samples,  Samples/s, Avg Samples/s,     Mbps,  Avg Mbps, Lost Samples, Lost Samples (%)
            64,       2410010,    1205459,       1204885,    617.2,     616.9,            7,             0.00
            64,       2410010,    1205459,       1204885,    617.2,     616.9,            7,             0.00

Throughput Summary:
Sample Size (Bytes), Total Samples, Avg Samples/s,    Avg Mbps, Lost Samples, Lost Samples (%)
                 64,      36150912,       1204992,       617.0,           12,             0.00

Interval Throughput for 128 Bytes:
Length (Bytes), Total Samples,  Samples/s, Avg Samples/s,     Mbps,  Avg Mbps, Lost Samples, Lost Samples (%)

Throughput Summary:
Sample Size (Bytes), Total Samples, Avg Samples/s,    Avg Mbps, Lost Samples, Lost Samples (%)
                128,      36150912,       1204992,       617.0,           12,             0.00
"
    );
}

#[test]
fn csv_throughput_without_intervals_and_headers_has_values_only() {
    assert_eq!(
        print(Csv, Throughput, "noPrintIntervals"),
        "\
Sample Size (Bytes), Total Samples, Avg Samples/s,    Avg Mbps, Lost Samples, Lost Samples (%)
                 64,      36150912,       1204992,       617.0,           12,             0.00
                128,      36150912,       1204992,       617.0,           12,             0.00
"
    );
    assert_eq!(
        print(Csv, Throughput, "noOutputHeaders cpu"),
        "            64,       2410010,    1205459,       1204885,    617.2,     616.9,            7,             0.00,   25.00
            64,       2410010,    1205459,       1204885,    617.2,     616.9,            7,             0.00,   25.00
                 64,      36150912,       1204992,       617.0,           12,             0.00,   37.13
                128,      36150912,       1204992,       617.0,           12,             0.00,   37.13
"
    );
    assert_eq!(
        print(Csv, Throughput, "noPrintIntervals noOutputHeaders"),
        "                 64,      36150912,       1204992,       617.0,           12,             0.00
                128,      36150912,       1204992,       617.0,           12,             0.00
"
    );
}

#[test]
fn legacy_output_has_expected_lines() {
    assert_eq!(
        print(Legacy, Latency, ""),
        "
********** New data length is 64
One-Way Latency:     20 us  Ave     18 us  Std    2.6 us  Min     15 us  Max     20 us
One-Way Latency:     20 us  Ave     18 us  Std    2.6 us  Min     15 us  Max     20 us
Length:    64  Latency: Ave     18 us  Std    1.2 us  Min     15 us  Max     41 us  50%     18 us  90%     19 us  99%     22 us  99.99%     38 us  99.9999%     41 us

********** New data length is 128
Length:   128  Latency: Ave     18 us  Std    1.2 us  Min     15 us  Max     41 us  50%     18 us  90%     19 us  99%     22 us  99.99%     38 us  99.9999%     41 us
"
    );
    assert_eq!(
        print(Legacy, Throughput, "noPrintIntervals cpu"),
        "Length:    64  Packets: 36150912  Packets/s(ave): 1204992  Mbps(ave):   617.0  Lost:    12 (0.00%)  CPU 37.13 (%)
Length:   128  Packets: 36150912  Packets/s(ave): 1204992  Mbps(ave):   617.0  Lost:    12 (0.00%)  CPU 37.13 (%)
"
    );
    assert_eq!(
        print(Legacy, Throughput, "noOutputHeaders").lines().next(),
        Some(
            "Packets:  2410010  Packets/s: 1205459  Packets/s(ave): 1204885  Mbps:   617.2  Mbps(ave):   616.9  Lost:     7 (0.00%)"
        )
    );
}

#[test]
fn json_throughput_has_expected_document() {
    let text = print(Json, Throughput, "");
    assert_eq!(
        text,
        r#"{"perftest":
  [
    {
      "length": 64,
      "intervals": [
        { "length": 64, "packets": 2410010, "packets/s": 1205459, "packets/s_ave": 1204885.40, "mbps": 617.2, "mbps_ave": 616.9, "lost": 7, "lost_percent": 0.00 },
        { "length": 64, "packets": 2410010, "packets/s": 1205459, "packets/s_ave": 1204885.40, "mbps": 617.2, "mbps_ave": 616.9, "lost": 7, "lost_percent": 0.00 }
      ],
      "summary": { "packets": 36150912, "packets/sAve": 1204992, "mbpsAve": 617.0, "lost": 12, "lostPercent": 0.00 }
    },
    {
      "length": 128,
      "intervals": [
      ],
      "summary": { "packets": 36150912, "packets/sAve": 1204992, "mbpsAve": 617.0, "lost": 12, "lostPercent": 0.00 }
    }
  ]
}
"#
    );
}

#[test]
fn json_latency_without_intervals_has_summary_only() {
    assert_eq!(
        print(Json, Latency, "noPrintIntervals cpu"),
        r#"{"perftest":
  [
    {
      "length": 64,
      "summary": { "latency_ave": 18.50, "latency_std": 1.25, "latency_min": 15, "latency_max": 41, "latency_50": 18, "latency_90": 19, "latency_99": 22, "latency_99.99": 38, "latency_99.9999": 41, "CPU": 37.13 }
    },
    {
      "length": 128,
      "summary": { "latency_ave": 18.50, "latency_std": 1.25, "latency_min": 15, "latency_max": 41, "latency_50": 18, "latency_90": 19, "latency_99": 22, "latency_99.99": 38, "latency_99.9999": 41, "CPU": 37.13 }
    }
  ]
}
"#
    );
}

#[test]
fn json_is_valid_in_every_combination_and_even_without_a_result() {
    for quantity in [Latency, Throughput] {
        for options in ["", "cpu", "nsResolution", "noPrintIntervals", "noOutputHeaders", "noPrintIntervals cpu"] {
            let document: serde_json::Value = serde_json::from_str(&print(Json, quantity, options)).unwrap();
            assert_eq!(document["perftest"].as_array().unwrap().len(), 2);
            let intervals = document["perftest"][0]["intervals"].as_array();
            assert_eq!(intervals.map(Vec::len), (!options.contains("noPrintIntervals")).then_some(2));
        }
    }
    let mut json = json::Json::new(Columns { intervals: true, headers: true, cpu: false, ns_resolution: false });
    let empty: serde_json::Value = serde_json::from_str(&(json.start() + &json.end())).unwrap();
    assert_eq!(empty["perftest"].as_array().unwrap().len(), 0);
}

/// Every call for two sizes without results; an interval of the second has begun.
fn print_no_data(format: OutputFormat, quantity: Quantity) -> String {
    let sink = Sink::default();
    let plan = OutputPlan {
        format,
        file: None,
        intervals: format == Json,
        headers: true,
        cpu: false,
        ns_resolution: false,
        record_file: None,
    };
    let mut output = Output::new(&plan, Box::new(sink.clone()), None);
    for data_len in [64, 128] {
        if data_len == 128 {
            output.begin(quantity, data_len);
        }
        match quantity {
            Latency => output.latency_summary(&result(data_len as u64), None),
            Throughput => output.throughput_summary(&result(data_len as u64)),
        }
    }
    output.end().unwrap();
    String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn missing_latency_prints_no_row() {
    assert_eq!(print_no_data(Csv, Latency), "");
    assert_eq!(print_no_data(Legacy, Latency), "");
    let document: serde_json::Value = serde_json::from_str(&print_no_data(Json, Latency)).unwrap();
    let lengths: Vec<_> = document["perftest"].as_array().unwrap().iter().map(|size| &size["length"]).collect();
    assert_eq!(lengths, [64, 128]);
    assert!(document["perftest"][0]["summary"].is_null() && document["perftest"][1]["summary"].is_null());
}

#[test]
fn missing_samples_print_a_row_of_zeros() {
    let text = print_no_data(Csv, Throughput);
    let row = "                 64,             0,             0,         0.0,            0,             0.00";
    assert_eq!(text.lines().nth(1), Some(row), "{text}");
}

#[test]
fn full_disk_is_reported_once_and_does_not_panic() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let plan = OutputPlan {
        format: Csv,
        file: None,
        intervals: true,
        headers: true,
        cpu: false,
        ns_resolution: false,
        record_file: None,
    };
    let mut output = Output::new(&plan, Box::new(Full), None);
    print_latency(&mut output, None);
    assert!(matches!(output.end(), Err(Error::Transfer(text)) if text.contains("could not be written")));
}
