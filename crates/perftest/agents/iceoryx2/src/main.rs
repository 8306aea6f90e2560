//! iceoryx2 behind the protocol of ../../README.md: publish-subscribe over shared memory, with an event for each sample
//! if the other side sleeps.
#![forbid(unsafe_code)]

#[path = "../../common/agent.rs"]
mod agent;

use std::process::ExitCode;
use std::time::Duration;

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};

use agent::{Failure, Role, Setup, Transport, Wait};

/// Most samples that wait for a subscriber, in number and in bytes.
const BUFFERED: usize = 256;
const MIN_BUFFERED: usize = 4;
const BUFFERED_OCTETS: usize = 256 << 20;

fn main() -> ExitCode {
    set_log_level(LogLevel::Error);
    agent::run::<Iceoryx2>()
}

struct Iceoryx2 {
    output: Option<Output>,
    input: Option<Input>,
    _node: Node<ipc::Service>,
}

/// One topic: its samples, and the event that announces them.
struct Topic {
    samples: publish_subscribe::PortFactory<ipc::Service, [u8], ()>,
    news: event::PortFactory<ipc::Service>,
}

struct Output {
    publisher: Publisher<ipc::Service, [u8], ()>,
    /// Absent if the other side polls.
    notifier: Option<Notifier<ipc::Service>>,
    topic: Topic,
    sample: Vec<u8>,
}

struct Input {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    listener: Option<Listener<ipc::Service>>,
    topic: Topic,
    /// Destination of copies, if samples are copied.
    copy: Option<Vec<u8>>,
}

impl agent::Peer for Iceoryx2 {
    const NAME: &'static str = "iceoryx2";

    fn version() -> String {
        agent::locked_version(include_str!("../Cargo.lock"), "iceoryx2")
    }

    fn settings(setup: &Setup) -> String {
        let waiting = if setup.wait == Wait::Poll { "none" } else { "one-per-sample" };
        let reading = if setup.transport == Transport::Shm { "copied-out" } else { "read-in-place" };
        let full = if setup.is_reliable { "RetryUntilDelivered" } else { "overwrite-oldest" };
        let buffered = buffered(setup);
        format!("buffer={buffered},full={full},events={waiting},payload=written-into-the-loan,{reading}")
    }

    fn unsupported(setup: &Setup) -> Option<&'static str> {
        if matches!(setup.transport, Transport::Udp | Transport::Tcp) {
            return Some("iceoryx2 has shared memory only");
        }
        if setup.has_batches {
            return Some("iceoryx2 does not batch samples");
        }
        setup.is_async.then_some("iceoryx2 publishes synchronously only")
    }

    fn open(setup: &Setup) -> Result<Self, Failure> {
        let node = NodeBuilder::new()
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()
            .map_err(|error| failed("making the node", &error))?;
        let (mine, other) = if setup.is_first() { ("there", "back") } else { ("back", "there") };
        let output = if setup.role == Role::Sub { None } else { Some(Output::open(&node, mine, setup)?) };
        let input = if setup.role == Role::Pub { None } else { Some(Input::open(&node, other, setup)?) };
        Ok(Self { output, input, _node: node })
    }

    fn is_matched(&mut self) -> bool {
        self.output.as_ref().is_none_or(Output::is_matched) && self.input.as_ref().is_none_or(Input::is_matched)
    }

    fn write(&mut self, seq: u64) -> Result<(), Failure> {
        self.output.as_mut().map_or_else(|| Err("this role does not write".into()), |output| output.write(seq))
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        let Some(listener) = self.input.as_mut().and_then(|input| input.listener.as_mut()) else {
            return Err("this role does not wait".into());
        };
        listener.timed_wait(|_| {}, timeout).map(drop).map_err(|error| failed("waiting for the event", &error))
    }

    fn take(&mut self) -> Result<Option<(u64, usize)>, Failure> {
        self.input.as_mut().map_or(Ok(None), Input::take)
    }

    /// A sent sample is already in the memory of its subscriber.
    fn wait_acknowledged(&mut self, _timeout: Duration) -> Result<(), Failure> {
        Ok(())
    }
}

