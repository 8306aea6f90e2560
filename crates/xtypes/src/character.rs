//! The character types of IDL, which are numbers in Rust.

/// IDL `char`: one octet of text whose character set the applications agree on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Char8(pub u8);

impl Char8 {
    pub(crate) const fn to_be_bytes(self) -> [u8; 1] {
        [self.0]
    }

    pub(crate) const fn to_le_bytes(self) -> [u8; 1] {
        [self.0]
    }

    pub(crate) const fn from_be_bytes([octet]: [u8; 1]) -> Self {
        Self(octet)
    }

    pub(crate) const fn from_le_bytes([octet]: [u8; 1]) -> Self {
        Self(octet)
    }
}

/// IDL `wchar`: one UTF-16 code unit (XTypes 1.3 §7.2.2.2.1.2.6, `Char16`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Wchar(pub u16);

impl Wchar {
    pub(crate) const fn to_be_bytes(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }

    pub(crate) const fn to_le_bytes(self) -> [u8; 2] {
        self.0.to_le_bytes()
    }

    pub(crate) const fn from_be_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_be_bytes(bytes))
    }

    pub(crate) const fn from_le_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_le_bytes(bytes))
    }
}
