//! The set of built-in endpoints of a participant.

use core::fmt;

macro_rules! bits {
    ($(#[$doc:meta])* $name:ident { $($bit:ident = $number:literal, $bit_doc:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The empty set.
            pub const NONE: Self = Self(0);
            $(#[doc = $bit_doc] pub const $bit: Self = Self(1 << $number);)*

            /// Whether all of `other` are in the set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The members that both sets have.
            #[must_use]
            pub const fn and(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// The members of both sets.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#010x}", self.0)
            }
        }
    };
}

bits! {
    /// Bits: the built-in endpoints that exist (RTPS 2.5 §9.3.2.12, DDS Security 1.1 §7.4.1.4).
    BuiltinEndpointSet {
        PARTICIPANT_ANNOUNCER = 0, "SPDP writer.";
        PARTICIPANT_DETECTOR = 1, "SPDP reader.";
        PUBLICATIONS_ANNOUNCER = 2, "SEDP publications writer.";
        PUBLICATIONS_DETECTOR = 3, "SEDP publications reader.";
        SUBSCRIPTIONS_ANNOUNCER = 4, "SEDP subscriptions writer.";
        SUBSCRIPTIONS_DETECTOR = 5, "SEDP subscriptions reader.";
        PARTICIPANT_MESSAGE_WRITER = 10, "Participant message writer.";
        PARTICIPANT_MESSAGE_READER = 11, "Participant message reader.";
        TYPE_LOOKUP_REQUEST_WRITER = 12, "Type lookup request writer.";
        TYPE_LOOKUP_REQUEST_READER = 13, "Type lookup request reader.";
        TYPE_LOOKUP_REPLY_WRITER = 14, "Type lookup reply writer.";
        TYPE_LOOKUP_REPLY_READER = 15, "Type lookup reply reader.";
        PUBLICATIONS_SECURE_WRITER = 16, "Secure SEDP publications writer.";
        PUBLICATIONS_SECURE_READER = 17, "Secure SEDP publications reader.";
        SUBSCRIPTIONS_SECURE_WRITER = 18, "Secure SEDP subscriptions writer.";
        SUBSCRIPTIONS_SECURE_READER = 19, "Secure SEDP subscriptions reader.";
        PARTICIPANT_MESSAGE_SECURE_WRITER = 20, "Secure participant message writer.";
        PARTICIPANT_MESSAGE_SECURE_READER = 21, "Secure participant message reader.";
        STATELESS_MESSAGE_WRITER = 22, "Stateless message writer.";
        STATELESS_MESSAGE_READER = 23, "Stateless message reader.";
        VOLATILE_SECURE_WRITER = 24, "Volatile secure message writer.";
        VOLATILE_SECURE_READER = 25, "Volatile secure message reader.";
        PARTICIPANT_SECURE_WRITER = 26, "Secure SPDP writer.";
        PARTICIPANT_SECURE_READER = 27, "Secure SPDP reader.";
        TOPICS_ANNOUNCER = 28, "SEDP topics writer.";
        TOPICS_DETECTOR = 29, "SEDP topics reader.";
    }
}

bits! {
    /// Bits: built-in endpoints with other than the default QoS (RTPS 2.5 §8.5.3.2).
    BuiltinEndpointQos {
        BEST_EFFORT_PARTICIPANT_MESSAGE_READER = 0, "The participant message reader is best effort: no ACKNACK.";
    }
}

impl BuiltinEndpointSet {
    /// Participants, publications, subscriptions and liveliness, readers and writers.
    pub const DISCOVERY_AND_LIVELINESS: Self = Self(0x0000_0c3f);
    /// The channels for the handshake and for keys, readers and writers (DDS Security 1.2 §7.5.3, §7.5.4).
    pub const SECURE_CHANNELS: Self = Self(0x03c0_0000);
    /// The endpoints that DDS Security adds, readers and writers (DDS Security 1.2 §7.5.1).
    pub const SECURITY: Self = Self(0x0fff_0000);
}
