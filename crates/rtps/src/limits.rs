//! Every bound of this crate that is not a QoS policy, with its unit and its reason.

use crate::time::Span;

/// Largest UDP payload over IPv4, in bytes: 65,535 less the IP and UDP headers.
pub const MESSAGE_BYTES_MAX: usize = 65_507;

/// Smallest message size a writer is configured with, in bytes: room for the headers and a useful fragment.
pub const MESSAGE_BYTES_MIN: usize = 512;

/// Receivers of one message where each gets a proof of its own, of 20 bytes at each level. More get messages of their
/// own.
pub const RECEIVER_MACS_MAX: usize = 32;

/// Samples a reader holds per writer while it waits for earlier ones. One acknowledgement can ask for 256.
pub const REORDER_SAMPLES_MAX: usize = 4096;

/// Samples a reader reassembles per writer at the same time.
pub const REASSEMBLY_SAMPLES_MAX: usize = 64;

/// Fragments a sample may be cut into: the largest sample in pieces of 1 KiB. Smaller pieces would cost a reader more
/// for the book-keeping than for the sample.
pub const FRAGMENTS_PER_SAMPLE_MAX: u32 = 1 << 20;

/// Bytes a user reader holds per writer for samples that wait for others, and as many for samples being rebuilt.
pub const MEMORY_PER_WRITER_MAX: usize = 256 << 20;

/// Bytes a user reader holds for all its writers of both kinds.
pub const MEMORY_PER_READER_MAX: usize = 1 << 30;

/// Samples of a reader that wait until code of the application has found their instance. That takes microseconds; a
/// reliable writer waits when as many are there.
pub const UNKEYED_SAMPLES_MAX: usize = 256;

/// Bytes that all user readers of a participant together hold for the writers of one remote participant. One sample
/// that is alone always fits.
pub const MEMORY_PER_PARTICIPANT_MAX: usize = 512 << 20;

/// The same for the built-in readers: what a stranger can make us hold per built-in topic before anything is complete.
pub const BUILTIN_MEMORY_PER_WRITER_MAX: usize = 1 << 20;

/// Bytes a built-in reader holds for all its writers of both kinds.
pub const BUILTIN_MEMORY_PER_READER_MAX: usize = 64 << 20;

/// Idle buffers a participant keeps for what it decrypts, in bytes: some datagrams.
pub const OPENED_BYTES_MAX: usize = 2 << 20;

/// Participants known at the same time.
pub const PARTICIPANTS_MAX: usize = 4096;

/// Participants known at the same time that have not shown that they hear us: their addresses are hearsay.
pub const PARTICIPANTS_UNVERIFIED_MAX: usize = 512;

/// Addresses remembered of those a participant was heard from. Hosts have a few; past that, the oldest gives way.
pub const SHOWN_ADDRESSES_MAX: usize = 16;

/// Bytes of announcements of one participant that answers to it may still use up, while its address is hearsay.
pub const ANSWER_CREDIT_MAX: usize = 64 << 10;

/// How long a participant has to be silent before a new one may evict it when [`PARTICIPANTS_MAX`] are known, whatever
/// its lease: a participant with an infinite lease must not hold a place for ever. Implementations announce themselves
/// at least every half minute.
pub const EVICTION_MIN_SILENCE: Span = Span::from_secs(120);

/// Endpoints known of one participant.
pub const ENDPOINTS_PER_PARTICIPANT_MAX: usize = 8192;

/// Bytes of discovery data kept of one participant.
pub const DISCOVERY_BYTES_PER_PARTICIPANT_MAX: usize = 4 << 20;

/// Announcements sent soon after the start, so that one lost datagram does not cost a period.
pub const ANNOUNCEMENT_BURST: u32 = 6;

/// The wait between the first two of them; it doubles with each.
pub const ANNOUNCEMENT_BURST_INTERVAL: Span = Span::from_millis(50);

/// The shortest period of announcements: a participant whose period rounds to zero would do nothing else.
pub const ANNOUNCEMENT_PERIOD_MIN: Span = Span::from_millis(10);

