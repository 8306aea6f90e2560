//! Configuration of a participant.

use alloc::string::String;
use alloc::sync::Arc;

use super::addresses::Addresses;
use crate::discovery::data::SharedMemoryAddress;
use crate::id::{DomainId, GuidPrefix};
use crate::protection::Protection;
use crate::qos::ParticipantQos;
use crate::time::Span;

/// What a participant is and where it can be reached.
#[derive(Clone, Debug)]
pub struct ParticipantConfig {
    /// Its prefix.
    pub prefix: GuidPrefix,
    /// Its domain.
    pub domain: DomainId,
    /// Its domain tag; empty for none.
    pub domain_tag: String,
    /// Its name, for people.
    pub name: String,
    /// Its QoS.
    pub qos: ParticipantQos,
    /// How long others keep it without news.
    pub lease: Span,
    /// How often it announces itself.
    pub announce_period: Span,
    /// Where it can be reached, and how it reaches others.
    pub addresses: Addresses,
    /// Where processes of this host reach it without a network, if they do.
    pub shared_memory: Option<SharedMemoryAddress>,
    /// Whether the participant with this prefix is in the same process.
    pub is_in_process: fn(&GuidPrefix) -> bool,
    /// Randomness that peers cannot predict.
    pub seed: u64,
    /// What protects its messages; `None` without security.
    pub protection: Option<Arc<dyn Protection>>,
}
