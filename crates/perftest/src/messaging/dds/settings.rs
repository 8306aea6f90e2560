//! From the plan to DDS: the configuration of the participant, and the policies of every endpoint.

use std::net::IpAddr;

use peregrine::PublishMode;
use peregrine::config::{DomainConfig, InterfaceSelection, Peer, Scheduling};
use peregrine::qos::{
    AccessScope, DataReaderQos, DataRepresentation, DataWriterQos, Durability, History, Limit, Presentation,
    PublisherQos, Reliability, ReliabilityKind, RepresentationId, ResourceLimits, SubscriberQos,
};

use crate::error::Error;
use crate::messaging::{HEADER_LEN, Topic, missing_interface};
use crate::plan::{
    Batching, FlowController, MAX_DATAGRAM_LEN, OVERHEAD_LEN, Role, SampleForm, TestPlan, TransportKind, Wait,
};
use crate::threads;

/// Most samples that the reader of a topic holds.
const THROUGHPUT_READER_LIMIT: u32 = 10_000;
const OTHER_READER_LIMIT: u32 = 100;
/// Most bytes that the queue of a publisher of several sizes may hold at the largest size: the queue is counted in
/// samples, and a queue of batches of the smallest size would otherwise hold as many of the largest.
const SCAN_QUEUE_BYTES: usize = 128 << 20;
/// Both sides offer and request samples in the order of writing within a topic.
const PRESENTATION: Presentation = Presentation { scope: AccessScope::Topic, coherent: false, ordered: true };

/// Configuration of the participant.
pub(super) fn domain_config(plan: &TestPlan) -> Result<DomainConfig, Error> {
    let transport = &plan.transport;
    let mut config = DomainConfig::default();
    // Only the requested transport is used, even between participants of one process.
    config.same_process = transport.same_process;
    config.shared_memory = transport.kind == TransportKind::SharedMemory;
    config.udp_v4 = transport.kind.is_ipv4();
    config.udp_v6 = transport.kind == TransportKind::UdpV6;
    if !transport.interfaces.is_empty() {
        config.interfaces = InterfaceSelection::Only(transport.interfaces.clone());
        // A test runs on all named interfaces or not at all.
        let missing = config.missing_interfaces().map_err(|error| Error::Setup(error.to_string()))?;
        if let Some(name) = missing.first() {
            return Err(Error::Setup(missing_interface(name, transport.kind)?));
        }
    }
    let peers = transport.peers.iter().map(|peer| peer.parse::<Peer>()).collect::<Result<_, _>>();
    config.peers = peers.map_err(|error| Error::Setup(format!("-peer: {error}")))?;
    // As in RTI Perftest, named peers replace discovery by multicast.
    let is_group = |peer: &String| peer.parse().is_ok_and(|ip: IpAddr| ip.is_multicast());
    config.multicast = transport.peers.is_empty() || transport.peers.iter().any(is_group);
    config.message_bytes = plan.data.max_message_len.map(|len| len.min(MAX_DATAGRAM_LEN));
    if let Some(len) = plan.data.receive_buffer_len {
        config.receive_buffer_bytes = len;
    }
    config.send_buffer_bytes = plan.data.send_buffer_len;
    config.wait = match plan.receive.wait {
        Wait::Block => peregrine::WaitStrategy::Block,
        Wait::Spin(time) => peregrine::WaitStrategy::SpinThenBlock(time),
        Wait::Poll => peregrine::WaitStrategy::Poll,
    };
    let affinity = plan.threads.affinity.as_ref().map(|affinity| affinity.receive.clone());
    config.threads.affinity = affinity.filter(|cores| !cores.is_empty());
    config.threads.scheduling =
        plan.threads.priorities.map(|priorities| Scheduling::Fifo(threads::priority_number(priorities.receive)));
    Ok(config)
}

/// The policies of publishers.
pub(super) fn publisher_qos() -> PublisherQos {
    PublisherQos { presentation: PRESENTATION, ..PublisherQos::default() }
}

/// The policies of subscribers.
pub(super) fn subscriber_qos() -> SubscriberQos {
    SubscriberQos { presentation: PRESENTATION, ..SubscriberQos::default() }
}

/// The policies of the writer of a topic.
pub(super) fn writer_qos(plan: &TestPlan, topic: Topic) -> DataWriterQos {
    let max_samples = match topic {
        Topic::Throughput => Limit::At(throughput_queue_len(plan)),
        Topic::Latency | Topic::Announcement => Limit::Unlimited,
    };
    DataWriterQos {
        durability: durability(plan, topic),
        reliability: Reliability { kind: reliability(plan, topic), max_blocking_time: plan.timeouts.partner.into() },
        // Only the latest announcement counts: a late joiner must not consider a departed subscriber present.
        history: if topic == Topic::Announcement { History::KeepLast { depth: 1 } } else { History::KeepAll },
        resource_limits: limits(plan, max_samples),
        data_representation: representation(plan),
        ..DataWriterQos::default()
    }
}

