//! The parts of announcements that DDS Security adds (DDS Security 1.2 §7.5.1). The structure of tokens and tags is the
//! business of the security implementation: here they are bytes with a bound.

use alloc::boxed::Box;

use super::OPAQUE_VALUE_BYTES_MAX;
use crate::wire::{Endianness, ParameterId, ParameterListWriter, ValueError, ValueReader, ValueWriter};

/// The value of a parameter whose structure this crate does not know: plain CDR.
///
/// Parameter lists exist in two byte orders: announcements are little endian, and the handshake contains a big-endian
/// list. A received value has one form, an own one has both.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OpaqueValue {
    little: Option<Box<[u8]>>,
    big: Option<Box<[u8]>>,
}

impl OpaqueValue {
    /// The same value in both byte orders. `None` if one has more than [`OPAQUE_VALUE_BYTES_MAX`] bytes.
    #[must_use]
    pub fn new(little: &[u8], big: &[u8]) -> Option<Self> {
        let is_short = little.len().max(big.len()) <= OPAQUE_VALUE_BYTES_MAX;
        is_short.then(|| Self { little: Some(little.into()), big: Some(big.into()) })
    }

    /// The bytes in this byte order, if the value is known in it.
    #[must_use]
    pub fn octets_in(&self, endianness: Endianness) -> Option<&[u8]> {
        match endianness {
            Endianness::Little => self.little.as_deref(),
            Endianness::Big => self.big.as_deref(),
        }
    }

    /// A byte order in which the value is known, and the bytes in it. The native order of supported machines is
    /// preferred.
    #[must_use]
    pub fn octets(&self) -> (Endianness, &[u8]) {
        match (&self.little, &self.big) {
            (Some(little), _) => (Endianness::Little, little),
            (None, big) => (Endianness::Big, big.as_deref().unwrap_or_default()),
        }
    }

    /// Reads all that is left of a value. `None` if that is more than [`OPAQUE_VALUE_BYTES_MAX`] bytes.
    pub(super) fn read(value: &mut ValueReader<'_>) -> Result<Option<Self>, ValueError> {
        let endianness = value.endianness();
        let octets = value.octets(value.remaining())?;
        if octets.len() > OPAQUE_VALUE_BYTES_MAX {
            return Ok(None);
        }
        let octets = Some(octets.into());
        Ok(Some(match endianness {
            Endianness::Little => Self { little: octets, big: None },
            Endianness::Big => Self { little: None, big: octets },
        }))
    }

    /// In place of a value that is too long. No structure has this value.
    fn empty() -> Self {
        Self { little: Some(Box::default()), big: Some(Box::default()) }
    }

    /// Appends the value, if it is known in the byte order of the list.
    pub(super) fn emit(&self, id: ParameterId, list: &mut ParameterListWriter<'_>) {
        if let Some(octets) = self.octets_in(list.endianness()) {
            list.parameter(id, |value| value.octets(octets));
        }
    }
}

/// How a participant or an endpoint is protected: ParticipantSecurityInfo or EndpointSecurityInfo (DDS Security 1.2
/// §7.4.1.5, §7.4.1.7). The meaning of the bits, except the highest one, belongs to the security implementation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SecurityInfo {
    /// The attributes that the standard defines.
    pub mask: u32,
    /// The attributes that the plug-ins define.
    pub plugin_mask: u32,
}

impl SecurityInfo {
    /// In each of the masks: the other bits are stated.
    pub const VALID: u32 = 1 << 31;

    /// Whether two participants or endpoints with these attributes may communicate: masks that both state are equal
    /// (DDS Security 1.2 §7.4.1.4.4).
    #[must_use]
    pub const fn is_compatible(self, other: Self) -> bool {
        const fn agree(a: u32, b: u32) -> bool {
            a & b & SecurityInfo::VALID == 0 || a == b
        }
        agree(self.mask, other.mask) && agree(self.plugin_mask, other.plugin_mask)
    }

    /// Later versions may append fields.
    pub(super) fn read(value: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        Ok(Self { mask: value.u32()?, plugin_mask: value.u32()? })
    }

    pub(super) fn emit(self, id: ParameterId, list: &mut ParameterListWriter<'_>) {
        list.parameter(id, |value: &mut ValueWriter<'_>| {
            value.u32(self.mask);
            value.u32(self.plugin_mask);
        });
    }
}

/// The announcement of a participant of its security (DDS Security 1.2 §7.5.1.3).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ParticipantSecurityData {
    /// The token of its identity. A participant without one, or without a token of permissions, cannot be
    /// authenticated.
    pub identity_token: Option<OpaqueValue>,
    /// The token of its permissions.
    pub permissions_token: Option<OpaqueValue>,
    /// How it is protected; `None` states nothing.
    pub info: Option<SecurityInfo>,
    /// Whether its certificate is still valid. Only in announcements to authenticated participants.
    pub identity_status_token: Option<OpaqueValue>,
}

impl ParticipantSecurityData {
    pub(super) fn set(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        match id {
            ParameterId::IDENTITY_TOKEN => self.identity_token = OpaqueValue::read(value)?,
            ParameterId::PERMISSIONS_TOKEN => self.permissions_token = OpaqueValue::read(value)?,
            ParameterId::PARTICIPANT_SECURITY_INFO => self.info = Some(SecurityInfo::read(value)?),
            ParameterId::IDENTITY_STATUS_TOKEN => self.identity_status_token = OpaqueValue::read(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn emit(&self, list: &mut ParameterListWriter<'_>) {
        let tokens = [
            (ParameterId::IDENTITY_TOKEN, &self.identity_token),
            (ParameterId::PERMISSIONS_TOKEN, &self.permissions_token),
            (ParameterId::IDENTITY_STATUS_TOKEN, &self.identity_status_token),
        ];
        if let Some(info) = self.info {
            info.emit(ParameterId::PARTICIPANT_SECURITY_INFO, list);
        }
        for (id, token) in tokens {
            if let Some(token) = token {
                token.emit(id, list);
            }
        }
    }
}

/// The announcement of an endpoint of its security (DDS Security 1.2 §7.5.1.6).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct EndpointSecurityData {
    /// How the endpoint is protected; `None` states nothing.
    pub info: Option<SecurityInfo>,
    /// Names with values, to which permissions may refer. Only the secure topics of discovery announce them (DDS
    /// Security 1.2 §7.5.1.7, §7.5.1.8). Without any byte if there are more than [`OPAQUE_VALUE_BYTES_MAX`].
    pub data_tags: Option<OpaqueValue>,
}

impl EndpointSecurityData {
    pub(super) fn set(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        match id {
            ParameterId::ENDPOINT_SECURITY_INFO => self.info = Some(SecurityInfo::read(value)?),
            ParameterId::DATA_TAGS => {
                // Permissions must not take an endpoint with too many tags for one without.
                self.data_tags = Some(OpaqueValue::read(value)?.unwrap_or_else(OpaqueValue::empty));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn emit(&self, list: &mut ParameterListWriter<'_>) {
        if let Some(info) = self.info {
            info.emit(ParameterId::ENDPOINT_SECURITY_INFO, list);
        }
        if let Some(tags) = &self.data_tags {
            tags.emit(ParameterId::DATA_TAGS, list);
        }
    }
}
