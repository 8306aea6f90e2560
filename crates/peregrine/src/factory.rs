//! The factory of participants (DDS 1.4 §2.2.2.2.2).

use peregrine_rtps::qos::{EntityFactory, ParticipantQos};

use crate::entity::{self, DomainParticipant, ParticipantBuilder};
use crate::error::Error;

/// What this process keeps of all its participants: the default policies, and which participants exist.
#[derive(Clone, Copy, Debug)]
pub struct DomainParticipantFactory;

impl DomainParticipantFactory {
    /// A participant to be described further (`create_participant`): the same as [`DomainParticipant::builder`].
    #[must_use]
    pub fn builder(domain: u32) -> ParticipantBuilder {
        DomainParticipant::builder(domain)
    }

    /// A participant of this process in this domain, if there is one. Of several, the oldest.
    #[must_use]
    pub fn lookup_participant(domain: u32) -> Option<DomainParticipant> {
        entity::lookup(domain)
    }

    /// Its policies: whether participants are enabled from the start.
    #[must_use]
    pub fn qos() -> EntityFactory {
        EntityFactory { autoenable_created_entities: entity::autoenables() }
    }

    /// Changes its policies for participants that are built from now on (DDS 1.4 §2.2.2.2.2.6). The default is that
    /// participants are enabled from the start; else [`DomainParticipant::enable`] lets them join their domain.
    pub fn set_qos(qos: EntityFactory) {
        entity::set_autoenables(qos.autoenable_created_entities);
    }

    /// The policies of participants whose builder is not given any.
    #[must_use]
    pub fn default_participant_qos() -> ParticipantQos {
        entity::default_qos()
    }

    /// Changes the policies of participants that are built from now on and whose builder is not given any.
    ///
    /// # Errors
    /// [`Error::BadParameter`] for what is too long to be announced.
    pub fn set_default_participant_qos(qos: ParticipantQos) -> Result<(), Error> {
        entity::set_default_qos(qos)
    }
}
