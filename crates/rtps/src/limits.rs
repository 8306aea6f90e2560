//! Every bound of this crate that is not a QoS policy, with its unit and its reason.

use crate::time::Span;

/// Largest UDP payload over IPv4, in bytes: 65,535 less the IP and UDP headers.
pub const MESSAGE_BYTES_MAX: usize = 65_507;

/// Smallest message size that a writer can be configured with, in bytes: room for the headers and a useful fragment.
pub const MESSAGE_BYTES_MIN: usize = 512;

/// Receivers of one message if each receiver needs its own MAC, of 20 bytes at each level. Further receivers get
/// separate messages.
pub const RECEIVER_MACS_MAX: usize = 32;

/// Out-of-order samples that a reader holds per writer. One acknowledgement can request 256.
pub const REORDER_SAMPLES_MAX: usize = 4096;

/// Samples that a reader reassembles per writer at the same time.
pub const REASSEMBLY_SAMPLES_MAX: usize = 64;

/// Versions of one sample that a reader reassembles at the same time if fragments disagree on its size or on that of
/// its pieces: the true one and a forged one.
pub const REASSEMBLY_RIVALS_MAX: usize = 2;

/// How long no fragment of such a version has arrived until a reader without memory for both discards it for another.
pub const REASSEMBLY_RIVAL_IDLE: Span = Span::from_millis(100);

/// How long no fragment has arrived of a sample that a HEARTBEAT denies, until the reader believes the HEARTBEAT:
/// networks reorder by less.
pub const REASSEMBLY_DENIED_AFTER: Span = Span::from_millis(200);

/// How long no fragment has arrived of a sample that no HEARTBEAT announces, until a reader discards the sample: three
/// periods of the flow controllers of some writers, which send one burst per second.
pub const REASSEMBLY_UNANNOUNCED_MAX: Span = Span::from_secs(3);

/// The same for a sample that a HEARTBEAT announces: as long as requests for it are repeated.
pub const REASSEMBLY_IDLE_MAX: Span = Span::from_secs(10);

/// Number of ineffective requests for fragments of a sample after which a reader requests the whole sample, each time.
/// The first time is after about a third of a second: the received fragments may be forged, and the sample not in
/// fragments.
pub const WHOLE_SAMPLE_REQUEST_EVERY: u32 = 6;

/// Fragments per sample: the largest sample in pieces of 1 KiB. With smaller pieces, a reader would need more memory
/// for the records of fragments than for the sample.
pub const FRAGMENTS_PER_SAMPLE_MAX: u32 = 1 << 20;

/// Bytes that a user reader holds per writer for out-of-order samples, and as many for samples under reassembly.
pub const MEMORY_PER_WRITER_MAX: usize = 256 << 20;

/// Bytes that a user reader holds for all its writers, of both kinds together.
pub const MEMORY_PER_READER_MAX: usize = 1 << 30;

/// Samples of a reader that wait until application code has computed their instance, which takes microseconds. At this
/// number, the reader accepts no further sample, and a reliable writer waits.
pub const UNKEYED_SAMPLES_MAX: usize = 256;

/// Bytes that all user readers of a participant together hold for the writers of one remote participant. A single
/// sample always fits.
pub const MEMORY_PER_PARTICIPANT_MAX: usize = 512 << 20;

/// Bytes that all remote participants together make a participant hold: cached samples, samples that are incomplete or
/// out of order, and discovery data. A participant may be configured otherwise.
pub const PEER_BYTES_MAX: usize = 2 << 30;

/// Bytes of incomplete and out-of-order samples for which cached samples leave room, but not more than a quarter of all
/// bytes: some of the longest point clouds and images.
pub const INCOMPLETE_SHARE_BYTES_MAX: usize = 64 << 20;

/// Bytes of them that the participants of one source address may occupy in any case, however many addresses there are:
/// some samples in one datagram each.
pub const ADDRESS_SHARE_BYTES: usize = 128 << 10;

/// Bytes of samples that a reader caches for the application, unless configured otherwise.
pub const CACHED_BYTES_MAX: usize = 1 << 30;

/// Bytes of a reader's cache that count in no account, so that a reader of small samples always has room, and charges
/// nothing.
pub const CACHE_SHARE_BYTES: usize = 64 << 10;

/// The step in which a reader's cache is charged.
pub const CACHE_CHARGE_STEP: usize = 64 << 10;

/// Bytes that a cached sample counts for beside its payload, because its record takes that much.
pub const CACHED_SAMPLE_BYTES: usize = 256;

/// Like [`MEMORY_PER_WRITER_MAX`], for built-in readers: the memory that an unverified peer can occupy per built-in
/// topic with incomplete samples.
pub const BUILTIN_MEMORY_PER_WRITER_MAX: usize = 1 << 20;

/// Bytes that a built-in reader holds for all its writers, of both kinds together.
pub const BUILTIN_MEMORY_PER_READER_MAX: usize = 64 << 20;

/// How long an announcement of an endpoint waits for others to share its message, if one was made as short a time
/// before. The first one of an application that makes many waits for nothing.
pub const ANNOUNCEMENTS_GATHERED_FOR: Span = Span::from_micros(200);

