//! RSASSA-PSS with salts of any length (RFC 8017 §8.1.2, §9.1.2), as peers choose it for the messages of a handshake.

use aws_lc_rs::digest::{self, SHA256};
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U64, U2048};

use crate::asn1::{Element, tag};

/// Bytes of the modulus and of a signature.
const LEN: usize = 256;
const HASH: usize = 32;
/// Bytes before the hash: zeros, a one, the salt, all masked.
const BLOCK: usize = LEN - HASH - 1;
const TRAILER: u8 = 0xbc;

/// Whether this is the signature of a message by an RSA key with 2048 bits, with SHA-256 as the hash and in the mask,
/// and a salt of any length. All inputs are public, so that its time may depend on them.
pub(super) fn verify_any_salt(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    encoded_message(key, signature).is_some_and(|encoded| is_encoding_of(&encoded, message))
}

/// The signature to the power of the public exponent.
fn encoded_message(key: &[u8], signature: &[u8]) -> Option<[u8; LEN]> {
    let mut fields = Element::only(key).ok()?.elements().ok()?;
    let modulus = fields.expect(tag::INTEGER).ok()?.value;
    let exponent = fields.expect(tag::INTEGER).ok()?.value;
    fields.finish().ok()?;
    let modulus: &[u8; LEN] = modulus.strip_prefix(&[0]).unwrap_or(modulus).try_into().ok()?;
    let mut exponent_octets = [0; 8];
    exponent_octets.get_mut(8usize.checked_sub(exponent.len())?..)?.copy_from_slice(exponent);
    let modulus = U2048::from_be_slice(modulus);
    let signature: &[u8; LEN] = signature.try_into().ok()?;
    let signature = U2048::from_be_slice(signature);
    if signature >= modulus {
        return None;
    }
    let params = FixedMontyParams::new_vartime(Option::<Odd<U2048>>::from(Odd::new(modulus))?);
    let power = FixedMontyForm::new(&signature, &params).pow_vartime(&U64::from_be_slice(&exponent_octets));
    power.retrieve().to_be_bytes().as_ref().try_into().ok()
}

