//! Counters of the endpoints of this process.

use peregrine::qos::{Limit, ResourceLimits};
use peregrine::{DataReader, DataWriter, DomainParticipant};

use super::types::TestType;
use crate::messaging::{EndpointReport, Resent, Topic};

/// Additional handles of the endpoints, to read their counters.
#[derive(Debug)]
pub(super) struct Endpoints<T: TestType> {
    writers: Vec<(Topic, DataWriter<T>, Option<usize>)>,
    readers: Vec<(Topic, DataReader<T>)>,
}

impl<T: TestType> Default for Endpoints<T> {
    fn default() -> Self {
        Self { writers: Vec::new(), readers: Vec::new() }
    }
}

impl<T: TestType> Endpoints<T> {
    pub(super) fn add_writer(&mut self, topic: Topic, writer: &DataWriter<T>, batch_len: Option<usize>) {
        self.writers.push((topic, writer.clone(), batch_len));
    }

    pub(super) fn add_reader(&mut self, topic: Topic, reader: &DataReader<T>) {
        self.readers.push((topic, reader.clone()));
    }

    pub(super) fn resource_limits(&self) -> Vec<EndpointReport> {
        let writers = self.writers.iter().map(|(topic, writer, batch_len)| {
            let mut lines = limit_lines(&writer.qos().resource_limits);
            lines.extend(batch_len.map(|len| ("Batch", format!("{len} bytes of serialized samples"))));
            EndpointReport { title: format!("DataWriter of {topic}"), lines }
        });
        let readers = self.readers.iter().map(|(topic, reader)| EndpointReport {
            title: format!("DataReader of {topic}"),
            lines: limit_lines(&reader.qos().resource_limits),
        });
        writers.chain(readers).collect()
    }

    pub(super) fn counters(&self) -> Vec<EndpointReport> {
        let writers = self.writers.iter().map(|(topic, writer, _)| {
            let counters = writer.counters();
            let counts = [
                ("Samples sent", counters.samples_sent),
                ("Pulled samples (sent again)", counters.samples_repaired),
                ("Pulled fragments (sent again)", counters.fragments_repaired),
                ("Heartbeats sent", counters.heartbeats),
                ("Acknowledgements received", counters.acknowledgements),
                ("Repairs withheld", counters.repairs_withheld.saturating_add(counters.repairs_withheld_by_address)),
            ];
            report(format!("DataWriter of {topic}"), &counts)
        });
        let readers = self.readers.iter().map(|(topic, reader)| {
            let counters = reader.counters();
            let counts = [
                ("Samples received", counters.samples),
                ("Repairs requested", counters.requested),
                ("Duplicates", counters.duplicates.saturating_add(counters.duplicate_fragments)),
                ("Lost", counters.lost),
                ("Rejected for want of room", counters.rejected.saturating_add(counters.no_room)),
                ("Acknowledgements sent", counters.acknowledgements),
                ("Requests withheld", counters.requests_withheld.saturating_add(counters.requests_withheld_by_address)),
            ];
            report(format!("DataReader of {topic}"), &counts)
        });
        writers.chain(readers).collect()
    }

    pub(super) fn resent(&self) -> Resent {
        self.writers.iter().fold(Resent::default(), |resent, (_, writer, _)| {
            let counters = writer.counters();
            Resent {
                samples: resent.samples.saturating_add(counters.samples_repaired),
                fragments: resent.fragments.saturating_add(counters.fragments_repaired),
            }
        })
    }
}

/// Counters of the domain's sockets, and of dropped messages.
pub(super) fn of_domain(participant: &DomainParticipant) -> EndpointReport {
    let mut counts = [
        ("Datagrams sent", 0),
        ("Datagrams received", 0),
        ("Dropped by the kernel (receive buffer full)", 0),
        ("Not sent because of errors", 0),
        ("Not understood", 0),
    ];
    for (_, socket) in participant.transport_statistics() {
        let of_socket =
            [socket.datagrams_sent, socket.datagrams_received, socket.kernel_drops, socket.send_errors.total()];
        for ((_, count), more) in counts.iter_mut().zip(of_socket) {
            *count = u64::saturating_add(*count, more);
        }
    }
    let counters = participant.counters();
    counts[4].1 = counters.not_rtps.saturating_add(counters.drops.malformed);
    report("Sockets of the domain".into(), &counts)
}

fn report(title: String, counts: &[(&'static str, u64)]) -> EndpointReport {
    EndpointReport { title, lines: counts.iter().map(|(label, count)| (*label, count.to_string())).collect() }
}

fn limit_lines(limits: &ResourceLimits) -> Vec<(&'static str, String)> {
    let text = |limit| match limit {
        Limit::At(count) => format!("{count}"),
        Limit::Unlimited => "unlimited".to_owned(),
    };
    vec![
        ("Samples (max)", text(limits.max_samples)),
        ("Instances (max)", text(limits.max_instances)),
        ("Samples per instance (max)", text(limits.max_samples_per_instance)),
    ]
}
