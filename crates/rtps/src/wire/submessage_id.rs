//! The kinds of submessages.

use core::fmt;

/// The id of a kind of submessages (RTPS 2.5 §9.4.5.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubmessageId(pub u8);

impl SubmessageId {
    /// HEADER_EXTENSION.
    pub const HEADER_EXTENSION: Self = Self(0x00);
    /// PAD.
    pub const PAD: Self = Self(0x01);
    /// ACKNACK.
    pub const ACKNACK: Self = Self(0x06);
    /// HEARTBEAT.
    pub const HEARTBEAT: Self = Self(0x07);
    /// GAP.
    pub const GAP: Self = Self(0x08);
    /// INFO_TS.
    pub const INFO_TS: Self = Self(0x09);
    /// INFO_SRC.
    pub const INFO_SRC: Self = Self(0x0c);
    /// INFO_REPLY_IP4.
    pub const INFO_REPLY_IP4: Self = Self(0x0d);
    /// INFO_DST.
    pub const INFO_DST: Self = Self(0x0e);
    /// INFO_REPLY.
    pub const INFO_REPLY: Self = Self(0x0f);
    /// NACK_FRAG.
    pub const NACK_FRAG: Self = Self(0x12);
    /// HEARTBEAT_FRAG.
    pub const HEARTBEAT_FRAG: Self = Self(0x13);
    /// DATA.
    pub const DATA: Self = Self(0x15);
    /// DATA_FRAG.
    pub const DATA_FRAG: Self = Self(0x16);
    /// SEC_BODY.
    pub const SEC_BODY: Self = Self(0x30);
    /// SEC_PREFIX.
    pub const SEC_PREFIX: Self = Self(0x31);
    /// SEC_POSTFIX.
    pub const SEC_POSTFIX: Self = Self(0x32);
    /// SRTPS_PREFIX.
    pub const SRTPS_PREFIX: Self = Self(0x33);
    /// SRTPS_POSTFIX.
    pub const SRTPS_POSTFIX: Self = Self(0x34);

    /// Whether the id belongs to the vendor of the source (RTPS 2.5 §9.4.5.1.1).
    #[must_use]
    pub const fn is_vendor(self) -> bool {
        self.0 >= 0x80
    }

    /// Whether the submessage is one of a reader or writer, not one that states how to interpret others.
    #[must_use]
    pub(crate) const fn is_entity(self) -> bool {
        matches!(
            self,
            Self::ACKNACK
                | Self::HEARTBEAT
                | Self::GAP
                | Self::NACK_FRAG
                | Self::HEARTBEAT_FRAG
                | Self::DATA
                | Self::DATA_FRAG
        )
    }

    /// The name in the standard, where it has one.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::HEADER_EXTENSION => "HEADER_EXTENSION",
            Self::PAD => "PAD",
            Self::ACKNACK => "ACKNACK",
            Self::HEARTBEAT => "HEARTBEAT",
            Self::GAP => "GAP",
            Self::INFO_TS => "INFO_TS",
            Self::INFO_SRC => "INFO_SRC",
            Self::INFO_REPLY_IP4 => "INFO_REPLY_IP4",
            Self::INFO_DST => "INFO_DST",
            Self::INFO_REPLY => "INFO_REPLY",
            Self::NACK_FRAG => "NACK_FRAG",
            Self::HEARTBEAT_FRAG => "HEARTBEAT_FRAG",
            Self::DATA => "DATA",
            Self::DATA_FRAG => "DATA_FRAG",
            Self::SEC_BODY => "SEC_BODY",
            Self::SEC_PREFIX => "SEC_PREFIX",
            Self::SEC_POSTFIX => "SEC_POSTFIX",
            Self::SRTPS_PREFIX => "SRTPS_PREFIX",
            Self::SRTPS_POSTFIX => "SRTPS_POSTFIX",
            _ => return None,
        })
    }

    /// Whether a length of 0 means "no body", not "to the end of the message".
    pub(super) const fn may_be_empty(self) -> bool {
        matches!(self, Self::PAD | Self::INFO_TS)
    }
}

impl fmt::Display for SubmessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "submessage {:#04x}", self.0),
        }
    }
}

impl fmt::Debug for SubmessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
