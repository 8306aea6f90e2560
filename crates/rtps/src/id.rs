//! Identifiers: GUIDs, entity ids and the ids the standard reserves (RTPS 2.5 §8.2.4, §9.3.1).

use core::fmt;

use crate::vendor::VendorId;

/// Names one participant: the first 12 bytes of every GUID in it (RTPS 2.5 §8.2.4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GuidPrefix(pub [u8; 12]);

impl GuidPrefix {
    /// All zero: no participant in a GUID, all participants in INFO_DST.
    pub const UNKNOWN: Self = Self([0; 12]);

    /// A prefix of this implementation: the vendor id, then ten bytes that the caller chooses (RTPS 2.5 §9.3.1.5).
    #[must_use]
    pub const fn new(vendor: VendorId, unique: [u8; 10]) -> Self {
        let [v0, v1] = vendor.0;
        let [a, b, c, d, e, f, g, h, i, j] = unique;
        Self([v0, v1, a, b, c, d, e, f, g, h, i, j])
    }

    /// Whether the prefix begins with this vendor id (RTPS 2.5 §9.3.1.5). All assigned ids begin with 1. A prefix that
    /// begins otherwise names no vendor: with DDS Security its first bit is set, and a hash follows.
    pub(crate) const fn names_vendor(self, vendor: VendorId) -> bool {
        let ([a, b, ..], [v0, v1]) = (self.0, vendor.0);
        a == 1 && a == v0 && b == v1
    }
}

/// The kind of an entity, from the last byte of its id (RTPS 2.5 §9.3.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EntityKind {
    /// Not stated.
    Unknown,
    /// A participant.
    Participant,
    /// A writer of a topic with keys.
    WriterWithKey,
    /// A writer of a topic without keys.
    WriterNoKey,
    /// A reader of a topic without keys.
    ReaderNoKey,
    /// A reader of a topic with keys.
    ReaderWithKey,
    /// A publisher.
    WriterGroup,
    /// A subscriber.
    ReaderGroup,
    /// Vendor specific or reserved.
    Other,
}

/// Names one entity within a participant (RTPS 2.5 §8.2.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityId(pub [u8; 4]);

impl EntityId {
    /// Unknown; in a submessage "every matched endpoint".
    pub const UNKNOWN: Self = Self([0; 4]);
    /// The participant itself.
    pub const PARTICIPANT: Self = Self([0x00, 0x00, 0x01, 0xc1]);
    /// SPDP announcer.
    pub const SPDP_WRITER: Self = Self([0x00, 0x01, 0x00, 0xc2]);
    /// SPDP detector.
    pub const SPDP_READER: Self = Self([0x00, 0x01, 0x00, 0xc7]);
    /// SEDP publications announcer.
    pub const SEDP_PUBLICATIONS_WRITER: Self = Self([0x00, 0x00, 0x03, 0xc2]);
    /// SEDP publications detector.
    pub const SEDP_PUBLICATIONS_READER: Self = Self([0x00, 0x00, 0x03, 0xc7]);
    /// SEDP subscriptions announcer.
    pub const SEDP_SUBSCRIPTIONS_WRITER: Self = Self([0x00, 0x00, 0x04, 0xc2]);
    /// SEDP subscriptions detector.
    pub const SEDP_SUBSCRIPTIONS_READER: Self = Self([0x00, 0x00, 0x04, 0xc7]);
    /// Participant message (writer liveliness protocol) writer.
    pub const PARTICIPANT_MESSAGE_WRITER: Self = Self([0x00, 0x02, 0x00, 0xc2]);
    /// Participant message (writer liveliness protocol) reader.
    pub const PARTICIPANT_MESSAGE_READER: Self = Self([0x00, 0x02, 0x00, 0xc7]);

