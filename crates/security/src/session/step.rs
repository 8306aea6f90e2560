//! Outputs of a session.

use core::fmt;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::participant::{AnnouncedParts, MessageRefusal};

use super::refusal::{KeysRefusal, PeerRefusal};
use crate::authentication::{Failure, Job, Refusal};
use crate::secret::Secret;
use crate::wall_time::WallTime;

/// The next action of the caller.
#[derive(Debug)]
pub enum Step {
    /// Sends a message by the writer of stateless messages, once and best effort.
    SendStateless {
        /// The receiver.
        to: GuidPrefix,
        /// The payload of the sample, with its encapsulation.
        payload: Vec<u8>,
    },
    /// A peer is admitted, or no longer.
    Admit {
        /// The peer.
        peer: GuidPrefix,
        /// The decision.
        admission: Admission,
    },
    /// There is a key for the exchange of keys with a peer: the reliable endpoints of volatile messages match.
    OpenKeyChannel {
        /// The peer.
        peer: GuidPrefix,
        /// Whether the key replaces another one. All other keys of the peer, its endpoints and their matches are then
        /// forgotten, and the caller states them again.
        anew: bool,
    },
    /// Sends a message with keys by the reliable writer of volatile messages, to one peer only.
    SendVolatile {
        /// The receiver.
        to: GuidPrefix,
        /// The payload of the sample, with its encapsulation.
        payload: Secret,
    },
    /// Both sides of a pair of endpoints, built-in ones included, have the keys that the governance requires: the
    /// endpoints match from now on.
    KeysReady {
        /// The local endpoint.
        local: EntityId,
        /// The remote endpoint.
        remote: Guid,
    },
    /// Runs a job on another thread, and hands its result to [`Session::job_done`](super::Session::job_done).
    RunJob(Job),
    /// A report, for logs and statistics.
    Report(SecurityEvent),
}

/// The decision about a participant, which replaces all earlier ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The handshake is under way. Nothing but announcements and stateless messages is exchanged.
    Pending,
    /// The peer is authenticated. Its built-in endpoints match when their keys are ready.
    Authenticated,
    /// The peer is not authenticated and takes part in what is not protected.
    Unauthenticated,
    /// The peer takes part in nothing. Its keys are withdrawn.
    Refused(PeerRefusal),
}

/// An event that concerns security.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecurityEvent {
    /// A peer is authenticated.
    Authenticated {
        /// The peer.
        peer: GuidPrefix,
        /// The subject of its certificate.
        subject: String,
        /// Whether it was authenticated before.
        again: bool,
        /// The last second at which its certificates and permissions are valid.
        valid_until: WallTime,
    },
    /// A message of a handshake was refused. Others may have sent it, and the handshake goes on.
    MessageRefused {
        /// The peer that the message names as its sender.
        peer: GuidPrefix,
        /// Why.
        refusal: Refusal,
    },
    /// A peer is refused.
    Refused {
        /// The peer.
        peer: GuidPrefix,
        /// Why.
        refusal: PeerRefusal,
    },
    /// A peer without authentication takes part in what is not protected.
    Unauthenticated {
        /// The peer.
        peer: GuidPrefix,
        /// Why it is not authenticated.
        cause: Failure,
    },
    /// A peer was announced in clear otherwise than it has signed in its handshake, perhaps by an impostor, or because
    /// the peer has changed meanwhile. The signed data counts.
    AnnouncementContradicted {
        /// The peer.
        peer: GuidPrefix,
        /// The parts that differ.
        parts: AnnouncedParts,
    },
    /// Messages in the name of a peer, or submessages in them, are refused: they lack protection, or are not authentic.
    /// Reported at most once a second for a known peer and reason, and for a reason of all unknown ones together, when
    /// one comes: those after the last report of a burst are counted in the next report.
    PacketsRefused {
        /// The sender that the last of them names, which may be forged.
        peer: GuidPrefix,
        /// Why.
        refusal: MessageRefusal,
        /// The number of messages since the last report for the peer and reason.
        count: u64,
    },
    /// All keys of a pair are exchanged.
    KeysExchanged {
        /// The local participant or endpoint.
        local: EntityId,
        /// The remote one.
        remote: Guid,
    },
    /// Keys of a peer are refused.
    KeysRefused {
        /// The local participant or endpoint.
        local: EntityId,
        /// The remote one.
        remote: Guid,
        /// Why.
        refusal: KeysRefusal,
    },
    /// The keys of a remote endpoint did not arrive, though they were asked for.
    KeysMissing {
        /// The local participant or endpoint.
        local: EntityId,
        /// The remote one.
        remote: Guid,
    },
    /// The certificate of an authenticated peer is no longer accepted.
    Revoked {
        /// The peer.
        peer: GuidPrefix,
        /// Why.
        refusal: Refusal,
    },
    /// A certificate of an authenticated peer has expired.
    Expired {
        /// The peer.
        peer: GuidPrefix,
        /// Its last valid second.
        until: WallTime,
    },
    /// The permissions of an authenticated peer have expired.
    PermissionsExpired {
        /// The peer.
        peer: GuidPrefix,
        /// Their last valid second.
        until: WallTime,
    },
    /// The certificate or the permissions of this participant have expired: peers let it go, and no endpoint may be
    /// made.
    LocalExpired {
        /// Their last valid second.
        until: WallTime,
    },
    /// Local senders have new keys, which are sent to all receivers.
    KeysRenewed {
        /// The number of senders: the participant and endpoints.
        senders: usize,
        /// Why.
        cause: RenewalCause,
    },
}

