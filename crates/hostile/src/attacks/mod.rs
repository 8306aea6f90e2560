//! The table of attacks.

mod discovery;
mod fragments;
mod impostor;
mod mutations;
mod repair;
#[cfg(feature = "security")]
mod secured;

use std::time::Duration;

use anyhow::Result;

use crate::field::Field;
use crate::limits::Limit;
pub use crate::limits::{Actor, Expected};

/// A named attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// The name that selects it.
    pub name: &'static str,
    /// The messages that are sent.
    pub summary: &'static str,
    /// In whose name.
    pub actor: Actor,
    /// Whether a victim without DDS Security holds all limits.
    pub expected: Expected,
    /// Whether a participant comes in the middle of the attack and is measured.
    pub meets_newcomer: bool,
    /// Whether samples of a victim without DDS Security may be lost.
    pub may_cost_samples: bool,
    pub(crate) run: fn(&mut Field<'_>) -> Result<()>,
}

/// An attack of which the victim holds all limits.
const fn held(
    name: &'static str,
    actor: Actor,
    summary: &'static str,
    run: fn(&mut Field<'_>) -> Result<()>,
) -> Attack {
    let may_cost_samples = matches!(actor, Actor::Impostor);
    Attack { name, summary, actor, expected: Expected::Held, meets_newcomer: false, may_cost_samples, run }
}

impl Attack {
    /// Whether the victim holds all limits. One with DDS Security has no known misses.
    pub(crate) const fn expected_of(&self, is_secured: bool) -> Expected {
        if is_secured { Expected::Held } else { self.expected }
    }

    /// The same attack with a newcomer.
    const fn beside_newcomer(mut self) -> Self {
        self.meets_newcomer = true;
        self
    }

    /// The same attack, which may not cost a sample although it is in the name of the peer.
    const fn without_loss(mut self) -> Self {
        self.may_cost_samples = false;
        self
    }

    /// The same attack with a limit that the victim certainly does not hold if the attack lasts `from` or longer, and
    /// others that it does not hold at times.
    const fn misses(mut self, certain: Limit, from: Duration, others: &'static [Limit], reason: &'static str) -> Self {
        self.expected = Expected::Miss { certain, from, others, reason };
        self
    }

    /// The same attack with a limit that a slow machine does not hold if the attack lasts `from` or longer.
    const fn may_miss(mut self, limit: Limit, from: Duration, reason: &'static str) -> Self {
        self.expected = Expected::MayMiss { limit, from, reason };
        self
    }
}

const AT_ONCE: Duration = Duration::ZERO;
/// Why a newcomer may exchange samples only after a flood of announcements.
const FLOODED: &str = "a flood occupies a core once all places are taken, and full sockets drop what a newcomer sends";
const LONG: Duration = Duration::from_secs(2);
/// Limits that are passed while victim and peer do not match.
const UNMATCHED: &[Limit] = &[Limit::Recovery, Limit::Acknowledgement];

/// Every attack: those of strangers, then those in the name of the honest peer.
pub const ATTACKS: &[Attack] = &[
    held("nothing", Actor::Stranger, "no message: the figures of an undisturbed pair", repair::nothing)
        .beside_newcomer(),
    held(
        "discovery-flood",
        Actor::Stranger,
        "announcements of ever new participants from one address",
        discovery::flood_from_one_address,
    )
    .beside_newcomer()
    .may_miss(Limit::Newcomer, LONG, FLOODED),
    held(
        "discovery-flood-addresses",
        Actor::Stranger,
        "announcements of ever new participants from 64 addresses",
        discovery::flood_from_many_addresses,
    )
    .beside_newcomer()
    .may_miss(Limit::Newcomer, LONG, FLOODED),
    held(
        "crowd-of-two-addresses",
        Actor::Stranger,
        "strangers with an endpoint each at two addresses, which take all places for participants",
        discovery::crowd_from_two_addresses,
    )
    .beside_newcomer(),
    held(
        "small-publications",
        Actor::Stranger,
        "strangers with as many publications each as the victim keeps of a participant",
        discovery::small_publications,
    )
    .beside_newcomer(),
    held(
        "oversized-lists",
        Actor::Stranger,
        "60,000 bytes of user data, and lists of unknown parameters",
        discovery::oversized_lists,
    ),
    held(
        "discovery-requests",
        Actor::Stranger,
        "endless ACKNACKs to the writers of discovery data",
        discovery::requests_of_discovery_data,
    ),
    held(
        "acknack-amplification",
        Actor::Stranger,
        "1,000 ACKNACKs in each datagram request two halves of the history in turn",
        repair::acknack_amplification,
    ),
    held("repeated-datagram", Actor::Stranger, "the same 100 ACKNACKs again and again", repair::repeated_datagram),
    held(
        "endless-requests",
        Actor::Stranger,
        "a reader requests the history for ever and acknowledges nothing",
        repair::endless_requests_for_history,
    ),
    held(
        "endless-requests-flow",
        Actor::Stranger,
        "the same as a second reader of the flow to the honest peer",
        repair::endless_requests_of_flow,
    )
    .misses(
        Limit::Acknowledgement,
        AT_ONCE,
        UNMATCHED,
        "KEEP_ALL makes a writer wait for each reliable reader, until it counts as inactive",
    ),
    held(
        "requests-of-many",
        Actor::Stranger,
        "64 readers at one address request the history for ever, each seldom",
        repair::requests_of_many_readers,
    ),
    held(
        "fragment-requests",
        Actor::Stranger,
        "NACK_FRAGs of samples that have no fragments",
        repair::requests_for_fragments,
    ),
    held("heartbeats", Actor::Stranger, "HEARTBEATs that each require an answer", repair::heartbeats_one_by_one),
    held("heartbeats-bulk", Actor::Stranger, "1,000 such HEARTBEATs in each datagram", repair::heartbeats_in_bulk),
    held("heartbeats-endless", Actor::Stranger, "HEARTBEATs of 2^63 samples", repair::heartbeats_of_endless_history),
    held(
        "nack-frags-tiny",
        Actor::Stranger,
        "64 samples of 8 MiB in fragments of 8 bytes",
        fragments::nack_frags_by_tiny_fragments,
    ),
    held(
        "nack-frags-small",
        Actor::Stranger,
        "64 samples of 8 MiB in fragments of 64 bytes",
        fragments::nack_frags_by_small_fragments,
    ),
    held(
        "half-samples",
        Actor::Stranger,
        "every second fragment of ever new samples, reliable",
        fragments::half_of_reliable_samples,
    ),
    held(
        "half-samples-best-effort",
        Actor::Stranger,
        "every second fragment of ever new samples, best effort",
        fragments::half_of_best_effort_samples,
    ),
    held(
        "half-samples-of-many",
        Actor::Stranger,
        "every second fragment of ever new samples of 48 participants in turn",
        fragments::half_of_samples_of_many,
    ),
    held("heartbeat-frags", Actor::Stranger, "HEARTBEAT_FRAGs of 131,072 fragments", fragments::heartbeat_frags),
    held(
        "mutations",
        Actor::Stranger,
        "damaged messages of a stranger and of other implementations",
        mutations::of_stranger,
    ),
    held("forged-acknack-counts", Actor::Impostor, "ACKNACKs with counts near 2^31", impostor::acknack_counts),
    held("forged-heartbeat-counts", Actor::Impostor, "HEARTBEATs with counts near 2^31", impostor::heartbeat_counts),
    held("forged-nack-frag-counts", Actor::Impostor, "NACK_FRAGs with counts near 2^31", impostor::nack_frag_counts),
    held("forged-gap-jumps", Actor::Impostor, "GAPs that pass over 100,000 samples", impostor::gap_jumps),
    held(
        "forged-heartbeat-jumps",
        Actor::Impostor,
        "HEARTBEATs that start 100,000 samples ahead",
        impostor::heartbeat_jumps,
    ),
    held(
        "forged-acknack-unwritten",
        Actor::Impostor,
        "ACKNACKs of 100,000 samples that were never written",
        impostor::acknack_of_unwritten,
    ),
    held("forged-acknack-current", Actor::Impostor, "ACKNACKs of samples under way", impostor::acknack_of_current),
    held("forged-gap-current", Actor::Impostor, "GAPs of samples under way", impostor::gap_of_current),
    held(
        "forged-fragments",
        Actor::Impostor,
        "fragments with the numbers of samples under way, which have none",
        impostor::fragments_of_current,
    ),
    held(
        "forged-instance-disposals",
        Actor::Impostor,
        "disposals of the instance of the flow, and of others",
        impostor::instance_disposals,
    ),
    held(
        "forged-source-timestamps",
        Actor::Impostor,
        "samples with source timestamps an hour ahead and an hour ago",
        impostor::source_timestamps,
    ),
    held(
        "forged-future-samples",
        Actor::Impostor,
        "samples with numbers that the peer has not used yet",
        impostor::future_samples,
    ),
    held(
        "forged-heartbeats",
        Actor::Impostor,
        "a flood of HEARTBEATs, which the victim answers to the peer",
        impostor::heartbeat_flood,
    ),
    held(
        "forged-acknacks",
        Actor::Impostor,
        "a flood of requests, which the victim answers to the peer",
        impostor::acknack_flood,
    ),
    held("forged-goodbye", Actor::Impostor, "SPDP: the peer has ended", impostor::participant_disposals),
    held(
        "forged-endpoint-disposals",
        Actor::Impostor,
        "SEDP: the peer has deleted its writer and its reader",
        impostor::endpoint_disposals,
    ),
    held(
        "forged-endpoint-changes",
        Actor::Impostor,
        "SEDP: other policies and another type of the peer's writer and reader",
        impostor::endpoint_changes,
    ),
    held(
        "forged-terms",
        Actor::Impostor,
        "SPDP: the peer has another lease, vendor or set of built-in endpoints",
        impostor::terms,
    )
    .without_loss(),
    held("forged-move", Actor::Impostor, "SPDP: the peer is at the attacker's address", impostor::moved_peer),
    held("forged-unreachable", Actor::Impostor, "SPDP: the peer has no address", impostor::unreachable_peer),
    held("forged-mutations", Actor::Impostor, "damaged messages in the name of the peer", mutations::of_impostor)
        .misses(
            Limit::Recovery,
            LONG,
            UNMATCHED,
            "damaged goodbyes make the victim forget the peer, whose next message may come a second after the attack",
        ),
];

/// Attacks on DDS Security itself. In a build without it, there are none.
#[cfg(not(feature = "security"))]
pub const SECURED_ATTACKS: &[Attack] = &[];

/// Attacks on DDS Security itself: those of strangers, then those in the name of the honest peer.
#[cfg(feature = "security")]
pub const SECURED_ATTACKS: &[Attack] = &[
    held(
        "identity-flood",
        Actor::Stranger,
        "announcements of ever new participants with an identity from one address",
        secured::identities,
    ),
    held(
        "identity-trickle",
        Actor::Stranger,
        "the same, 100 in each second, so that the victim begins a handshake with each",
        secured::sparse_identities,
    ),
    held(
        "identity-flood-named",
        Actor::Stranger,
        "announcements of ever new participants with an identity that know the victim",
        secured::identities_that_name_victim,
    ),
    held(
        "handshake-flood",
        Actor::Stranger,
        "messages of handshakes of ever new participants, with a certificate of another authority",
        secured::handshakes_of_strangers,
    ),
    held(
        "forged-handshakes",
        Actor::Impostor,
        "messages of handshakes in the name of the peer, with a certificate of another authority",
        secured::handshakes_of_impostor,
    ),
    held(
        "forged-auth-requests",
        Actor::Impostor,
        "the peer announces the challenge of a new handshake",
        secured::auth_requests,
    ),
    held(
        "forged-protected",
        Actor::Impostor,
        "messages and submessages with random keys, contents and MACs in the form of protected ones",
        secured::protected,
    ),
    held(
        "forged-key-messages",
        Actor::Impostor,
        "messages of the channel for keys, plain and in the form of protected ones",
        secured::key_messages,
    ),
];