/// Bytes of a message of the handshake or with keys: a signed permissions document, a certificate with its authorities,
/// and discovery data.
pub const SECURE_MESSAGE_BYTES_MAX: usize = 128 << 10;

/// Received messages of the handshake that the caller has not taken. The caller takes them after each datagram.
pub const HANDSHAKE_QUEUE_MAX: usize = 256;

/// The same of one sender.
pub const HANDSHAKE_QUEUE_PER_SENDER: usize = 8;

/// Bytes of such messages.
pub const HANDSHAKE_QUEUE_BYTES_MAX: usize = 4 << 20;

/// The same of one sender: two of the longest.
pub const HANDSHAKE_QUEUE_BYTES_PER_SENDER: usize = 2 * SECURE_MESSAGE_BYTES_MAX;

/// Messages of the handshake of which fragments are missing.
pub const PARTIAL_HANDSHAKES_MAX: usize = 256;

/// The same of one sender: its request and a forged one.
pub const PARTIAL_HANDSHAKES_PER_SENDER: usize = 2;

/// Bytes of them that have arrived, with [`PIECE_RECORD_BYTES`] for each fragment.
pub const PARTIAL_HANDSHAKE_BYTES_MAX: usize = 4 << 20;

/// Bytes that a fragment counts for beside its content.
pub const PIECE_RECORD_BYTES: usize = 64;

/// How long no fragment of such a message has arrived until it is dropped: peers repeat a message within a second.
pub const PARTIAL_HANDSHAKE_IDLE: Span = Span::from_secs(2);

/// Messages with keys for one peer that wait for acknowledgement: two for each of some thousand endpoints.
pub const KEY_CHANNEL_MESSAGES_PER_PEER: u32 = 8192;

/// Bytes of them: a message with keys has about 400.
pub const KEY_CHANNEL_BYTES_PER_PEER: usize = 4 << 20;

/// Bytes of messages with keys that wait for acknowledgement, all peers together.
pub const KEY_CHANNEL_BYTES_MAX: usize = 64 << 20;

/// Bytes that the reader of keys holds for one peer: messages out of order, or in fragments.
pub const KEY_CHANNEL_MEMORY_PER_PEER: usize = 1 << 20;

/// Bytes that it holds for all peers.
pub const KEY_CHANNEL_MEMORY_MAX: usize = 64 << 20;

/// Maximum number of refused participants that are remembered, so that each refusal causes one event. The oldest is
/// forgotten.
pub const REFUSALS_REMEMBERED_MAX: usize = 256;

/// Known senders of refused messages, by reason, for each of which there is an event once a second. Further ones share
/// an event.
pub const REFUSED_SENDERS_MAX: usize = 64;

/// Messages with keys that the caller has not taken. At this number, peers wait.
pub const KEY_CHANNEL_UNREAD_MAX: u32 = 1024;

/// Bytes of idle buffers that a participant keeps for decryption: a few datagrams.
pub const OPENED_BYTES_MAX: usize = 2 << 20;

/// Participants that a participant knows at the same time.
pub const PARTICIPANTS_MAX: usize = 4096;

/// Known participants that have not proved that they receive our messages, so that their addresses are unverified.
pub const PARTICIPANTS_UNVERIFIED_MAX: usize = 512;

/// Source addresses recorded per remote participant. A host has a few; a further address replaces the oldest.
pub const SHOWN_ADDRESSES_MAX: usize = 16;

/// Bytes of answers for each announcement byte of an unverified participant, as in RFC 9000 §8.1. With fewer, a peer
/// that hears no multicast waits for the next period if its announcement is shorter than that of this participant.
pub const ANSWER_CREDIT_FACTOR: usize = 3;

/// The intervals after which the answer to an unverified participant is repeated, and the announcement to one that has
/// to discover this participant anew. See `participant/answer_repetitions.rs` and `participant/relocation.rs`.
pub const ANSWER_REPETITIONS: [Span; 3] = [Span::from_millis(10), Span::from_millis(100), Span::from_millis(200)];

/// Origins of which the budget for announcements in answer is kept. Only a flood of origins needs more.
pub const ANSWER_ORIGINS_MAX: usize = 1024;

/// Bytes per second that time adds to the budget for announcements in answer to the participants of one origin.
pub const ANSWER_REFILL_PER_SECOND: usize = 1 << 10;

/// The most credit for answers: of one unverified participant, which begins with none, and of the participants of one
/// origin whose addresses are known, which begin with all of it. The participants of one origin have as much for
/// messages of the handshake.
pub const ANSWER_CREDIT_MAX: usize = 64 << 10;

/// Bytes of messages of the handshake for each byte that comes from a participant that is not authenticated: together
/// with [`ANSWER_CREDIT_FACTOR`] ten.
pub const HANDSHAKE_CREDIT_FACTOR: usize = 7;

/// The most credit of one participant for messages of the handshake. The longest message fits.
pub const HANDSHAKE_CREDIT_MAX: usize = 2 * SECURE_MESSAGE_BYTES_MAX;

/// How long a participant must be silent before a new one may evict it once [`PARTICIPANTS_MAX`] are known, regardless
/// of its lease: a participant with an infinite lease must not occupy an entry for ever. Implementations announce
/// themselves at least every 30 s.
pub const EVICTION_MIN_SILENCE: Span = Span::from_secs(120);

