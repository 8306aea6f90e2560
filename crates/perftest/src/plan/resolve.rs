//! The rules between options.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use super::{
    Batching, DataPlan, Diagnostics, FlowController, Gather, MAX_BOUNDED_LEN, MAX_DATAGRAM_LEN, MAX_UNFRAGMENTED_LEN,
    MulticastGroups, OVERHEAD_LEN, OutputFormat, OutputPlan, Pace, PayloadFile, PublisherPlan, ReceivePlan, Role,
    SCAN_SIZES, SampleForm, SubscriberPlan, TestPlan, ThreadPlan, Timeouts, TransportKind, TransportPlan, Wait,
};
use crate::cli::option::{Availability, Side};
use crate::cli::table::OPTIONS;
use crate::cli::{ParsedOptions, UsageError};
use crate::control::{CONTROL_KEY, Sentinel};
use crate::messaging::ENCAPSULATION_LEN;

const DEFAULT_DATA_LEN: u64 = 100;
const DEFAULT_BATCH_BYTES: usize = 8192;
const DEFAULT_LATENCY_COUNT: u64 = 10_000;
const DEFAULT_SAMPLES: u64 = 100_000_000;
const DEFAULT_LATENCY_TEST_SAMPLES: u64 = 10_000_000;
const DEFAULT_SCAN_TIME: Duration = Duration::from_secs(60);
const DEFAULT_PAYLOAD_FILE_BYTES: u64 = 1 << 30;
const SERIALIZATION_ROUNDS: u32 = 1000;
/// The instance of control messages.
const CONTROL_INSTANCE: u64 = u32::from_le_bytes(CONTROL_KEY) as u64;

/// Largest first address of three consecutive IPv4 groups.
const LAST_MULTICAST_BASE: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 253);

/// Applies all defaults and rules.
pub fn resolve(options: &ParsedOptions) -> Result<TestPlan, UsageError> {
    resolve_side(options, options.has("pub"))
}

/// Resolves both sides, the publisher first, if they are in one process (`-sameProcess`).
pub fn resolve_both(options: &ParsedOptions) -> Result<Option<[TestPlan; 2]>, UsageError> {
    if !options.has("sameProcess") {
        return Ok(None);
    }
    let publisher = resolve_side(options, true)?;
    let subscriber = TestPlan { notes: Vec::new(), ..resolve_side(options, false)? };
    Ok(Some([publisher, subscriber]))
}

fn resolve_side(options: &ParsedOptions, is_publisher: bool) -> Result<TestPlan, UsageError> {
    let mut remarks = Remarks::default();
    same_process(options, &mut remarks);
    let sizes = sizes(options, &mut remarks);
    let role = if is_publisher {
        Role::Publisher(publisher(options, &sizes, &mut remarks))
    } else {
        Role::Subscriber(SubscriberPlan {
            id: u32_option(options, "sidMultiSubTest", 0),
            publishers: u32_option(options, "numPublishers", 1),
        })
    };
    let wait = wait(options, &mut remarks);
    let Remarks { errors, notes } = &mut remarks;
    let security = super::security::security(options, is_publisher, errors, notes);
    let plan = TestPlan {
        role,
        data: data(options, &sizes, &mut remarks),
        transport: transport(options, &mut remarks),
        receive: ReceivePlan {
            read_thread: options.has("useReadThread") || options.has("rawTransport") || wait == Wait::Poll,
            gather: gather(options),
            wait,
        },
        patterns: !options.has("noPatterns"),
        check_consistency: check_consistency(options, &mut remarks),
        threads: ThreadPlan {
            priorities: options.priorities(),
            affinity: options.affinity().cloned(),
            pin_memory: options.has("pinMemory"),
        },
        output: output(options),
        timeouts: Timeouts {
            discovery: options.duration("discoveryTimeout").unwrap_or(Duration::from_secs(120)),
            partner: options.duration("partnerTimeout").unwrap_or(Duration::from_secs(10)),
            start_delay: options.duration("startDelay").unwrap_or(Duration::from_secs(1)),
        },
        diagnostics: Diagnostics {
            resource_limits: options.has("showResourceLimits"),
            counters: options.has("cacheStats"),
            resent: options.has("writerStats"),
        },
        security,
        verbosity: verbosity(options),
        notes: remarks.notes.into_iter().chain(old_names(options)).chain(without_effect(options)).collect(),
    };
    if remarks.errors.is_empty() { Ok(plan) } else { Err(UsageError { lines: remarks.errors }) }
}

