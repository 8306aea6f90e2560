//! RustDDS behind the protocol of ../../README.md.
#![forbid(unsafe_code)]

#[path = "../../common/agent.rs"]
mod agent;

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use rustdds::mio1::{Events, Interest, Poll, Token};
use rustdds::no_key::{DataReaderCdr, DataWriterCdr};
use rustdds::policy::{Durability, History, Reliability};
use rustdds::{
    DataReaderStatus, DataWriterStatus, DomainParticipant, DomainParticipantBuilder, QosPolicies, QosPolicyBuilder,
    StatusEvented, TopicKind,
};
use serde::{Deserialize, Serialize};

use agent::{Failure, Role, Setup, Transport, Wait};

/// Number of the sample, and length of its bytes.
const HEADER_OCTETS: usize = 12;
/// Longer samples take RustDDS too long.
const MAX_SIZE: usize = 1 << 20;
/// Timeout of a write without room.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    agent::run::<RustDds>()
}

#[derive(Clone, Serialize, Deserialize)]
struct PerftestSample {
    seq: u64,
    data: Vec<u8>,
}

struct RustDds {
    output: Option<Output>,
    input: Option<Input>,
    _participant: DomainParticipant,
}

struct Output {
    writer: DataWriterCdr<PerftestSample>,
    readers: i32,
    sample: PerftestSample,
}

struct Input {
    reader: DataReaderCdr<PerftestSample>,
    writers: i32,
    poll: Poll,
    events: Events,
}

impl agent::Peer for RustDds {
    const NAME: &'static str = "rustdds";

    fn version() -> String {
        agent::locked_version(include_str!("../Cargo.lock"), "rustdds")
    }

    fn settings(_setup: &Setup) -> String {
        "only_networks=127.0.0.1,history=keep-last-1,pub_history=keep-all,api=mio_1,type=serde".into()
    }

    fn unsupported(setup: &Setup) -> Option<&'static str> {
        if setup.transport != Transport::Udp {
            return Some("RustDDS has UDP only");
        }
        if setup.wait == Wait::Listener {
            return Some("RustDDS has no listeners");
        }
        if setup.has_batches {
            return Some("RustDDS does not batch samples");
        }
        if setup.size > MAX_SIZE {
            return Some(
                "RustDDS takes seconds for a sample of several MiB; larger than 1048576 bytes is not measured",
            );
        }
        setup.is_async.then_some("RustDDS always publishes from a thread of its own, and has no choice of publishing")
    }

    fn open(setup: &Setup) -> Result<Self, Failure> {
        let domain = u16::try_from(setup.domain).map_err(|_| format!("domain {} is too large", setup.domain))?;
        let participant = DomainParticipantBuilder::new(domain)
            .with_only_networks([IpAddr::V4(Ipv4Addr::LOCALHOST)])
            .build()
            .map_err(|error| failed("making the participant", &error))?;
        let (mine, other) =
            if setup.is_first() { ("perftest_there", "perftest_back") } else { ("perftest_back", "perftest_there") };
        let output = if setup.role == Role::Sub { None } else { Some(Output::open(&participant, mine, setup)?) };
        let input = if setup.role == Role::Pub { None } else { Some(Input::open(&participant, other, setup)?) };
        Ok(Self { output, input, _participant: participant })
    }

    fn is_matched(&mut self) -> bool {
        self.output.as_mut().is_none_or(Output::is_matched) && self.input.as_mut().is_none_or(Input::is_matched)
    }

    fn write(&mut self, seq: u64) -> Result<(), Failure> {
        let output = self.output.as_mut().ok_or("this role does not write")?;
        output.sample.seq = seq;
        output.writer.write(output.sample.clone(), None).map_err(|error| failed("writing", &error.to_string()))
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        let input = self.input.as_mut().ok_or("this role does not wait")?;
        input.poll.poll(&mut input.events, Some(timeout)).map_err(|error| failed("waiting", &error))
    }

    fn take(&mut self) -> Result<Option<(u64, usize)>, Failure> {
        let Some(input) = &mut self.input else { return Ok(None) };
        let sample = input.reader.take_next_sample().map_err(|error| failed("taking", &error))?;
        Ok(sample.map(|sample| (sample.value().seq, sample.value().data.len() + HEADER_OCTETS)))
    }

    fn wait_acknowledged(&mut self, timeout: Duration) -> Result<(), Failure> {
        let output = self.output.as_ref().ok_or("this role does not write")?;
        match output.writer.wait_for_acknowledgments(timeout.into()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("the subscriber did not acknowledge everything within {} s", timeout.as_secs())),
            Err(error) => Err(failed("waiting for acknowledgements", &error.to_string())),
        }
    }
}

impl Output {
    fn open(participant: &DomainParticipant, topic: &str, setup: &Setup) -> Result<Self, Failure> {
        let qos = qos(setup);
        let make = || -> Result<_, rustdds::dds::CreateError> {
            let topic = participant.create_topic(topic.into(), "PerftestSample".into(), &qos, TopicKind::NoKey)?;
            participant.create_publisher(&qos)?.create_datawriter_no_key_cdr(&topic, Some(qos.clone()))
        };
        let writer = make().map_err(|error| failed("making the writer", &error))?;
        let sample = PerftestSample { seq: 0, data: vec![0; setup.size - HEADER_OCTETS] };
        Ok(Self { writer, readers: 0, sample })
    }

    fn is_matched(&mut self) -> bool {
        while let Some(status) = self.writer.try_recv_status() {
            if let DataWriterStatus::PublicationMatched { current, .. } = status {
                self.readers = current.count();
            }
        }
        self.readers > 0
    }
}

impl Input {
    fn open(participant: &DomainParticipant, topic: &str, setup: &Setup) -> Result<Self, Failure> {
        let qos = qos(setup);
        let make = || -> Result<_, rustdds::dds::CreateError> {
            let topic = participant.create_topic(topic.into(), "PerftestSample".into(), &qos, TopicKind::NoKey)?;
            participant.create_subscriber(&qos)?.create_datareader_no_key_cdr(&topic, Some(qos.clone()))
        };
        let mut reader: DataReaderCdr<PerftestSample> = make().map_err(|error| failed("making the reader", &error))?;
        let poll = Poll::new().map_err(|error| failed("making the poll", &error))?;
        poll.registry()
            .register(&mut reader, Token(0), Interest::READABLE)
            .map_err(|error| failed("registering the reader", &error))?;
        Ok(Self { reader, writers: 0, poll, events: Events::with_capacity(4) })
    }

    fn is_matched(&mut self) -> bool {
        while let Some(status) = self.reader.try_recv_status() {
            if let DataReaderStatus::SubscriptionMatched { current, .. } = status {
                self.writers = current.count();
            }
        }
        self.writers > 0
    }
}

/// As in the other peers: see `reliability` in the README.
fn history(setup: &Setup) -> History {
    if matches!(setup.role, Role::Ping | Role::Pong) { History::KeepLast { depth: 1 } } else { History::KeepAll }
}

fn qos(setup: &Setup) -> QosPolicies {
    let reliability = if setup.is_reliable {
        Reliability::Reliable { max_blocking_time: PATIENCE.into() }
    } else {
        Reliability::BestEffort
    };
    QosPolicyBuilder::new().reliability(reliability).durability(Durability::Volatile).history(history(setup)).build()
}

fn failed(doing: &str, error: &dyn std::fmt::Debug) -> Failure {
    format!("{doing} failed: {error:?}")
}