    /// Secure SPDP announcer (DDS Security 1.2 §7.5.9).
    pub const SPDP_SECURE_WRITER: Self = Self([0xff, 0x01, 0x01, 0xc2]);
    /// Secure SPDP detector (DDS Security 1.2 §7.5.9).
    pub const SPDP_SECURE_READER: Self = Self([0xff, 0x01, 0x01, 0xc7]);
    /// Secure SEDP publications announcer (DDS Security 1.2 §7.5.9).
    pub const SEDP_PUBLICATIONS_SECURE_WRITER: Self = Self([0xff, 0x00, 0x03, 0xc2]);
    /// Secure SEDP publications detector (DDS Security 1.2 §7.5.9).
    pub const SEDP_PUBLICATIONS_SECURE_READER: Self = Self([0xff, 0x00, 0x03, 0xc7]);
    /// Secure SEDP subscriptions announcer (DDS Security 1.2 §7.5.9).
    pub const SEDP_SUBSCRIPTIONS_SECURE_WRITER: Self = Self([0xff, 0x00, 0x04, 0xc2]);
    /// Secure SEDP subscriptions detector (DDS Security 1.2 §7.5.9).
    pub const SEDP_SUBSCRIPTIONS_SECURE_READER: Self = Self([0xff, 0x00, 0x04, 0xc7]);
    /// Secure participant message writer (DDS Security 1.2 §7.5.9).
    pub const PARTICIPANT_MESSAGE_SECURE_WRITER: Self = Self([0xff, 0x02, 0x00, 0xc2]);
    /// Secure participant message reader (DDS Security 1.2 §7.5.9).
    pub const PARTICIPANT_MESSAGE_SECURE_READER: Self = Self([0xff, 0x02, 0x00, 0xc7]);
    /// Participant stateless message writer (DDS Security 1.2 §7.5.3).
    pub const STATELESS_MESSAGE_WRITER: Self = Self([0x00, 0x02, 0x01, 0xc3]);
    /// Participant stateless message reader (DDS Security 1.2 §7.5.3).
    pub const STATELESS_MESSAGE_READER: Self = Self([0x00, 0x02, 0x01, 0xc4]);
    /// Participant volatile message secure writer (DDS Security 1.2 §7.5.4).
    pub const VOLATILE_SECURE_WRITER: Self = Self([0xff, 0x02, 0x02, 0xc3]);
    /// Participant volatile message secure reader (DDS Security 1.2 §7.5.4).
    pub const VOLATILE_SECURE_READER: Self = Self([0xff, 0x02, 0x02, 0xc4]);

    /// A user writer with the given 24-bit key.
    #[must_use]
    pub const fn user_writer(key: u32, with_key: bool) -> Self {
        let [_, a, b, c] = key.to_be_bytes();
        Self([a, b, c, if with_key { 0x02 } else { 0x03 }])
    }

    /// A user reader with the given 24-bit key.
    #[must_use]
    pub const fn user_reader(key: u32, with_key: bool) -> Self {
        let [_, a, b, c] = key.to_be_bytes();
        Self([a, b, c, if with_key { 0x07 } else { 0x04 }])
    }

    /// The kind of this entity, whether user defined or built in.
    #[must_use]
    pub const fn kind(self) -> EntityKind {
        let [_, _, _, kind] = self.0;
        if kind & 0xc0 == 0x40 || kind & 0xc0 == 0x80 {
            return EntityKind::Other;
        }
        match kind & 0x3f {
            0x00 => EntityKind::Unknown,
            0x01 => EntityKind::Participant,
            0x02 => EntityKind::WriterWithKey,
            0x03 => EntityKind::WriterNoKey,
            0x04 => EntityKind::ReaderNoKey,
            0x07 => EntityKind::ReaderWithKey,
            0x08 => EntityKind::WriterGroup,
            0x09 => EntityKind::ReaderGroup,
            _ => EntityKind::Other,
        }
    }

    /// Whether this id belongs to a built-in entity.
    #[must_use]
    pub const fn is_builtin(self) -> bool {
        let [_, _, _, kind] = self.0;
        kind & 0xc0 == 0xc0
    }

    /// Whether this is a writer's id.
    #[must_use]
    pub const fn is_writer(self) -> bool {
        matches!(self.kind(), EntityKind::WriterWithKey | EntityKind::WriterNoKey)
    }

    /// Whether this is a reader's id.
    #[must_use]
    pub const fn is_reader(self) -> bool {
        matches!(self.kind(), EntityKind::ReaderWithKey | EntityKind::ReaderNoKey)
    }

    /// Whether this endpoint belongs to a topic with keys.
    #[must_use]
    pub const fn has_key(self) -> bool {
        matches!(self.kind(), EntityKind::WriterWithKey | EntityKind::ReaderWithKey)
    }
}

/// Names one entity in the whole domain (RTPS 2.5 §8.2.4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid {
    /// The participant.
    pub prefix: GuidPrefix,
    /// The entity within it.
    pub entity: EntityId,
}

impl Guid {
    /// All zero.
    pub const UNKNOWN: Self = Self { prefix: GuidPrefix::UNKNOWN, entity: EntityId::UNKNOWN };

    /// A GUID from its two parts.
    #[must_use]
    pub const fn new(prefix: GuidPrefix, entity: EntityId) -> Self {
        Self { prefix, entity }
    }

    /// The 16 bytes in the order of the wire.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.prefix.0;
        let [m, n, o, p] = self.entity.0;
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    /// A GUID from its 16 bytes on the wire.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Self { prefix: GuidPrefix([a, b, c, d, e, f, g, h, i, j, k, l]), entity: EntityId([m, n, o, p]) }
    }
}

