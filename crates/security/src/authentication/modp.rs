//! Finite-field Diffie-Hellman in the group of RFC 5114 §2.3: 2048 bits with a subgroup of 256 bits.
//!
//! `crypto-bigint` computes powers in a time that depends on the length of the exponent only.

use std::sync::LazyLock;

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U256, U2048};
use zeroize::Zeroizing;

/// Bytes of a public key.
pub(super) const LEN: usize = 256;
const LIMBS: usize = U2048::LIMBS;

const PRIME: &str = concat!(
    "87a8e61db4b6663cffbbd19c651959998ceef608660dd0f25d2ceed4435e3b00e00df8f1d61957d4faf7df4561b2aa30",
    "16c3d91134096faa3bf4296d830e9a7c209e0c6497517abd5a8a9d306bcf67ed91f9e6725b4758c022e0b1ef4275bf7b",
    "6c5bfc11d45f9088b941f54eb1e59bb8bc39a0bf12307f5c4fdb70c581b23f76b63acae1caa6b7902d52526735488a0e",
    "f13c6d9a51bfa4ab3ad8347796524d8ef6a167b5a41825d967e144e5140564251ccacb83e6b486f6b3ca3f7971506026",
    "c0b857f689962856ded4010abd0be621c3a3960a54e710c375f26375d7014103a4b54330c198af126116d2276e11715f",
    "693877fad7ef09cadb094ae91e1a1597"
);
const GENERATOR: &str = concat!(
    "3fb32c9b73134d0b2e77506660edbd484ca7b18f21ef205407f4793a1a0ba12510dbc15077be463fff4fed4aac0bb555",
    "be3a6c1b0c6b47b1bc3773bf7e8c6f62901228f8c28cbb18a55ae31341000a650196f931c77a57f2ddf463e5e9ec144b",
    "777de62aaab8a8628ac376d282d6ed3864e67982428ebc831d14348f6f2f9193b5045af2767164e1dfc967c1fb3f2e55",
    "a4bd1bffe83b9c80d052b985d182ea0adb2a3b7313d3fe14c8484b1e052588b9b7d2bbd2df016199ecd06e1557cd0915",
    "b3353bbb64e0ec377fd028370df92b52c7891428cdc67eb6184b523d1db246c32f63078490f00ef8d647d148d4795451",
    "5e2327cfef98c582664b4c0f6cc41659"
);
const ORDER: U256 = U256::from_be_hex("8cf83642a709a097b447997640129da299b1a47d1eb3750ba308b0fe64f5fbd3");

static GROUP: LazyLock<FixedMontyParams<LIMBS>> =
    LazyLock::new(|| FixedMontyParams::new_vartime(Odd::<U2048>::from_be_hex(PRIME)));

/// A private key, if these bytes are below the order of the subgroup and not zero.
pub(super) fn is_private_key(octets: &[u8; 32]) -> bool {
    let key = Zeroizing::new(U256::from_be_slice(octets));
    *key > U256::ZERO && *key < ORDER
}

/// The public key of a private key.
pub(super) fn public_key(private: &[u8; 32]) -> [u8; LEN] {
    *power(&U2048::from_be_hex(GENERATOR), private)
}

/// The secret that a private key shares with the owner of a public key, without zeros in front. `None` unless the
/// public key is of the subgroup.
pub(super) fn agree(private: &[u8; 32], public: &[u8; LEN]) -> Option<Zeroizing<Vec<u8>>> {
    let public = U2048::from_be_slice(public);
    let one = U2048::ONE;
    let largest = GROUP.modulus().as_ref().wrapping_sub(&one);
    if public <= one || public >= largest {
        return None;
    }
    let in_subgroup = FixedMontyForm::new(&public, &GROUP).pow_vartime(&ORDER).retrieve() == one;
    if !in_subgroup {
        return None;
    }
    let secret = power(&public, private);
    // Peers leave out these zeros. Each private key is used once, so that the time they take reveals nothing of use.
    let zeros = secret.iter().take_while(|octet| **octet == 0).count();
    secret.get(zeros..).map(|secret| Zeroizing::new(secret.to_vec()))
}

fn power(base: &U2048, exponent: &[u8; 32]) -> Zeroizing<[u8; LEN]> {
    let exponent = Zeroizing::new(U256::from_be_slice(exponent));
    let power = Zeroizing::new(FixedMontyForm::new(base, &GROUP).pow(&*exponent));
    let power = Zeroizing::new(power.retrieve());
    let octets = Zeroizing::new(power.to_be_bytes());
    let mut out = Zeroizing::new([0; LEN]);
    out.iter_mut().zip(octets.as_ref()).for_each(|(to, from)| *to = *from);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    fn private(last: u8) -> [u8; 32] {
        let mut octets = [0; 32];
        octets[31] = last;
        octets
    }

    fn of(value: U2048) -> [u8; LEN] {
        value.to_be_bytes().as_ref().try_into().unwrap()
    }

    #[test]
    fn power_of_the_generator_equals_that_of_another_implementation() {
        // 2²⁰⁰ + 12345
        let mut exponent = [0; 32];
        exponent[32 - 26] = 1;
        exponent[30..].copy_from_slice(&12_345u16.to_be_bytes());
        let found = public_key(&exponent);
        assert_eq!(found[..17], hex("0061ecbb4e0b38cd72b4f8169f6348213b"));
        assert_eq!(found[240..], hex("941859e08106c5c149dbb263c36ee189"));
    }

    #[test]
    fn order_of_the_generator_is_that_of_the_subgroup() {
        let mut octets = [0; 32];
        octets.copy_from_slice(ORDER.to_be_bytes().as_ref());
        assert_eq!(public_key(&octets), of(U2048::ONE));
        assert!(!is_private_key(&octets) && !is_private_key(&[0; 32]) && !is_private_key(&[0xff; 32]));
        octets[31] -= 1;
        assert!(is_private_key(&octets) && is_private_key(&private(1)));
    }

    #[test]
    fn both_sides_derive_the_same_secret() {
        let (alice, bob) = (private(200), [0x55; 32]);
        let secret = agree(&alice, &public_key(&bob)).unwrap();
        assert_eq!(*secret, *agree(&bob, &public_key(&alice)).unwrap());
        assert_ne!(*secret, *agree(&private(201), &public_key(&bob)).unwrap());
        assert_ne!(secret[0], 0);
    }

    #[test]
    fn public_keys_outside_of_the_subgroup_are_refused() {
        let prime = *GROUP.modulus().as_ref();
        let outside = [
            U2048::ZERO,
            U2048::ONE,
            U2048::from(2u8),
            prime.wrapping_sub(&U2048::ONE),
            prime.wrapping_sub(&U2048::from(2u8)),
            prime,
            U2048::MAX,
        ];
        for public in outside {
            assert!(agree(&private(5), &of(public)).is_none(), "{public}");
        }
        assert!(agree(&private(5), &of(U2048::from_be_hex(GENERATOR))).is_some());
    }
}
