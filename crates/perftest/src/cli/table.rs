//! The list of options. Parsing, `-help` and `docs/perftest-compatibility.md` derive from it.

use super::option::Argument::{
    Affinity, Choice, Flag, Integer, OptionalInteger, OptionalText, Priorities, Rate, Repeated, Seconds, Secret, Sizes,
    Span, Text,
};
use super::option::{Argument, Availability, Group, OptionDescriptor, Side};

/// Largest sample of RTI Perftest.
pub const MAX_DATA_LEN: u64 = 2_147_482_620;
/// Serialized length of a sample without its payload bytes.
pub const OVERHEAD_LEN: u64 = 28;
/// Largest payload of the bounded type.
pub const MAX_BOUNDED_PAYLOAD_LEN: u64 = 65_470;
/// Upper bound for plain counts.
const ANY: u64 = i64::MAX as u64;
const INT: u64 = i32::MAX as u64;

/// Every option, in the order of help within its group.
#[rustfmt::skip]
pub static OPTIONS: &[OptionDescriptor] = &[
    // General
    general("help", Flag, "", "print this text and end"),
    general("bestEffort", Flag, "off", "best-effort instead of reliable delivery; give it on both sides").no_raw(),
    general("dataLen", integer("bytes", OVERHEAD_LEN, MAX_DATA_LEN), "100", "serialized size of one sample"),
    general("verbosity", integer("level", 0, 3), "1", "messages: 0 none, 1 errors, 2 warnings, 3 everything"),
    general("domain", integer("id", 0, 250), "1", "DDS domain; processes in different domains do not discover each other"),
    general("durability", integer("kind", 0, 3), "0", "0 volatile, 1 transient local, 2 transient, 3 persistent").no_raw(),
    general("keyed", Flag, "off", "use the keyed type; give it on both sides").no_raw(),
    general("instances", integer("count", 1, INT), "1", "instances written in turn").no_raw(),
    general("useReadThread", Flag, "off", "receive in a loop on a WaitSet instead of in a listener").no_raw(),
    general("waitsetDelayUsec", integer("us", 0, 10_000_000), "0, 100 with waitsetEventCount", "how long a WaitSet gathers samples").no_raw(),
    general("waitsetEventCount", integer("count", 1, INT), "1, any with waitsetDelayUsec", "most samples that a WaitSet gathers within the delay; 1: it gathers none").no_raw(),
    general("unbounded", optional_integer("bytes", OVERHEAD_LEN, MAX_BOUNDED_PAYLOAD_LEN), "off", "use the unbounded type; implied above 65470 bytes").no_raw(),
    general("messageSizeMax", integer("bytes", 0, MAX_DATA_LEN), "by interface", "largest RTPS message").no_raw(),
    general("sendQueueSize", integer("count", 1, INT), "50", "samples, or batches, that may await acknowledgement"),
    general("receiveQueueSize", integer("count", 1, INT), "128", "most samples of the Throughput reader, if more than 10000"),
    general("noPrintIntervals", Flag, "off", "print the summary only"),
    general("noOutputHeaders", Flag, "off", "print no titles and no column headings"),
    general("outputFormat", choice("format", &["csv", "json", "legacy"], &[]), "csv", "format of the results"),
    general("outputFile", Text { label: "file" }, "stdout", "append the results to this file"),
    general("cpu", Flag, "off", "add the process's CPU use, as a share of all cores"),
    general("threadPriorities", Priorities, "unset", "real-time priorities: main, receive and event threads"),
    general("threadCPUAffinity", Affinity, "unset", "cores: main, receive, event and database threads"),
    general("pinMemory", Flag, "off", "lock all memory (mlockall)"),
    general("dynamicData", Flag, "off", "dynamic data API").no_raw().not_yet(),
    general("instanceHashBuckets", integer("count", 1, 1_000_000), "= instances", "hash buckets for instances").no_raw().not_yet(),
    general("noDirectCommunication", Flag, "off", "only through a persistence service").no_raw().not_yet(),
    general("noPositiveAcks", Flag, "off", "negative acknowledgements only").no_raw().not_yet(),
    general("keepDurationUsec", integer("us", 1, 31_536_000_000_000), "100", "retention time of samples with noPositiveAcks").no_raw().not_yet(),
    general("qosFile", Text { label: "file" }, "perftest_qos_profiles.xml", "QoS profiles in XML").no_raw().not_yet(),
    general("qosLibrary", Text { label: "name" }, "PerftestQosLibrary", "QoS library in the file").no_raw().not_yet(),
    general("noXmlQos", Flag, "on", "use the built-in QoS, as this program always does").no_raw(),
    general("asynchronous", Flag, "off", "writers only queue; a separate thread sends").no_raw(),
    general("flowController", choice("name", &["default", "1Gbps", "10Gbps"], &[]), "default", "rate of asynchronous writers; needs -asynchronous").no_raw(),
    general("flatData", Flag, "off", "FlatData type; give it on both sides").no_raw(),
    general("zeroCopy", Flag, "off", "create samples in shared memory, where readers read them; needs -transport SHMEM").no_raw(),
    general("checkConsistency", Flag, "off", "skip zero-copy samples that their writer may have overwritten; needs -zeroCopy").no_raw(),
    general("networkCapture", Flag, "off", "capture the traffic").no_raw().not_yet(),
    general("doNotDropNetworkCapture", Flag, "off", "keep the capture file").no_raw().not_yet(),
    general("crc", Flag, "off", "RTPS message checksum").no_raw().not_yet(),
    general("crcKind", choice("kind", &["CRC_32_CUSTOM", "CRC_32_LEGACY"], &[]), "CRC_32_CUSTOM", "kind of checksum").no_raw().not_yet(),
    general("enable-message-length", Flag, "off", "message length in the RTPS header extension").no_raw().not_yet(),
    general("preallocateFragmentedSamples", Flag, "off", "allocate the reader's fragment buffers in advance").no_raw().not_yet(),
    general("receiveBufferSize", integer("bytes", 1, INT), "8388608", "socket receive buffer to request").no_raw(),
    general("sendBufferSize", integer("bytes", 1, INT), "the system's", "socket send buffer to request").no_raw(),
    general("showResourceLimits", Flag, "off", "print the resource limits of each endpoint on stderr"),
    general("cacheStats", Flag, "off", "print resent samples and the counters of each endpoint on stderr").no_raw(),
    general("compressionId", choice("id", &["MASK_NONE", "ZLIB", "LZ4", "BZIP2"], &[]), "MASK_NONE", "payload compression").no_raw().not_yet(),
    general("compressionLevel", integer("level", 0, 10), "10", "compression effort").no_raw().not_yet(),
    general("compressionThreshold", integer("bytes", 0, INT), "0", "smallest sample that is compressed").no_raw().not_yet(),
    general("enableInstanceStateRecovery", Flag, "off", "instance state consistency").no_raw().not_yet(),
    general("enableMonitoring2", Flag, "off", "monitoring library").no_raw().not_yet(),
    general("collectorPeer", repeated("address", 1023), "", "monitoring collector").no_raw().not_yet(),
    general("loaningSendReceive", Flag, "off", "loaned samples (Connext TSS)").no_raw().not_yet(),
    general("fastQueue", Flag, "off", "fast queue (Connext, private)").no_raw().not_yet(),
    // Publisher
    publisher("pub", Flag, "", "act as publisher"),
    publisher("batchSize", integer("bytes", 0, 2_147_482_619), "8192", "size of batches; 0: no batches"),
    publisher("latencyCount", integer("count", 1, ANY), "10000, 1 with latencyTest", "one ping in this many samples or batches"),
    publisher("executionTime", Seconds { min_ms: 10 }, "unset", "length of the test; also of each size of a scan"),
    publisher("initialBurstSize", integer("count", 0, INT), "computed", "samples sent before the test starts"),
    publisher("latencyTest", Flag, "off", "ping-pong: one sample at a time, each echoed"),
    publisher("numIter", integer("count", 1, ANY), "100000000, 10000000 with latencyTest", "samples to send"),
    publisher("numSubscribers", integer("count", 1, INT), "1", "subscribers to wait for"),
    publisher("pidMultiPubTest", integer("id", 0, INT), "0", "this publisher's number when there are several"),
    publisher("pubRate", rate("n", 10_000_000), "unlimited", "samples per second"),
    publisher("pubRatebps", rate("bits", ANY), "unlimited", "bits per second"),
    publisher("sleep", integer("ms", 1, INT), "0", "sleep before each send"),
    publisher("spin", integer("count", 1, ANY), "0", "iterations of an empty loop before each send"),
    publisher("writeInstance", integer("index", 0, INT), "in turn", "write this instance only"),
    publisher("latencyFile", Text { label: "file" }, "off", "append every latency sample to this file"),
    publisher("scan", sizes(OVERHEAD_LEN, MAX_BOUNDED_PAYLOAD_LEN), "32:64:...:32768:63000", "test several sizes, one after the other"),
    publisher("enableAutoThrottle", Flag, "off", "adapt the rate to the readers").no_raw().not_yet(),
    publisher("enableTurboMode", Flag, "off", "adapt the batch size to the rate").no_raw().not_yet(),
    publisher("writerStats", Flag, "off", "print resent samples on stderr").no_raw(),
    publisher("lowResolutionClock", Flag, "off", "also time the ping-pong as a whole; needs latencyCount 1").no_raw(),
    publisher("showSerializationTime", Flag, "off", "time 1000 serializations after the test, in three more columns").no_raw(),
    publisher("loadDataFromFile", Text { label: "file" }, "off", "repeat the content of this file as payload"),
    publisher("maximumAllocableBufferSize", integer("bytes", 1, ANY), "1073741824", "most bytes to load from that file"),
    // Subscriber
    subscriber("sub", Flag, "", "act as subscriber; the default without -pub"),
    subscriber("sidMultiSubTest", integer("id", 0, INT), "0", "this subscriber's number when there are several"),
    subscriber("numPublishers", integer("count", 1, INT), "1", "publishers to wait for"),
    subscriber("cft", Span { label: "start[:end]", max: 65_534 }, "off", "content filter on the key").no_raw().not_yet(),
    // Transport
    transport("transport", choice("kind", &["UDPv4", "UDPv6", "SHMEM"], &["TCP", "TLS", "DTLS", "WAN", "UDPv4_WAN"]), "UDPv4", "kind of network"),
    transport("nic", Text { label: "ip or name[,...]" }, "all; loopback for raw", "interfaces to use, one for raw"),
    transport("allowInterfaces", Text { label: "ip or name[,...]" }, "", "another name of -nic; overrides it"),
    transport("peer", repeated("address", 1023), "multicast; loopback for raw", "partner's address; for raw addr[:id[-id2]]"),
    transport("multicast", OptionalText { label: "a[,b,c]" }, "off", "send data by multicast; an address, as in 2.x, is a -multicastAddr"),
    transport("multicastAddr", Text { label: "a[,b,c]" }, "239.255.1.1,239.255.1.2,239.255.1.100", "groups for throughput, latency, announcement; implies -multicast"),
    transport("transportVerbosity", Text { label: "level" }, "0", "messages of the transport").not_yet(),
    transport("transportServerBindPort", integer("port", 0, 65_535), "7400", "TCP server port").no_raw().not_yet(),
    transport("transportWan", Flag, "off", "TCP in WAN mode").no_raw().not_yet(),
    transport("transportPublicAddress", Text { label: "ip:port" }, "", "public address of a WAN server").not_yet(),
    transport("transportHostPort", integer("port", 0, 65_535), "public port", "UDPv4_WAN port mapping").no_raw().not_yet(),
    transport("transportWanServerAddress", Text { label: "address" }, "", "WAN server").no_raw().not_yet(),
    transport("transportWanServerPort", integer("port", 0, 65_535), "3478", "WAN server port").no_raw().not_yet(),
    transport("transportWanId", Text { label: "id" }, "", "WAN identity").no_raw().not_yet(),
    transport("transportSecureWan", Flag, "off", "secure WAN").no_raw().not_yet(),
    transport("transportCertAuthority", Text { label: "file" }, "", "TLS certificate authority").no_raw().not_yet(),
    transport("transportCertFile", Text { label: "file" }, "", "TLS certificate").no_raw().not_yet(),
    transport("transportPrivateKey", Text { label: "file" }, "", "TLS private key").no_raw().not_yet(),
    // Raw sockets
    raw("rawTransport", Flag, "off", "use plain UDP sockets instead of DDS, or plain shared memory with -transport SHMEM: the floor to compare with"),
    raw("noBlockingSockets", Flag, "off", "drop samples instead of waiting for room in the send buffer or in shared memory"),
    // Own
    own("nsResolution", Flag, "off", "print times in microseconds with three decimals"),
    own("discoveryTimeout", Seconds { min_ms: 1 }, "120", "timeout of the discovery of all partners"),
    own("partnerTimeout", Seconds { min_ms: 1 }, "10", "timeout of a silent partner, which ends the test"),
    own("startDelay", Seconds { min_ms: 0 }, "1", "pause between the initial burst and the first sample"),
    own("sameProcess", Flag, "off", "run both sides in this process, which passes samples by reference; replaces -pub and -sub").no_raw(),
    own("waitStrategy", Text { label: "strategy" }, "block", "how threads wait for data: block, spin:<us> or poll"),
    own("noPatterns", Flag, "off", "neither write nor check payloads"),
    own("recordFile", Text { label: "file" }, "off", "append every result with its histogram as one JSON line"),
    // Security
    security("secureGovernanceFile", Text { label: "file" }, "", "signed governance document; secures the participant"),
    security("securePermissionsFile", Text { label: "file" }, "signed_PerftestPermissionsPub.xml or ...Sub.xml", "signed permissions document"),
    security("secureCertAuthority", Text { label: "file" }, "cacert.pem", "certificate of the authority of certificates, and of documents unless permissions_cacert.pem is beside it"),
    security("secureCertFile", Text { label: "file" }, "pub.pem or sub.pem", "certificate of the participant"),
    security("securePrivateKey", Text { label: "file" }, "pubkey.pem or subkey.pem", "private key of the participant"),
    security("secureEncryptionAlgorithm", choice_except("name", &["aes-128-gcm", "aes-256-gcm"], &[("aes-192-gcm", "DDS Security has AES-GCM with 128 and 256 bits only; use aes-256-gcm")]), "aes-256-gcm", "cipher of what the participant sends"),
    security("secureDebug", integer("level", 0, 7), "1", "messages of security on stderr: 0 none, 1 to 5 refusals, 6 also authenticated participants, 7 also keys"),
    security("secureEnableAAD", Flag, "off", "no effect: a copy in each protected message authenticates the RTPS header in any case"),
    security("secureLibrary", Text { label: "file" }, "", "no effect: security is a part of this program"),
    security("lightWeightSecurity", Flag, "off", "a pre-shared key alone, without certificates and documents"),
    security("securePSK", Secret { label: "passphrase" }, "off", "pre-shared key: data:,<number>:<passphrase> or file:<path>"),
    security("securePSKAlgorithm", choice("name", &["AES128+GCM", "AES256+GCM", "AES128+GMAC", "AES256+GMAC"], &[]), "AES256+GCM", "cipher of the pre-shared key; with GMAC messages are signed only"),
    security("secureRtpsHmacOnly", Secret { label: "key" }, "off", "DDS Security has no HMAC of messages; to sign them with a shared key, use -lightWeightSecurity -securePSK data:,<number>:<passphrase> -securePSKAlgorithm AES256+GMAC").refused(),
    // Removed by RTI Perftest, but used in old scripts.
    old("enableUDPv6", "-transport UDPv6"),
    old("enableSharedMemory", "-transport SHMEM"),
    old("debug", "-verbosity 3"),
    old("nomulticast", "nothing; multicast is off by default"),
    removed("enableTCP", Flag, "-transport TCP"),
    old("secureSign", "-secureGovernanceFile signed_PerftestGovernance_Sign.xml").no_raw(),
    old("secureEncryptBoth", "-secureGovernanceFile signed_PerftestGovernance_EncryptBoth.xml").no_raw(),
    old("secureEncryptData", "-secureGovernanceFile signed_PerftestGovernance_EncryptData.xml").no_raw(),
    old("secureEncryptDiscovery", "-secureGovernanceFile signed_PerftestGovernance_Discovery.xml").no_raw(),
    old("secureEncryptSM", "-secureGovernanceFile signed_PerftestGovernance_EncryptSubmessage.xml").no_raw(),
    removed("useLegacyDynamicData", Flag, "nothing"),
    removed("heartbeatPeriod", Text { label: "sec:nanosec" }, "nothing"),
    removed("fastHeartbeatPeriod", Text { label: "sec:nanosec" }, "nothing"),
    removed("qosProfile", Text { label: "name" }, "nothing"),
];