/// EMSA-PSS-VERIFY.
fn is_encoding_of(encoded: &[u8; LEN], message: &[u8]) -> bool {
    let Some((masked, rest)) = encoded.split_first_chunk::<BLOCK>() else { return false };
    let Some((hash, [TRAILER])) = rest.split_first_chunk::<HASH>() else { return false };
    // The encoded message has 2047 bits.
    if masked.first().is_none_or(|first| *first >= 0x80) {
        return false;
    }
    let mut block = *masked;
    let mask = (0u32..).flat_map(|counter| {
        let mut context = digest::Context::new(&SHA256);
        context.update(hash);
        context.update(&counter.to_be_bytes());
        let output = context.finish();
        <[u8; HASH]>::try_from(output.as_ref()).unwrap_or_default()
    });
    block.iter_mut().zip(mask).for_each(|(octet, mask)| *octet ^= mask);
    if let Some(first) = block.first_mut() {
        *first &= 0x7f;
    }
    let Some(one) = block.iter().position(|octet| *octet != 0) else { return false };
    let Some((&1, salt)) = block.get(one..).and_then(<[u8]>::split_first) else { return false };
    let mut context = digest::Context::new(&SHA256);
    context.update(&[0; 8]);
    context.update(digest::digest(&SHA256, message).as_ref());
    context.update(salt);
    context.finish().as_ref() == hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// An RSAPublicKey. `openssl dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:N -sign` has made
    /// the signatures of the text `message`.
    const KEY: &str = "
        3082010a0282010100c49d50b2df38e45f51ac643ac96e01b19f563167df3d2f0d28c30886b8b5a0a32d762955be079c11e3890c
        beae377dafc091f652812cb740c7644ee31d12334a1a0a0c32279b02ea116dc223b13a4e7fef0efe4b79d128cb6ba52891e96936
        0a5e451bdcb1143eb9830f4fa2f5e7168175c6a180cf19bd40187a3f8605441d15596f3166516d909ff91175626f22756fe00639
        e6ebda498779163fa3d0eaac35d193d29908682036a2f8584063c676db214c24d2b58ec57fd36a38f6d27c9d0ebf0bd82e41cbc0
        6cb25dc00b2f77099bf5f4783b75b17377dc43f13c867bb6b1ebcf3181a7597f1be7457f167628a6f10a92fe4434be4cca2438ac
        4b15af9c350203010001";
    const SALT_0: &str = "
        b9ca2b3b614bc2bb2646f49415ac70bbd2d2d4b34877a5ad598fa365be42ff0882df343666877589fce7ecc5fba7c14f22c437b7
        a6acc2bf8a4ed44d89aafd4d619e620d1841956917900e4b3ac01b441ac2c2bc23119ee10bf9640d16f5c508747357155e9e756e
        f6ca692df454703b0328cb118e0ba907d402e448f9b2328121d5617fa863aa5ed61b9c79ddb732da81d251b457b5f6b1a011080a
        bdf8ce1553f763e2708aeec5df6bd2a83ccbaaba4f80a0ea57dd2b92ade457036a02ebdbc8259da3b0f601b46b73247882858f08
        a018352d15de716046a650eb33d3b6265d903b25754cdc92f78243b1c6be6057e4508924caab77c0a5cf147d85fcedd5";
    const SALT_20: &str = "
        7ae0ddd25a0f20b092c25be6be78750beee9acf92a9cd1a8d57db2319e2c06647fa4d7eb596fe1091dcfb5e7d8bdeffe057ee8d5
        b9f4bf9b72595e6a3ce2de7798468ee54c7d791c5da465bee4b0356838fd848960ea2435eac8ed32fb5fbf909e0414aa27f6391e
        204abf4035ca3cf0cae8e6661ce80b5563134fe4df57f61da79a9a8a1500e3cb7844217b89ad9ce9622922ed3cd2d8859c647e47
        77ccdf598d84a0ab1f05a02460d2d7a6fc4f77ddda9a3e5d7f1c5d48cfb40190144505201fd01001acca79b91731e26bcf2d9316
        1da4279548f6e450b6b1a506614a67b337573a8ddf28e7ecbab6c4c982e79bc045e87a61417e4b2867d4f118a06bd08e";
    const SALT_32: &str = "
        33b9ffabf4aa6b34ff163bcfa0737be47eb0e8e884b4f92b2cb7bb9e7e5c7b48e7269fed6a386b8f18eb5d8dda9adb51a19c07e4
        9153bd713a6d54d49532c73727ef8e3381545c405c0d70a354194eea7ede4f4b569617130711448706435cd9dbccadfd24492dc3
        6242f25749ea92cbbac0eaed43c367023a2dee497a0580113f81aa835d8b95f30720be3343c398015a5d7c05414d0ac140577235
        81e9ce6cc9f2aad3b2536b9dd69ae4329f14142f79d95d4eb6cb1a742fc1dcaa5bcbcf5f92964a1b914280b748bde64503609b88
        2eeec081116f9502dfdbfac95a392dc7c58727186a93452677b0a82c738ad40a74bef4542bd54104cc3a2206adb173e9";
    const SALT_222: &str = "
        3416f606a6a5ab880163b39c6d4ba4a5a8fd7284b847dfd8a81afe4c0a6354786b9fff0a2bee7831663226feff33fe9ffef361f5
        3979efabc55318579530d957c31f91a9ebd391883dc9189ca07fc15550f8aee4a679622b368c1a59b2695311f23603af7554f4a6
        e2c1ec0ebf0ea9803675765fc4706d45ec0aa5ec0f0948ce2b904abe4e928f29ff9dded66ce16271df9e229960243f7daaec3c64
        418fd2d10e625733263243026dd8b50eb902b0020b608a83da1aba1a4d8063ea062ece4052e97f5781669b183ac1ed8cec6d939c
        6bf530e5013c8edfffcaf1a3264695811a1c9c0427e2f87e7bad9637620c5731a7fc556bbf224543e0ec4503972d5792";
    /// With SHA-1 in the mask.
    const OTHER_MASK: &str = "
        b415f7b6cb0e33fcd010208c02bf95cbcdba07fb07cbf2a232f7ab7dcfb57467b632616b5a907990ea4ebe29584b095f8e8e00ea
        ccfab95bd558af31b92879c0911d628484c838be73461a47090c218cf76648fa7f070e4b7234d1885cce2e9d066cc2ea5d1922f4
        e63f14162ababa97d8253be323252b08eff6cfdce7a47c5a88264f94db29e2010dc519a4c35425555bbf4aa6056d3beafdae0c9b
        24fa510fdb2cf95a9fcface2f9b6ac73a0c0e8e1999f85e1bd7e0a0eb205e60391e9b79fb499beb4f789e629169e6df96b29a6ec
        d7528120f7107905665db09355ea30075fce7b7d4d50d54193eabd72db6486a28df7cea3df801a9c249e9bdf79d906b4";
    /// With the padding of PKCS #1 v1.5.
    const OTHER_PADDING: &str = "
        3999c918caf9e295c5a11fb944030ea649a3e495f2dd6f4a80ebc788e1950a4314910c05fa921fe1668a9bd11c83531341d4a80f
        536e30bb37671eb91eb17a6e843142ade4a8c98baa8c5ff2737b18a1863fd1f1dd60c5f3fc5dba1b2183484376070a824ef775b8
        e422c4aa23f29942cedfd5228800623dc32c914bf44b2a6f6e1eb583cb5b39b5a4f8c31762cea318d2e3a36bb8d5d36e23cd3f60
        36be9498031641612e7964b4ae201554da3b099f8af1e36304b43f3a87e3ae11d5f16140783be043f37eb66dd5dfb2fd23c1e068
        a8101a9dbc08227f797e02c95a9c5281bafd0eae4e0909b2af15c84e5a3389da2ce6cc1ceeb3f77f19e37eef2cf3e55a";

    #[test]
    fn signatures_with_salts_of_all_lengths_are_verified() {
        let key = hex(KEY);
        for signature in [SALT_0, SALT_20, SALT_32, SALT_222].map(hex) {
            assert!(verify_any_salt(&key, b"message", &signature));
            assert!(!verify_any_salt(&key, b"messagf", &signature));
            let longer = [&[0], &signature[..]].concat();
            assert!(!verify_any_salt(&key, b"message", &longer) && !verify_any_salt(&key, b"message", &signature[1..]));
        }
    }

    #[test]
    fn other_masks_and_paddings_are_refused() {
        for signature in [OTHER_MASK, OTHER_PADDING].map(hex) {
            assert!(!verify_any_salt(&hex(KEY), b"message", &signature));
        }
        for signature in [[0; LEN], [0xff; LEN]] {
            assert!(!verify_any_salt(&hex(KEY), b"message", &signature));
        }
    }

    #[test]
    fn signature_with_any_bit_changed_is_refused() {
        let (key, valid) = (hex(KEY), hex(SALT_222));
        // All bits of some bytes, and one bit of each byte.
        let bits = (0..LEN).map(|at| (at, at % 8)).chain((0..8).flat_map(|bit| [0, 100, 255].map(|at| (at, bit))));
        for (at, bit) in bits {
            let mut signature = valid.clone();
            signature[at] ^= 1 << bit;
            assert!(!verify_any_salt(&key, b"message", &signature), "byte {at}, bit {bit}");
        }
    }

    #[test]
    fn malformed_keys_verify_nothing() {
        let (key, signature) = (hex(KEY), hex(SALT_32));
        for len in 0..key.len() {
            assert!(!verify_any_salt(&key[..len], b"message", &signature));
        }
        let mut even = key.clone();
        // The last byte of the modulus precedes the five of the exponent.
        let last = even.len() - 6;
        even[last] &= 0xfe;
        assert!(!verify_any_salt(&even, b"message", &signature));
    }

    #[test]
    fn encodings_with_one_wrong_byte_are_refused() {
        let encoded = encoded_message(&hex(KEY), &hex(SALT_222)).unwrap();
        assert!(is_encoding_of(&encoded, b"message"));
        for at in 0..LEN {
            let mut changed = encoded;
            changed[at] ^= 0x80;
            assert!(!is_encoding_of(&changed, b"message"), "byte {at}");
        }
    }
}