/// Notes on options that current versions of RTI Perftest do not have.
fn old_names(options: &ParsedOptions) -> impl Iterator<Item = String> {
    let old = OPTIONS.iter().filter(|option| option.availability == Availability::Old && options.has(option.name));
    old.map(|option| format!("-{} was removed from RTI Perftest; instead use: {}", option.name, option.help))
}

/// Notes on options that are accepted, as in RTI Perftest, and have no effect.
fn without_effect(options: &ParsedOptions) -> Vec<String> {
    let mut notes = Vec::new();
    if ["pub", "sub", "sameProcess"].into_iter().all(|side| !options.has(side)) {
        let given = OPTIONS.iter().filter(|option| option.side == Side::Publisher && options.has(option.name));
        notes.extend(
            given.map(|option| format!("-{} has no effect: without -pub this process is a subscriber.", option.name)),
        );
    }
    let has_read_thread = options.has("useReadThread") && options.text("waitStrategy") != Some("poll");
    for name in ["waitsetDelayUsec", "waitsetEventCount"] {
        if options.has(name) && !has_read_thread {
            notes.push(format!("-{name} has no effect: only the read thread of -useReadThread waits with a WaitSet."));
        }
    }
    if options.has("writeInstance") && !options.has("keyed") {
        notes.push("-writeInstance has no effect: without -keyed there are no instances.".into());
    }
    if options.affinity().is_some_and(|affinity| !affinity.event.is_empty() || !affinity.database.is_empty()) {
        notes.push(
            "-threadCPUAffinity: only the first two lists have an effect; all threads of the middleware take the second."
                .into(),
        );
    }
    if options.priorities().is_some_and(|priorities| priorities.event != priorities.receive) {
        notes.push(
            "-threadPriorities: only the first two have an effect; all threads of the middleware take the second."
                .into(),
        );
    }
    notes
}

#[derive(Default)]
struct Remarks {
    errors: Vec<String>,
    notes: Vec<String>,
}

/// Checks that one process contains one publisher and one subscriber.
fn same_process(options: &ParsedOptions, remarks: &mut Remarks) {
    if !options.has("sameProcess") {
        return;
    }
    for side in ["pub", "sub"].into_iter().filter(|side| options.has(side)) {
        remarks.errors.push(format!("-sameProcess is both sides; leave -{side} out"));
    }
    if options.choice("transport") == Some("SHMEM") {
        let text = "samples are passed by reference within the process";
        remarks.errors.push(format!("-sameProcess cannot go with -transport SHMEM: {text}"));
    }
    for name in ["numSubscribers", "numPublishers"] {
        if options.integer(name).is_some_and(|count| count > 1) {
            remarks.errors.push(format!("-sameProcess has one publisher and one subscriber; leave -{name} out"));
        }
    }
    for name in ["pidMultiPubTest", "sidMultiSubTest"] {
        if options.integer(name).is_some_and(|id| id > 0) {
            remarks.errors.push(format!("-sameProcess has one publisher and one subscriber; leave -{name} out"));
        }
    }
}

fn sizes(options: &ParsedOptions, remarks: &mut Remarks) -> Vec<usize> {
    let scan = options.has("scan");
    let sizes: Vec<usize> = if scan {
        match options.sizes("scan") {
            Some(sizes) => sizes.iter().map(|size| *size as usize).collect(),
            None => SCAN_SIZES.to_vec(),
        }
    } else {
        vec![options.integer("dataLen").unwrap_or(DEFAULT_DATA_LEN) as usize]
    };
    for size in &sizes {
        let sentinel = Sentinel::of_payload_len(size.saturating_sub(OVERHEAD_LEN));
        let takes_control_key = options.integer("instances").is_some_and(|instances| instances > CONTROL_INSTANCE);
        let is_taken = |sentinel: &Sentinel| scan || takes_control_key || *sentinel != Sentinel::LengthChanged;
        if let Some(sentinel) = sentinel.filter(is_taken) {
            remarks.errors.push(format!(
                "A sample of {size} bytes cannot be told from the {sentinel} message, whose payload has the same \
                 length; choose another {}",
                if scan { "-scan size" } else { "-dataLen" }
            ));
        }
        if sends_datagrams(options) && size + ENCAPSULATION_LEN > MAX_DATAGRAM_LEN {
            remarks.errors.push(format!(
                "-dataLen {size} does not fit into one datagram; raw sockets take up to {} bytes",
                MAX_DATAGRAM_LEN - ENCAPSULATION_LEN
            ));
        }
    }
    sizes
}