/// How often messages of a participant that are no announcements renew its lease. A lease may so end earlier than after
/// the last message, by this or by a sixteenth of itself, whichever is less.
pub const SIGN_OF_LIFE_INTERVAL: Span = Span::from_millis(100);

/// Participants whose last sign of life is looked up without a search. With more, two in one slot cost a search each.
pub const SIGN_OF_LIFE_SLOTS: usize = 64;

/// Participants that fell silent and of which discovery data are kept, in case that they return and do not repeat them.
/// One from the address with most of them gives way.
pub const PARKED_PARTICIPANTS_MAX: usize = 1024;

/// Participants that fell silent, repeat their discovery data, and are remembered as known before. The one that fell
/// silent first is forgotten.
pub const KNOWN_BEFORE_MAX: usize = 4096;

/// Bytes kept of all of them together.
pub const PARKED_BYTES_MAX: usize = 8 << 20;

/// How long a reader requests a sample until it reports that the sample is missing.
pub const MISSING_REPORTED_AFTER: Span = Span::from_secs(1);

/// The time for an answer to each question to a participant whose process has ended, as the system reports: without an
/// answer, the participant is lost after a second. In less time, a process that lives and is slow might be lost.
pub const PROCESS_END_ANSWERS: [Span; 4] =
    [Span::from_millis(100), Span::from_millis(200), Span::from_millis(400), Span::from_millis(300)];

/// A message that comes within this time after the report may have waited to be received, and does not refute it.
pub const PROCESS_END_BACKLOG: Span = Span::from_millis(200);

/// Questions to a participant at addresses that it no longer announces, until it counts as moved.
pub const MOVE_QUESTIONS: u32 = 4;

/// The time after the first of these questions; each further one doubles it, up to [`MOVE_QUESTION_DOUBLINGS`] times:
/// 300 ms in all.
pub const MOVE_QUESTION_INTERVAL: Span = Span::from_millis(20);

/// How often the time between these questions doubles: to 640 ms at most.
pub const MOVE_QUESTION_DOUBLINGS: u32 = 5;

/// Questions to a peer that takes no notice of moves, after this participant has its former addresses again: for 5 s in
/// all. After an outage of a link, peers and switches need a while to reach it.
pub const RETURN_QUESTIONS: u32 = 12;

/// How long a peer that was discovered after a move may take to show that it hears this participant, until it gets a
/// goodbye; and how long a peer that may keep a session may take until it is authenticated.
pub const SILENT_AFTER: Span = Span::from_secs(1);

/// How long after a handshake under way at a move the peer may be silent in the exchange of keys, until it is asked
/// whether it has the present addresses. The exchange asks again after 0.5, 1.5 and 3.5 s, and the last message of the
/// handshake is repeated as often.
pub const KEYS_EXCHANGED_WITHIN: Span = Span::from_secs(4);

/// How long after a move a handshake that is completed may state the former addresses: it lasts no longer.
pub const FORMER_ADDRESSES_STATED: Span = Span::from_secs(60);

/// Authenticated peers whose lease has ended, or before which this participant has moved, and that may keep their
/// session. The oldest gives way: a
/// peer without this note that keeps its session is found again only when its process starts again.
pub const LOST_SESSIONS_MAX: usize = 256;

/// The time from the announcements after a goodbye until the peer is asked again; each further one doubles it, up to
/// [`REJOIN_DOUBLINGS`] times.
pub const REJOIN_PAUSE: Span = Span::from_secs(1);

/// How often the time between goodbyes to one peer doubles: to 8 s, the period in which Cyclone DDS announces itself.
pub const REJOIN_DOUBLINGS: u32 = 3;

/// After such a goodbye, nothing is announced to the groups for this time.
pub const REJOIN_SILENCE: Span = Span::from_millis(100);

/// The shortest time between two such inquiries, so that announcements do not multiply.
pub const DOUBT_INTERVAL: Span = Span::from_secs(1);

/// How long other terms (vendor, lease, built-in endpoints, groups) have to be stated by a participant that does not
/// repeat its announcement when asked: for its lease, in which it announces itself, but no longer than this. Connext
/// has the longest usual period, 30 s, and one or two announcements may be lost.
pub const TERMS_BELIEVED_AFTER: Span = Span::from_secs(100);

/// How often the time between questions about other terms doubles, from [`CONTRADICTION_INTERVAL`] on: to 6.4 s at
/// most.
pub const TERMS_QUESTION_DOUBLINGS: u32 = 6;

/// How long after its goodbye a participant may still be heard, because messages overtake each other. A later message
/// shows that an impostor has said goodbye.
pub const GOODBYE_SILENCE: Span = Span::from_millis(200);

/// How long after a new announcement of a participant one with a lower number counts as outdated. A participant that
/// has restarted under its former GUID prefix numbers its announcements from one again, and is believed after this
/// time. The answer to a question about a forged announcement has a lower number, and must come later.
pub const OVERTAKEN_WITHIN: Span = Span::from_millis(200);
const _: () = assert!(OVERTAKEN_WITHIN.0 <= QUESTION_AFTER.0, "an answer to a question is never outdated");

/// How long after a change of its endpoints a participant is asked whether that is true, and after a question without
/// an answer again. All changes until then share the question.
pub const QUESTION_AFTER: Span = Span::from_millis(200);

