//! The parts of the announcement of a participant, to name those in which two announcements differ.

use core::fmt;

use crate::discovery::data::ParticipantData;

/// A set of parts of the announcement of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AnnouncedParts(u16);

impl AnnouncedParts {
    /// The vendor and the protocol version.
    pub const VENDOR: Self = Self(1);
    /// The lease.
    pub const LEASE: Self = Self(1 << 1);
    /// The built-in endpoints and their QoS.
    pub const ENDPOINTS: Self = Self(1 << 2);
    /// The unicast addresses, and those for connections.
    pub const ADDRESSES: Self = Self(1 << 3);
    /// The multicast groups.
    pub const GROUPS: Self = Self(1 << 4);
    /// The address for shared memory.
    pub const SHARED_MEMORY: Self = Self(1 << 5);
    /// How the participant is protected.
    pub const PROTECTION: Self = Self(1 << 6);
    /// The name, the user data, the properties, the domain, and whether readers request inline QoS.
    pub const OTHERS: Self = Self(1 << 7);

    const NAMES: [(Self, &str); 8] = [
        (Self::VENDOR, "vendor or version"),
        (Self::LEASE, "lease"),
        (Self::ENDPOINTS, "built-in endpoints"),
        (Self::ADDRESSES, "addresses"),
        (Self::GROUPS, "multicast groups"),
        (Self::SHARED_MEMORY, "address for shared memory"),
        (Self::PROTECTION, "protection"),
        (Self::OTHERS, "name, user data or properties"),
    ];

    /// The parts in which two announcements differ.
    pub(super) fn that_differ(one: &ParticipantData, other: &ParticipantData) -> Self {
        let info = |data: &ParticipantData| data.security.as_deref().and_then(|security| security.info);
        let is_equal = [
            (Self::VENDOR, one.vendor == other.vendor && one.version == other.version),
            (Self::LEASE, one.lease_duration == other.lease_duration),
            (
                Self::ENDPOINTS,
                one.builtin_endpoints == other.builtin_endpoints
                    && one.builtin_endpoint_qos == other.builtin_endpoint_qos,
            ),
            (
                Self::ADDRESSES,
                one.metatraffic_unicast == other.metatraffic_unicast
                    && one.default_unicast == other.default_unicast
                    && one.streams == other.streams,
            ),
            (
                Self::GROUPS,
                one.metatraffic_multicast == other.metatraffic_multicast
                    && one.default_multicast == other.default_multicast,
            ),
            (Self::SHARED_MEMORY, one.shared_memory == other.shared_memory),
            (Self::PROTECTION, info(one) == info(other)),
            (
                Self::OTHERS,
                one.name == other.name
                    && one.user_data == other.user_data
                    && one.properties == other.properties
                    && (one.domain, &one.domain_tag) == (other.domain, &other.domain_tag)
                    && one.expects_inline_qos == other.expects_inline_qos,
            ),
        ];
        is_equal.into_iter().filter(|(_, is_equal)| !is_equal).fold(Self(0), |all, (part, _)| all.with(part))
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all these parts are among them.
    #[must_use]
    pub const fn contains(self, parts: Self) -> bool {
        self.0 & parts.0 == parts.0
    }

    /// These parts and others.
    #[must_use]
    pub const fn with(self, parts: Self) -> Self {
        Self(self.0 | parts.0)
    }

    /// These parts but others.
    #[must_use]
    pub const fn without(self, parts: Self) -> Self {
        Self(self.0 & !parts.0)
    }
}

impl fmt::Display for AnnouncedParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.into_iter().filter(|(part, _)| self.contains(*part)).map(|(_, name)| name);
        for (at, name) in names.enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}