/// The row with exactly this name.
pub fn descriptor(name: &str) -> Option<&'static OptionDescriptor> {
    OPTIONS.iter().find(|option| option.name == name)
}

const fn integer(label: &'static str, min: u64, max: u64) -> Argument {
    Integer { label, min, max }
}

const fn optional_integer(label: &'static str, min: u64, max: u64) -> Argument {
    OptionalInteger { label, min, max }
}

const fn choice(label: &'static str, permitted: &'static [&'static str], not_yet: &'static [&'static str]) -> Argument {
    Choice { label, permitted, not_yet, refused: &[] }
}

/// A choice with known words that are refused, each with its reason.
const fn choice_except(
    label: &'static str,
    permitted: &'static [&'static str],
    refused: &'static [(&'static str, &'static str)],
) -> Argument {
    Choice { label, permitted, not_yet: &[], refused }
}

const fn repeated(label: &'static str, max: usize) -> Argument {
    Repeated { label, max }
}

const fn rate(label: &'static str, max: u64) -> Argument {
    Rate { label, max }
}

const fn sizes(min: u64, max: u64) -> Argument {
    Sizes { min, max }
}

const fn general(
    name: &'static str,
    argument: Argument,
    default: &'static str,
    help: &'static str,
) -> OptionDescriptor {
    OptionDescriptor {
        name,
        argument,
        default,
        group: Group::General,
        side: Side::Both,
        raw: true,
        availability: Availability::Now,
        help,
    }
}

const fn publisher(
    name: &'static str,
    argument: Argument,
    default: &'static str,
    help: &'static str,
) -> OptionDescriptor {
    let row = general(name, argument, default, help);
    OptionDescriptor { group: Group::Publisher, side: Side::Publisher, ..row }
}

const fn subscriber(
    name: &'static str,
    argument: Argument,
    default: &'static str,
    help: &'static str,
) -> OptionDescriptor {
    let row = general(name, argument, default, help);
    OptionDescriptor { group: Group::Subscriber, side: Side::Subscriber, ..row }
}

const fn transport(
    name: &'static str,
    argument: Argument,
    default: &'static str,
    help: &'static str,
) -> OptionDescriptor {
    OptionDescriptor { group: Group::Transport, ..general(name, argument, default, help) }
}

const fn raw(name: &'static str, argument: Argument, default: &'static str, help: &'static str) -> OptionDescriptor {
    OptionDescriptor { group: Group::RawTransport, ..general(name, argument, default, help) }
}

const fn own(name: &'static str, argument: Argument, default: &'static str, help: &'static str) -> OptionDescriptor {
    OptionDescriptor { group: Group::Own, ..general(name, argument, default, help) }
}

const fn security(
    name: &'static str,
    argument: Argument,
    default: &'static str,
    help: &'static str,
) -> OptionDescriptor {
    OptionDescriptor { group: Group::Security, ..general(name, argument, default, help).no_raw() }
}

/// Removed by RTI Perftest and still supported here; `now` is its replacement.
const fn old(name: &'static str, now: &'static str) -> OptionDescriptor {
    OptionDescriptor { availability: Availability::Old, ..general(name, Flag, "", now) }
}

const fn removed(name: &'static str, argument: Argument, instead: &'static str) -> OptionDescriptor {
    OptionDescriptor { availability: Availability::Removed, ..general(name, argument, "", instead) }
}

impl OptionDescriptor {
    const fn no_raw(self) -> Self {
        Self { raw: false, ..self }
    }

    const fn refused(self) -> Self {
        Self { availability: Availability::Refused, ..self }
    }

    const fn not_yet(self) -> Self {
        Self { availability: Availability::NotYet, ..self }
    }
}
