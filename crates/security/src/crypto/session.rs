//! Session keys: derived from a master key, expanded once, and used for many texts.

use core::fmt;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use peregrine_rtps::protection::Text;
use zeroize::Zeroizing;

use super::algorithm::KeyLength;
use crate::secret::Secret;

/// Precedes the salt in the derivation of a session key.
const SENDER_LABEL: &[u8] = b"SessionKey";
/// The same for a receiver-specific session key.
const RECEIVER_LABEL: &[u8] = b"SessionReceiverKey";

/// Precedes each nonce in a header: the session, and a value that no other use of the session key has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Iv {
    pub(super) session_id: [u8; 4],
    pub(super) suffix: [u8; 8],
}

/// A master key and the salt, from which session keys are derived (DDS Security 1.2 §10.5.3.3.3). A session is rare, so
/// the key is not kept expanded, which takes twenty times as much memory.
#[derive(Clone)]
pub(super) struct Master {
    key: Secret,
    label: &'static [u8],
    salt: Secret,
    length: KeyLength,
}

#[cfg(test)]
std::thread_local! {
    /// The session keys that this thread has derived.
    pub(super) static DERIVATIONS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// An expanded session key.
pub(super) struct SessionKey(LessSafeKey);

impl Master {
    /// The key of a sender for all its receivers.
    pub(super) fn of_sender(key: &Secret, salt: &Secret, length: KeyLength) -> Self {
        Self::new(SENDER_LABEL, key, salt, length)
    }

    /// The key of a sender for one receiver.
    pub(super) fn of_receiver(key: &Secret, salt: &Secret, length: KeyLength) -> Self {
        Self::new(RECEIVER_LABEL, key, salt, length)
    }

    fn new(label: &'static [u8], key: &Secret, salt: &Secret, length: KeyLength) -> Self {
        Self { key: key.clone(), label, salt: salt.clone(), length }
    }

    pub(super) fn session(&self, session_id: [u8; 4]) -> SessionKey {
        #[cfg(test)]
        DERIVATIONS.set(DERIVATIONS.get() + 1);
        let octets = self.derive(session_id);
        // The length is that of the algorithm, so the key is never refused.
        #[expect(clippy::expect_used, reason = "a key of another length cannot occur")]
        let key = UnboundKey::new(self.length.aead(), &octets).expect("the key has the length of its algorithm");
        SessionKey(LessSafeKey::new(key))
    }

    fn derive(&self, session_id: [u8; 4]) -> Zeroizing<Vec<u8>> {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, self.key.expose()));
        context.update(self.label);
        context.update(self.salt.expose());
        context.update(&session_id);
        let tag = context.sign();
        Zeroizing::new(tag.as_ref().iter().copied().take(self.length.bytes()).collect())
    }

    #[cfg(test)]
    pub(super) fn derived(&self, session_id: [u8; 4]) -> Vec<u8> {
        self.derive(session_id).to_vec()
    }
}

impl Iv {
    fn nonce(self) -> Nonce {
        let mut nonce = [0; 12];
        let (session, suffix) = nonce.split_at_mut(4);
        session.copy_from_slice(&self.session_id);
        suffix.copy_from_slice(&self.suffix);
        Nonce::assume_unique_for_key(nonce)
    }
}

impl SessionKey {
    /// Signs or encrypts. `None` for a text that is longer than GCM permits.
    pub(super) fn seal(&self, iv: Iv, text: Text<'_>) -> Option<[u8; 16]> {
        let tag = match text {
            Text::Signed(octets) => self.0.seal_in_place_separate_tag(iv.nonce(), Aad::from(octets), &mut []),
            Text::Encrypted(octets) => self.0.seal_in_place_separate_tag(iv.nonce(), Aad::empty(), octets),
            Text::EncryptedAcross { from, to } => {
                let mut tag = [0; 16];
                let sealed = self.0.seal_out_of_place_scatter(iv.nonce(), Aad::empty(), from, to, &[], &mut tag);
                return sealed.ok().map(|()| tag);
            }
        };
        tag.ok()?.as_ref().try_into().ok()
    }

