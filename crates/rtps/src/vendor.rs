//! Vendors of peers, and the differences in behaviour that depend on the vendor.

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
    /// Any number.
    pub minor: u8,
}

impl ProtocolVersion {
    /// The version that this implementation sends.
    pub const V2_5: Self = Self { major: 2, minor: 5 };
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Where a volatile reader starts, relative to the samples that a volatile writer announces in its first HEARTBEAT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolatileStart {
    /// With the first one: the writer announces only samples that concern the reader.
    WithAnnounced,
    /// After the last one: the writer announces all samples that it holds.
    AfterAnnounced,
    /// With the first one that is not older than the reader, if there are at most `max`, else after the last one: the
    /// writer announces only samples that a matched reader has not acknowledged. A writer of Cyclone DDS that is asked
    /// for such a sample accepts no others until few bytes are unacknowledged, so for as long as another reader does
    /// not answer.
    WithUnacknowledged {
        /// The number of samples.
        max: u64,
    },
}

/// Departures of a peer from the standard, or from the behaviour of most other vendors.
///
/// Every difference that the crate takes into account is a field of this type, with its reason. No other code in the
/// crate reads a vendor id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quirks {
    /// The base of a pre-emptive ACKNACK. The standard requires 1 or more; Connext's durable writers with an empty
    /// cache answer only to 0, and Fast DDS answers anything else no earlier than its next periodic HEARTBEAT.
    pub preemptive_acknack_base: u32,
    /// Whether several consecutive fragments may share one DATA_FRAG. Connext Micro and Fast DDS expect exactly one.
    pub several_fragments_per_submessage: bool,
    /// Whether the peer handles HEARTBEAT_FRAG. Connext and Fast DDS ignore it.
    pub heartbeat_frag: bool,
    /// Whether the participant-message endpoints exist although their bits are not announced, as in Connext.
    pub assume_participant_message: bool,
    /// Where a volatile reader starts with a volatile writer.
    pub volatile_start: VolatileStart,
    /// Whether a reliable volatile reader that matches after the writer starts after the last sample that the first
    /// HEARTBEAT names, so that the samples before are lost. Cyclone DDS treats all writers of other vendors so. All
    /// readers of a process share this state: a HEARTBEAT or GAP to one of them is for all.
    pub skips_to_first_heartbeat: bool,
    /// Whether a volatile reader that has received nothing yet starts anew with a HEARTBEAT that begins later, and
    /// reports nothing as lost then. Readers of other vendors may report it, so a GAP names for them what was
    /// written before their match.
    pub moves_start_by_heartbeat: bool,
    /// Whether a reader requests a missing sample as soon as a later one shows the gap, and a writer expects that. The
    /// reader of the standard waits for a HEARTBEAT (RTPS 2.5 §8.4.12), and so do the readers of all other vendors.
    pub requests_on_gap: bool,
    /// Whether a writer sends a sample again that was acknowledged once, to a reader that asks for it, as the standard
    /// wants (RTPS 2.5 §8.4.2). Fast DDS does not, nor does it answer the pre-emptive ACKNACK of a reader that has
    /// acknowledged everything.
    pub repeats_acknowledged: bool,
    /// Whether a writer sends a HEARTBEAT to each reliable reader as soon as they match, and whether a reader asks each
    /// writer until a HEARTBEAT has arrived. One that announces no sample then needs no answer. Of others this is not
    /// known for every state.
    pub opens_by_heartbeat: bool,
    /// Whether a writer answers an ACKNACK that is not final by a HEARTBEAT even if all is acknowledged, and whether
    /// the last number of its HEARTBEATs is the last one that it has written, also when it holds no sample. A higher
    /// number then proves a sample to be forged. Known of Cyclone DDS from its source; Fast DDS does not answer, and
    /// of others nothing is known. Used of built-in writers only: see [`Self::skips_to_first_heartbeat`] for others.
    pub heartbeat_names_last_written: bool,
    /// Whether the built-in endpoints of plain discovery and liveliness exchange unprotected messages although the
    /// governance protects all messages. Cyclone DDS matches them before the handshake, and never protects them.
    pub plain_discovery_in_clear: bool,
    /// Whether the peer sends to the addresses in the last announcement of a participant. Cyclone DDS and Fast DDS keep
    /// those in the first one; of others nothing is known.
    pub follows_moves: bool,
    /// Whether a peer that takes this participant for authenticated ignores its new handshakes, and believes its
    /// goodbye in clear. Fast DDS 2.9 does. Others begin a new handshake, or believe no goodbye in clear.
    pub keeps_sessions: bool,
    /// Whether a peer that does not begin the handshake announces the challenge of a new one after it has forgotten
    /// this participant. Fast DDS 2.9 does not.
    pub announces_challenges: bool,
    /// Where the identity of a related sample stands besides its standard parameter. Fast DDS up to 2.10 knows only
    /// this place.
    pub related_sample_identity_parameter: Option<ParameterId>,
    /// Where the built-in endpoint set is sent besides its standard parameter. OpenSplice uses only this parameter.
    pub builtin_endpoint_set_parameter: Option<ParameterId>,
    /// The parameter by which a reader announces that it never acknowledges, so that no writer waits for it.
    pub positive_acks_disabled_parameter: Option<ParameterId>,
    /// Whether writers keep renewing a liveliness other than AUTOMATIC. OpenSplice announces such a liveliness without
    /// renewing it: its writers would lose their liveliness again and again.
    pub renews_liveliness: bool,
    /// The largest message that the peer receives, in bytes. Fast DDS truncates longer ones to the size of its buffer.
    pub max_message_bytes: usize,
    /// The greatest length of a serialized key, encapsulation included, that must not be sent to the peer if a key hash
    /// is. Fast DDS takes such a key for the instance handle, with and without a key hash. All other peers need the
    /// key, and the Python binding of Cyclone DDS ignores a key hash.
    pub mistaken_key_bytes: usize,
    /// Whether readers find the instance of an end by the serialized key, without a key hash. Fast DDS does not, and
    /// ends the instance of the last sample. Of others nothing is known.
    pub finds_instance_by_key: bool,
}

