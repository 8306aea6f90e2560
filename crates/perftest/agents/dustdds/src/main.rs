//! Dust DDS behind the protocol of ../../README.md.
#![forbid(unsafe_code)]

#[path = "../../common/agent.rs"]
mod agent;

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use dust_dds::dds_async::data_reader::DataReaderAsync;
use dust_dds::domain::domain_participant::DomainParticipant;
use dust_dds::domain::domain_participant_factory::DomainParticipantFactory;
use dust_dds::infrastructure::error::{DdsError, DdsResult};
use dust_dds::infrastructure::listener::NO_LISTENER;
use dust_dds::infrastructure::qos::{DataReaderQos, DataWriterQos, QosKind};
use dust_dds::infrastructure::qos_policy::{
    HistoryQosPolicy, HistoryQosPolicyKind, ReliabilityQosPolicy, ReliabilityQosPolicyKind,
};
use dust_dds::infrastructure::status::{NO_STATUS, StatusKind};
use dust_dds::infrastructure::time::{Duration as DdsDuration, DurationKind};
use dust_dds::infrastructure::type_support::DdsType;
use dust_dds::publication::data_writer::DataWriter;
use dust_dds::subscription::data_reader::DataReader;
use dust_dds::subscription::data_reader_listener::DataReaderListener;

use agent::{Failure, Role, Setup, Transport, Wait};

/// Number of the sample, and length of its bytes.
const HEADER_OCTETS: usize = 12;
const SOCKET_BUFFER_OCTETS: usize = 8 << 20;
/// Longest datagram on loopback, minus headers.
const FRAGMENT_OCTETS: usize = 65_000;
/// The limit follows from 256 fragments.
const MAX_SIZE: usize = 16_000_000;
/// Bytes that a writer keeps at the highest rate, within these bounds on the number of samples.
const HISTORY_OCTETS: usize = 4 << 20;
const MIN_KEPT: u32 = 16;
const MAX_KEPT: u32 = 1000;
/// Timeout of a write without room.
const MAX_BLOCKING_TIME: DurationKind = DurationKind::Finite(DdsDuration::new(10, 0));

fn main() -> ExitCode {
    agent::run::<DustDds>()
}

#[derive(Clone, DdsType)]
struct PerftestSample {
    seq: u64,
    data: Vec<u8>,
}

struct DustDds {
    writer: Option<DataWriter<PerftestSample>>,
    input: Option<Input>,
    sample: PerftestSample,
    _participant: DomainParticipant,
}

struct Input {
    reader: DataReader<PerftestSample>,
    news: Receiver<()>,
}

/// Wakes the taking thread, like the benchmark of Dust DDS.
struct Listener {
    news: SyncSender<()>,
}

impl DataReaderListener<PerftestSample> for Listener {
    async fn on_data_available(&mut self, _reader: DataReaderAsync<PerftestSample>) {
        // A pending wake-up suffices.
        let _ = self.news.try_send(());
    }
}

impl agent::Peer for DustDds {
    const NAME: &'static str = "dustdds";

    fn version() -> String {
        agent::locked_version(include_str!("../Cargo.lock"), "dust_dds")
    }

    fn settings(_setup: &Setup) -> String {
        let sockets = format!("fragment_size={FRAGMENT_OCTETS}B,udp_receive_buffer={SOCKET_BUFFER_OCTETS}B");
        let kept = format!("history=keep-last-1,pub_history={HISTORY_OCTETS}B-at-most-{MAX_KEPT}");
        format!("interface=lo,{sockets},{kept}")
    }

