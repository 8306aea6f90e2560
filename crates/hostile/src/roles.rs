//! The two processes that the program starts: the victim, and the honest peer.

use std::io::{BufRead, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::{DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, Error, InterfaceSelection};
use peregrine_rtps::id::{DomainId, EntityId};
use peregrine_rtps::locator::Ports;

use crate::control::{Identity, Question, State};
use crate::flow::Flow;
use crate::security::secured;

/// Topics of the flow, named after their direction.
pub(crate) const DOWN: &str = "flow from the victim";
pub(crate) const UP: &str = "flow to the victim";
/// Topics of the endpoints that strangers match.
pub(crate) const OPEN_OUT: &str = "open, from the victim";
pub(crate) const OPEN_IN: &str = "open, to the victim";
pub(crate) const BEST_EFFORT_IN: &str = "open, best effort";
/// Topics of the endpoints that newcomers match.
pub(crate) const NEWCOMERS_OUT: &str = "newcomers, from the victim";
pub(crate) const NEWCOMERS_IN: &str = "newcomers, to the victim";

/// Bytes that peers make the victim hold at most: `max_peer_bytes` of its configuration.
pub(crate) const PEER_BYTES_MAX: usize = 32 << 20;

/// Samples that the open writer keeps for late joiners, and the payload bytes of each.
pub(crate) const HISTORY_SAMPLES: u32 = 256;
pub(crate) const HISTORY_SAMPLE_BYTES: usize = 1000;
/// Samples that the open readers hold.
const OPEN_HELD_SAMPLES: u32 = 1000;
/// How long a side waits for acknowledgements at its end.
pub(crate) const FINISH_PATIENCE: Duration = Duration::from_secs(1);

/// The type of the open topics.
#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
pub(crate) struct Blob {
    octets: Vec<u8>,
}

/// The type of the topics of newcomers.
#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
pub(crate) struct Greeting {
    pub(crate) number: u32,
}

/// The endpoints that newcomers match.
struct ForNewcomers {
    _writer: DataWriter<Greeting>,
    _reader: DataReader<Greeting>,
}

/// The endpoints that strangers match.
struct Open {
    writer: DataWriter<Blob>,
    reader: DataReader<Blob>,
    best_effort: DataReader<Blob>,
}

/// Runs one of the two processes until its input ends. With a folder of documents, the participant uses DDS Security.
pub(crate) fn run(is_victim: bool, domain: u32, tag: &str, run: u64, documents: Option<&Path>) -> Result<()> {
    let participant = participant(domain, tag, documents)?;
    let (said, heard) = if is_victim { (DOWN, UP) } else { (UP, DOWN) };
    let open = if is_victim { Some(Open::start(&participant)?) } else { None };
    let _for_newcomers = if is_victim { Some(ForNewcomers::start(&participant)?) } else { None };
    let mut flow = Flow::start(&participant, run, said, heard)?;
    let mut out = std::io::stdout().lock();
    tell(&mut out, &identity(&participant, &flow, open.as_ref())?)?;
    for line in std::io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?)?;
        let mut is_acknowledged = false;
        let mut participants = 0;
        match question {
            Question::State => {}
            Question::Participants => participants = participant.discovered_participants().len(),
            Question::Mark => flow.mark(),
            Question::Finish => is_acknowledged = flow.finish(FINISH_PATIENCE),
        }
        let state = state(&participant, &flow, open.as_ref());
        tell(&mut out, &State { is_acknowledged, participants, ..state })?;
    }
    Ok(())
}

/// A participant that uses UDP over loopback only. With a folder of documents, it uses DDS Security.
pub(crate) fn participant(domain: u32, tag: &str, documents: Option<&Path>) -> Result<DomainParticipant> {
    let config = DomainConfig::default()
        .with_max_peer_bytes(PEER_BYTES_MAX)
        .with_interfaces(InterfaceSelection::Only(vec!["lo".to_owned()]))
        .with_shared_memory(false)
        .with_same_process(false);
    let builder = DomainParticipant::builder(domain).domain_tag(tag).config(config);
    Ok(match documents {
        Some(folder) => secured(builder, folder)?.build()?,
        None => builder.build()?,
    })
}

fn tell(out: &mut impl Write, answer: &impl serde::Serialize) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    Ok(out.flush()?)
}