/// Largest serialized sample a user endpoint accepts, in bytes.
pub const SAMPLE_BYTES_MAX: u32 = 1 << 30;

/// Largest serialized sample of a built-in endpoint, in bytes: discovery data with type information.
pub const BUILTIN_SAMPLE_BYTES_MAX: u32 = 1 << 18;

/// Names of partitions that an endpoint may have: matching compares each with each. Others that an announcement names
/// are not taken over.
pub const PARTITIONS_MAX: usize = 64;

/// Bytes of the name of a partition, without the terminating zero.
pub const PARTITION_OCTETS_MAX: usize = 256;

/// Bytes of USER_DATA, TOPIC_DATA or GROUP_DATA of an own endpoint: what a parameter holds besides its length (RTPS 2.5
/// §9.4.2.11). With all three, an announcement is smaller than [`BUILTIN_SAMPLE_BYTES_MAX`].
pub const OPAQUE_OCTETS_MAX: usize = 65_528;

/// Properties of each kind that an announcement may have. Others are not taken over.
pub const PROPERTIES_MAX: usize = 64;

/// Bytes of the name or the value of a property that is taken over. Connext announces paths of executables.
pub const PROPERTY_OCTETS_MAX: usize = 4096;

/// Bytes of the announced properties of an own endpoint. With them and every other policy as long as it may be, an
/// announcement is smaller than [`BUILTIN_SAMPLE_BYTES_MAX`].
pub const ENDPOINT_PROPERTIES_OCTETS_MAX: usize = 32 << 10;

/// Bytes of USER_DATA and properties of an own participant together: half a message, which its announcement has to fit
/// into.
pub const PARTICIPANT_QOS_OCTETS_MAX: usize = 32 << 10;

/// Idle sample buffers an endpoint keeps for its next samples, in bytes.
pub const POOL_BYTES_MAX: usize = 32 << 20;

/// Payloads up to this many bytes are copied out of the receive buffer; longer ones are kept by reference.
///
/// A copy of this size costs less than sharing the buffer across threads, and a small sample that waits in a cache
/// would otherwise hold a receive buffer of 64 KiB.
pub const COPY_PAYLOAD_MAX: usize = 8192;

/// Bytes a writer sends again in answer to one acknowledgement; the rest waits for the next one.
pub const REPAIR_BYTES_MAX: usize = 1 << 20;

/// Bytes of held samples a writer sends at once to a late joiner that never acknowledges; the rest follows after
/// [`HISTORY_PUSH_INTERVAL`], so that a request for history floods no reader.
pub const HISTORY_PUSH_BYTES: usize = 1 << 20;

/// The wait between two such bursts. Together less than a gigabit a second.
pub const HISTORY_PUSH_INTERVAL: Span = Span::from_millis(10);

/// Bytes of unacknowledged samples a writer has under way at first.
pub const WINDOW_BYTES_START: usize = 1 << 20;

/// Bytes of unacknowledged samples a writer has under way at least, however much is lost.
pub const WINDOW_BYTES_MIN: usize = 64 << 10;

/// Bytes of unacknowledged samples a writer has under way at most: below the receive buffers of a tuned host.
pub const WINDOW_BYTES_MAX: usize = 4 << 20;

/// After a loss, so many acknowledgements have to come before a sample may follow another where the two are more than
/// the window: a reader that has no room for both while it looks at the first would have the second repaired, again and
/// again.
pub const ONE_BY_ONE_AFTER_LOSS: u32 = 16;

/// Bytes after which a writer asks for acknowledgement although it may have more under way: what is acknowledged soon
/// gives its buffers back while a cache still holds them.
pub const ASK_EVERY_BYTES: usize = 256 << 10;

/// Round-trip time assumed before any was measured.
pub const ROUND_TRIP_INITIAL: Span = Span::from_millis(5);

/// The least a writer waits for an acknowledgement it has asked for before it asks again.
pub const RETRY_MIN: Span = Span::from_millis(1);