impl Topic {
    fn open(node: &Node<ipc::Service>, name: &str, setup: &Setup) -> Result<Self, Failure> {
        let name = format!("perftest/{}/{name}", setup.domain);
        let name = ServiceName::new(&name).map_err(|error| failed("naming the service", &error))?;
        let samples = node
            .service_builder(&name)
            .publish_subscribe::<[u8]>()
            .enable_safe_overflow(!setup.is_reliable)
            .subscriber_max_buffer_size(buffered(setup))
            .history_size(0)
            .open_or_create()
            .map_err(|error| failed("opening publish-subscribe", &error))?;
        let news = node
            .service_builder(&name)
            .event()
            .open_or_create()
            .map_err(|error| failed("opening the event", &error))?;
        Ok(Self { samples, news })
    }
}

impl Output {
    fn open(node: &Node<ipc::Service>, name: &str, setup: &Setup) -> Result<Self, Failure> {
        let topic = Topic::open(node, name, setup)?;
        let full = if setup.is_reliable {
            BackpressureStrategy::RetryUntilDelivered
        } else {
            BackpressureStrategy::DiscardData
        };
        let publisher = topic
            .samples
            .publisher_builder()
            .initial_max_slice_len(setup.size)
            .backpressure_strategy(full)
            .create()
            .map_err(|error| failed("making the publisher", &error))?;
        let notifier = || topic.news.notifier_builder().create().map_err(|error| failed("making the notifier", &error));
        let notifier = if setup.wait == Wait::Poll { None } else { Some(notifier()?) };
        Ok(Self { publisher, notifier, topic, sample: vec![0; setup.size] })
    }

    fn is_matched(&self) -> bool {
        self.topic.samples.dynamic_config().number_of_subscribers() > 0
            && (self.notifier.is_none() || self.topic.news.dynamic_config().number_of_listeners() > 0)
    }

    fn write(&mut self, seq: u64) -> Result<(), Failure> {
        let number = self.sample.first_chunk_mut().ok_or("samples hold at least a number")?;
        *number = seq.to_ne_bytes();
        let loan =
            self.publisher.loan_slice_uninit(self.sample.len()).map_err(|error| failed("lending a sample", &error))?;
        loan.write_from_slice(&self.sample).send().map_err(|error| failed("sending", &error))?;
        if let Some(notifier) = &self.notifier {
            notifier.notify().map_err(|error| failed("notifying", &error))?;
        }
        Ok(())
    }
}

impl Input {
    fn open(node: &Node<ipc::Service>, name: &str, setup: &Setup) -> Result<Self, Failure> {
        let topic = Topic::open(node, name, setup)?;
        let subscriber = topic
            .samples
            .subscriber_builder()
            .buffer_size(buffered(setup))
            .create()
            .map_err(|error| failed("making the subscriber", &error))?;
        let listener = || topic.news.listener_builder().create().map_err(|error| failed("making the listener", &error));
        let listener = if setup.wait == Wait::Poll { None } else { Some(listener()?) };
        let copy = (setup.transport == Transport::Shm).then(|| vec![0; setup.size]);
        Ok(Self { subscriber, listener, topic, copy })
    }

    fn is_matched(&self) -> bool {
        self.topic.samples.dynamic_config().number_of_publishers() > 0
    }

    fn take(&mut self) -> Result<Option<(u64, usize)>, Failure> {
        let sample = self.subscriber.receive().map_err(|error| failed("receiving", &error))?;
        let Some(sample) = sample else { return Ok(None) };
        let bytes = sample.payload();
        let seq = bytes.first_chunk().map(|number| u64::from_ne_bytes(*number)).ok_or("a sample without a number")?;
        if let Some(copy) = self.copy.as_mut().filter(|copy| copy.len() == bytes.len()) {
            copy.copy_from_slice(bytes);
            std::hint::black_box(copy);
        }
        Ok(Some((seq, bytes.len())))
    }
}

fn buffered(setup: &Setup) -> usize {
    (BUFFERED_OCTETS / setup.size).clamp(MIN_BUFFERED, BUFFERED)
}

fn failed(doing: &str, error: &dyn std::fmt::Debug) -> Failure {
    format!("{doing} failed: {error:?}")
}
