//! Key material may consist of any bytes: nothing panics, and what parses has these bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::ProtectionKind;
use peregrine_security::crypto::{CryptoConfig, KeyFactory, KeyMaterial};

const READER: EntityId = EntityId([0, 0, 3, 4]);
const WRITER: EntityId = EntityId([0, 0, 2, 3]);

fuzz_target!(|octets: &[u8]| {
    let Ok(material) = KeyMaterial::parse(octets) else { return };
    assert_eq!(material.to_bytes().expose(), octets);
    let mut keys = KeyFactory::new(ProtectionKind::Sign, CryptoConfig::default(), &mut |out| out.fill(7));
    keys.register_endpoint(READER, ProtectionKind::Encrypt, ProtectionKind::Encrypt, &mut |out| out.fill(8));
    let prefix = GuidPrefix([1; 12]);
    let participant = Guid::new(prefix, EntityId::PARTICIPANT);
    let _ = keys.set_remote_keys(EntityId::PARTICIPANT, participant, core::slice::from_ref(&material));
    let _ = keys.set_remote_keys(READER, Guid::new(prefix, WRITER), &[material.clone(), material]);
    keys.forget_participant(prefix);
});