/// The same while so many samples are written that others that follow ask anyway: a timer per millisecond would wake
/// a thread each time to find that out.
pub const RETRY_IN_FLOW: Span = Span::from_millis(4);

/// So many even gaps between samples in a row are a steady flow.
pub const STEADY_GAPS: u32 = 8;

/// The longest gap of a steady flow: that of 10 samples per second, and a quarter more for jitter.
pub const STEADY_GAP_MAX: Span = Span::from_millis(125);

/// Samples of a steady flow after which a writer asks for acknowledgement, unless their number or bytes ask sooner.
pub const STEADY_ASK_EVERY: u32 = 64;

/// After so many intervals without a sample, a writer asks for acknowledgement of the last samples of a steady flow.
pub const STEADY_INTERVALS: u32 = 4;

/// Samples that follow a loss before a flow counts as steady again: a lossy path needs the frequent requests.
pub const STEADY_AFTER_LOSS: u32 = 256;

/// The longest that it waits, however many requests the reader left unanswered.
pub const RETRY_MAX: Span = Span::from_secs(1);

/// How many acknowledgement requests in a row a reader may leave unanswered before the writer stops waiting for it.
/// With the back-off above that is about ten seconds; the reader counts again as soon as it answers.
pub const UNANSWERED_HEARTBEATS_MAX: u32 = 20;

/// How long a writer keeps samples for readers that never say what they have (positive acknowledgements disabled),
/// where nothing else bounds them; it lets go after twice as long at the latest. Time for a few requests for repair.
pub const UNACKNOWLEDGED_KEEP: Span = Span::from_secs(1);

/// Bytes that wait to be sent or handed over, after which a writer takes no further sample: some trains of datagrams.
/// One sample may go past the bound. More would only wait in memory, since one thread at a time sends for a writer.
pub const SEND_QUEUE_BYTES_MAX: usize = 1 << 20;

/// Bytes it keeps for them at most, so that a fast writer does not hold a second's worth.
pub const UNACKNOWLEDGED_KEEP_BYTES: usize = 32 << 20;

/// The least a reader waits before it asks for the same samples again.
pub const NACK_REPEAT_MIN: Span = Span::from_micros(500);

/// The least time after a HEARTBEAT, or after the last such request, until a reader requests what only a later sample
/// shows to be missing. A writer that asks with each sample sends its next HEARTBEAT earlier, and that one tells more.
pub const GAP_REQUEST_INTERVAL: Span = RETRY_IN_FLOW;

/// How often in a row a reader requests in vain what only a later sample has shown to be missing, until a HEARTBEAT
/// confirms it. With waits that double that is about a second.
pub const GAP_REQUESTS_MAX: u32 = 10;

/// The most it waits.
pub const NACK_REPEAT_MAX: Span = Span::from_millis(200);

/// How many pre-emptive ACKNACKs a reader sends to a writer whose first HEARTBEAT has not come. With waits that double
/// up to a second: about a quarter of a minute.
pub const PREEMPTIVE_ACKNACKS_MAX: u32 = 20;

/// Ranges of sequence numbers of future samples that a reader records as irrelevant per writer: as many as one GAP can
/// name.
pub const IRRELEVANT_RANGES_MAX: usize = 256;

/// The first step by which a reader waits longer for what may only be late, when asking at once was in vain.
pub const REORDERING_MIN: Span = Span::from_micros(100);

/// Matched remote endpoints of one local endpoint.
pub const MATCHES_MAX: usize = 4096;

/// How far the count of a HEARTBEAT, ACKNACK or NACK_FRAG may be ahead of the last one to be believed at once. A peer
/// that sends 100,000 of them a second and is not heard for ten seconds stays within it.
pub const COUNT_STEP_MAX: i32 = 1 << 20;

/// Messages in a row of a series of counts further ahead than that, until it is believed. One may be forged.
pub const COUNTS_TO_JUMP: u32 = 2;

/// Messages in a row of a series of lower counts, until it is believed: so that a forged count ends its effect with the
/// next true messages, and two datagrams that were overtaken start nothing anew.
pub const COUNTS_TO_GO_BACK: u32 = 3;

