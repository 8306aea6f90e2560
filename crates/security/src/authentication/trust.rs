//! Authorities that are trusted, and the check of discovery data.

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterList};

use crate::documents::AllowedAlgorithms;
use crate::identity::{Certificate, ChainError, TrustAnchors};
use crate::wall_time::WallTime;

/// Authorities whose certificates and documents are accepted.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Authorities of certificates, and their revocations.
    pub identities: TrustAnchors,
    /// Authorities of permissions documents. `None` if permissions are not required; a document is not read then.
    pub permissions: Option<Vec<Certificate>>,
    /// The algorithms that the governance permits; `None` for all.
    pub algorithms: Option<AllowedAlgorithms>,
}

impl Trust {
    /// Verifies the chain of a certificate, by signatures that the governance permits: `leaf` and the certificates that
    /// the peer sent with it, up to an authority that is trusted. Returns the last second at which all of them are
    /// valid. Takes some milliseconds: a job calls it.
    ///
    /// # Errors
    /// The chain is not accepted, or the governance does not permit one of its algorithms.
    pub fn verify_chain(
        &self,
        leaf: &Certificate,
        sent: &[Certificate],
        now: WallTime,
    ) -> Result<WallTime, ChainError> {
        match &self.algorithms {
            Some(algorithms) => algorithms.verify_chain(&self.identities, leaf, sent, now),
            None => self.identities.verify(leaf, sent, now),
        }
    }
}

/// Whether discovery data, big endian, is that of this participant.
pub(crate) fn states_guid(participant_data: &[u8], prefix: GuidPrefix) -> bool {
    let Ok(list) = ParameterList::parse_to_end(participant_data, Endianness::Big) else { return false };
    let expected = Guid::new(prefix, EntityId::PARTICIPANT).to_bytes();
    let mut guids = list.iter().filter(|(id, _)| *id == ParameterId::PARTICIPANT_GUID);
    // A second one could be meant for another reader than this one.
    guids.next().is_some_and(|(_, value)| value == expected) && guids.next().is_none()
}