/// Such questions in a row without an answer.
pub const QUESTIONS_MAX: u32 = 6;

/// The time between two questions about a statement that contradicts what was received. The contradiction stands if the
/// participant refutes it neither in answer to the first nor to the second.
pub const CONTRADICTION_INTERVAL: Span = Span::from_millis(100);

/// The shortest time for the answer to the second one.
pub const REFUTATION_MIN: Span = Span::from_millis(50);

/// The longest, on a path with a long round trip.
pub const REFUTATION_MAX: Span = Span::from_millis(300);

/// The shortest time between two attempts to receive all announcements of a participant again.
pub const REREAD_INTERVAL: Span = Span::from_millis(500);

/// Such attempts without success, after which a participant is compared only when it announces itself, and the interval
/// doubles with each attempt.
pub const REREAD_ATTEMPTS: u32 = 4;

/// Until it has doubled so often: to 17 minutes.
pub const REREAD_DOUBLINGS: u32 = 10;

/// Bytes that the digest of an endpoint counts for.
pub const INVENTORY_ENTRY_BYTES: usize = 64;

/// The shortest time between two summaries of the endpoints to a participant that asks.
pub const SUMMARY_INTERVAL: Span = Span::from_millis(50);

/// The shortest time between two visits of all participants that are to be asked.
pub const HEALING_INTERVAL: Span = Span::from_millis(5);

/// Writers that fell silent and of which a reader keeps the next sequence number.
pub const PARKED_WRITERS_MAX: usize = MATCHES_MAX;

/// Endpoints known of one participant: a recorder or a bridge of a large system has some 20,000.
pub const ENDPOINTS_PER_PARTICIPANT_MAX: usize = 32_768;

/// Bytes of discovery data kept per remote participant: 512 for each of [`ENDPOINTS_PER_PARTICIPANT_MAX`], twice as
/// many as an endpoint with default policies and a long name takes.
pub const DISCOVERY_BYTES_PER_PARTICIPANT_MAX: usize = 16 << 20;

/// Bytes of discovery data kept of all remote participants together, with [`ENDPOINT_BYTES`] for each endpoint: about
/// 45,000 endpoints. The 800 endpoints of 40 processes with ten topics take 1 MiB.
pub const DISCOVERY_BYTES_MAX: usize = 64 << 20;

/// Bytes of discovery data, counted likewise, of which the participants of each source address may occupy a part
/// although [`DISCOVERY_BYTES_MAX`] is reached: divided by the number of addresses, 16 MiB or 11,000 endpoints for each
/// of two.
pub const DISCOVERY_BYTES_OF_ADDRESSES: usize = 32 << 20;

/// Bytes of discovery data, counted likewise, that each participant may occupy although [`DISCOVERY_BYTES_MAX`] is
/// reached, so that others cannot keep a newcomer with about 90 endpoints out.
pub const DISCOVERY_BYTES_SHARE: usize = 128 << 10;

/// Announcements of endpoints, of each built-in writer of a participant, that were refused for lack of room and are
/// remembered to be received again one by one. Beyond these, all that follow are received again.
pub const REFUSED_NUMBERS_MAX: usize = 64;

/// How often a participant looks whether there is room for endpoints that it has refused, and the shortest time between
/// two attempts to receive their announcements again.
pub const REFUSED_INTERVAL: Span = Span::from_secs(1);

/// How often that time doubles, as long as announcements are refused again: to a minute.
pub const REFUSED_DOUBLINGS: u32 = 6;

/// Bytes that an endpoint counts for beside its discovery data, because its records take that much.
pub const ENDPOINT_BYTES: usize = 1 << 10;

/// Announcements sent soon after the start, so that the loss of one datagram does not delay discovery by a period.
pub const ANNOUNCEMENT_BURST: u32 = 6;

/// The interval between the first two announcements of the burst; doubled after each further one.
pub const ANNOUNCEMENT_BURST_INTERVAL: Span = Span::from_millis(50);

/// The shortest period of announcements. A period that rounds to zero would occupy the participant permanently.
pub const ANNOUNCEMENT_PERIOD_MIN: Span = Span::from_millis(10);

/// Largest serialized sample that a user endpoint accepts, in bytes.
pub const SAMPLE_BYTES_MAX: u32 = 1 << 30;

/// Largest serialized sample of a built-in endpoint, in bytes: discovery data with type information.
pub const BUILTIN_SAMPLE_BYTES_MAX: u32 = 1 << 18;

/// Partition names per endpoint, because matching compares each name with each. Further names of an announcement are
/// ignored.
pub const PARTITIONS_MAX: usize = 64;

/// Bytes of a partition name, without the terminating zero.
pub const PARTITION_BYTES_MAX: usize = 256;

/// Bytes of USER_DATA, TOPIC_DATA or GROUP_DATA of an own endpoint: what a parameter holds besides its length (RTPS 2.5
/// §9.4.2.11). With all three, an announcement is smaller than [`BUILTIN_SAMPLE_BYTES_MAX`].
pub const OPAQUE_BYTES_MAX: usize = 65_528;

/// Properties of each kind per announcement. Further properties are ignored.
pub const PROPERTIES_MAX: usize = 64;