/// The policies of the reader of a topic.
pub(super) fn reader_qos(plan: &TestPlan, topic: Topic) -> DataReaderQos {
    let max_samples = match topic {
        Topic::Throughput => THROUGHPUT_READER_LIMIT.max(plan.data.receive_queue_len),
        Topic::Latency | Topic::Announcement => OTHER_READER_LIMIT,
    };
    let kind = reliability(plan, topic);
    DataReaderQos {
        durability: durability(plan, topic),
        reliability: Reliability { kind, ..Reliability::RELIABLE },
        history: History::KeepAll,
        resource_limits: limits(plan, Limit::At(max_samples)),
        data_representation: match plan.data.form {
            SampleForm::Serialized => DataReaderQos::default().data_representation,
            SampleForm::Flat | SampleForm::ZeroCopy => representation(plan),
        },
        ..DataReaderQos::default()
    }
}

/// The representation of RTI Perftest. FlatData exists only as XCDR2.
fn representation(plan: &TestPlan) -> DataRepresentation {
    DataRepresentation(vec![match plan.data.form {
        SampleForm::Serialized => RepresentationId::XCDR1,
        SampleForm::Flat | SampleForm::ZeroCopy => RepresentationId::XCDR2,
    }])
}

/// The thread that sends for writers, and its pace.
pub(super) fn publish_mode(plan: &TestPlan) -> Result<PublishMode, Error> {
    let flow = match plan.data.asynchronous {
        None => return Ok(PublishMode::Synchronous),
        Some(FlowController::Default) => peregrine::FlowController::fast(),
        Some(FlowController::BitsPerSecond { rate, .. }) => peregrine::FlowController::bits_per_second(rate)
            .map_err(|error| Error::Setup(format!("-flowController: {error}")))?,
    };
    Ok(PublishMode::Asynchronous { flow })
}

/// Payload bytes of a batch, if samples are batched: as many samples as fit into `-batchSize`, each with its
/// encapsulation header.
pub(super) fn batch_len(plan: &TestPlan) -> Option<usize> {
    let (batching, sizes) = batching(plan)?;
    let len = |size: &usize| match batching.samples_for(*size) as usize {
        0 | 1 => 0,
        samples => samples * (size + HEADER_LEN - OVERHEAD_LEN).next_multiple_of(4),
    };
    sizes.iter().map(len).max().filter(|len| *len > 0)
}

fn batching(plan: &TestPlan) -> Option<(Batching, &[usize])> {
    match &plan.role {
        Role::Publisher(publisher) => Some((publisher.batching, &publisher.sizes)),
        Role::Subscriber(_) => None,
    }
}

/// `-sendQueueSize` counts batches if samples are batched.
fn throughput_queue_len(plan: &TestPlan) -> u32 {
    let queue_len = plan.data.send_queue_len;
    let Some((batching, sizes)) = batching(plan) else { return queue_len };
    let samples = sizes.iter().map(|size| batching.samples_for(*size)).max().unwrap_or(1);
    let in_batches = u32::try_from(samples).unwrap_or(u32::MAX).saturating_mul(queue_len);
    if sizes.len() == 1 {
        return in_batches;
    }
    let affordable = u32::try_from(SCAN_QUEUE_BYTES / plan.data.max_len.max(1)).unwrap_or(u32::MAX);
    in_batches.min(affordable).max(queue_len)
}

fn reliability(plan: &TestPlan, topic: Topic) -> ReliabilityKind {
    if plan.data.reliable || topic == Topic::Announcement {
        ReliabilityKind::Reliable
    } else {
        ReliabilityKind::BestEffort
    }
}

fn durability(plan: &TestPlan, topic: Topic) -> Durability {
    match (topic, plan.data.durability) {
        (Topic::Announcement, _) | (Topic::Throughput, 1) => Durability::TransientLocal,
        (Topic::Latency, _) | (Topic::Throughput, 0) => Durability::Volatile,
        (Topic::Throughput, 2) => Durability::Transient,
        (Topic::Throughput, _) => Durability::Persistent,
    }
}

