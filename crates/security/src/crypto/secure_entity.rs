//! Entity ids of the built-in endpoints of DDS Security (DDS Security 1.2 §7.5.9).

use peregrine_rtps::id::EntityId;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};

/// Announces this participant to authenticated ones.
pub const PARTICIPANT_WRITER: EntityId = EntityId([0xff, 0x01, 0x01, 0xc2]);
/// Hears of authenticated participants.
pub const PARTICIPANT_READER: EntityId = EntityId([0xff, 0x01, 0x01, 0xc7]);
/// Announces writers of topics whose discovery is protected.
pub const PUBLICATIONS_WRITER: EntityId = EntityId([0xff, 0x00, 0x03, 0xc2]);
/// Hears of writers of topics whose discovery is protected.
pub const PUBLICATIONS_READER: EntityId = EntityId([0xff, 0x00, 0x03, 0xc7]);
/// Announces readers of topics whose discovery is protected.
pub const SUBSCRIPTIONS_WRITER: EntityId = EntityId([0xff, 0x00, 0x04, 0xc2]);
/// Hears of readers of topics whose discovery is protected.
pub const SUBSCRIPTIONS_READER: EntityId = EntityId([0xff, 0x00, 0x04, 0xc7]);
/// Asserts the liveliness of writers whose liveliness is protected.
pub const MESSAGE_WRITER: EntityId = EntityId([0xff, 0x02, 0x00, 0xc2]);
/// Hears of the liveliness of writers whose liveliness is protected.
pub const MESSAGE_READER: EntityId = EntityId([0xff, 0x02, 0x00, 0xc7]);
/// Sends messages of the handshake. Never protected.
pub const STATELESS_WRITER: EntityId = EntityId([0x00, 0x02, 0x01, 0xc3]);
/// Receives messages of the handshake. Never protected.
pub const STATELESS_READER: EntityId = EntityId([0x00, 0x02, 0x01, 0xc4]);
/// Sends keys, protected with the exchange key of each pair of participants.
pub const VOLATILE_WRITER: EntityId = EntityId([0xff, 0x02, 0x02, 0xc3]);
/// Receives keys, protected with the exchange key of each pair of participants.
pub const VOLATILE_READER: EntityId = EntityId([0xff, 0x02, 0x02, 0xc4]);

/// Whether an endpoint exchanges messages with participants that are not authenticated, so that its messages are never
/// protected as a whole.
#[must_use]
pub const fn precedes_authentication(entity: EntityId) -> bool {
    matches!(entity, EntityId::SPDP_WRITER | EntityId::SPDP_READER | STATELESS_WRITER | STATELESS_READER)
}

/// Whether an endpoint belongs to the channel on which keys are exchanged: it seals with the exchange key of one peer.
#[must_use]
pub const fn is_key_channel(entity: EntityId) -> bool {
    matches!(entity, VOLATILE_WRITER | VOLATILE_READER)
}

/// The protection of an endpoint that a session does not register with its cryptography, in a participant that protects
/// messages in this way. Of an endpoint of the user this is encryption: without a key, nothing leaves it.
#[must_use]
pub const fn unregistered_levels(entity: EntityId, message: ProtectionKind) -> ProtectionLevels {
    let (none, encrypt) = (ProtectionKind::None, ProtectionKind::Encrypt);
    if precedes_authentication(entity) {
        ProtectionLevels { message: none, submessage: none, payload: none }
    } else if is_key_channel(entity) {
        ProtectionLevels { message: none, submessage: encrypt, payload: none }
    } else if entity.is_builtin() {
        ProtectionLevels { message, submessage: none, payload: none }
    } else {
        ProtectionLevels { message, submessage: encrypt, payload: encrypt }
    }
}
