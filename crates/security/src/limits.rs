//! Every bound of this crate, with its unit and its reason.

use peregrine_rtps::time::Span;

/// Session keys of one sender's key that a receiver keeps expanded. Reordered datagrams and repairs may be of a session
/// before the newest one.
pub const SESSIONS_PER_KEY: usize = 8;

/// Sessions behind the newest one of a key that a sender may use next. Some begin a session after every 32 texts, and
/// most of these may be for others. The keys of sessions in this range are derived once, also if a forged text names
/// them first.
pub const SESSIONS_AHEAD: i32 = 4;

/// Texts that name any other session of a key, in an interval of [`IDLE_SESSIONS_INTERVAL`], for each of which a
/// session key is derived. Honest ones are the first of a key, and the first after many were lost.
pub const NEW_SESSIONS_PER_INTERVAL: u32 = 128;

/// Beyond that number, a key is derived for one of so many texts. In any flood, a text of the true sender is one of
/// them after so many attempts on average.
pub const NEW_SESSIONS_SHARE: u32 = 8;

/// Keys of one sender, counted by key id. Each renewal of keys adds up to two; the oldest give way.
pub const KEYS_PER_SENDER: usize = 8;

/// AES blocks that are processed with one session key, unless the configuration states less. With 2³² blocks, GCM keeps
/// a margin of 2⁻³² against distinguishing its output from random bytes.
pub const BLOCKS_PER_SESSION: u64 = 1 << 32;

/// Bytes of one certificate. Certificates with RSA keys of 8192 bits have less than 4 KiB.
pub const CERTIFICATE_BYTES: usize = 16 << 10;

/// Certificates in one file or one message.
pub const CERTIFICATES_PER_FILE: usize = 64;

/// Certificates between that of a participant and a trust anchor, the former counted.
pub const CHAIN_LENGTH: usize = 8;

/// Signatures that are verified in the search for one chain.
pub const CHAIN_SIGNATURES: usize = 32;

/// Bytes of a revocation list.
pub const REVOCATION_LIST_BYTES: usize = 4 << 20;

/// Bytes of a signed document of this participant.
pub const LOCAL_DOCUMENT_BYTES: usize = 1 << 20;

/// Bytes of a signed document that a peer sends.
pub const REMOTE_DOCUMENT_BYTES: usize = 64 << 10;

/// Elements, attributes and texts of a document. A rule for one topic has about 40.
pub const DOCUMENT_NODES: u32 = 100_000;

/// Attributes of one element, counted by the equals signs outside of values. The parser compares each attribute with
/// all others of its element. The schemas have one or two.
pub const ELEMENT_ATTRIBUTES: usize = 4096;

/// Nesting of elements. The schemas have 8 levels; extensions may have more.
pub const DOCUMENT_DEPTH: usize = 16;

/// Characters of a pattern for topics, partitions or tags. Names of topics have at most 256.
pub const PATTERN_CHARS: usize = 1024;

/// Bytes of one message between participants: a permissions document of [`REMOTE_DOCUMENT_BYTES`], a certificate with
/// its authorities, and discovery data.
pub const MESSAGE_BYTES: usize = 128 << 10;

/// Tokens in one message. A writer has two keys.
pub const TOKENS_PER_MESSAGE: usize = 8;

/// Properties of each kind in one token. A handshake has up to 14.
pub const PROPERTIES_PER_TOKEN: usize = 32;

/// Bytes of the name of a property, or of a class.
pub const PROPERTY_NAME_BYTES: usize = 256;

/// Bytes of a property with text. Such texts are names of certificates and algorithms.
pub const PROPERTY_TEXT_BYTES: usize = 4096;

/// Bytes of a public key for a key agreement: a number of 2048 bits as DER has 261.
pub const PUBLIC_KEY_BYTES: usize = 512;

/// Bytes of a signature in a handshake. One by RSA has 256.
pub const SIGNATURE_BYTES: usize = 512;

/// Participants that authentication knows, as many as discovery does.
pub const PEERS: usize = peregrine_rtps::limits::PARTICIPANTS_MAX;

