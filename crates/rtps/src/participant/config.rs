//! Configuration of a participant.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use super::addresses::Addresses;
use super::gate::Gate;
use crate::discovery::data::{ParticipantSecurityData, SharedMemoryAddress};
use crate::id::{DomainId, GuidPrefix};
use crate::memory_account::PeerAccounts;
use crate::protection::SharedProtection;
use crate::qos::ParticipantQos;
use crate::time::Span;

/// The identity, policies and addresses of a participant.
#[derive(Clone, Debug)]
pub struct ParticipantConfig {
    /// Its prefix.
    pub prefix: GuidPrefix,
    /// Its domain.
    pub domain: DomainId,
    /// Its domain tag; empty for none.
    pub domain_tag: String,
    /// Its name, for display.
    pub name: String,
    /// Its QoS.
    pub qos: ParticipantQos,
    /// Its lease: how long others keep it without an announcement.
    pub lease: Span,
    /// The interval between its announcements.
    pub announce_period: Span,
    /// Its addresses, and its paths to others.
    pub addresses: Addresses,
    /// Its address for shared memory on this host, if it uses shared memory.
    pub shared_memory: Option<SharedMemoryAddress>,
    /// Whether the participant with this prefix is in the same process.
    pub is_in_process: fn(&GuidPrefix) -> bool,
    /// Randomness that peers cannot predict.
    pub seed: u64,
    /// Protects its messages; `None` without security.
    pub protection: Option<SharedProtection>,
    /// Its announcement of its security. With it, the participant has the endpoints that DDS Security adds.
    pub security: Option<Box<ParticipantSecurityData>>,
    /// Decides which others it uses, and how endpoints are protected; `None` uses all others. Set together with
    /// [`Self::security`].
    pub gate: Option<Arc<dyn Gate>>,
    /// The accounts of what remote participants make it hold. Readers of the participant have those of their caches and
    /// incomplete samples in their own configuration.
    pub memory: PeerAccounts,
}

impl ParticipantConfig {
    /// A participant of domain 0 with the default policies, without addresses and without security. `seed`: randomness
    /// that peers cannot predict.
    #[must_use]
    pub fn new(prefix: GuidPrefix, seed: u64) -> Self {
        Self {
            prefix,
            domain: DomainId(0),
            domain_tag: String::new(),
            name: String::new(),
            qos: ParticipantQos::default(),
            lease: Span::from_secs(20),
            announce_period: Span::from_secs(5),
            addresses: Addresses::default(),
            shared_memory: None,
            is_in_process: |_| false,
            seed,
            protection: None,
            security: None,
            gate: None,
            memory: PeerAccounts::default(),
        }
    }
}