    fn unsupported(setup: &Setup) -> Option<&'static str> {
        if setup.transport != Transport::Udp {
            return Some("Dust DDS has UDP only");
        }
        if setup.wait == Wait::Waitset {
            return Some("after a wait that timed out, the next call of Dust DDS 0.16 fails");
        }
        if setup.has_batches {
            return Some("Dust DDS does not batch samples");
        }
        if setup.size > MAX_SIZE {
            return Some(
                "a reader of Dust DDS 0.16 panics when it misses more than 256 fragments; more than 16000000 bytes is not measured",
            );
        }
        setup.is_async.then_some("Dust DDS always publishes from a thread of its own, and has no choice of publishing")
    }

    fn open(setup: &Setup) -> Result<Self, Failure> {
        open(setup).map_err(|error| failed("making the entities", &error))
    }

    fn is_matched(&mut self) -> bool {
        let has_reader = |writer: &DataWriter<_>| {
            writer.get_publication_matched_status().is_ok_and(|status| status.current_count > 0)
        };
        let has_writer =
            |input: &Input| input.reader.get_subscription_matched_status().is_ok_and(|status| status.current_count > 0);
        self.writer.as_ref().is_none_or(has_reader) && self.input.as_ref().is_none_or(has_writer)
    }

    fn write(&mut self, seq: u64) -> Result<(), Failure> {
        let writer = self.writer.as_ref().ok_or("this role does not write")?;
        self.sample.seq = seq;
        writer.write(self.sample.clone(), None).map_err(|error| failed("writing", &error))
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        let input = self.input.as_ref().ok_or("this role does not wait")?;
        match input.news.recv_timeout(timeout) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(error) => Err(failed("waiting", &error)),
        }
    }

    fn take(&mut self) -> Result<Option<(u64, usize)>, Failure> {
        let Some(input) = &self.input else { return Ok(None) };
        match input.reader.take_next_sample() {
            Ok(sample) => Ok(sample.data.map(|data| (data.seq, data.data.len() + HEADER_OCTETS))),
            Err(DdsError::NoData) => Ok(None),
            Err(error) => Err(failed("taking", &error)),
        }
    }

    fn wait_acknowledged(&mut self, timeout: Duration) -> Result<(), Failure> {
        let writer = self.writer.as_ref().ok_or("this role does not write")?;
        writer.wait_for_acknowledgments(timeout.into()).map_err(|error| failed("waiting for acknowledgements", &error))
    }
}

fn open(setup: &Setup) -> DdsResult<DustDds> {
    let factory = DomainParticipantFactory::get_instance();
    factory
        .get_mut_transport()
        .set_interface_name(Some("lo".into()))
        .set_udp_receive_buffer_size(Some(SOCKET_BUFFER_OCTETS))
        .set_fragment_size(FRAGMENT_OCTETS)?;
    let domain = i32::try_from(setup.domain).map_err(|_| DdsError::BadParameter)?;
    let participant = factory.create_participant(domain, QosKind::Default, NO_LISTENER, NO_STATUS)?;
    let topic = |name| {
        participant.create_topic::<PerftestSample>(name, "PerftestSample", QosKind::Default, NO_LISTENER, NO_STATUS)
    };
    let (there, back) = (topic("perftest_there")?, topic("perftest_back")?);
    let (mine, other) = if setup.is_first() { (there, back) } else { (back, there) };
    let reliability = reliability(setup);
    let writer = || {
        let history = HistoryQosPolicy { kind: HistoryQosPolicyKind::KeepLast(kept(setup)) };
        let qos = DataWriterQos { reliability: reliability.clone(), history, ..Default::default() };
        participant.create_publisher(QosKind::Default, NO_LISTENER, NO_STATUS)?.create_datawriter(
            &mine,
            QosKind::Specific(qos),
            NO_LISTENER,
            NO_STATUS,
        )
    };
    let reader = || {
        let history = HistoryQosPolicy { kind: HistoryQosPolicyKind::KeepAll };
        let qos = DataReaderQos { reliability: reliability.clone(), history, ..Default::default() };
        let (sender, news) = sync_channel(1);
        let reader = participant.create_subscriber(QosKind::Default, NO_LISTENER, NO_STATUS)?.create_datareader(
            &other,
            QosKind::Specific(qos),
            (setup.wait == Wait::Listener).then_some(Listener { news: sender }),
            &[StatusKind::DataAvailable],
        )?;
        Ok::<_, DdsError>(Input { reader, news })
    };
    let writer = if setup.role == Role::Sub { None } else { Some(writer()?) };
    let input = if setup.role == Role::Pub { None } else { Some(reader()?) };
    let sample = PerftestSample { seq: 0, data: vec![0; setup.size - HEADER_OCTETS] };
    Ok(DustDds { writer, input, sample, _participant: participant })
}

fn reliability(setup: &Setup) -> ReliabilityQosPolicy {
    let kind =
        if setup.is_reliable { ReliabilityQosPolicyKind::Reliable } else { ReliabilityQosPolicyKind::BestEffort };
    ReliabilityQosPolicy { kind, max_blocking_time: MAX_BLOCKING_TIME }
}

/// Samples that a writer keeps. A reliable writer of Dust DDS waits until the sample to be replaced was acknowledged,
/// and so loses none; with KEEP_ALL it waits for nothing, and outruns its reader.
fn kept(setup: &Setup) -> u32 {
    let has_echo = matches!(setup.role, Role::Ping | Role::Pong);
    let samples = u32::try_from(HISTORY_OCTETS / setup.size).unwrap_or(u32::MAX);
    if has_echo { 1 } else { samples.clamp(MIN_KEPT, MAX_KEPT) }
}

fn failed(doing: &str, error: &dyn std::fmt::Debug) -> Failure {
    format!("{doing} failed: {error:?}")
}