fn identity(participant: &DomainParticipant, flow: &Flow, open: Option<&Open>) -> Result<Identity> {
    let (flow_writer, flow_reader) = flow.entities();
    let ports: Vec<u16> = participant.transport_statistics().iter().map(|(address, _)| address.port()).collect();
    let known = Ports::of(DomainId(participant.domain().0));
    let port = |of: &dyn Fn(u32) -> Option<u16>| (0..120).filter_map(of).find(|port| ports.contains(port));
    let entity = |of: &dyn Fn(&Open) -> EntityId| open.map_or([0; 4], |open| of(open).0);
    Ok(Identity {
        prefix: participant.guid().prefix.0,
        discovery_port: port(&|index| known.metatraffic_unicast(index)).context("no port for discovery")?,
        user_port: port(&|index| known.user_unicast(index)).context("no port for user data")?,
        flow_writer: flow_writer.0,
        flow_reader: flow_reader.0,
        open_writer: entity(&|open| open.writer.guid().entity),
        open_reader: entity(&|open| open.reader.guid().entity),
        best_effort_reader: entity(&|open| open.best_effort.guid().entity),
    })
}

fn state(participant: &DomainParticipant, flow: &Flow, open: Option<&Open>) -> State {
    let statistics = participant.transport_statistics();
    let healed = participant.counters().healed;
    let healed = healed.rereads + healed.participants_restored + healed.moves_refused + healed.terms_refused;
    State {
        flow: flow.report(),
        is_acknowledged: false,
        participants: 0,
        flow_readers: flow.readers(),
        flow_writers: flow.writers(),
        open_readers: open.map_or(0, |open| open.writer.matched_subscriptions().len()),
        open_writers: open.map_or(0, |open| open.reader.matched_publications().len()),
        best_effort_writers: open.map_or(0, |open| open.best_effort.matched_publications().len()),
        healed: flow.healed() + healed,
        bytes_received: statistics.iter().map(|(_, s)| s.bytes_received).sum(),
        kernel_drops: statistics.iter().map(|(_, s)| s.kernel_drops).sum(),
    }
}

impl ForNewcomers {
    fn start(participant: &DomainParticipant) -> Result<Self> {
        let writer = participant.topic::<Greeting>(NEWCOMERS_OUT)?.writer_builder().reliable().keep_last(1);
        let writer = writer.transient_local().build()?;
        writer.write(&Greeting { number: 1 })?;
        let reader = participant.topic::<Greeting>(NEWCOMERS_IN)?.reader_builder().reliable().keep_last(1).build()?;
        Ok(Self { _writer: writer, _reader: reader })
    }
}

impl Open {
    fn start(participant: &DomainParticipant) -> Result<Self> {
        let limits = |samples| ResourceLimits {
            max_samples: Limit::At(samples),
            max_instances: Limit::At(1),
            max_samples_per_instance: Limit::At(samples),
        };
        let history = participant.topic::<Blob>(OPEN_OUT)?.writer_builder().reliable().keep_all().transient_local();
        let writer = history.resource_limits(limits(HISTORY_SAMPLES)).build()?;
        for _ in 0..HISTORY_SAMPLES {
            writer.write(&Blob { octets: vec![5; HISTORY_SAMPLE_BYTES] })?;
        }
        let reader = participant.topic::<Blob>(OPEN_IN)?.reader_builder().reliable().keep_all();
        let reader = reader.resource_limits(limits(OPEN_HELD_SAMPLES)).build()?;
        let best_effort = participant.topic::<Blob>(BEST_EFFORT_IN)?.reader_builder().best_effort().keep_all();
        let best_effort = best_effort.resource_limits(limits(OPEN_HELD_SAMPLES)).build()?;
        for reader in [reader.clone(), best_effort.clone()] {
            drop(thread::spawn(move || drain(&reader)));
        }
        Ok(Self { writer, reader, best_effort })
    }
}

/// Takes all samples, until the reader is deleted.
fn drain(reader: &DataReader<Blob>) {
    loop {
        match reader.wait_for_data(Duration::from_millis(100)) {
            Ok(()) => drop(reader.take()),
            Err(Error::Timeout(_)) => {}
            Err(_) => return,
        }
    }
}