fn publisher(options: &ParsedOptions, sizes: &[usize], remarks: &mut Remarks) -> PublisherPlan {
    let latency_test = options.has("latencyTest");
    let scan = options.has("scan");
    let id = u32_option(options, "pidMultiPubTest", 0);
    if latency_test && id != 0 {
        remarks.errors.push("-latencyTest measures at publisher 0 only; leave -pidMultiPubTest out".into());
    }
    let latency_count = options.integer("latencyCount").unwrap_or(if latency_test { 1 } else { DEFAULT_LATENCY_COUNT });
    let mut execution_time = options.duration("executionTime");
    let max_samples = match options.integer("numIter") {
        Some(samples) => {
            if samples < latency_count {
                remarks.errors.push(format!("-numIter {samples} must not be less than -latencyCount {latency_count}"));
            }
            samples
        }
        None if execution_time.is_some() => u64::MAX,
        None if scan => {
            execution_time = Some(DEFAULT_SCAN_TIME);
            u64::MAX
        }
        None if latency_test => DEFAULT_LATENCY_TEST_SAMPLES,
        None => DEFAULT_SAMPLES,
    };
    let write_instance = options.integer("writeInstance");
    let instances = u64::from(u32_option(options, "instances", 1));
    if write_instance.is_some_and(|index| index >= instances) {
        remarks.errors.push(format!("-writeInstance must be below -instances ({instances})"));
    }
    PublisherPlan {
        id,
        subscribers: u32_option(options, "numSubscribers", 1),
        sizes: sizes.to_vec(),
        scan,
        latency_test,
        latency_count,
        batching: batching(options, sizes, remarks),
        max_samples,
        execution_time,
        initial_burst: options.integer("initialBurstSize"),
        pace: pace(options, remarks),
        write_instance: write_instance.map(|index| index as u32),
        latency_file: options.text("latencyFile").map(PathBuf::from),
        payload_file: payload_file(options, remarks),
        low_resolution_clock: low_resolution_clock(options, latency_count, remarks),
        serialization_rounds: if options.has("showSerializationTime") { SERIALIZATION_ROUNDS } else { 0 },
    }
}

fn payload_file(options: &ParsedOptions, remarks: &mut Remarks) -> Option<PayloadFile> {
    let max_bytes = options.integer("maximumAllocableBufferSize");
    let Some(path) = options.text("loadDataFromFile") else {
        if max_bytes.is_some() {
            remarks.errors.push("-maximumAllocableBufferSize needs -loadDataFromFile".into());
        }
        return None;
    };
    Some(PayloadFile { path: path.into(), max_bytes: max_bytes.unwrap_or(DEFAULT_PAYLOAD_FILE_BYTES) })
}

/// With two clock readings, the whole time must consist of round trips.
fn low_resolution_clock(options: &ParsedOptions, latency_count: u64, remarks: &mut Remarks) -> bool {
    if !options.has("lowResolutionClock") {
        return false;
    }
    if !options.has("latencyTest") {
        remarks.errors.push("-lowResolutionClock needs -latencyTest: it times round trips".into());
    }
    if latency_count != 1 {
        remarks.errors.push(format!("-lowResolutionClock needs -latencyCount 1, not {latency_count}"));
    }
    for pause in ["sleep", "spin", "pubRate", "pubRatebps"].into_iter().filter(|pause| options.has(pause)) {
        remarks.errors.push(format!("-lowResolutionClock cannot go with -{pause}: it would time the pauses as well"));
    }
    true
}

/// `-debug` is an old name of the highest level.
fn verbosity(options: &ParsedOptions) -> u8 {
    let default = if options.has("debug") { 3 } else { 1 };
    options.integer("verbosity").unwrap_or(default) as u8
}

