//! The block on stderr that describes the measurement.

use std::fmt::Write;

use crate::cli::option::{Priority, ThreadAffinity, WaitMethod};
use crate::messaging::Configuration;
use crate::plan::{Batching, Pace, PublisherPlan, Role, TestPlan};

/// First line: this program and its transport.
pub fn version_line(carrier: &str) -> String {
    format!("Peregrine Perftest {} ({carrier})", env!("CARGO_PKG_VERSION"))
}

/// All lines from the version line to the start of the test.
pub fn configuration_block(plan: &TestPlan, configuration: &Configuration) -> String {
    let mut block = Block::default();
    if let Role::Publisher(publisher) = &plan.role {
        if publisher.latency_test {
            block.section("Mode: LATENCY TEST (Ping-Pong test)");
        } else {
            block.section("Mode: THROUGHPUT TEST");
            block.remark("(Use \"-latencyTest\" for Latency Mode)");
        }
    }
    block.section("Perftest Configuration:");
    perftest_section(&mut block, plan);
    block.lines(&configuration.perftest);
    block.section("Transport Configuration:");
    transport_section(&mut block, plan);
    block.lines(&configuration.transport);
    if !configuration.security.is_empty() {
        block.section("Secure Configuration:");
        block.lines(&configuration.security);
    }
    if !plan.notes.is_empty() || !configuration.warnings.is_empty() {
        block.text.push('\n');
        for note in plan.notes.iter().chain(&configuration.warnings) {
            block.text += note;
            block.text.push('\n');
        }
    }
    block.text.push('\n');
    block.text
}

#[derive(Default)]
struct Block {
    text: String,
}

impl Block {
    fn section(&mut self, title: &str) {
        let _ = writeln!(self.text, "\n{title}");
    }

    fn line(&mut self, label: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "\t{label}: {value}");
    }

    fn remark(&mut self, text: &str) {
        let _ = writeln!(self.text, "\t{text}");
    }

    fn lines(&mut self, lines: &[(String, String)]) {
        for (label, value) in lines {
            self.line(label, value);
        }
    }
}

fn perftest_section(block: &mut Block, plan: &TestPlan) {
    block.line("Reliability", if plan.data.reliable { "Reliable" } else { "Best Effort" });
    block.line("Keyed", if plan.data.keyed { "Yes" } else { "No" });
    match &plan.role {
        Role::Publisher(publisher) => publisher_lines(block, publisher),
        Role::Subscriber(subscriber) => {
            block.line("Subscriber ID", subscriber.id);
            block.line("Data Size", plan.data.max_len);
        }
    }
    if !plan.transport.raw {
        block.line("Receive using", if plan.receive.read_thread { "WaitSets" } else { "Listeners" });
    }
    if let Some(priorities) = plan.threads.priorities {
        block.line("Thread Priorities", "");
        for (label, priority) in
            [("Main", priorities.main), ("Receive", priorities.receive), ("Event", priorities.event)]
        {
            block.remark(&format!("\t{label}: {}", priority_text(priority)));
        }
    }
    if let Some(affinity) = &plan.threads.affinity {
        block.line("Thread CPU Affinity", "");
        let ThreadAffinity { main, receive, event, database } = affinity;
        for (label, cores) in [("Main", main), ("Receive", receive), ("Event", event), ("Database", database)] {
            block.remark(&format!("\t{label}: {}", cores_text(cores)));
        }
    }
    if plan.threads.pin_memory {
        block.line("Memory", "Locked");
    }
    block.line("Domain", plan.data.domain);
}

fn publisher_lines(block: &mut Block, publisher: &PublisherPlan) {
    block.line("Publisher ID", publisher.id);
    block.line("Latency count", format_args!("1 latency sample every {} samples", publisher.latency_count));
    let sizes: Vec<_> = publisher.sizes.iter().map(usize::to_string).collect();
    block.line("Data Size", sizes.join(", "));
    if publisher.scan {
        block.remark("(Set the data size on the subscriber to the maximum data size to achieve best performance)");
    }
    block.line("Batching", batching_text(publisher));
    block.line("Publication Rate", rate_text(publisher.pace));
    match publisher.execution_time {
        Some(time) => block.line("Execution time", format_args!("{} seconds", time.as_secs_f64())),
        None => block.line("Number of samples", publisher.max_samples),
    }
}

fn batching_text(publisher: &PublisherPlan) -> String {
    let applies = publisher.sizes.iter().any(|size| publisher.batching.bytes_for(*size) > 0);
    match publisher.batching {
        Batching::Implicit(bytes) | Batching::Explicit(bytes) if applies => {
            format!("{bytes} bytes (Use \"-batchSize 0\" to disable batching)")
        }
        Batching::Explicit(bytes) => format!("Disabled (two samples do not fit into {bytes} bytes)"),
        _ => "No (Use \"-batchSize\" to setup batching)".into(),
    }
}