/// How long no message has continued a series of counts until one lower count is believed: a writer that sends a
/// HEARTBEAT every few seconds would else take [`COUNTS_TO_GO_BACK`] of them to recover from a false count.
pub const COUNT_SERIES_SILENCE: Span = Span::from_secs(1);

/// How often a reader repeats by itself a request that a HEARTBEAT has justified and that stays unanswered. With waits
/// up to [`NACK_REPEAT_MAX`] that is about ten seconds, as long as a writer waits for a reader; then it answers
/// HEARTBEATs only.
pub const REPAIR_REQUESTS_MAX: u32 = 56;

/// Payload bytes that a fragment of a sample in many pieces has at least: as few as Peregrine itself ever sends.
pub const FRAGMENT_BYTES_MIN: u16 = 64;

/// Pieces of a sample that may be smaller than that: some peers cut a short sample into very small fragments.
pub const SMALL_FRAGMENTS_MAX: u32 = 1024;

/// Bytes that a peer is sent in answer for each byte that it sends. An answer has up to 80 bytes of headers that the
/// budgets do not count, so that the whole stays below ten.
pub const ANSWER_BYTES_PER_BYTE: usize = 8;

/// Bytes of NACK_FRAGs that a reader may send to a writer it has just matched, and to which time refills its budget:
/// requests for 16,384 fragments.
pub const REQUEST_CREDIT_START: usize = 4 << 10;

/// Bytes of NACK_FRAGs that a reader may send to a writer of which many fragments came: requests for 262,144 fragments.
pub const REQUEST_CREDIT_MAX: usize = 64 << 10;

/// Bytes by which time refills that budget each second, as long as requests are repeated at all.
pub const REQUEST_REFILL_PER_SECOND: usize = 1 << 10;

/// Bytes that a writer may send again to a reader it has just matched, and to which time refills its budget.
pub const REPAIR_CREDIT_START: usize = 64 << 10;

/// Bytes that a writer may send again to a reader that was sent as much for the first time: two full windows, so that
/// an outage that loses everything under way, twice, costs no wait.
pub const REPAIR_CREDIT_MAX: usize = 2 * WINDOW_BYTES_MAX;

/// Bytes by which time refills that budget each second: a reader that hears nothing of large samples still gets one
/// of 64 KiB every four seconds.
pub const REPAIR_REFILL_PER_SECOND: usize = 16 << 10;

/// Bytes that time refills as long as a reader makes no progress, so that requests that lead to nothing end.
pub const REPAIR_REFILL_MAX: usize = 1 << 20;

/// Answers to requests for samples that a writer has under way to a reader: two different requests per round trip are
/// usual, of 256 samples each.
pub const REPAIRS_IN_FLIGHT_MAX: usize = 8;

/// The same for requests for fragments: 256 fragments each, together 22 MB at the fragment size of Ethernet.
pub const FRAGMENT_REPAIRS_IN_FLIGHT_MAX: usize = 64;

/// Samples that a reader passes over at once because a HEARTBEAT or GAP says that they will never come: as many as one
/// acknowledgement can name. A reader that passes over more acknowledges them after a second message has confirmed it.
pub const SKIP_BELIEVED_MAX: u64 = 256;

/// Samples in a row with ascending numbers that a reader has passed over, until it goes back to them.
pub const STALE_SAMPLES_TO_GO_BACK: u32 = 3;

/// How long such a run of fewer numbers back than [`SKIP_BELIEVED_MAX`] has to last: networks delay datagrams by less.
pub const STALE_RUN_MIN: Span = Span::from_millis(500);

/// Payload bytes that a writer keeps for a reader that does not answer, where no QoS policy bounds them: as much as it
/// could have under way.
pub const INACTIVE_KEEP_BYTES: usize = WINDOW_BYTES_MAX;

/// Samples that it keeps likewise: as many as a reader can hold while it waits for earlier ones.
pub const INACTIVE_KEEP_SAMPLES: usize = REORDER_SAMPLES_MAX;