fn batching(options: &ParsedOptions, sizes: &[usize], remarks: &mut Remarks) -> Batching {
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let has_rate = options.has("pubRate") || options.has("pubRatebps");
    let Some(bytes) = options.integer("batchSize").map(|bytes| bytes as usize) else {
        let off = options.has("latencyTest") || options.has("rawTransport") || has_rate || is_flat(options);
        return if off { Batching::Off } else { Batching::Implicit(DEFAULT_BATCH_BYTES) };
    };
    if bytes == 0 {
        return Batching::Off;
    }
    if options.has("latencyTest") {
        remarks.errors.push("-batchSize cannot go with -latencyTest: each ping waits for its answer".into());
    }
    if is_flat(options) {
        remarks.errors.push("-batchSize cannot go with -flatData and -zeroCopy: samples are sent in place".into());
    }
    if largest > MAX_UNFRAGMENTED_LEN {
        remarks.errors.push(format!(
            "-batchSize cannot go with samples above {MAX_UNFRAGMENTED_LEN} bytes, which travel in fragments"
        ));
    }
    if sends_datagrams(options) && bytes > MAX_DATAGRAM_LEN {
        remarks.errors.push(format!("-batchSize {bytes} does not fit into one datagram ({MAX_DATAGRAM_LEN} bytes)"));
    }
    if sizes.iter().any(|size| bytes < 2 * size) {
        remarks.notes.push(format!("Batching is disabled where fewer than two samples fit into {bytes} bytes."));
    }
    Batching::Explicit(bytes)
}

fn pace(options: &ParsedOptions, remarks: &mut Remarks) -> Pace {
    let scheduled = match (options.rate("pubRate"), options.rate("pubRatebps")) {
        (Some(_), Some(_)) => {
            remarks.errors.push("-pubRate and -pubRatebps exclude each other".into());
            None
        }
        (Some(samples), None) => Some(Pace::Samples(samples)),
        (None, bits) => bits.map(Pace::Bits),
    };
    let sleep = Duration::from_millis(options.integer("sleep").unwrap_or(0));
    let spin_count = options.integer("spin").unwrap_or(0);
    match scheduled {
        Some(pace) => {
            if !sleep.is_zero() || spin_count > 0 {
                remarks.notes.push("-sleep and -spin are ignored, because a publication rate is set.".into());
            }
            pace
        }
        None => Pace::Unlimited { sleep, spin_count },
    }
}

fn data(options: &ParsedOptions, sizes: &[usize], remarks: &mut Remarks) -> DataPlan {
    let max_len = sizes.iter().copied().max().unwrap_or(OVERHEAD_LEN);
    let unbounded = if let Some(threshold) = options.integer("unbounded") {
        Some(threshold as usize)
    } else if options.has("unbounded") || max_len > MAX_BOUNDED_LEN && !options.has("rawTransport") {
        Some((2 * max_len).min(MAX_BOUNDED_LEN))
    } else {
        None
    };
    if unbounded.is_some() && !options.has("unbounded") {
        remarks.notes.push(format!("[IMPORTANT]: samples above {MAX_BOUNDED_LEN} bytes use the unbounded type."));
    }
    DataPlan {
        domain: u32_option(options, "domain", 1),
        max_len,
        reliable: is_reliable(options),
        keyed: options.has("keyed"),
        instances: u32_option(options, "instances", 1),
        instances_given: options.has("instances"),
        form: form(options, remarks),
        unbounded,
        durability: options.integer("durability").unwrap_or(0) as u8,
        send_queue_len: u32_option(options, "sendQueueSize", 50),
        send_queue_given: options.has("sendQueueSize"),
        receive_queue_len: u32_option(options, "receiveQueueSize", 128),
        max_message_len: options.integer("messageSizeMax").filter(|len| *len > 0).map(|len| len as usize),
        receive_buffer_len: options.integer("receiveBufferSize").map(|len| len as usize),
        send_buffer_len: options.integer("sendBufferSize").map(|len| len as usize),
        asynchronous: asynchronous(options, remarks),
    }
}

/// Sockets drop datagrams on a full buffer; writers of shared memory wait for room.
fn is_reliable(options: &ParsedOptions) -> bool {
    if options.has("rawTransport") {
        return transport_kind(options) == TransportKind::SharedMemory && !options.has("noBlockingSockets");
    }
    !options.has("bestEffort")
}

fn is_flat(options: &ParsedOptions) -> bool {
    options.has("flatData") || options.has("zeroCopy")
}

fn check_consistency(options: &ParsedOptions, remarks: &mut Remarks) -> bool {
    let has_check = options.has("checkConsistency");
    if has_check && !options.has("zeroCopy") {
        remarks.errors.push("-checkConsistency needs -zeroCopy: other samples are copied before they are read".into());
    }
    has_check
}