/// Why keys are renewed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum RenewalCause {
    /// A sender has sealed the configured number of blocks.
    Blocks,
    /// The caller asked for it.
    Demand,
    /// A peer that has the keys has left, or its lease has ended.
    Departure,
    /// A peer that has the keys is no longer accepted.
    Expulsion,
}

impl Admission {
    /// Whether the peer takes part in anything.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Self::Authenticated | Self::Unauthenticated)
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("being authenticated"),
            Self::Authenticated => f.write_str("authenticated"),
            Self::Unauthenticated => f.write_str("not authenticated, and admitted to what is not protected"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
        }
    }
}

impl fmt::Display for SecurityEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authenticated { peer, subject, again, valid_until } => {
                let again = if *again { " again" } else { "" };
                write!(f, "participant {peer} is authenticated{again} as {subject}, valid until {valid_until}")
            }
            Self::MessageRefused { peer, refusal } => {
                write!(f, "a handshake message of participant {peer} is refused: {refusal}")
            }
            Self::Refused { peer, refusal } => write!(f, "participant {peer} is refused: {refusal}"),
            Self::Unauthenticated { peer, cause } => {
                write!(f, "participant {peer} is admitted without authentication: {cause}")
            }
            Self::AnnouncementContradicted { peer, parts } => {
                write!(
                    f,
                    "participant {peer} was announced in clear otherwise than it has signed, which counts: {parts}"
                )
            }
            Self::PacketsRefused { peer, refusal, count } => {
                write!(f, "{count} messages, the last one in the name of participant {peer}, are refused: {refusal}")
            }
            Self::KeysExchanged { local, remote } => write!(f, "the keys of {local} and {remote} are exchanged"),
            Self::KeysRefused { local, remote, refusal } => {
                write!(f, "the keys of {remote} for {local} are refused: {refusal}")
            }
            Self::KeysMissing { local, remote } => write!(f, "the keys of {remote} for {local} did not arrive"),
            Self::Revoked { peer, refusal } => write!(f, "participant {peer} is let go: {refusal}"),
            Self::Expired { peer, until } => {
                write!(f, "participant {peer} is let go: its certificate was valid until {until}")
            }
            Self::PermissionsExpired { peer, until } => {
                write!(f, "participant {peer} is let go: its permissions were valid until {until}")
            }
            Self::LocalExpired { until } => {
                write!(f, "the certificate or the permissions of this participant were valid until {until}")
            }
            Self::KeysRenewed { senders, cause } => {
                let cause = match cause {
                    RenewalCause::Blocks => "the configured number of blocks is sealed",
                    RenewalCause::Demand => "on demand",
                    RenewalCause::Departure => "a peer that has the keys is gone",
                    RenewalCause::Expulsion => "a peer that has the keys is no longer accepted",
                };
                write!(f, "{senders} senders have new keys: {cause}")
            }
        }
    }
}