/// One instance more than is written, for control messages. A subscriber without `-instances` accepts any number.
fn limits(plan: &TestPlan, max_samples: Limit) -> ResourceLimits {
    let is_known = plan.data.keyed && plan.data.instances_given;
    let max_instances = if is_known { Limit::At(plan.data.instances.saturating_add(1)) } else { Limit::Unlimited };
    ResourceLimits { max_samples, max_instances, max_samples_per_instance: max_samples }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Invocation, parse};
    use crate::plan::resolve;

    fn plan(line: &str) -> TestPlan {
        let words: Vec<_> = line.split_whitespace().collect();
        let Ok(Invocation::Run(options)) = parse(&words) else { panic!("{line}") };
        resolve(&options).unwrap()
    }

    #[test]
    fn send_queue_size_counts_batches() {
        assert_eq!(throughput_queue_len(&plan("-pub -batchSize 0")), 50);
        assert_eq!(throughput_queue_len(&plan("-pub -dataLen 32")), 50 * 256);
        assert_eq!(throughput_queue_len(&plan("-pub -dataLen 32 -sendQueueSize 10")), 2560);
        assert_eq!(throughput_queue_len(&plan("-pub -scan 32:63000")), 2130);
        assert_eq!(throughput_queue_len(&plan("-sub")), 50);
    }

    /// A reader allocates nothing in advance, so the lower bound of receive queues costs no memory.
    #[test]
    fn queue_of_large_samples_has_requested_length() {
        let plan = plan("-pub -dataLen 52428800 -batchSize 0 -sendQueueSize 5 -receiveQueueSize 1");
        let writer = writer_qos(&plan, Topic::Throughput);
        assert_eq!((writer.history, writer.resource_limits.max_samples), (History::KeepAll, Limit::At(5)));
        assert_eq!(writer.resource_limits.max_samples_per_instance, Limit::At(5));
        let reader = reader_qos(&plan, Topic::Throughput);
        assert_eq!(reader.resource_limits.max_samples, Limit::At(THROUGHPUT_READER_LIMIT));
    }

    #[test]
    fn batch_holds_as_many_samples_as_fit_without_their_headers() {
        assert_eq!(batch_len(&plan("-pub -dataLen 100")), Some(81 * 104));
        assert_eq!(batch_len(&plan("-pub -dataLen 101")), Some(81 * 108));
        assert_eq!(batch_len(&plan("-pub -dataLen 5000")), None);
        assert_eq!(batch_len(&plan("-pub -latencyTest")), None);
        assert_eq!(batch_len(&plan("-sub")), None);
    }

    #[test]
    fn policies_are_those_of_rti_perftest() {
        let plan = plan("-pub -bestEffort -keyed -instances 4 -durability 1 -batchSize 0");
        let throughput = writer_qos(&plan, Topic::Throughput);
        assert_eq!(throughput.reliability.kind, ReliabilityKind::BestEffort);
        assert_eq!(throughput.durability, Durability::TransientLocal);
        assert_eq!(throughput.resource_limits.max_samples, Limit::At(50));
        assert_eq!(throughput.resource_limits.max_instances, Limit::At(5));
        assert_eq!(throughput.history, History::KeepAll);
        let announcement = reader_qos(&plan, Topic::Announcement);
        assert_eq!(announcement.reliability.kind, ReliabilityKind::Reliable);
        assert_eq!(announcement.durability, Durability::TransientLocal);
        assert_eq!(writer_qos(&plan, Topic::Latency).durability, Durability::Volatile);
        assert_eq!(writer_qos(&plan, Topic::Announcement).history, History::KeepLast { depth: 1 });
        assert_eq!(publisher_qos().presentation.scope, AccessScope::Topic);
    }

    #[test]
    fn missing_interface_of_list_is_refused() {
        let interfaces = |line| domain_config(&plan(line)).map(|config| config.interfaces);
        let only = |names: &[&str]| InterfaceSelection::Only(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(interfaces("-sub -nic lo").unwrap(), only(&["lo"]));
        assert_eq!(interfaces("-sub -nic 127.0.0.1").unwrap(), only(&["127.0.0.1"]));
        assert_eq!(interfaces("-sub -allowInterfaces lo,127.0.0.1").unwrap(), only(&["lo", "127.0.0.1"]));
        for line in ["-sub -nic nowhere0", "-sub -allowInterfaces lo,nowhere0", "-sub -nic 203.0.113.9"] {
            let error = interfaces(line).unwrap_err();
            assert_eq!(error.exit_code(), 255);
            let text = error.to_string();
            let name = if line.contains("203") { "203.0.113.9" } else { "nowhere0" };
            assert!(text.starts_with(&format!("-nic {name}:")) && text.contains("lo (127.0.0.1)"), "{text}");
        }
    }

    #[test]
    fn named_peers_replace_multicast() {
        assert!(domain_config(&plan("-sub")).unwrap().multicast);
        assert!(!domain_config(&plan("-sub -peer 127.0.0.1")).unwrap().multicast);
        assert!(domain_config(&plan("-sub -peer 239.255.0.1")).unwrap().multicast);
        let config =
            domain_config(&plan("-sub -transport UDPv6 -messageSizeMax 1000000 -threadCPUAffinity 0:1")).unwrap();
        assert_eq!((config.udp_v4, config.udp_v6, config.message_bytes), (false, true, Some(MAX_DATAGRAM_LEN)));
        assert_eq!(config.threads.affinity, Some(vec![1]));
        let config = domain_config(&plan("-sub -receiveBufferSize 100000 -sendBufferSize 50k")).unwrap();
        assert_eq!((config.receive_buffer_bytes, config.send_buffer_bytes), (100_000, Some(50_000)));
    }
}
