//! Vendors of peers, and where the vendor changes what this implementation does.

use core::fmt;

use crate::limits::MESSAGE_BYTES_MAX;
use crate::wire::parameter_id::ParameterId;

/// The vendor id of the RTPS header (RTPS 2.5 §8.3.3.1.3, §9.4.4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VendorId(pub [u8; 2]);

impl VendorId {
    /// Not stated.
    pub const UNKNOWN: Self = Self([0, 0]);
    /// This implementation. Provisional until the OMG assigns one; no registered vendor uses it.
    pub const PEREGRINE: Self = Self([0x01, 0x7e]);
    /// RTI Connext DDS Professional.
    pub const RTI: Self = Self([0x01, 0x01]);
    /// OpenSplice.
    pub const OPENSPLICE: Self = Self([0x01, 0x02]);
    /// OpenDDS.
    pub const OPENDDS: Self = Self([0x01, 0x03]);
    /// RTI Connext DDS Micro.
    pub const RTI_MICRO: Self = Self([0x01, 0x0a]);
    /// eProsima Fast DDS.
    pub const FAST_DDS: Self = Self([0x01, 0x0f]);
    /// Eclipse Cyclone DDS.
    pub const CYCLONE: Self = Self([0x01, 0x10]);
    /// RustDDS.
    pub const RUSTDDS: Self = Self([0x01, 0x12]);
    /// Dust DDS.
    pub const DUST: Self = Self([0x01, 0x14]);

    /// The vendor's product, where known.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::PEREGRINE => "Peregrine",
            Self::RTI => "RTI Connext",
            Self::OPENSPLICE => "OpenSplice",
            Self::OPENDDS => "OpenDDS",
            Self::RTI_MICRO => "RTI Connext Micro",
            Self::FAST_DDS => "Fast DDS",
            Self::CYCLONE => "Cyclone DDS",
            Self::RUSTDDS => "RustDDS",
            Self::DUST => "Dust DDS",
            _ => return None,
        })
    }
}

impl fmt::Display for VendorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.0;
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "vendor {a:02x}.{b:02x}"),
        }
    }
}

impl fmt::Debug for VendorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.0;
        write!(f, "{a:02x}.{b:02x}")
    }
}

/// The protocol version of the RTPS header (RTPS 2.5 §8.3.3.1.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProtocolVersion {
    /// 2 in every message this crate accepts.
    pub major: u8,
    /// Any.
    pub minor: u8,
}

impl ProtocolVersion {
    /// What this implementation says.
    pub const V2_5: Self = Self { major: 2, minor: 5 };
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Where a peer departs from the text of the standard, or from what most others do.
///
/// Every difference that the rest of the crate takes into account is a field here, with its reason; nothing else in
/// the crate looks at a vendor id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quirks {
    /// The base of a pre-emptive ACKNACK. The standard wants 1 or more; Connext's durable writers with an empty cache
    /// answer only 0.
    pub preemptive_acknack_base: u32,
    /// Whether several consecutive fragments may share one DATA_FRAG. Connext Micro and Fast DDS expect exactly one.
    pub several_fragments_per_submessage: bool,
    /// Whether HEARTBEAT_FRAG is understood. Connext and Fast DDS ignore it.
    pub heartbeat_frag: bool,
    /// Whether the participant-message endpoints may be assumed although their bits are not announced. Connext
    /// implements them without saying so.
    pub assume_participant_message: bool,
    /// Whether a volatile reader takes a writer's first heartbeat to mean "from now on". Our own writers announce only
    /// what concerns the reader; others announce all they have.
    pub volatile_readers_start_after_heartbeat: bool,
    /// Whether a reader requests a missing sample as soon as a later one shows the gap, and a writer expects that. The
    /// standard's reader waits for a HEARTBEAT (RTPS 2.5 §8.4.12), and so do the readers of all other vendors.
    pub requests_on_gap: bool,
    /// Whether a writer sends a sample again that was acknowledged once, to a reader that asks for it, as the standard
    /// wants (RTPS 2.5 §8.4.2). Fast DDS does not, nor does it answer the pre-emptive ACKNACK of a reader that has
    /// acknowledged everything.
    pub repeats_acknowledged: bool,
    /// Where the identity of a related sample stands besides its standard parameter. Fast DDS up to 2.10 knows only
    /// this place.
    pub related_sample_identity_parameter: Option<ParameterId>,
    /// Where the built-in endpoint set stands besides its standard parameter. OpenSplice uses this place only.
    pub builtin_endpoint_set_parameter: Option<ParameterId>,
    /// Where a reader says that it never acknowledges, so that no writer waits for it.
    pub positive_acks_disabled_parameter: Option<ParameterId>,
    /// Whether writers renew a liveliness other than AUTOMATIC without end. OpenSplice announces others and does not
    /// renew them: its writers would be lost again and again.
    pub renews_liveliness: bool,
    /// The largest message it receives, in bytes. Fast DDS cuts longer ones off to the size of its buffer.
    pub max_message_bytes: usize,
    /// Whether a serialized key of this many bytes or less, encapsulation included, must not be sent to it where the
    /// key hash is. Fast DDS takes such a key for the instance handle, key hash or not; all others need the key, and
    /// the Python binding of Cyclone DDS makes nothing of a key hash.
    pub mistaken_key_octets: usize,
}

impl Quirks {
    /// What to do with a peer of this vendor.
    #[must_use]
    pub const fn of(vendor: VendorId) -> Self {
        let standard = Self {
            preemptive_acknack_base: 1,
            several_fragments_per_submessage: false,
            heartbeat_frag: false,
            assume_participant_message: false,
            volatile_readers_start_after_heartbeat: true,
            requests_on_gap: false,
            repeats_acknowledged: true,
            related_sample_identity_parameter: None,
            builtin_endpoint_set_parameter: None,
            positive_acks_disabled_parameter: None,
            renews_liveliness: true,
            max_message_bytes: MESSAGE_BYTES_MAX,
            mistaken_key_octets: 0,
        };
        match vendor {
            VendorId::RTI => Self {
                preemptive_acknack_base: 0,
                assume_participant_message: true,
                positive_acks_disabled_parameter: Some(ParameterId(0x8005)),
                ..standard
            },
            VendorId::RTI_MICRO => Self { preemptive_acknack_base: 0, ..standard },
            VendorId::FAST_DDS => Self {
                repeats_acknowledged: false,
                related_sample_identity_parameter: Some(ParameterId(0x800f)),
                max_message_bytes: 65_500,
                mistaken_key_octets: 16,
                positive_acks_disabled_parameter: Some(ParameterId(0x8005)),
                ..standard
            },
            VendorId::OPENSPLICE => {
                Self { builtin_endpoint_set_parameter: Some(ParameterId(0x8000)), renews_liveliness: false, ..standard }
            }
            VendorId::CYCLONE | VendorId::OPENDDS => {
                Self { several_fragments_per_submessage: true, heartbeat_frag: true, ..standard }
            }
            VendorId::PEREGRINE => Self {
                several_fragments_per_submessage: true,
                heartbeat_frag: true,
                volatile_readers_start_after_heartbeat: false,
                requests_on_gap: true,
                ..standard
            },
            _ => standard,
        }
    }
}
