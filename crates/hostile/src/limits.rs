//! The limits that the victim has to hold under every attack, each with its reason, and the known misses.

use std::fmt;
use std::time::Duration;

use peregrine_rtps::limits::{
    ANSWER_CREDIT_MAX, ANSWER_REFILL_PER_SECOND, DISCOVERY_BYTES_MAX, REPAIR_CREDIT_START, REPAIR_REFILL_PER_SECOND,
    REQUEST_CREDIT_START,
};
use serde::Serialize;

use crate::roles::{HISTORY_SAMPLE_BYTES, HISTORY_SAMPLES};

/// Bytes that come back for each byte sent: the factor of the budgets, 8, and headers
/// (`docs/decisions/062-budgets-for-answers.md`).
pub const RATIO_MAX: f64 = 10.0;

/// Bytes that come back in any case: the announcements of the victim during the attack, to all addresses together.
pub const FREE_BYTES: u64 = 64 << 10;

/// Bytes for each stranger that the victim has matched: its discovery data, HEARTBEATs until it counts as inactive, and
/// the first requests for fragments.
pub const ENTITLED_OF_PARTICIPANT: u64 = (32 << 10) + REQUEST_CREDIT_START as u64;

/// Bytes for each matched reader, beside: the history that its QoS entitles it to, with 100 bytes of headers for each
/// sample, the credit of a new reader, and what time adds to the credit in ten seconds.
pub const ENTITLED_OF_READER: u64 = HISTORY_BYTES + REPAIR_CREDIT_START as u64 + 10 * REPAIR_REFILL_PER_SECOND as u64;

/// Bytes for each further reader of a stranger: the history alone. Unpaid answers do not grow with the
/// number of readers (`docs/decisions/129-budgets-for-the-endpoints-at-an-address.md`).
pub const ENTITLED_OF_FURTHER_READER: u64 = HISTORY_BYTES;

const HISTORY_BYTES: u64 = HISTORY_SAMPLES as u64 * (HISTORY_SAMPLE_BYTES as u64 + 100);

/// Bytes for each source address of participants that announce an identity: messages of handshakes beyond those that
/// the participants pay for, and what time adds to them in ten seconds
/// (`docs/decisions/119-credit-for-messages-of-the-handshake.md`).
pub const HANDSHAKE_BYTES_OF_ADDRESS: u64 = ANSWER_CREDIT_MAX as u64 + 10 * ANSWER_REFILL_PER_SECOND as u64;

/// Bytes for each participant that announces an identity and names the victim: the message that begins a handshake.
/// Such a participant has shown that it hears the victim, and gets one message without payment
/// (`docs/decisions/119-credit-for-messages-of-the-handshake.md`).
const HANDSHAKE_BYTES_OF_HEARER: u64 = 6 << 10;

/// Bytes of such messages to all participants that have not shown a certificate, at once and for each second: the
/// budget of the plug-in for authentication.
const HANDSHAKE_BYTES_PER_SECOND: u64 = 4 << 20;

/// Bytes for this number of participants that announce an identity and name the victim, within this time.
pub(crate) fn entitled_of_hearers(participants: u64, time: Duration) -> u64 {
    let in_time =
        HANDSHAKE_BYTES_PER_SECOND.saturating_add((HANDSHAKE_BYTES_PER_SECOND as f64 * time.as_secs_f64()) as u64);
    participants.saturating_mul(HANDSHAKE_BYTES_OF_HEARER).min(in_time)
}

/// Bytes for each second and each stranger that has a place: about three ACKNACKs and a HEARTBEAT of the endpoints for
/// discovery, which wait for its answers.
const ENTITLED_OF_PLACE_PER_SECOND: u64 = 400;

/// Bytes for this number of strangers that have a place, within this time.
pub(crate) fn entitled_of_places(strangers: u64, time: Duration) -> u64 {
    strangers.saturating_mul((ENTITLED_OF_PLACE_PER_SECOND as f64 * time.as_secs_f64()) as u64)
}

/// Growth of the victim, in bytes: the discovery data of all strangers, as the protocol bounds them, and 32 MiB,
/// which peers may make it hold, for samples, 512 unverified participants, and receive buffers.
pub const GROWTH_MAX_BYTES: u64 = DISCOVERY_BYTES_MAX as u64 + (32 << 20);

/// How long after the last forged message the flow may still have late samples: the claim of
/// `docs/decisions/063-healing-of-forged-protocol-state.md`.
pub const WHOLE_AFTER_MAX: Duration = Duration::from_secs(1);

/// How long the flow may take to become whole before a measurement gives up: twice the limit.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// How much longer than without an attack a newcomer may take until it and the victim have exchanged samples
/// (`docs/decisions/140-places-and-memory-for-newcomers.md`).
pub const NEWCOMER_DELAY_MAX: Duration = Duration::from_secs(1);

/// How long a newcomer that has exchanged no samples beside an attack may take after its last message: the victim
/// processes the datagrams that wait at its sockets, and discovery is retried each second.
pub const NEWCOMER_AFTER_MAX: Duration = Duration::from_secs(3);

/// How long an attack goes on at most for a newcomer that has not exchanged its samples.
pub(crate) const NEWCOMER_ATTACKED_FOR: Duration = Duration::from_secs(5);