/// Bytes of the name or the value of a property; longer ones are ignored. Connext announces paths of executables.
pub const PROPERTY_BYTES_MAX: usize = 4096;

/// Bytes of the announced properties of an own endpoint. Even if every other policy has its greatest length, an
/// announcement is smaller than [`BUILTIN_SAMPLE_BYTES_MAX`].
pub const ENDPOINT_PROPERTIES_BYTES_MAX: usize = 32 << 10;

/// Bytes of USER_DATA and properties of an own participant together: half a message, because the announcement must fit
/// into one message.
pub const PARTICIPANT_QOS_BYTES_MAX: usize = 32 << 10;

/// Bytes of idle sample buffers that an endpoint keeps for its next samples.
pub const POOL_BYTES_MAX: usize = 32 << 20;

/// Payloads up to this many bytes are copied out of the receive buffer. Longer ones refer to the buffer.
///
/// A copy of this size costs less than sharing the buffer across threads. Without a copy, a small cached sample would
/// keep a receive buffer of 64 KiB allocated.
pub const COPY_PAYLOAD_MAX: usize = 8192;

/// Bytes of copies that a participant lends to several of its readers, or keeps for their next samples.
pub const SHARED_COPIES_BYTES_MAX: usize = 4 << 20;

/// Bytes that a writer retransmits in answer to one acknowledgement. Further samples wait for the next one.
pub const REPAIR_BYTES_MAX: usize = 1 << 20;

/// Bytes of historical samples that a writer sends at once to a late joiner that never acknowledges. The writer sends
/// the next burst after [`HISTORY_PUSH_INTERVAL`], so that a request for history does not overload the reader.
pub const HISTORY_PUSH_BYTES: usize = 1 << 20;

/// The interval between two such bursts. The resulting rate is below 1 Gbit/s.
pub const HISTORY_PUSH_INTERVAL: Span = Span::from_millis(10);

/// Initial window of a writer, in bytes of unacknowledged samples.
pub const WINDOW_BYTES_START: usize = 1 << 20;

/// Smallest window of a writer, in bytes of unacknowledged samples, at any loss rate.
pub const WINDOW_BYTES_MIN: usize = 64 << 10;

/// Largest window of a writer, in bytes of unacknowledged samples: less than the receive buffers of a tuned host.
pub const WINDOW_BYTES_MAX: usize = 4 << 20;

/// Acknowledgements that must follow a loss before two samples that together exceed the window may be in flight at
/// once. A reader without room for both, while it handles the first, would request repair of the second again and
/// again.
pub const ONE_BY_ONE_AFTER_LOSS: u32 = 16;

/// Unrequested bytes after which a writer requests acknowledgement although the window is open. An early
/// acknowledgement returns buffers while they are still in the CPU cache.
pub const ASK_EVERY_BYTES: usize = 256 << 10;

/// A flow is dense if twice within this time so many samples were sent that the writer requests acknowledgement.
pub const DENSE_WITHIN: Span = Span::from_millis(2);

/// Samples of a dense flow that have to be written right after each other before samples wait for a train.
pub const CORK_FROM: u32 = 32;

/// The longest pause between two writes that counts as right after each other.
pub const CORK_PAUSE_MAX: Span = Span::from_micros(2);

/// The longest measured round trip to a reader whose answer samples wait for. Readers of other vendors may delay their
/// answers on purpose.
pub const CORK_WAIT_MAX: Span = Span::from_millis(1);

/// How long a sample waits at most, if the answer is lost.
pub const CORK_TIME_MAX: Span = RETRY_IN_FLOW;

/// Readers of a writer that corks at most: each answers, and each answer ends the wait.
pub const CORK_READERS_MAX: usize = 4;

/// Samples that leave together at most because the writer corks. With more, latency grows, and throughput hardly.
pub const CORK_SAMPLES_MAX: u64 = 8;

/// Bytes of samples that leave together at most because the writer corks: what one train of datagrams holds.
pub const CORK_BYTES_MAX: usize = 56 << 10;

/// Bytes of a dense flow after which the thread that sends looks for answers.
pub const LOOK_EVERY_BYTES: usize = 16 << 10;

/// The longest pause before a sample after whose write the thread looks for answers: less than a round trip to another
/// process by UDP. A thread that waits for a sample in return is no sender of a dense flow, however large the samples.
pub const LOOK_PAUSE_MAX: Span = Span::from_micros(5);

/// A sample counts for at least so many of these bytes.
pub const LOOK_SAMPLE_BYTES_MIN: usize = 1 << 10;

/// Round-trip time assumed before the first measurement.
pub const ROUND_TRIP_INITIAL: Span = Span::from_millis(5);

/// Shortest time that a writer waits for a requested acknowledgement before it repeats the request.
pub const RETRY_MIN: Span = Span::from_millis(1);

/// Like [`RETRY_MIN`], while samples are so frequent that later ones carry a request anyway. A timer of a millisecond
/// would wake a thread without need.
pub const RETRY_IN_FLOW: Span = Span::from_millis(4);

/// Like [`RETRY_IN_FLOW`], while a lasting flow loses nothing: see [`LASTING_SAMPLES`]. The thread that waits for the
/// timer wakes up once in this time only to set it again, on a core that the application may be using.
pub const RETRY_IN_LASTING_FLOW: Span = Span::from_millis(20);