/// Challenges that were stated to peers and that no handshake has used yet, one of each peer.
pub const CHALLENGES: usize = PEERS;

/// Handshakes with participants that are not authenticated.
pub const HALF_OPEN: usize = 1024;

/// The same from one address. All participants of a host may start at once.
pub const HALF_OPEN_PER_ADDRESS: usize = 256;

/// After this time, a handshake whose peer has shown no sign that it receives anything gives way when there is no room.
pub const HALF_OPEN_MIN: Span = Span::from_millis(250);

/// Bytes of messages that wait for a job, all participants together; an address has a quarter at most.
pub const WAITING_BYTES: usize = 8 << 20;

/// Messages of participants that discovery does not know yet, one of each.
pub const EARLY_MESSAGES: usize = 64;

/// Bytes of such a message.
pub const EARLY_MESSAGE_BYTES: usize = 16 << 10;

/// How long such a message is kept. Announcements are repeated more often.
pub const EARLY_TIME: Span = Span::from_secs(2);

/// The first repetition of a message follows after this time, each further one after twice the time before.
pub const RESEND_FIRST: Span = Span::from_millis(100);

/// The longest time between two repetitions.
pub const RESEND_MAX: Span = Span::from_secs(5);

/// Repetitions of one message of a handshake, or of the announcement of a challenge.
pub const RESENDS: u32 = 10;

/// How long a handshake may take.
pub const HANDSHAKE_TIME: Span = Span::from_secs(60);

/// After a handshake failed, the next one with the same peer begins at this time at the earliest.
pub const HANDSHAKE_PAUSE: Span = Span::from_secs(10);

/// Requests of one peer that wait for its last message. Each may be the one that is not forged.
pub const CANDIDATES: usize = 3;

/// How long such a request is kept.
pub const CANDIDATE_TIME: Span = Span::from_secs(20);

/// Requests of one peer that are examined at once, and in each second after.
pub const REQUESTS_PER_PEER: u64 = 4;

/// Verifications of last messages of one peer by a second or third request, at once and in each second after. Any host
/// can repeat a request with other keys, and send any number of last messages that name no keys.
pub const VERIFICATIONS_PER_PEER: u64 = 4;

/// A message that is received again is answered again after this time at the earliest.
pub const ANSWER_INTERVAL: Span = Span::from_millis(50);

/// Bytes that are sent to participants that have not shown that they receive anything, at once and in each second
/// after. A request has about 5 KiB, and the half of this is kept for the first request to each.
pub const UNPROVEN_BYTES: u64 = 4 << 20;

/// A refused message of one peer is refused again without work, this many of them.
pub const REFUSED_MESSAGES: usize = 4;

/// After this many refused messages, a peer is served among the strangers.
pub const REFUSALS_OF_PROVEN: u32 = 4;

/// An authenticated peer must have been silent for this time after it announced a challenge before a new handshake
/// begins: others may have announced it.
pub const RESTART_SILENCE: Span = Span::from_secs(2);

/// Reports of refused and failed handshakes that wait to be read.
pub const REPORTS: usize = 1024;

/// Messages that wait to be sent. They are repeated anyway.
pub const TRANSMITS: usize = 4096;

/// The longest time after which the calendar is read again, which may have been set.
pub const CALENDAR_INTERVAL: Span = Span::from_secs(3600);

/// Events of authentication that one call of a session takes. The built-in authentication reports at most two for each
/// peer; a plug-in that never stops must not stop the session.
pub const AUTHENTICATION_EVENTS: usize = 4 * PEERS;

/// Steps of a session that wait to be taken. While as many wait, no message of others is accepted.
pub const STEPS: usize = 8192;

/// Local endpoints of a session, as many as discovery permits.
pub const LOCAL_ENDPOINTS: usize = peregrine_rtps::limits::ENDPOINTS_PER_PARTICIPANT_MAX;

/// Endpoints of one peer, as many as discovery permits.
pub const ENDPOINTS_PER_PEER: usize = peregrine_rtps::limits::ENDPOINTS_PER_PARTICIPANT_MAX;