/// `-zeroCopy` implies `-flatData`.
fn form(options: &ParsedOptions, remarks: &mut Remarks) -> SampleForm {
    if !options.has("zeroCopy") {
        return if options.has("flatData") { SampleForm::Flat } else { SampleForm::Serialized };
    }
    if options.choice("transport") != Some("SHMEM") && !options.has("sameProcess") {
        let text = "-zeroCopy needs -transport SHMEM, or -sameProcess: elsewhere samples have to be copied";
        remarks.errors.push(text.into());
    }
    SampleForm::ZeroCopy
}

fn asynchronous(options: &ParsedOptions, remarks: &mut Remarks) -> Option<FlowController> {
    let flow = match options.choice("flowController") {
        Some(name @ "1Gbps") => FlowController::BitsPerSecond { name, rate: 1_000_000_000 },
        Some(name @ "10Gbps") => FlowController::BitsPerSecond { name, rate: 10_000_000_000 },
        _ => FlowController::Default,
    };
    if options.has("asynchronous") {
        return Some(flow);
    }
    if options.has("flowController") {
        remarks.errors.push("-flowController needs -asynchronous: without it, writing threads send".into());
    }
    None
}

fn transport_kind(options: &ParsedOptions) -> TransportKind {
    match options.choice("transport") {
        Some("UDPv6") => TransportKind::UdpV6,
        Some("SHMEM") => TransportKind::SharedMemory,
        None if options.has("enableUDPv6") => TransportKind::UdpV6,
        None if options.has("enableSharedMemory") => TransportKind::SharedMemory,
        _ => TransportKind::UdpV4,
    }
}

/// Whether a sample is a datagram of a plain socket, which limits its length.
fn sends_datagrams(options: &ParsedOptions) -> bool {
    options.has("rawTransport") && transport_kind(options) != TransportKind::SharedMemory
}

fn transport(options: &ParsedOptions, remarks: &mut Remarks) -> TransportPlan {
    let kind = transport_kind(options);
    for (name, meant) in [("enableUDPv6", TransportKind::UdpV6), ("enableSharedMemory", TransportKind::SharedMemory)] {
        if options.has(name) && kind != meant {
            remarks.errors.push(format!("-{name} contradicts -transport {}", kind.name()));
        }
    }
    let raw = options.has("rawTransport");
    let by_group = ["multicast", "multicastAddr"].into_iter().find(|name| options.has(name));
    if kind == TransportKind::SharedMemory {
        // With DDS these options serve discovery.
        let of_sockets = ["nic", "allowInterfaces", "peer"].into_iter().filter(|name| raw && options.has(name));
        for name in of_sockets {
            let text = "has no effect with -rawTransport and -transport SHMEM: no sockets of a network are used";
            remarks.notes.push(format!("-{name} {text}"));
        }
        if let Some(name) = by_group {
            remarks.notes.push(format!("-{name} has no effect with -transport SHMEM, which has no multicast groups"));
        }
    }
    if options.has("noBlockingSockets") && !raw {
        remarks.errors.push("-noBlockingSockets needs -rawTransport".into());
    }
    if options.has("nomulticast") && (options.has("multicast") || options.has("multicastAddr")) {
        remarks.errors.push("-nomulticast contradicts -multicast and -multicastAddr".into());
    }
    let multicast = match options.text("multicastAddr").or_else(|| options.text("multicast")) {
        Some(text) => multicast_groups(text, kind).map_err(|line| remarks.errors.push(line)).ok(),
        None if options.has("multicast") && kind == TransportKind::UdpV6 => {
            remarks.errors.push("-multicast has no built-in groups for UDPv6; give -multicastAddr a,b,c".into());
            None
        }
        None => options.has("multicast").then_some(MulticastGroups {
            throughput: IpAddr::V4(Ipv4Addr::new(239, 255, 1, 1)),
            latency: IpAddr::V4(Ipv4Addr::new(239, 255, 1, 2)),
            announcement: IpAddr::V4(Ipv4Addr::new(239, 255, 1, 100)),
        }),
    };
    // Without groups, the remark above is the only effect of requesting them.
    let multicast = multicast.filter(|_| kind != TransportKind::SharedMemory);
    let has_sockets = !raw || kind != TransportKind::SharedMemory;
    let interfaces = if has_sockets { interfaces(options, raw, remarks) } else { Vec::new() };
    let peers = if has_sockets { options.texts("peer") } else { Vec::new() };
    TransportPlan {
        kind,
        raw,
        same_process: options.has("sameProcess"),
        blocking_send: !options.has("noBlockingSockets"),
        interfaces,
        peers: peers.into_iter().map(str::to_owned).collect(),
        multicast,
    }
}