    /// Verifies, and decrypts if the text is encrypted. `additional` belongs to an encrypted text; a signed
    /// text contains it.
    pub(super) fn open(&self, iv: Iv, mac: &[u8; 16], additional: &[u8], text: Text<'_>) -> bool {
        let opened = match text {
            Text::Signed(octets) => {
                self.0.open_in_place_separate_tag(iv.nonce(), Aad::from(octets), mac, &mut []).map(|_| ())
            }
            Text::Encrypted(octets) => {
                self.0.open_in_place_separate_tag(iv.nonce(), Aad::from(additional), mac, octets).map(|_| ())
            }
            Text::EncryptedAcross { from, to } => {
                self.0.open_separate_gather(iv.nonce(), Aad::from(additional), from, mac, to)
            }
        };
        opened.is_ok()
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Master({:?})", self.length)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn session_keys_of_a_captured_message_are_derived() {
        // The keys of a message of Cyclone DDS: of the participant, of a writer for all readers, of the writer for one
        // reader, and of payloads.
        let cases = [
            (
                "e94949758b0fc86cb8da0e55696c9e4d79265214781b85ee30c7015ed1efb438",
                "513117cf17bbae139331a2d84f176817af47138bf87b7caf132ce8c10f8cf530",
                [0xe4, 0xbc, 0x7e, 0x6a],
                false,
                "3c259f0c139a8a08155befbc535603ad5d2a7a080dd19806b9dc34c5a9fb047c",
            ),
            (
                "3c6f14e8fcab6039773665cff1f163b58598b91660cb301d67a6d769002f2c44",
                "45d0c6d019eb1118ac5a4ffef37d54ed50976b791ef4434e86b4e4dc587f79ac",
                [0x86, 0x8e, 0x78, 0x0e],
                false,
                "7efdd30a268d4762c19ade65a00981f910b3b33008794bc71b56ee536b6a4284",
            ),
            (
                "3c6f14e8fcab6039773665cff1f163b58598b91660cb301d67a6d769002f2c44",
                "3f4f2737d70f92510fbe13bdf25b88b72e8b95d157f0e857c59713f9e6f2db4c",
                [0x86, 0x8e, 0x78, 0x0e],
                true,
                "539aedada9930bba3557d2b329d4fa91d445101d95a2c10609bb54a056723f41",
            ),
            (
                "5a28af2fb7179fae8be77e43aa780a1b96edf4b1edf1d2e2481e6566fe69e6e4",
                "1bad1a2bb65f80889f1eabbc433444fb7565638b2fc932e3f41ab4461b42f579",
                [0xd3, 0xbf, 0xcf, 0xa2],
                false,
                "68a90682e2c10207fa1fb1b9d89bd3b0dc04fa945f613058763429ff94491ef8",
            ),
        ];
        for (salt, key, session_id, is_receivers, expected) in cases {
            let [salt, key] = [salt, key].map(|digits| Secret::from(hex(digits)));
            let master = if is_receivers { Master::of_receiver } else { Master::of_sender };
            assert_eq!(master(&key, &salt, KeyLength::Aes256).derived(session_id), hex(expected));
            assert_eq!(master(&key, &salt, KeyLength::Aes128).derived(session_id), hex(expected)[..16]);
        }
    }

    #[test]
    fn receiver_mac_of_a_captured_message_is_computed() {
        let salt = Secret::from(hex("3c6f14e8fcab6039773665cff1f163b58598b91660cb301d67a6d769002f2c44"));
        let key = Secret::from(hex("3f4f2737d70f92510fbe13bdf25b88b72e8b95d157f0e857c59713f9e6f2db4c"));
        let session_id = [0x86, 0x8e, 0x78, 0x0e];
        let session = Master::of_receiver(&key, &salt, KeyLength::Aes256).session(session_id);
        let iv = Iv { session_id, suffix: [0xe9, 0x04, 0x3c, 0xb4, 0x97, 0x9e, 0x8b, 0xb2] };
        let mac = session.seal(iv, Text::Signed(&hex("298d1f9ef947f1c97648bfa5872d909b")));
        assert_eq!(mac.unwrap()[..], hex("a94912eb079029ec2729b1d2a399ad27"));
    }
}
