//! Bytes that must not outlive their use or appear in output.

use core::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Secret bytes. They are zeroed when dropped, and `Debug` states only their number.
///
/// The bytes are on the heap, so that a move leaves no copy behind.
#[derive(Clone, Default, Zeroize, ZeroizeOnDrop)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// A copy of these bytes. The caller zeroes the original.
    #[must_use]
    pub fn copy_of(octets: &[u8]) -> Self {
        Self(octets.into())
    }

    /// This many bytes from a source of random bytes.
    pub fn random(len: usize, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut secret = Self(vec![0; len].into_boxed_slice());
        random(&mut secret.0);
        secret
    }

    /// The bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all bytes are zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().fold(0, |all, octet| all | octet) == 0
    }
}

impl From<Vec<u8>> for Secret {
    fn from(mut octets: Vec<u8>) -> Self {
        // Without spare capacity, the conversion does not move the bytes.
        if octets.len() == octets.capacity() {
            return Self(octets.into_boxed_slice());
        }
        let secret = Self::copy_of(&octets);
        octets.zeroize();
        secret
    }
}

impl PartialEq for Secret {
    /// Takes the same time for all bytes of one length.
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_byte_of_a_secret() {
        let secret = Secret::copy_of(&[0xab; 32]);
        assert_eq!(format!("{secret:?} {secret:#?}"), "Secret(32 bytes) Secret(32 bytes)");
    }

    #[test]
    fn dropped_secret_is_zeroed() {
        const fn zeroed_on_drop<T: ZeroizeOnDrop>() {}
        zeroed_on_drop::<Secret>();
        let mut secret = Secret::from(vec![0xab; 32]);
        assert!(!secret.is_zero());
        secret.zeroize();
        assert!(secret.is_zero());
    }

    #[test]
    fn secrets_are_equal_only_with_equal_bytes_and_length() {
        let secret = Secret::copy_of(&[1, 2]);
        assert_eq!(secret, secret.clone());
        assert_ne!(secret, Secret::copy_of(&[1, 3]));
        assert_ne!(secret, Secret::copy_of(&[1, 2, 0]));
    }
}