/// `-nic`: several interfaces are separated by commas. Raw sockets use one address.
fn interfaces(options: &ParsedOptions, raw: bool, remarks: &mut Remarks) -> Vec<String> {
    let Some(text) = options.text("allowInterfaces").or_else(|| options.text("nic")) else { return Vec::new() };
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        remarks.errors.push(format!("-nic: '{text}' has an empty name"));
    }
    if raw && names.len() > 1 {
        remarks.errors.push(format!("-nic: raw sockets use one interface, not {}", names.len()));
    }
    names
}

/// A WaitSet delivers each sample at once, unless several are to be gathered. As in RTI Perftest, a delay alone gathers
/// any number.
fn gather(options: &ParsedOptions) -> Option<Gather> {
    let (delay_us, count) = (options.integer("waitsetDelayUsec"), options.integer("waitsetEventCount"));
    if delay_us.is_none() && count.is_none() || count == Some(1) || delay_us == Some(0) {
        return None;
    }
    Some(Gather { delay: Duration::from_micros(delay_us.unwrap_or(100)), count: count.unwrap_or(u64::MAX) })
}

fn wait(options: &ParsedOptions, remarks: &mut Remarks) -> Wait {
    let text = options.text("waitStrategy").unwrap_or("block");
    let spin_us = text.strip_prefix("spin:").and_then(|us| us.parse().ok());
    match (text, spin_us) {
        ("block", _) => Wait::Block,
        ("poll", _) => Wait::Poll,
        (_, Some(us)) => Wait::Spin(Duration::from_micros(us)),
        _ => {
            remarks.errors.push(format!("-waitStrategy: '{text}' is none of block, spin:<us>, poll"));
            Wait::Block
        }
    }
}

fn multicast_groups(text: &str, kind: TransportKind) -> Result<MulticastGroups, String> {
    let addresses: Vec<IpAddr> = text
        .split(',')
        .map(|part| part.trim().parse().map_err(|_| format!("-multicastAddr: '{part}' is not an IP address")))
        .collect::<Result<_, _>>()?;
    let groups = match addresses[..] {
        [base] => {
            if matches!(base, IpAddr::V4(base) if base > LAST_MULTICAST_BASE) {
                return Err(format!("-multicastAddr: {base} must not be above {LAST_MULTICAST_BASE}"));
            }
            [base, next_address(base, 1), next_address(base, 2)]
        }
        [throughput, latency, announcement] => [throughput, latency, announcement],
        _ => return Err(format!("-multicastAddr takes one address or three, not {}", addresses.len())),
    };
    for address in groups {
        if !address.is_multicast() || address.is_ipv4() != kind.is_ipv4() {
            return Err(format!("-multicastAddr: {address} is not a multicast address of this transport"));
        }
    }
    let [throughput, latency, announcement] = groups;
    Ok(MulticastGroups { throughput, latency, announcement })
}

fn next_address(base: IpAddr, step: u8) -> IpAddr {
    match base {
        IpAddr::V4(base) => Ipv4Addr::from_bits(base.to_bits().wrapping_add(step.into())).into(),
        IpAddr::V6(base) => Ipv6Addr::from_bits(base.to_bits().wrapping_add(step.into())).into(),
    }
}

fn output(options: &ParsedOptions) -> OutputPlan {
    OutputPlan {
        format: match options.choice("outputFormat") {
            Some("json") => OutputFormat::Json,
            Some("legacy") => OutputFormat::Legacy,
            _ => OutputFormat::Csv,
        },
        file: options.text("outputFile").map(PathBuf::from),
        intervals: !options.has("noPrintIntervals"),
        headers: !options.has("noOutputHeaders"),
        cpu: options.has("cpu"),
        ns_resolution: options.has("nsResolution"),
        record_file: options.text("recordFile").map(PathBuf::from),
    }
}

/// The table bounds these options to 31 bits.
fn u32_option(options: &ParsedOptions, name: &'static str, default: u32) -> u32 {
    options.integer(name).map_or(default, |number| number as u32)
}