/// Pairs of a local endpoint and one of a peer, for each peer. A pair takes some 200 bytes, and a key for each side.
pub const MATCHES_PER_PEER: usize = 65_536;

/// Messages with keys of one peer for pairs of endpoints that do not match yet. Each has at most
/// [`KEYS_PER_ENDPOINT`] keys.
pub const EARLY_TOKENS_PER_PEER: usize = 1024;

/// Such messages of one pair: keys that are in use, and renewed ones.
pub const EARLY_TOKENS_PER_PAIR: usize = 4;

/// Keys in one message: of a writer, one for submessages and one for payloads.
pub const KEYS_PER_ENDPOINT: usize = 2;

/// A participant that waits for the keys of a peer sends its own keys again after this time, and after twice the time
/// before each further time. The peer takes the repetition as a question.
pub const TOKEN_RESEND_FIRST: Span = Span::from_millis(500);

/// The same when keys of the peer arrived early and were dropped.
pub const TOKEN_RESEND_DROPPED: Span = Span::from_millis(50);

/// Repetitions of the keys of one pair.
pub const TOKEN_RESENDS: u8 = 7;

/// A repetition is answered when the last keys were sent this long ago at least, so that answers cause no answers.
pub const TOKEN_ANSWER_INTERVAL: Span = Span::from_millis(250);

/// Answers to repetitions for one pair.
pub const TOKEN_ANSWERS: u8 = 16;

/// The time between two renewals of keys. With [`OLD_KEY_TIME`], a receiver has [`KEYS_PER_SENDER`] keys of a writer at
/// most.
pub const RENEWAL_INTERVAL: Span = Span::from_secs(15);

/// The time between the sending of renewed keys and their first use.
pub const ACTIVATION_DELAY: Span = Span::from_secs(2);

/// How long keys of a peer remain after the peer has replaced them.
pub const OLD_KEY_TIME: Span = Span::from_secs(30);

/// How often the blocks that each sender has sealed are compared with the configured number.
pub const BLOCKS_CHECK_INTERVAL: Span = Span::from_secs(1);

/// How often the idle session keys of peers are dropped. Each peer has some ten for built-in endpoints, which are used
/// while the peer is discovered and seldom later.
pub const IDLE_SESSIONS_INTERVAL: Span = Span::from_secs(1);

/// Complete intervals after which the session keys of a built-in endpoint are dropped if they have opened nothing.
pub const BUILTIN_IDLE_INTERVALS: u8 = 1;

/// The same for a user's endpoint, and for the messages of a participant, which carry the samples: a flow with a sample
/// every 10 s or more often derives no keys and allocates no memory for its samples.
pub const USER_IDLE_INTERVALS: u8 = 10;

/// Tags of one endpoint.
pub const DATA_TAGS: usize = 64;

/// Bytes of the name or the value of a tag.
pub const DATA_TAG_BYTES: usize = 256;

/// Bytes of the name of a topic or partition.
pub const NAME_BYTES: usize = 256;

/// Partitions of one endpoint, as many as discovery permits.
pub const PARTITIONS: usize = peregrine_rtps::limits::PARTITIONS_MAX;

/// Characters of a passphrase (DDS Security 1.2 §10.5.1).
pub const PASSPHRASE_BYTES: usize = 512;

/// Passphrases of a participant at one time: the one to seal with, and others that it accepts. A replacement needs two.
pub const PASSPHRASES: usize = 16;

/// Parts of the table with keys of senders that are derived from passphrases. An insertion copies one part.
pub const SENDERS_PARTS: usize = 64;

/// Keys in one part: 4,096 senders in all, about 4 MiB.
pub const SENDERS_PER_PART: usize = 64;

/// Keys that are derived at once for senders whose key is not known. All participants of a domain may change their
/// passphrase at the same time.
pub const SENDER_DERIVATION_BURST: u64 = 4096;

/// The time after which one more may be derived: a flood of strangers costs about 5 µs of each 100 µs.
pub const SENDER_DERIVATION_COST: Span = Span::from_micros(100);