fn rate_text(pace: Pace) -> String {
    let method = |method| if method == WaitMethod::Spin { "Spin" } else { "Sleep" };
    match pace {
        Pace::Unlimited { .. } => "Unlimited (Not set)".into(),
        Pace::Samples(rate) => format!("{} Samples/s ({})", rate.per_second, method(rate.method)),
        Pace::Bits(rate) => format!("{} bps ({})", rate.per_second, method(rate.method)),
    }
}

fn transport_section(block: &mut Block, plan: &TestPlan) {
    let transport = &plan.transport;
    block.line("Kind", transport.kind.name());
    if !transport.interfaces.is_empty() {
        block.line("Nic", transport.interfaces.join(","));
    }
    block.line("Use Multicast", if transport.multicast.is_some() { "True" } else { "False" });
    if let Some(groups) = transport.multicast {
        block.remark(&format!("\tThroughput: {}", groups.throughput));
        block.remark(&format!("\tLatency: {}", groups.latency));
        block.remark(&format!("\tAnnouncement: {}", groups.announcement));
    }
    if !transport.peers.is_empty() {
        block.line("Initial peers", transport.peers.join(", "));
    }
}

fn priority_text(priority: Priority) -> String {
    match priority {
        Priority::Number(number) => number.to_string(),
        Priority::High => "high".into(),
        Priority::Normal => "normal".into(),
        Priority::Low => "low".into(),
    }
}

fn cores_text(cores: &[usize]) -> String {
    let cores: Vec<_> = cores.iter().map(usize::to_string).collect();
    if cores.is_empty() { "any".into() } else { cores.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Invocation, parse};
    use crate::plan::resolve;

    fn block(line: &str) -> String {
        let words: Vec<_> = line.split_whitespace().collect();
        let Ok(Invocation::Run(options)) = parse(&words) else { panic!("{line}") };
        let configuration = Configuration {
            perftest: vec![("Middleware".into(), "Raw Transport".into())],
            transport: vec![("Blocking Sockets".into(), "Yes".into())],
            security: Vec::new(),
            warnings: vec!["small buffers".into()],
        };
        configuration_block(&resolve(&options).unwrap(), &configuration)
    }

    #[test]
    fn banner_of_scan_lists_its_sizes() {
        assert_eq!(
            block("-pub -raw -nic eth0 -exec 20 -scan 32:64 -peer 10.0.0.2 -threadCPUAffinity 0:1"),
            "
Mode: THROUGHPUT TEST
\t(Use \"-latencyTest\" for Latency Mode)

Perftest Configuration:
\tReliability: Best Effort
\tKeyed: No
\tPublisher ID: 0
\tLatency count: 1 latency sample every 10000 samples
\tData Size: 32, 64
\t(Set the data size on the subscriber to the maximum data size to achieve best performance)
\tBatching: No (Use \"-batchSize\" to setup batching)
\tPublication Rate: Unlimited (Not set)
\tExecution time: 20 seconds
\tThread CPU Affinity: 
\t\tMain: 0
\t\tReceive: 1
\t\tEvent: any
\t\tDatabase: any
\tDomain: 1
\tMiddleware: Raw Transport

Transport Configuration:
\tKind: UDPv4
\tNic: eth0
\tUse Multicast: False
\tInitial peers: 10.0.0.2
\tBlocking Sockets: Yes

small buffers

"
        );
    }

    #[test]
    fn banner_differs_for_latency_test_and_subscriber() {
        let publisher = block("-pub -latencyTest -pubRate 1000:sleep -numIter 500");
        assert!(publisher.starts_with("\nMode: LATENCY TEST (Ping-Pong test)\n\nPerftest Configuration:\n"));
        assert!(publisher.contains("\tReliability: Reliable\n"));
        assert!(publisher.contains("\tPublication Rate: 1000 Samples/s (Sleep)\n\tNumber of samples: 500\n"));
        assert!(publisher.contains("\tReceive using: Listeners\n\tDomain: 1\n"));
        let subscriber = block("-sub -multicast -dataLen 63000 -sidMultiSubTest 2");
        assert!(subscriber.contains("\tSubscriber ID: 2\n\tData Size: 63000\n"));
        assert!(subscriber.contains("\tUse Multicast: True\n\t\tThroughput: 239.255.1.1\n"));
        assert!(!subscriber.contains("Mode:"));
    }

    #[test]
    fn effective_batching_is_printed() {
        assert!(block("-pub").contains("\tBatching: 8192 bytes (Use \"-batchSize 0\" to disable batching)\n"));
        assert!(block("-pub -dataLen 5000").contains("\tBatching: No (Use"));
        let disabled = block("-pub -dataLen 5000 -batchSize 8192");
        assert!(disabled.contains("\tBatching: Disabled (two samples do not fit into 8192 bytes)\n"));
    }
}
