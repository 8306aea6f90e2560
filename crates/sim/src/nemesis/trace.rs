//! The events of a world, as the checks need them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use peregrine_rtps::id::Guid;
use peregrine_rtps::time::Span;

use super::kind::Kind;
use crate::network::{NetworkCounters, NodeId};

/// The record of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The pairs of running endpoints of one topic, by writer and reader.
    pub pairs: BTreeMap<(Guid, Guid), Pair>,
    /// For each running writer, the number of samples written.
    pub written: BTreeMap<Guid, i64>,
    /// Samples that each running reader has reported as lost.
    pub lost: BTreeMap<Guid, u64>,
    /// The greatest amount of each kind that an endpoint held, with its limit.
    pub memory: BTreeMap<&'static str, Amount>,
    /// The bytes from a node to an address.
    pub traffic: BTreeMap<(NodeId, IpAddr), Traffic>,
    /// The stalls of readers.
    pub stalls: Stalls,
    /// The nodes and endpoints that are not at rest at the end.
    pub unsettled: Vec<String>,
    /// Datagrams, by what became of them.
    pub datagrams: Datagrams,
    /// The effect of the attacks of each kind, in units of the kind.
    pub effects: BTreeMap<Kind, u64>,
    /// How often an imitated implementation differed.
    pub differences: u64,
    /// Bytes that nodes have handled from hosts without a participant.
    pub strange_bytes: u64,
    /// Effects of forged discovery messages that the participants which run at the end have taken back, and
    /// announcements that they have refused as forged.
    pub taken_back: TakenBack,
    /// Samples of live endpoints that were received, in all matches.
    pub received: u64,
    /// How often a writer has sent to a slow reader apart.
    pub sent_apart: u64,
    /// Forged messages from or to a node that imitates another implementation.
    pub forged_with_vendors: u64,
    /// Findings that depend on time.
    pub times: Times,
}

/// LIFESPAN and DEADLINE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Samples that were taken after the end of their LIFESPAN: the writer, the reader, the number and the age.
    pub stale: Vec<(Guid, Guid, i64, Span)>,
    /// Samples with a short LIFESPAN that were taken while their age was known.
    pub judged: u64,
    /// Samples with a LIFESPAN that were taken while the wall clocks of writer and reader differed by half an hour.
    pub received_by_other_clock: u64,
    /// Samples that readers have counted as of another clock, or as late.
    pub without_wall_clock: u64,
    /// Samples that readers have filtered: they have expired.
    pub filtered: u64,
    /// Missed deadlines that writers and readers reported.
    pub missed_deadlines: u64,
    /// Missed deadlines of endpoints that had written or received a sample since: the endpoint, and how long before.
    pub false_misses: Vec<(Guid, Span)>,
}

/// Stalls: a reader lacks samples, and acknowledges nothing new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// The longest time of a stall in which the writer did not name the reader, by writer and reader.
    pub unnamed: BTreeMap<(Guid, Guid), Span>,
    /// Stalls that lasted longer than a stall may last without a name.
    pub watched: u64,
    /// Stalls that writers reported.
    pub reported: u64,
    /// These by their cause.
    pub by_cause: BTreeMap<&'static str, u64>,
    /// Stalls that a writer reported while it had reported the stall of another reader.
    pub beside_another: u64,
    /// Reports of stalls that ended.
    pub ended: u64,
}

/// Forged discovery messages without a lasting effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenBack {
    /// Announcements of endpoints that were received again.
    pub rereads: u64,
    /// Participants that were known again after a goodbye.
    pub restored: u64,
    /// Announcements of other addresses.
    pub moves: u64,
    /// Announcements of other terms.
    pub terms: u64,
    /// Announcements that contradict their GUID.
    pub refused: u64,
}

/// A writer and a reader of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Whether samples are kept for late joiners, so that all are due.
    pub durable: bool,
    /// Whether samples may expire before they arrive.
    pub expires: bool,
    /// Whether the writer had matched the reader at the end of the time to heal.
    pub at_writer: bool,
    /// Whether the reader had matched the writer at the end of the time to heal.
    pub at_reader: bool,
    /// The numbers received, in order.
    pub received: Vec<i64>,
    /// Positions in `received` at which the reader had forgotten a durable writer: there it may begin anew.
    pub restarts: Vec<usize>,
    /// The number of samples written before the writer matched the reader for the last time. `None` before a match.
    pub matched_after: Option<i64>,
    /// Why samples that were written before the probes may be missing.
    pub excuse: Option<Excuse>,
    /// The number of samples written before the probes. Everything after it is due.
    pub probes_after: i64,
}

/// Why samples may be missing although their reader was matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// The writer stopped waiting for the reader, which did not answer. The reader reports the missing samples.
    Inactive,
    /// The same of a reader that had received nothing since the match: it cannot tell these samples from those that
    /// were written before the match (decision 065).
    InactiveFromStart,
    /// Messages were forged in the name of one of both.
    Forged,
}

/// An amount and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The greatest amount.
    pub amount: usize,
    /// The limit that held for it.
    pub limit: usize,
}

/// Bytes between a node and an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent to the address.
    pub sent: u64,
    /// Bytes handled from it.
    pub heard: u64,
    /// Bytes that samples, discovery and time entitle to, repairs included. Zero for an address without a participant.
    pub due: u64,
}

/// Datagrams, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// The counters of the network.
    pub network: NetworkCounters,
    /// Datagrams still under way.
    pub under_way: u64,
    /// Datagrams that participants have handled, as the world counts them.
    pub handled: u64,
    /// Messages that participants have handled, as they count them. Equal if no participant ended.
    pub counted: u64,
    /// Whether a participant has ended, and its counters with it.
    pub has_ended: bool,
    /// Datagrams that full sockets of standing nodes lost.
    pub overflowed: u64,
    /// Datagrams that arrived at a node without a running participant.
    pub unheard: u64,
    /// Messages with malformed parts, which only forged messages have.
    pub malformed: u64,
    /// Whether malformed messages were forged.
    pub has_garbage: bool,
}
