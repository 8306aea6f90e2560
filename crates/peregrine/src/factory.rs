//! The factory of participants (DDS 1.4 §2.2.2.2.2).

use peregrine_rtps::qos::{EntityFactory, ParticipantQos};

use crate::entity::{self, DomainParticipant, ParticipantBuilder};
use crate::error::Error;

/// The state that all participants of this process share: the default policies and the list of participants.
#[derive(Clone, Copy, Debug)]
pub struct DomainParticipantFactory;

impl DomainParticipantFactory {
    /// Starts the description of a participant (`create_participant`); the same as [`DomainParticipant::builder`].
    #[must_use]
    pub fn builder(domain: u32) -> ParticipantBuilder {
        DomainParticipant::builder(domain)
    }

    /// The oldest participant of this process in this domain; `None` if there is none.
    #[must_use]
    pub fn lookup_participant(domain: u32) -> Option<DomainParticipant> {
        entity::lookup(domain)
    }

    /// The policies of the factory: whether participants are created enabled.
    #[must_use]
    pub fn qos() -> EntityFactory {
        EntityFactory { autoenable_created_entities: entity::autoenables() }
    }

    /// Changes the policies for participants that are built from now on (DDS 1.4 §2.2.2.2.2.6). By default participants
    /// are created enabled; otherwise [`DomainParticipant::enable`] makes them join their domain.
    pub fn set_qos(qos: EntityFactory) {
        entity::set_autoenables(qos.autoenable_created_entities);
    }

    /// The policies of participants whose builder sets none.
    #[must_use]
    pub fn default_participant_qos() -> ParticipantQos {
        entity::default_qos()
    }

    /// Changes the policies of participants that are built from now on and whose builder sets none.
    ///
    /// # Errors
    /// [`Error::BadParameter`] for policies that are too long to be announced.
    pub fn set_default_participant_qos(qos: ParticipantQos) -> Result<(), Error> {
        entity::set_default_qos(qos)
    }
}