/// Readers of a remote participant that owe acknowledgements to the writers of a local one, from which on the answers
/// are a crowd: writers do not repeat requests while answers come, because the others wait in the same queues.
pub const CROWD_FROM: u32 = 64;

/// Without an answer for this time per owing reader, the crowd is over: its rest is lost, or the participant does not
/// run. Both sides together need some microseconds for an answer.
pub const CROWD_PAUSE_PER_READER: Span = Span::from_micros(20);

/// Longest such time.
pub const CROWD_PAUSE_MAX: Span = Span::from_millis(50);

/// How long a writer puts off its requests because of crowds. Other writers may keep a participant busy for ever.
pub const CROWD_WAIT_MAX: Span = Span::from_millis(250);

/// Interval at which a writer that puts off its requests looks again.
pub const CROWD_LOOK_EVERY: Span = Span::from_millis(10);

/// Readers from which on one HEARTBEAT for all readers replaces one for each reader that is to be asked again, if they
/// are at least half of all.
pub const ASK_TOGETHER_FROM: usize = 8;

/// Consecutive even gaps between samples that make a steady flow.
pub const STEADY_GAPS: u32 = 8;

/// The longest gap of a steady flow: that of 10 samples per second, and a quarter more for jitter.
pub const STEADY_GAP_MAX: Span = Span::from_millis(125);

/// Samples of a steady flow after which a writer requests acknowledgement, unless their number or bytes require one
/// sooner.
pub const STEADY_ASK_EVERY: u32 = 64;

/// The longest time between such requests: a reader that no longer answers a slow flow is found as soon as that.
pub const STEADY_ASK_AFTER: Span = Span::from_secs(1);

/// Intervals without a sample after which a writer requests acknowledgement of the last samples of a steady flow.
pub const STEADY_INTERVALS: u32 = 4;

/// Samples without a pause after which a steady flow counts as lasting.
pub const LASTING_SAMPLES: u32 = 256;

/// Samples without a pause that a pause of a lasting flow costs. A thread that shares its core pauses every few
/// milliseconds, and sends about twice as many samples in between.
pub const LASTING_PAUSE: u32 = 128;

/// Intervals without a sample after which a writer requests acknowledgement of the last samples of a lasting flow. Each
/// sample delays the timer, and the thread that waits for the timer wakes up once in this many intervals to set it
/// again.
pub const LASTING_INTERVALS: u32 = 32;

/// Longest such time without a sample in a lasting flow, unless [`STEADY_INTERVALS`] are longer.
pub const LASTING_WAIT_MAX: Span = Span::from_millis(200);

/// Smallest window of a reader that is sent to apart, in bytes, at any loss rate. One sample may always be under way.
pub const APART_WINDOW_MIN: usize = 4 << 10;

/// Samples that such a reader is sent in one burst: as many as it can request at once.
pub const APART_SAMPLES_MAX: u64 = 256;

/// How long readers that have everything wait for others until the writer compares.
pub const APART_AFTER: Span = Span::from_millis(250);

/// A writer sends to readers apart if the others have waited for them for all but one of so many parts of the time.
pub const APART_SHARE: u64 = 4;

/// How long a reader that lacks samples acknowledges nothing new until the writer reports that it stalls delivery, and
/// no longer delays the samples of others.
pub const STALL_AFTER: Span = Span::from_secs(1);

/// Samples after a loss before a flow counts as steady again: a lossy path needs the frequent requests.
pub const STEADY_AFTER_LOSS: u32 = 256;

/// Longest time that a writer waits before it repeats a request, however many requests the reader left unanswered.
pub const RETRY_MAX: Span = Span::from_secs(1);

/// How long a reader acknowledges nothing new and requests nothing until it is asked less often. On a network that
/// reorders, a reader that waits for late datagrams does the same for a shorter time.
pub const FRUITLESS_AFTER: Span = Span::from_millis(100);

/// Longest time that a writer waits before it asks a reader again whose answers are complete and bring nothing new: the
/// reader has no room, and acknowledges when it has.
pub const FRUITLESS_RETRY_MAX: Span = Span::from_millis(50);

/// How often a reader that had no room acknowledges, unasked, what it has accepted since. After such an answer, its
/// writer asks again soon.
pub const ROOM_ACK_EVERY: Span = RETRY_IN_FLOW;

/// Consecutive unanswered requests for acknowledgement after which a writer no longer waits for a reader. With the
/// back-off above that takes about ten seconds. The writer waits for the reader again as soon as the reader answers.
pub const UNANSWERED_HEARTBEATS_MAX: u32 = 20;

/// How often the samples of a flow carry a request for acknowledgement when all readers are inactive. The first sample
/// that passes again after an outage then shows the readers soon how many samples they lack.
pub const INACTIVE_ASK_EVERY: Span = Span::from_millis(100);

/// How long after a match each reader is sent its own HEARTBEATs, in place of one for all, because the new reader has
/// not answered its first one. Such a reader answers within some 10 ms of its own match.
pub const OPENING_MAX: Span = Span::from_millis(500);

/// Readers of a writer up to which it does so.
pub const OPENING_READERS_MAX: usize = 64;

