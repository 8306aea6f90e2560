//! Settings and counters of a session.

use core::fmt;

use crate::authentication;
use crate::crypto::CryptoConfig;
use crate::limits::{PEERS, STEPS};

/// Settings of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionConfig {
    /// Jobs that are handed out and not yet handed back. At least one.
    pub jobs: usize,
    /// The lengths of keys, and the blocks of one session key.
    pub crypto: CryptoConfig,
    /// AES blocks after which a sender gets a new key and sends it to all receivers; `None` for never. A new session
    /// key after [`CryptoConfig::blocks_per_session`] needs no exchange, so that most systems need no new key.
    pub blocks_per_key: Option<u64>,
    /// Whether all keys that an expelled peer has are renewed.
    pub renew_after_expulsion: bool,
    /// Whether all keys that a peer has are renewed when it leaves or its lease ends.
    pub renew_after_departure: bool,
    /// The number of peers, at most [`PEERS`].
    pub peers: usize,
}

/// While this many steps wait, no message of others is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepsWaiting;

/// Counters of a session, since its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionStatistics {
    /// Of authentication.
    pub authentication: authentication::Statistics,
    /// Results of jobs that were not handed out, or whose result came before.
    pub jobs_not_awaited: u64,
    /// Messages that were not accepted since too many steps waited.
    pub not_taken: u64,
    /// Announcements of participants for which there was no room.
    pub peers_refused: u64,
    /// Messages with keys that are malformed, or of a sender or for an endpoint that is not possible.
    pub malformed_tokens: u64,
    /// Messages with keys for other participants.
    pub tokens_for_others: u64,
    /// Messages of the key channel of peers that are not authenticated.
    pub tokens_of_strangers: u64,
    /// Messages of the key channel whose class is unknown.
    pub unknown_classes: u64,
    /// Messages with keys for local endpoints that do not exist.
    pub tokens_for_unknown: u64,
    /// Messages with keys that arrived before their endpoint, and were kept.
    pub early_tokens: u64,
    /// Such messages that were dropped for want of room. Their keys are asked for when the endpoints match.
    pub early_tokens_dropped: u64,
    /// Messages with keys that were refused.
    pub keys_refused: u64,
    /// How many times a key of a peer gave back the memory of its sessions, because nothing came.
    pub idle_keys: u64,
    /// Messages with keys that were received before.
    pub tokens_repeated: u64,
    /// Messages with keys that were sent again, since those of the peer did not arrive.
    pub tokens_resent: u64,
    /// Messages with keys that were sent again, since the peer sent its own again.
    pub tokens_answered: u64,
    /// Keys of peers that were dropped some time after they were replaced.
    pub keys_retired: u64,
    /// Renewals of keys.
    pub renewals: u64,
    /// Reports that were dropped, since too many steps waited.
    pub reports_dropped: u64,
}

/// Numbers that are in use, for diagnosis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionUsage {
    /// Of authentication.
    pub authentication: authentication::Usage,
    /// Participants that are known.
    pub peers: usize,
    /// Steps that wait to be taken.
    pub steps: usize,
    /// Pairs of endpoints for which messages wait to be made.
    pub pairs_waiting: usize,
    /// Pairs of endpoints, all peers together.
    pub matches: usize,
    /// Messages with keys that arrived before their endpoint.
    pub early_tokens: usize,
    /// Keys of peers that are replaced and not yet dropped.
    pub retiring_keys: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        let crypto = CryptoConfig::default();
        let (renew_after_expulsion, renew_after_departure) = (true, false);
        Self { jobs: 4, crypto, blocks_per_key: None, renew_after_expulsion, renew_after_departure, peers: PEERS }
    }
}

impl fmt::Display for StepsWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STEPS} steps wait to be taken: take them before the next message")
    }
}

impl core::error::Error for StepsWaiting {}