impl Quirks {
    /// The departures of peers of this vendor.
    #[must_use]
    pub const fn of(vendor: VendorId) -> Self {
        let standard = Self {
            preemptive_acknack_base: 1,
            several_fragments_per_submessage: false,
            heartbeat_frag: false,
            assume_participant_message: false,
            volatile_start: VolatileStart::AfterAnnounced,
            skips_to_first_heartbeat: false,
            moves_start_by_heartbeat: false,
            requests_on_gap: false,
            repeats_acknowledged: true,
            opens_by_heartbeat: false,
            heartbeat_names_last_written: false,
            plain_discovery_in_clear: false,
            follows_moves: false,
            keeps_sessions: false,
            announces_challenges: true,
            related_sample_identity_parameter: None,
            builtin_endpoint_set_parameter: None,
            positive_acks_disabled_parameter: None,
            renews_liveliness: true,
            max_message_bytes: MESSAGE_BYTES_MAX,
            mistaken_key_bytes: 0,
            finds_instance_by_key: false,
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
                preemptive_acknack_base: 0,
                repeats_acknowledged: false,
                volatile_start: VolatileStart::WithUnacknowledged { max: 256 },
                related_sample_identity_parameter: Some(ParameterId(0x800f)),
                max_message_bytes: 65_500,
                mistaken_key_bytes: 16,
                keeps_sessions: true,
                announces_challenges: false,
                positive_acks_disabled_parameter: Some(ParameterId(0x8005)),
                ..standard
            },
            VendorId::OPENSPLICE => {
                Self { builtin_endpoint_set_parameter: Some(ParameterId(0x8000)), renews_liveliness: false, ..standard }
            }
            VendorId::CYCLONE => Self {
                several_fragments_per_submessage: true,
                heartbeat_frag: true,
                volatile_start: VolatileStart::WithUnacknowledged { max: 16 },
                skips_to_first_heartbeat: true,
                heartbeat_names_last_written: true,
                plain_discovery_in_clear: true,
                finds_instance_by_key: true,
                ..standard
            },
            VendorId::OPENDDS => Self { several_fragments_per_submessage: true, heartbeat_frag: true, ..standard },
            VendorId::PEREGRINE => Self {
                several_fragments_per_submessage: true,
                heartbeat_frag: true,
                heartbeat_names_last_written: true,
                plain_discovery_in_clear: false,
                volatile_start: VolatileStart::WithAnnounced,
                moves_start_by_heartbeat: true,
                requests_on_gap: true,
                opens_by_heartbeat: true,
                follows_moves: true,
                finds_instance_by_key: true,
                ..standard
            },
            _ => standard,
        }
    }
}