/// Consecutive unanswered requests for acknowledgement after which a reader no longer delays the samples of others:
/// with the back-off above, after some fifteen of its round trips. Its samples stay in the history.
pub const LEFT_BEHIND_AFTER: u32 = 4;

/// How long a writer keeps samples for readers that never acknowledge (positive acknowledgements disabled) if no other
/// limit applies. The writer releases them after twice this time at the latest. The time suffices for a few repair
/// requests.
pub const UNACKNOWLEDGED_KEEP: Span = Span::from_secs(1);

/// Backlog of a writer in bytes, to be sent or handed over, beyond which the writer accepts no further sample: a few
/// GSO trains. One sample may exceed the bound. A larger backlog would only occupy memory, because one thread at a time
/// sends for a writer.
pub const SEND_QUEUE_BYTES_MAX: usize = 1 << 20;

/// Bytes of samples kept for [`UNACKNOWLEDGED_KEEP`], so that a fast writer does not hold a second's worth.
pub const UNACKNOWLEDGED_KEEP_BYTES: usize = 32 << 20;

/// Shortest time before a reader requests the same samples again.
pub const NACK_REPEAT_MIN: Span = Span::from_micros(500);

/// Shortest time between a HEARTBEAT, or the last such request, and a request for samples whose loss only a later
/// sample shows. A writer that requests acknowledgement with each sample sends its next, more precise HEARTBEAT
/// earlier.
pub const GAP_REQUEST_INTERVAL: Span = RETRY_IN_FLOW;

/// Consecutive unsuccessful requests for samples whose loss only a later sample shows. After that, the reader waits for
/// a HEARTBEAT. With doubled waits, that takes about a second.
pub const GAP_REQUESTS_MAX: u32 = 10;

/// Longest time before a reader requests the same samples again.
pub const NACK_REPEAT_MAX: Span = Span::from_millis(200);

/// Pre-emptive ACKNACKs that a reader sends to a writer before the first HEARTBEAT arrives. With waits that double up
/// to a second, that takes about 15 s.
pub const PREEMPTIVE_ACKNACKS_MAX: u32 = 20;

/// Ranges of future sequence numbers that a reader records as irrelevant per writer: as many as one GAP can name.
pub const IRRELEVANT_RANGES_MAX: usize = 256;

/// The first step by which a reader delays requests for samples that may only be late, after an immediate request was
/// unnecessary.
pub const REORDERING_MIN: Span = Span::from_micros(100);

/// Matched remote endpoints of one local endpoint.
pub const MATCHES_MAX: usize = 4096;

/// Greatest step between the counts of two HEARTBEATs, ACKNACKs or NACK_FRAGs that is accepted at once. A peer that
/// sends 100,000 of them per second stays below it during an outage of ten seconds.
pub const COUNT_STEP_MAX: i32 = 1 << 20;

/// Consecutive messages of a series of counts further ahead before the series is accepted. A single one may be forged.
pub const COUNTS_TO_JUMP: u32 = 2;

/// Consecutive messages of a series of lower counts before the series is accepted. A forged count thus loses its effect
/// with the next true messages, and two reordered datagrams do not restart the series.
pub const COUNTS_TO_GO_BACK: u32 = 3;

/// How long no message has continued a series of counts until one lower count is believed: a writer that sends a
/// HEARTBEAT every few seconds would else take [`COUNTS_TO_GO_BACK`] of them to recover from a false count.
pub const COUNT_SERIES_SILENCE: Span = Span::from_secs(1);

/// Maximum number of times that the timer of a reader repeats an unanswered request which a HEARTBEAT has justified.
/// With waits up to [`NACK_REPEAT_MAX`] that is about ten seconds, as long as a writer waits for a reader; then it
/// answers HEARTBEATs only.
pub const REPAIR_REQUESTS_MAX: u32 = 56;

/// Payload bytes that a fragment of a sample in many pieces has at least: as few as Peregrine itself ever sends.
pub const FRAGMENT_BYTES_MIN: u16 = 64;

/// Pieces of a sample that may be smaller than that: some peers cut a short sample into very small fragments.
pub const SMALL_FRAGMENTS_MAX: u32 = 1024;

/// Bytes that a peer is sent in answer for each byte that it sends. An answer has up to 80 bytes of headers that the
/// budgets do not count, so that the whole stays below ten.
pub const ANSWER_BYTES_PER_BYTE: usize = 8;

/// Bytes of a message with acknowledgements of several readers or for several writers: about forty of them. More would
/// be lost together, and fit into one frame on few networks.
pub const ANSWERS_MESSAGE_BYTES_MAX: usize = 1400;

/// Bytes of NACK_FRAGs that a reader may send to a writer it has just matched, and to which time refills its budget:
/// requests for 16,384 fragments.
pub const REQUEST_CREDIT_START: usize = 4 << 10;

/// Bytes of NACK_FRAGs that a reader may send to a writer of which many fragments came: requests for 262,144 fragments.
pub const REQUEST_CREDIT_MAX: usize = 64 << 10;

/// Bytes by which time refills that budget each second, as long as requests are repeated at all.
pub const REQUEST_REFILL_PER_SECOND: usize = 1 << 10;

