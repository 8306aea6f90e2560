//! The ids of parameters.

use core::fmt;

/// The kind of a parameter (RTPS 2.5 §9.6.3, §9.6.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterId(pub u16);

macro_rules! parameter_ids {
    ($($name:ident = $id:literal, $doc:literal;)*) => {
        impl ParameterId {
            $(#[doc = $doc] pub const $name: Self = Self($id);)*

            /// The name in the standard, where it has one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.without_must_understand() {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

parameter_ids! {
    PAD = 0x0000, "Nothing.";
    SENTINEL = 0x0001, "End of the list.";
    PARTICIPANT_LEASE_DURATION = 0x0002, "Duration of silence after which a participant is lost.";
    TIME_BASED_FILTER = 0x0004, "Duration: shortest time between two samples.";
    TOPIC_NAME = 0x0005, "String.";
    OWNERSHIP_STRENGTH = 0x0006, "Signed 32-bit number.";
    TYPE_NAME = 0x0007, "String.";
    DOMAIN_ID = 0x000f, "Unsigned 32-bit number.";
    PROTOCOL_VERSION = 0x0015, "Major and minor version, one byte each.";
    VENDORID = 0x0016, "Vendor id, two bytes.";
    RELIABILITY = 0x001a, "Kind and max blocking time.";
    LIVELINESS = 0x001b, "Kind and lease duration.";
    DURABILITY = 0x001d, "Kind.";
    DURABILITY_SERVICE = 0x001e, "Cleanup delay, history, resource limits.";
    OWNERSHIP = 0x001f, "Kind.";
    PRESENTATION = 0x0021, "Access scope, coherent, ordered.";
    DEADLINE = 0x0023, "Period.";
    DESTINATION_ORDER = 0x0025, "Kind.";
    LATENCY_BUDGET = 0x0027, "Duration.";
    PARTITION = 0x0029, "Sequence of strings.";
    LIFESPAN = 0x002b, "Duration.";
    USER_DATA = 0x002c, "Sequence of bytes.";
    GROUP_DATA = 0x002d, "Sequence of bytes.";
    TOPIC_DATA = 0x002e, "Sequence of bytes.";
    UNICAST_LOCATOR = 0x002f, "Locator of an endpoint; repeated.";
    MULTICAST_LOCATOR = 0x0030, "Locator of an endpoint; repeated.";
    DEFAULT_UNICAST_LOCATOR = 0x0031, "Locator of all endpoints of a participant; repeated.";
    METATRAFFIC_UNICAST_LOCATOR = 0x0032, "Locator of the built-in endpoints; repeated.";
    METATRAFFIC_MULTICAST_LOCATOR = 0x0033, "Locator of the built-in endpoints; repeated.";
    PARTICIPANT_MANUAL_LIVELINESS_COUNT = 0x0034, "Signed 32-bit number.";
    CONTENT_FILTER_PROPERTY = 0x0035, "Names, class, expression and parameters of a content filter.";
    HISTORY = 0x0040, "Kind and depth.";
    RESOURCE_LIMITS = 0x0041, "Three signed 32-bit numbers.";
    EXPECTS_INLINE_QOS = 0x0043, "Boolean.";
    BUILTIN_ENDPOINT_SET_1X = 0x0044, "The built-in endpoints, in the form of RTPS 1.x.";
    DEFAULT_MULTICAST_LOCATOR = 0x0048, "Locator of all endpoints of a participant; repeated.";
    TRANSPORT_PRIORITY = 0x0049, "Signed 32-bit number.";
    PARTICIPANT_GUID = 0x0050, "GUID.";
    GROUP_GUID = 0x0052, "GUID of the publisher or subscriber.";
    GROUP_ENTITYID = 0x0053, "Entity id of the publisher or subscriber.";
    CONTENT_FILTER_INFO = 0x0055, "The filters that a sample has passed.";
    COHERENT_SET = 0x0056, "Sequence number of the first sample of the set.";
    DIRECTED_WRITE = 0x0057, "GUID of the receiving reader; repeated.";
    BUILTIN_ENDPOINT_SET = 0x0058, "Bits: the built-in endpoints that exist.";
    PROPERTY_LIST = 0x0059, "Names with values.";
    ENDPOINT_GUID = 0x005a, "GUID.";
    TYPE_MAX_SIZE_SERIALIZED = 0x0060, "Unsigned 32-bit number.";
    ORIGINAL_WRITER_INFO = 0x0061, "GUID, sequence number and QoS of the writer whose sample is relayed.";
    ENTITY_NAME = 0x0062, "String.";
    GROUP_COHERENT_SET = 0x0063, "Group sequence number of the first sample of the set.";
    GROUP_SEQ_NUM = 0x0064, "Group sequence number of the sample.";
    WRITER_GROUP_INFO = 0x0065, "Digest of the writers of the publisher.";
    SECURE_WRITER_GROUP_INFO = 0x0066, "Digest of the secured writers of the publisher.";
    TYPE_ID_V1 = 0x0069, "Type identifier of XTypes 1.1.";
    KEY_HASH = 0x0070, "16 bytes.";
    STATUS_INFO = 0x0071, "Bits: disposed, unregistered, filtered.";
    TYPE_OBJECT_V1 = 0x0072, "Type object of XTypes 1.1.";
    DATA_REPRESENTATION = 0x0073, "Sequence of 16-bit ids.";
    TYPE_CONSISTENCY = 0x0074, "Kind and five booleans.";
    TYPE_INFORMATION = 0x0075, "Type identifiers with dependencies, encoded as XCDR2.";
    BUILTIN_ENDPOINT_QOS = 0x0077, "Bits: QoS of built-in endpoints that differs.";
    SERVICE_INSTANCE_NAME = 0x0080, "String.";
    RELATED_ENTITY_GUID = 0x0081, "GUID.";
    TOPIC_ALIASES = 0x0082, "Sequence of strings.";
    RELATED_SAMPLE_IDENTITY = 0x0083, "GUID and sequence number of the sample that this one replies to.";
    IDENTITY_TOKEN = 0x1001, "Identity of the participant.";
    PERMISSIONS_TOKEN = 0x1002, "Permissions of the participant.";
    DATA_TAGS = 0x1003, "Names with values.";
    ENDPOINT_SECURITY_INFO = 0x1004, "Two bit masks.";
    PARTICIPANT_SECURITY_INFO = 0x1005, "Two bit masks.";
    IDENTITY_STATUS_TOKEN = 0x1006, "Whether the identity is still valid.";
    AVAILABLE_BUILTIN_ENDPOINTS_EXT = 0x1007, "Bits: more built-in endpoints.";
    PARTICIPANT_DIGITAL_SIGNATURE_ALGORITHMS = 0x1010, "Bit masks.";
    PARTICIPANT_KEY_ESTABLISHMENT_ALGORITHMS = 0x1011, "Bit masks.";
    PARTICIPANT_SYMMETRIC_CIPHER_ALGORITHMS = 0x1012, "Bit masks.";
    ENDPOINT_SYMMETRIC_CIPHER_ALGORITHMS = 0x1013, "Bit mask.";
    EXTENDED = 0x3f01, "Id and length of 32 bits each, then the value (XTypes 1.3 §7.4.1.2.4).";
    LIST_END = 0x3f02, "End of the list (XTypes 1.3 §7.4.1.2.4).";
    IGNORE = 0x3f03, "Nothing (XTypes 1.3 §7.4.1.2.4).";
    DOMAIN_TAG = 0x4014, "String.";
    PEREGRINE_SHARED_MEMORY = 0x8501, "Of this vendor: where processes of the same host hand samples over.";
    PEREGRINE_IGNORE_LOCAL = 0x8502, "Of this vendor: which endpoints near it an endpoint does not match.";
    PEREGRINE_ENDPOINTS = 0x8503, "Of this vendor: a summary of all writers, and one of all readers.";
}

impl ParameterId {
    pub(super) const MUST_UNDERSTAND: u16 = 0x4000;
    const VENDOR: u16 = 0x8000;

    /// Whether a receiver that does not know the parameter must ignore the whole list and its subject (RTPS 2.5
    /// §9.4.2.11.2).
    #[must_use]
    pub const fn must_understand(self) -> bool {
        self.0 & Self::MUST_UNDERSTAND != 0
    }

    /// Whether the meaning depends on the vendor of the sender (RTPS 2.5 §9.4.2.11.2).
    #[must_use]
    pub const fn is_vendor(self) -> bool {
        self.0 & Self::VENDOR != 0
    }

    /// The id for comparison with the constants of this type. The flag is not part of an id, except for the one
    /// parameter that always has it.
    #[must_use]
    pub const fn without_must_understand(self) -> Self {
        if self.0 == Self::DOMAIN_TAG.0 { self } else { Self(self.0 & !Self::MUST_UNDERSTAND) }
    }
}

impl fmt::Display for ParameterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "parameter {:#06x}", self.0),
        }
    }
}

impl fmt::Debug for ParameterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn flags_are_not_part_of_id() {
        assert!(ParameterId(0x4005).must_understand());
        assert_eq!(ParameterId(0x4005).without_must_understand(), ParameterId::TOPIC_NAME);
        assert!(ParameterId::DOMAIN_TAG.must_understand());
        assert_ne!(ParameterId(0x0014), ParameterId::DOMAIN_TAG.without_must_understand());
        assert!(ParameterId(0xc006).is_vendor() && ParameterId(0xc006).must_understand());
        assert!(!ParameterId::KEY_HASH.is_vendor());
        assert_eq!(ParameterId::KEY_HASH.to_string(), "KEY_HASH");
        assert_eq!(ParameterId(0x8007).to_string(), "parameter 0x8007");
    }
}