/// The figure that a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Bytes back for each byte sent.
    Ratio,
    /// Growth of the victim's memory.
    Memory,
    /// The flow is whole again in time.
    Recovery,
    /// No sample of the flow is lost to strangers, to messages without effect or, with DDS Security, to any attacker.
    Loss,
    /// All samples of the flow are acknowledged at the end.
    Acknowledgement,
    /// A newcomer and the victim exchange samples in time beside the attack.
    Newcomer,
    /// A newcomer and the victim exchange samples in time after the attack, at the latest.
    LateNewcomer,
    /// With DDS Security, no participant without a certificate matches an endpoint.
    Admission,
    /// With DDS Security, no forged message has an effect, not even one that is taken back.
    Effect,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ratio => "ratio",
            Self::Memory => "memory",
            Self::Recovery => "recovery",
            Self::Loss => "loss",
            Self::Acknowledgement => "acknowledgement",
            Self::Newcomer => "newcomer",
            Self::LateNewcomer => "late newcomer",
            Self::Admission => "admission",
            Self::Effect => "effect",
        })
    }
}

/// The sender of the messages of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// Participants of the attacker's own. They must cost the honest pair no sample.
    Stranger,
    /// The attacker, in the name of the honest peer. Without DDS Security, samples under way can be lost.
    Impostor,
}

/// Whether the victim holds the limits.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// All of them.
    Held,
    /// Not all. The run fails when `certain` is held, so that the list stays true.
    Miss {
        /// A limit that is certainly passed.
        certain: Limit,
        /// Shorter attacks may hold it.
        from: Duration,
        /// Further limits that are passed at times.
        others: &'static [Limit],
        /// Why.
        reason: &'static str,
    },
    /// All but one, which a machine that is slow enough passes.
    MayMiss {
        /// The limit.
        limit: Limit,
        /// Shorter attacks hold it on any machine.
        from: Duration,
        /// Why.
        reason: &'static str,
    },
}

/// A limit that was passed, or a known miss that has disappeared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The limit.
    pub limit: Limit,
    /// Measured figure and bound.
    pub text: String,
}

impl Expected {
    /// Why the victim does not hold all limits.
    pub(crate) const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Held => None,
            Self::Miss { reason, .. } | Self::MayMiss { reason, .. } => Some(reason),
        }
    }

    /// Which of the passed limits are failures, and which known misses have disappeared.
    pub(crate) fn failures(&self, passed: &[Failure], duration: Duration) -> Vec<Failure> {
        let unknown = |is_known: &dyn Fn(Limit) -> bool| -> Vec<Failure> {
            passed.iter().filter(|failure| !is_known(failure.limit)).cloned().collect()
        };
        let (certain, from, others) = match self {
            Self::Held => return passed.to_vec(),
            Self::MayMiss { limit, from, .. } => return unknown(&|passed| passed == *limit && duration >= *from),
            Self::Miss { certain, from, others, .. } => (certain, from, others),
        };
        let mut failures = unknown(&|limit| limit == *certain || others.contains(&limit));
        if duration >= *from && passed.iter().all(|f| f.limit != *certain) {
            let text = "this limit is held now: remove the known miss from the table of attacks".to_owned();
            failures.push(Failure { limit: *certain, text });
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISS: Expected = Expected::Miss {
        certain: Limit::Memory,
        from: Duration::from_secs(1),
        others: &[Limit::Ratio],
        reason: "a test",
    };

    fn limits_of(failures: &[Failure]) -> Vec<Limit> {
        failures.iter().map(|failure| failure.limit).collect()
    }

    #[test]
    fn hearers_are_entitled_to_their_handshakes_within_the_budget_of_all() {
        assert_eq!(entitled_of_hearers(0, Duration::from_secs(9)), 0);
        assert_eq!(entitled_of_hearers(2, Duration::ZERO), 2 * HANDSHAKE_BYTES_OF_HEARER);
        assert_eq!(entitled_of_hearers(u64::MAX, Duration::from_millis(500)), 6 << 20);
    }

    #[test]
    fn strangers_with_places_are_entitled_to_messages_for_as_long_as_they_have_them() {
        assert_eq!(entitled_of_places(0, Duration::from_secs(9)), 0);
        assert_eq!(entitled_of_places(3, Duration::from_millis(2_500)), 3 * 1_000);
    }

    #[test]
    fn limit_that_may_be_missed_counts_for_short_attacks_and_may_be_held_by_long_ones() {
        let expected =
            Expected::MayMiss { limit: Limit::Newcomer, from: Duration::from_secs(2), reason: "a slow machine" };
        let passed = [Limit::Newcomer, Limit::LateNewcomer].map(|limit| Failure { limit, text: "late".to_owned() });
        let failures = |passed, seconds| limits_of(&expected.failures(passed, Duration::from_secs(seconds)));
        assert_eq!(failures(&passed, 1), [Limit::Newcomer, Limit::LateNewcomer]);
        assert_eq!(failures(&passed, 2), [Limit::LateNewcomer]);
        assert_eq!(failures(&[], 2), []);
    }

    #[test]
    fn known_miss_is_no_failure_until_it_disappears() {
        let passed = [Failure { limit: Limit::Memory, text: "grew".to_owned() }];
        assert_eq!(MISS.failures(&passed, Duration::from_secs(2)), []);
        assert_eq!(limits_of(&MISS.failures(&[], Duration::from_secs(2))), [Limit::Memory]);
        assert_eq!(MISS.failures(&[], Duration::from_millis(500)), []);
        let both = [Failure { limit: Limit::Ratio, text: "back".to_owned() }, passed[0].clone()];
        assert_eq!(MISS.failures(&both, Duration::from_secs(2)), []);
        let other = [Failure { limit: Limit::Loss, text: "lost".to_owned() }];
        assert_eq!(limits_of(&MISS.failures(&other, Duration::from_millis(500))), [Limit::Loss]);
        assert_eq!(limits_of(&Expected::Held.failures(&passed, Duration::from_secs(2))), [Limit::Memory]);
    }
}
