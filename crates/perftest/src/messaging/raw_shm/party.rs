//! The processes of a test without DDS, and the names by which they find each other.

use std::fmt;
use std::ops::Range;

use peregrine_transport::shm::{ReaderKey, WriterKey};

use crate::error::Error;
use crate::messaging::Topic;
use crate::plan::{Role, TestPlan};

/// One thread waits for at most 127 writer processes; some of them may belong to an earlier test.
const MAX_PARTNERS: u32 = 100;

/// Publisher or subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Publisher,
    Subscriber,
}

/// One process of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Party {
    domain: u32,
    side: Side,
    id: u32,
}

impl Party {
    /// Abstract socket name of the process, by which its partners find it.
    pub(super) fn name(self) -> String {
        let side = match self.side {
            Side::Publisher => "pub",
            Side::Subscriber => "sub",
        };
        format!("peregrine-perftest-raw-{}-{side}-{}", self.domain, self.id)
    }

    /// Key with which it requests admission from a writer.
    pub(super) fn key(self) -> ReaderKey {
        let mut key = [0; 16];
        let words = [self.domain.to_le_bytes(), self.id.to_le_bytes(), [self.side as u8, 0, 0, 0]];
        key[..12].copy_from_slice(words.as_flattened());
        ReaderKey(key)
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Publisher => "Publisher",
            Side::Subscriber => "Subscriber",
        };
        write!(f, "{side} {}", self.id)
    }
}

/// This process and its expected partners.
#[derive(Debug, Clone)]
pub(super) struct Parties {
    own: Party,
    partners: u32,
}

impl Parties {
    pub(super) fn of(plan: &TestPlan) -> Result<Self, Error> {
        let (side, partners, option) = match &plan.role {
            Role::Publisher(publisher) => (Side::Publisher, publisher.subscribers, "-numSubscribers"),
            Role::Subscriber(subscriber) => (Side::Subscriber, subscriber.publishers, "-numPublishers"),
        };
        if partners > MAX_PARTNERS {
            return Err(Error::Setup(format!(
                "{option} {partners}: without DDS at most {MAX_PARTNERS} partners share memory with a process"
            )));
        }
        Ok(Self { own: Party { domain: plan.data.domain, side, id: plan.entity_id() }, partners })
    }

    /// This process.
    pub(super) fn own(&self) -> Party {
        self.own
    }

    /// All partners.
    pub(super) fn all(&self) -> impl Iterator<Item = Party> {
        self.numbered(0..self.partners)
    }

    /// Partners that exchange samples of a topic with this process: echoes go only to publisher 0.
    pub(super) fn of_topic(&self, topic: Topic) -> impl Iterator<Item = Party> {
        let is_answer = topic == Topic::Latency && self.own.side == Side::Subscriber;
        self.numbered(0..if is_answer { self.partners.min(1) } else { self.partners })
    }

    /// The partner with this key, if it is expected to read this topic.
    pub(super) fn reader_of(&self, topic: Topic, key: ReaderKey) -> Option<Party> {
        self.of_topic(topic).find(|party| party.key() == key)
    }

    fn numbered(&self, ids: Range<u32>) -> impl Iterator<Item = Party> {
        let side = match self.own.side {
            Side::Publisher => Side::Subscriber,
            Side::Subscriber => Side::Publisher,
        };
        let domain = self.own.domain;
        ids.map(move |id| Party { domain, side, id })
    }
}

const TOPICS: [Topic; 3] = [Topic::Throughput, Topic::Latency, Topic::Announcement];

/// Key of the writer of a topic: a process has at most one for each topic.
pub(super) fn key_of(topic: Topic) -> WriterKey {
    let number = match topic {
        Topic::Throughput => 1,
        Topic::Latency => 2,
        Topic::Announcement => 3,
    };
    let mut key = [0; 16];
    key[0] = number;
    WriterKey(key)
}

/// The topic of a key, if the key is valid.
pub(super) fn topic_of(key: WriterKey) -> Option<Topic> {
    TOPICS.into_iter().find(|topic| key_of(*topic) == key)
}