/// The domain a participant joins. 0 to 232 with the standard port mapping (RTPS 2.5 §9.6.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct DomainId(pub u32);

/// The 16-byte hash that stands for an instance's key (RTPS 2.5 §9.6.4.8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyHash(pub [u8; 16]);

impl KeyHash {
    /// The hash of the only instance of a topic without keys.
    pub const NIL: Self = Self([0; 16]);
}

fn hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
}

macro_rules! hex_format {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                hex(f, &self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
hex_format!(GuidPrefix, EntityId, KeyHash);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.prefix, self.entity)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn prefix_of_a_secured_participant_names_no_vendor() {
        assert!(GuidPrefix::new(VendorId::PEREGRINE, [7; 10]).names_vendor(VendorId::PEREGRINE));
        assert!(!GuidPrefix::new(VendorId::PEREGRINE, [7; 10]).names_vendor(VendorId([1, 2])));
        for [first, second] in [[0x9a, 0x3c], [0x44, 0x53], [0xc0, 0xa8]] {
            assert!(!GuidPrefix([first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).names_vendor(VendorId([first, second])));
        }
    }

    #[test]
    fn predefined_ids_have_standard_kinds() {
        assert_eq!(EntityId::PARTICIPANT.kind(), EntityKind::Participant);
        assert_eq!(EntityId::SPDP_WRITER.kind(), EntityKind::WriterWithKey);
        assert_eq!(EntityId::SPDP_READER.kind(), EntityKind::ReaderWithKey);
        assert!(EntityId::SEDP_PUBLICATIONS_WRITER.is_builtin());
        assert!(!EntityId::user_writer(1, true).is_builtin());
        assert_eq!(EntityId([0, 0, 1, 0x82]).kind(), EntityKind::Other);
        assert_eq!(EntityId([0, 0, 1, 0x42]).kind(), EntityKind::Other);
    }

    #[test]
    fn secure_builtin_ids_have_the_bytes_of_the_standard() {
        let ids = [
            (EntityId::SPDP_SECURE_WRITER, EntityId::SPDP_SECURE_READER, "ff0101c2 ff0101c7", true),
            (
                EntityId::SEDP_PUBLICATIONS_SECURE_WRITER,
                EntityId::SEDP_PUBLICATIONS_SECURE_READER,
                "ff0003c2 ff0003c7",
                true,
            ),
            (
                EntityId::SEDP_SUBSCRIPTIONS_SECURE_WRITER,
                EntityId::SEDP_SUBSCRIPTIONS_SECURE_READER,
                "ff0004c2 ff0004c7",
                true,
            ),
            (
                EntityId::PARTICIPANT_MESSAGE_SECURE_WRITER,
                EntityId::PARTICIPANT_MESSAGE_SECURE_READER,
                "ff0200c2 ff0200c7",
                true,
            ),
            (EntityId::STATELESS_MESSAGE_WRITER, EntityId::STATELESS_MESSAGE_READER, "000201c3 000201c4", false),
            (EntityId::VOLATILE_SECURE_WRITER, EntityId::VOLATILE_SECURE_READER, "ff0202c3 ff0202c4", false),
        ];
        for (writer, reader, text, has_key) in ids {
            assert_eq!(std::format!("{writer} {reader}"), text);
            assert!(writer.is_builtin() && reader.is_builtin() && writer.is_writer() && reader.is_reader());
            assert_eq!((writer.has_key(), reader.has_key()), (has_key, has_key));
        }
    }

    #[test]
    fn user_id_encodes_presence_of_keys() {
        assert_eq!(EntityId::user_writer(0x0001_0203, true).0, [1, 2, 3, 2]);
        assert_eq!(EntityId::user_writer(1, false).0, [0, 0, 1, 3]);
        assert_eq!(EntityId::user_reader(1, true).0, [0, 0, 1, 7]);
        assert_eq!(EntityId::user_reader(1, false).0, [0, 0, 1, 4]);
    }

    #[test]
    fn guid_round_trips_and_has_readable_form() {
        let bytes: [u8; 16] = core::array::from_fn(|i| u8::try_from(i).unwrap());
        let guid = Guid::from_bytes(bytes);
        assert_eq!(guid.to_bytes(), bytes);
        assert_eq!(guid.to_string(), "000102030405060708090a0b.0c0d0e0f");
    }

    #[test]
    fn own_prefix_begins_with_vendor_id() {
        let prefix = GuidPrefix::new(VendorId::PEREGRINE, [9; 10]);
        assert_eq!(prefix.0[..2], VendorId::PEREGRINE.0);
    }
}
