//! Publish and subscribe to typed data with the OMG Data Distribution Service over RTPS.
//!
#![doc = concat!("```no_run\n", include_str!("../examples/hello.rs"), "```")]
//! # Logging
//! Peregrine logs events with [`tracing`](https://docs.rs/tracing), under targets that begin with `peregrine`: the
//! start of a domain with its addresses, matches, endpoints that do not match and the reason, lost participants,
//! reached limits. The environment variable `PEREGRINE_LOG` prints the events on standard error in any program without
//! its own subscriber. Its values are `off` (the default), `error`, `warn`, `info`, `debug` and `trace`. With the
//! variable set, a program that has its own subscriber must install it before it creates the first participant.
#![forbid(unsafe_code)]

// Code that the derive macro generates refers to this crate by name.
#[cfg(test)]
extern crate self as peregrine;

mod condition;
pub mod config;
mod discovery;
mod driver;
mod endpoint;
mod entity;
pub mod error;
mod factory;
mod logging;
mod peer_memory;
mod process;
pub mod qos;
mod reader;
#[cfg(feature = "security")]
pub mod security;
mod shared_memory;
mod state_machine;
pub mod status;
#[doc(hidden)]
pub mod stream_link;
mod time;
mod topic;
mod topic_type;
mod writer;

pub use condition::{
    Condition, DiscoveryCondition, GuardCondition, QueryCondition, ReadCondition, SampleCondition, StatusCondition,
    WaitSet,
};
pub use config::{DomainConfig, InterfaceSelection, Peer, Scheduling, ThreadSettings, WaitStrategy};
pub use discovery::{DiscoveredTopic, DiscoveredTopicData, DiscoveryEvent, DiscoveryEvents};
pub use driver::base::user_code::{leaked_values, lost_log_events, user_code_panics};
pub use driver::reactor::thread_panics::thread_panics;
pub use entity::{
    DomainParticipant, DomainParticipantListener, Entity, ParticipantBuilder, Publisher, PublisherListener, Subscriber,
    SubscriberListener, TopicListener,
};
pub use error::Error;
pub use factory::DomainParticipantFactory;
pub use peer_memory::PeerMemory;
pub use peregrine_rtps::discovery::data::{ParticipantData, PublicationData, SubscriptionData};
pub use peregrine_rtps::history::{InstanceState, SampleInfo, Selector, ViewState};
pub use peregrine_rtps::id::{DomainId, EntityId, Guid, GuidPrefix};
pub use peregrine_rtps::locator::Locator;
pub use peregrine_rtps::participant::{Drops, Healed, LostReason, ParticipantCounters, PeerDrops};
pub use peregrine_rtps::reader::ReaderCounters;
pub use peregrine_rtps::seq::SequenceNumber;
pub use peregrine_rtps::time::Timestamp;
pub use peregrine_rtps::vendor::VendorId;
pub use peregrine_rtps::writer::WriterCounters;
pub use peregrine_rtps::writer::pace::TokenBucketConfig;
pub use peregrine_transport::udp::Statistics as SocketStatistics;
#[doc(inline)]
pub use peregrine_xtypes as xtypes;
#[doc(inline)]
pub use peregrine_xtypes::facade::DdsType;
pub use reader::{
    AnyDataReader, DataReader, DataReaderBuilder, DataReaderListener, Loan, LoanedSample, Sample, SampleStream,
};
pub use shared_memory::{DeliveryPath, NoSharedMemory, SharedMemoryStatistics, SharedMemoryUse};
pub use status::StatusMask;
pub use time::TimestampExt;
pub use topic::Topic;
pub use topic_type::{Serialized, SerializedType, TopicType};
pub use writer::{
    AnyDataWriter, DataWriter, DataWriterBuilder, DataWriterListener, FlatLoan, FlowController, PublishMode, WriteLoan,
};

/// Names an instance of a topic with keys: its key hash (RTPS 2.5 §9.6.4.8), so that equal keys have equal handles
/// everywhere in the domain. [`InstanceHandle::NIL`] is the only instance of a topic without keys.
#[doc(inline)]
pub use peregrine_rtps::id::KeyHash as InstanceHandle;
