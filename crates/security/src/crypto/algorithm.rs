//! The algorithms of a transformation.

use aws_lc_rs::aead;

/// The length of AES keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum KeyLength {
    /// 128 bits.
    Aes128,
    /// 256 bits, the default of DDS Security.
    #[default]
    Aes256,
}

/// An algorithm of a transformation (DDS Security 1.2 §8.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Algorithm {
    /// The length of its keys.
    pub key_length: KeyLength,
    /// Whether it encrypts (GCM) or signs only (GMAC).
    pub encrypts: bool,
}

impl KeyLength {
    /// The number of bytes of a key, and of a salt.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes256 => 32,
        }
    }

    /// The name of its cipher in DDS Security 1.2 §8.1, as documents state it.
    #[must_use]
    pub const fn cipher_name(self) -> &'static str {
        match self {
            Self::Aes128 => "AES128+GCM",
            Self::Aes256 => "AES256+GCM",
        }
    }

    pub(super) fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128 => &aead::AES_128_GCM,
            Self::Aes256 => &aead::AES_256_GCM,
        }
    }
}

impl Algorithm {
    /// The algorithm with this number; `None` for a number that is unknown or 0, which means no transformation.
    #[must_use]
    pub const fn from_id(id: u8) -> Option<Self> {
        let (key_length, encrypts) = match id {
            1 => (KeyLength::Aes128, false),
            2 => (KeyLength::Aes128, true),
            3 => (KeyLength::Aes256, false),
            4 => (KeyLength::Aes256, true),
            _ => return None,
        };
        Some(Self { key_length, encrypts })
    }

    /// Its number in a transformation kind.
    #[must_use]
    pub const fn id(self) -> u8 {
        match (self.key_length, self.encrypts) {
            (KeyLength::Aes128, false) => 1,
            (KeyLength::Aes128, true) => 2,
            (KeyLength::Aes256, false) => 3,
            (KeyLength::Aes256, true) => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_algorithms_round_trip() {
        for id in 0..=u8::MAX {
            let algorithm = Algorithm::from_id(id);
            assert_eq!(algorithm.is_some(), (1..=4).contains(&id));
            assert!(algorithm.is_none_or(|algorithm| algorithm.id() == id));
        }
    }
}