/// Bytes that a writer may send again to a reader it has just matched, and to which time refills its budget.
pub const REPAIR_CREDIT_START: usize = 64 << 10;

/// Bytes that a writer may send again for each byte that a reader receives for the first time: on a path that loses
/// three of four messages, each byte is sent four times.
pub const REPAIR_BYTES_PER_BYTE: usize = 4;

/// Bytes that a writer may send again to a reader that was sent as much for the first time: two full windows, so that
/// an outage that loses everything under way, twice, costs no wait.
pub const REPAIR_CREDIT_MAX: usize = 2 * WINDOW_BYTES_MAX;

/// Bytes by which time refills that budget each second: a reader that hears nothing of large samples still gets one
/// of 64 KiB every four seconds.
pub const REPAIR_REFILL_PER_SECOND: usize = 16 << 10;

/// Bytes that time refills as long as a reader makes no progress, so that requests that lead to nothing end.
pub const REPAIR_REFILL_MAX: usize = 1 << 20;

/// Addresses of which a participant keeps the budget for answers that are not paid for. Only a flood of addresses needs
/// more.
pub const ADDRESS_BUDGETS_MAX: usize = 1024;

/// Bytes that the readers at one address may be sent again in all beyond what they pay for: as much as time adds for
/// one reader that makes no progress.
pub const ADDRESS_REPAIR_BYTES_MAX: u32 = REPAIR_REFILL_MAX as u32;

/// Bytes by which time refills that budget each second. A reader that needs a byte of it pays for the next four.
pub const ADDRESS_REPAIR_REFILL_PER_SECOND: usize = 64 << 10;

/// Bytes of NACK_FRAGs that the writers at one address may be sent in all beyond what they pay for: requests of one
/// reader to sixteen new writers. A fragment pays for requests for more than ten thousand others.
pub const ADDRESS_REQUEST_BYTES_MAX: u32 = 64 << 10;

/// Bytes by which time refills that budget each second.
pub const ADDRESS_REQUEST_REFILL_PER_SECOND: usize = REQUEST_REFILL_PER_SECOND;

/// Samples that were sent in part to a reader, of which a writer keeps how much of them was sent again.
pub const PARTLY_REPAIRED_MAX: usize = 16;

/// Answers to requests for samples that a writer has under way to a reader: two different requests per round trip are
/// usual, of 256 samples each.
pub const REPAIRS_IN_FLIGHT_MAX: usize = 8;

/// The same for requests for fragments: 256 fragments each, together 22 MB at the fragment size of Ethernet.
pub const FRAGMENT_REPAIRS_IN_FLIGHT_MAX: usize = 64;

/// Samples that a reader passes over at once because a HEARTBEAT or GAP excludes them: as many as one acknowledgement
/// can name. A reader that passes over more acknowledges them after a second message has confirmed it.
pub const SKIP_BELIEVED_MAX: u64 = 256;

/// Samples in a row with ascending numbers that a reader has passed over, until it goes back to them.
pub const STALE_SAMPLES_TO_GO_BACK: u32 = 3;

/// How long such a run of fewer numbers back than [`SKIP_BELIEVED_MAX`] has to last: networks delay datagrams by less.
pub const STALE_RUN_MIN: Span = Span::from_millis(500);

/// Payload bytes that a writer keeps for an inactive reader, where no QoS policy bounds them: as much as it could have
/// under way.
pub const INACTIVE_KEEP_BYTES: usize = WINDOW_BYTES_MAX;

/// Samples that it keeps likewise: as many as a reader can hold while it waits for earlier ones.
pub const INACTIVE_KEEP_SAMPLES: usize = REORDER_SAMPLES_MAX;

/// Samples that a writer keeps until its readers acknowledge them, where no QoS policy bounds them, unless configured
/// otherwise: with their records, small samples take about 80 MiB.
pub const UNACKNOWLEDGED_SAMPLES_MAX: u32 = 1 << 18;

/// Payload bytes that it keeps likewise: sixteen windows, or half a second of 1 Gbit/s.
pub const UNACKNOWLEDGED_BYTES_MAX: usize = 64 << 20;

/// By how much more than the reader's clock the source timestamps of a writer go on when they jump ahead.
pub const SOURCE_JUMP_MIN: Span = Span::from_secs(1);

/// Two clocks that are not set drift apart by one part in so many at most: NTP slews a clock by half of it.
pub const CLOCK_DRIFT_DIVISOR: u64 = 1_000;

/// The longest time for which a path, or the sockets of a process that has stood still, delay samples. Samples of a
/// writer that are all late for longer show that its clock was set back.
pub const PATH_DELAY_MAX: Span = Span::from_secs(10);

/// Instances in whose order a jump ahead is taken back when the writer's later samples contradict it.
pub const SOURCE_JUMP_INSTANCES_MAX: usize = 16;

/// Ranges of GAPs that a reader has passed over and remembers for each writer, to count samples that come all the same.
pub const PASSED_GAPS_MAX: usize = 16;

/// How far a source timestamp may be ahead of a reader's wall clock. In the order by source timestamp, a later one
/// counts as this far ahead. RTI Connext DDS has the same limit (`source_timestamp_tolerance`), past which it drops the
/// sample.
pub const SOURCE_TIMESTAMP_AHEAD_MAX: Span = Span::from_secs(30);
