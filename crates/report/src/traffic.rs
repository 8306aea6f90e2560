//! The transports that the samples of a series used, and the traffic of their sockets.

use crate::record::{Measurement, Record, Series, WireUse};

/// Traffic of one series, over all of its measurements and processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Traffic {
    /// Each transport that a process reported; empty without any.
    pub(crate) ways: Vec<String>,
    /// Number of measurements that reported.
    pub(crate) measurements: usize,
    /// The sum of their traffic.
    pub(crate) wire: WireUse,
}

impl Traffic {
    /// `None` for a series that was not measured.
    pub(crate) fn of(record: &Record, series: &Series) -> Option<Self> {
        let mut measurements = record.measurements.iter().filter(|one| one.series == series.id).peekable();
        measurements.peek()?;
        let mut traffic = Self::default();
        for measurement in measurements {
            traffic.add(measurement);
        }
        Some(traffic)
    }

    fn add(&mut self, measurement: &Measurement) {
        let sides = [&measurement.publisher, &measurement.subscriber].into_iter().chain(&measurement.others);
        let mut has_told = false;
        for used in sides.filter_map(|side| side.wire.as_ref()) {
            has_told = true;
            for way in used.path.iter().map(|part| way(part)) {
                if !self.ways.contains(&way) {
                    self.ways.push(way);
                }
            }
            let sum = &mut self.wire;
            sum.send_calls += used.send_calls;
            sum.receive_calls += used.receive_calls;
            sum.datagrams_sent += used.datagrams_sent;
            sum.datagrams_received += used.datagrams_received;
            sum.bytes_sent += used.bytes_sent;
            sum.bytes_received += used.bytes_received;
            sum.kernel_drops += used.kernel_drops;
            sum.send_errors += used.send_errors;
            if let Some(repairs) = used.repairs {
                sum.repairs = Some(sum.repairs.unwrap_or(0) + repairs);
            }
        }
        self.measurements += usize::from(has_told);
    }
}

/// A part of a path without the details that differ between processes: counts and port numbers.
fn way(part: &str) -> String {
    let part = part.split_once(" (").map_or(part, |(way, _)| way);
    let has_ports = ["socket ", "Sends to port", "Receives at port"].iter().any(|known| part.starts_with(known));
    let is_socket = has_ports || part == "connected sockets";
    if is_socket { "UDP sockets".into() } else { part.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::SideResult;

    fn side(path: &[&str], datagrams_sent: u64, repairs: Option<u64>) -> SideResult {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        SideResult {
            wire: Some(WireUse { path, datagrams_sent, repairs, ..WireUse::default() }),
            ..SideResult::default()
        }
    }

    #[test]
    fn paths_are_listed_once_and_counts_are_summed() {
        let mut record = crate::example::record();
        let series = record.header.series[0].clone();
        assert_eq!(Traffic::of(&record, &Series { id: "nobody".into(), ..series.clone() }), None);
        let silent = Traffic::of(&record, &series).unwrap();
        assert_eq!((silent.ways.len(), silent.measurements), (0, 0));

        let own: Vec<_> =
            (0..record.measurements.len()).filter(|at| record.measurements[*at].series == series.id).collect();
        let [first, second, ..] = own[..] else { panic!("{own:?}") };
        let sockets = ["socket 0.0.0.0:29660", "connected sockets"];
        record.measurements[first].publisher = side(&sockets, 5, None);
        record.measurements[first].subscriber =
            side(&["socket 0.0.0.0:29662", "shared memory (0 sent, 9 received)"], 2, Some(3));
        record.measurements[second].publisher = side(&["shared memory (9 sent, 0 received)"], 1, Some(4));
        let told = Traffic::of(&record, &series).unwrap();
        assert_eq!(told.ways, ["UDP sockets", "shared memory"]);
        assert_eq!((told.measurements, told.wire.datagrams_sent, told.wire.repairs), (2, 8, Some(7)));
    }

    #[test]
    fn path_without_socket_keeps_its_name() {
        for (part, expected) in [
            ("Sends to port: 7400, 7402", "UDP sockets"),
            ("plain UDP sockets at 127.0.0.1", "plain UDP sockets at 127.0.0.1"),
            ("within the process, by reference", "within the process, by reference"),
        ] {
            assert_eq!(way(part), expected);
        }
    }
}
