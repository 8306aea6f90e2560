//! zenoh behind the protocol of ../../README.md: two peers connected by one TCP connection on loopback, without
//! scouting.
#![forbid(unsafe_code)]

#[path = "../../common/agent.rs"]
mod agent;

use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use zenoh::handlers::{FifoChannel, FifoChannelHandler};
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::{Config, Session, Wait as _};

use agent::{Failure, Role, Setup, Transport, Wait};

/// Most samples that wait for the application, in number and in bytes.
const BUFFERED: usize = 1024;
const MIN_BUFFERED: usize = 4;
const BUFFERED_OCTETS: usize = 256 << 20;
/// Port of domain 0 by RTPS 2.5 §9.6.2 (unicast discovery); perftest has checked that it is free.
const FIRST_PORT: u32 = 7410;
const PORTS_PER_DOMAIN: u32 = 250;
/// Timeout for the responder to listen.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    agent::run::<Zenoh>()
}

struct Zenoh {
    output: Option<Publisher<'static>>,
    input: Option<Subscriber<FifoChannelHandler<Sample>>>,
    /// A sample that a wait has taken already.
    taken: Option<Sample>,
    sample: Vec<u8>,
    _session: Session,
}

impl agent::Peer for Zenoh {
    const NAME: &'static str = "zenoh";

    fn version() -> String {
        agent::locked_version(include_str!("../Cargo.lock"), "zenoh")
    }

    fn settings(setup: &Setup) -> String {
        let full = if setup.is_reliable { "block" } else { "drop" };
        let (express, buffered) = (!setup.has_batches, buffered(setup));
        format!("mode=peer,tcp/127.0.0.1,scouting=off,handler=fifo-{buffered},congestion={full},express={express}")
    }

    fn unsupported(setup: &Setup) -> Option<&'static str> {
        if setup.transport != Transport::Tcp {
            return Some("zenoh is measured over TCP only");
        }
        if setup.wait == Wait::Listener {
            return Some("zenoh is measured with its channel, not with callbacks");
        }
        setup.is_async.then_some("zenoh always publishes from a thread of its own, and has no choice of publishing")
    }

    fn open(setup: &Setup) -> Result<Self, Failure> {
        let session = zenoh::open(config(setup)?).wait().map_err(|error| failed("opening the session", &error))?;
        let (mine, other) = if setup.is_first() { ("there", "back") } else { ("back", "there") };
        let full = if setup.is_reliable { CongestionControl::Block } else { CongestionControl::Drop };
        let publish = || {
            session
                .declare_publisher(format!("perftest/{mine}"))
                .congestion_control(full)
                .express(!setup.has_batches)
                .wait()
                .map_err(|error| failed("declaring the publisher", &error))
        };
        let subscribe = || {
            session
                .declare_subscriber(format!("perftest/{other}"))
                .with(FifoChannel::new(buffered(setup)))
                .wait()
                .map_err(|error| failed("declaring the subscriber", &error))
        };
        let input = if setup.role == Role::Pub { None } else { Some(subscribe()?) };
        let output = if setup.role == Role::Sub { None } else { Some(publish()?) };
        Ok(Self { output, input, taken: None, sample: vec![0; setup.size], _session: session })
    }

    /// A subscriber does not detect publishers; a publisher detects subscribers.
    fn is_matched(&mut self) -> bool {
        self.output
            .as_ref()
            .is_none_or(|publisher| publisher.matching_status().wait().is_ok_and(|status| status.matching()))
    }

    fn write(&mut self, seq: u64) -> Result<(), Failure> {
        let publisher = self.output.as_ref().ok_or("this role does not write")?;
        let number = self.sample.first_chunk_mut().ok_or("samples hold at least a number")?;
        *number = seq.to_ne_bytes();
        publisher.put(self.sample.clone()).wait().map_err(|error| failed("put", &error))
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        if self.taken.is_none() {
            let input = self.input.as_ref().ok_or("this role does not wait")?;
            self.taken = input.recv_timeout(timeout).map_err(|error| failed("receiving", &error))?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<(u64, usize)>, Failure> {
        let Some(input) = &self.input else { return Ok(None) };
        let sample = match self.taken.take() {
            Some(sample) => Some(sample),
            None => input.try_recv().map_err(|error| failed("receiving", &error))?,
        };
        let Some(sample) = sample else { return Ok(None) };
        let bytes = sample.payload().to_bytes();
        let seq = bytes.first_chunk().map(|number| u64::from_ne_bytes(*number)).ok_or("a sample without a number")?;
        Ok(Some((seq, bytes.len())))
    }

    /// zenoh has no acknowledgements; samples in the connection arrive while both sides live.
    fn wait_acknowledged(&mut self, _timeout: Duration) -> Result<(), Failure> {
        Ok(())
    }
}

/// The responder listens, the initiator connects once it does.
fn config(setup: &Setup) -> Result<Config, Failure> {
    let port = FIRST_PORT + PORTS_PER_DOMAIN * setup.domain;
    let port = u16::try_from(port).map_err(|_| format!("domain {} has no port", setup.domain))?;
    let endpoints = format!("[\"tcp/127.0.0.1:{port}\"]");
    let (listen, connect) = if setup.is_first() { ("[]", endpoints.as_str()) } else { (endpoints.as_str(), "[]") };
    if setup.is_first() {
        let limit = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > limit {
                return Err(format!("no process listened on TCP port {port} within {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let mut config = Config::default();
    for (key, value) in [
        ("mode", "\"peer\""),
        ("listen/endpoints", listen),
        ("connect/endpoints", connect),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
    ] {
        config.insert_json5(key, value).map_err(|error| failed(&format!("setting {key}"), &error))?;
    }
    Ok(config)
}

fn buffered(setup: &Setup) -> usize {
    (BUFFERED_OCTETS / setup.size).clamp(MIN_BUFFERED, BUFFERED)
}

fn failed(doing: &str, error: &dyn std::fmt::Debug) -> Failure {
    format!("{doing} failed: {error:?}")
}
