//! The policies of the factory. They hold for the whole process, so this program has no other test.

mod common;

use common::{PATIENCE, config};
use peregrine::qos::EntityFactory;
use peregrine::{DomainParticipant, DomainParticipantFactory, Error};

#[test]
fn factory_policy_decides_whether_participants_are_enabled() {
    assert!(DomainParticipantFactory::qos().autoenable_created_entities);
    DomainParticipantFactory::set_qos(EntityFactory { autoenable_created_entities: false });
    let created = DomainParticipant::builder(73).config(config()).build().unwrap();
    DomainParticipantFactory::set_qos(EntityFactory { autoenable_created_entities: true });
    assert!(!created.is_enabled());
    created.close(PATIENCE).unwrap();
    assert!(matches!(created.enable(), Err(Error::AlreadyDeleted)));
}
