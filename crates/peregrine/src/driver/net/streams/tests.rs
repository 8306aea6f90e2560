//! Queues and framing over a link whose room and pieces the test controls.

use peregrine_rtps::transmit::TransmitBatch;

use super::*;
use crate::driver::base::sync::Guard;

const KIND: i32 = 0x0100_0001;
const NOW: Instant = Instant(1);
const NONE_PROVEN: fn(&Locator) -> bool = |_| false;

#[derive(Debug, Default)]
struct FakeLink {
    state: Mutex<FakeState>,
}

#[derive(Debug, Default)]
struct FakeState {
    events: VecDeque<StreamEvent>,
    /// Bytes that the link takes for each peer.
    room: BTreeMap<Locator, usize>,
    sent: BTreeMap<Locator, Vec<u8>>,
    to_read: VecDeque<Vec<u8>>,
    connecting: Vec<Locator>,
    disconnected: Vec<Locator>,
}

impl FakeLink {
    fn lock(&self) -> Guard<'_, FakeState> {
        lock(&self.state)
    }

    fn report(&self, event: StreamEvent) {
        self.lock().events.push_back(event);
    }
}

impl StreamLink for FakeLink {
    fn kind(&self) -> i32 {
        KIND
    }

    fn address(&self) -> Locator {
        place(0)
    }

    fn open(&self, _: Arc<Waker>) {}

    fn connect(&self, peer: Locator) {
        self.lock().connecting.push(peer);
    }

    fn write(&self, peer: Locator, bytes: &[u8]) -> usize {
        let mut state = self.lock();
        let room = state.room.entry(peer).or_default();
        let taken = bytes.len().min(*room);
        *room -= taken;
        state.sent.entry(peer).or_default().extend(&bytes[..taken]);
        taken
    }

    fn read(&self, _: Locator, buffer: &mut [u8]) -> usize {
        let Some(piece) = self.lock().to_read.pop_front() else { return 0 };
        buffer[..piece.len()].copy_from_slice(&piece);
        piece.len()
    }

    fn disconnect(&self, peer: Locator) {
        self.lock().disconnected.push(peer);
    }

    fn poll_event(&self) -> Option<StreamEvent> {
        self.lock().events.pop_front()
    }

    fn close(&self) {}
}

fn place(number: u32) -> Locator {
    Locator { kind: KIND, port: number, address: [0; 16], scope: 0 }
}

fn streams() -> (Arc<FakeLink>, Streams) {
    let link = Arc::<FakeLink>::default();
    let links = StreamLinks::new(vec![Arc::clone(&link) as Arc<dyn StreamLink>]);
    (link, Streams::new(links))
}

fn connected(peers: &[u32]) -> (Arc<FakeLink>, Streams) {
    let (link, streams) = streams();
    for peer in peers {
        link.report(StreamEvent::Connected(place(*peer)));
    }
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes.len(), peers.len());
    (link, streams)
}

fn send(streams: &Streams, message: &[u8], to: &[u32]) {
    let mut batch = TransmitBatch::default();
    batch.push_message(message, to.iter().map(|peer| place(*peer)).collect());
    batch.messages().for_each(|message| streams.send(&message));
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_le_bytes(), message].concat()
}

#[test]
fn full_queue_of_one_peer_does_not_affect_others() {
    let (link, streams) = connected(&[1, 2]);
    link.lock().room.insert(place(2), usize::MAX);
    let message = [7; 1020];
    let count = 2 * QUEUE_BYTES_MAX / (LENGTH_BYTES + message.len());
    for _ in 0..count {
        send(&streams, &message, &[1, 2]);
    }
    let statistics = streams.statistics();
    assert_eq!(statistics.queued_bytes_max, QUEUE_BYTES_MAX as u64, "the bound is reached, and not exceeded");
    assert_eq!(statistics.dropped_full, count as u64 / 2);
    assert_eq!(statistics.messages_sent, count as u64 + count as u64 / 2);
    let state = link.lock();
    assert_eq!(state.sent[&place(2)].len(), count * (LENGTH_BYTES + message.len()));
    assert!(!state.sent.contains_key(&place(1)) || state.sent[&place(1)].is_empty());
}

#[test]
fn room_is_reported_once_when_half_of_the_queue_is_free() {
    let (link, streams) = connected(&[1]);
    let message = [7; 1020];
    for _ in 0..1000 {
        send(&streams, &message, &[1]);
    }
    let give = |bytes: usize| {
        link.lock().room.insert(place(1), bytes);
        link.report(StreamEvent::Writable(place(1)));
        streams.poll(NOW, &NONE_PROVEN).changes
    };
    assert_eq!(give(QUEUE_BYTES_MAX / 2 - 1), []);
    assert_eq!(give(1), [(place(1), StreamChange::Room)]);
    assert_eq!(give(1), [], "no message was dropped since");
    // Accepted messages arrive whole and in order.
    give(usize::MAX);
    let expected = framed(&message).repeat(QUEUE_BYTES_MAX / 1024);
    assert!(link.lock().sent[&place(1)] == expected);
    send(&streams, &message, &[1]);
    assert_eq!(streams.statistics().dropped_full, 1000 - QUEUE_BYTES_MAX as u64 / 1024);
}

#[test]
fn queue_without_drops_reports_no_room() {
    let (link, streams) = connected(&[1]);
    send(&streams, &[7; 1000], &[1]);
    link.lock().room.insert(place(1), usize::MAX);
    link.report(StreamEvent::Writable(place(1)));
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes, []);
    assert_eq!(link.lock().sent[&place(1)], framed(&[7; 1000]));
}

#[test]
fn first_message_opens_the_connection() {
    let (link, streams) = streams();
    link.lock().room.insert(place(1), usize::MAX);
    send(&streams, &[1; 40], &[1]);
    send(&streams, &[2; 40], &[1]);
    assert_eq!(link.lock().connecting, [place(1)], "one attempt");
    assert!(link.lock().sent.is_empty());
    link.report(StreamEvent::Connected(place(1)));
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes, [(place(1), StreamChange::Connected)]);
    assert_eq!(link.lock().sent[&place(1)], [framed(&[1; 40]), framed(&[2; 40])].concat());
}

#[test]
fn waiting_messages_of_broken_connection_are_counted() {
    let (link, streams) = connected(&[1]);
    // Half of the first message was sent.
    link.lock().room.insert(place(1), 22);
    (0..3).for_each(|_| send(&streams, &[1; 40], &[1]));
    link.report(StreamEvent::Lost(place(1)));
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes, [(place(1), StreamChange::Lost)]);
    assert_eq!(streams.statistics().dropped_lost, 3);
    send(&streams, &[2; 40], &[1]);
    assert_eq!(link.lock().connecting, [place(1)]);
    // A failed attempt is not reported, and the next message causes another attempt.
    link.report(StreamEvent::Lost(place(1)));
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes, []);
    send(&streams, &[3; 40], &[1]);
    assert_eq!(link.lock().connecting.len(), 2);
    link.lock().room.insert(place(1), usize::MAX);
    link.lock().sent.clear();
    link.report(StreamEvent::Connected(place(1)));
    streams.poll(NOW, &NONE_PROVEN);
    assert_eq!(link.lock().sent[&place(1)], framed(&[3; 40]), "a new connection begins with a whole message");
}

#[test]
fn messages_in_arbitrary_pieces_are_reassembled() {
    let messages: Vec<Vec<u8>> = (1..=60_u8).map(|n| vec![n; usize::from(n) * 700]).collect();
    let bytes: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
    for piece in [1, 3, 5, 1000, READ_BYTES] {
        let (link, streams) = connected(&[1]);
        let mut received = Vec::new();
        for piece in bytes.chunks(piece) {
            link.lock().to_read.push_back(piece.to_vec());
            link.report(StreamEvent::Readable(place(1)));
            let news = streams.poll(NOW, &NONE_PROVEN);
            assert!(news.messages().all(|message| message.source == Source::Stream(place(1))));
            received.extend(news.messages().map(|message| message.bytes.to_vec()));
        }
        assert!(received == messages, "in pieces of {piece} bytes");
        assert_eq!(streams.statistics().messages_received, 60);
    }
}

#[test]
fn peer_that_violates_framing_loses_its_connection() {
    for length in [0, MESSAGE_BYTES_MAX as u32 + 1, u32::MAX] {
        let (link, streams) = connected(&[1]);
        link.lock().to_read.push_back([framed(&[5; 40]), length.to_le_bytes().to_vec(), vec![1; 100]].concat());
        link.report(StreamEvent::Readable(place(1)));
        assert_eq!(streams.poll(NOW, &NONE_PROVEN).messages.len(), 1, "what came before is sound");
        assert_eq!(link.lock().disconnected, [place(1)]);
        assert_eq!(streams.statistics().malformed, 1);
    }
}

#[test]
fn peers_are_bounded() {
    let (link, streams) = streams();
    (0..PEERS_MAX as u32 + 10).for_each(|peer| send(&streams, &[1; 40], &[peer]));
    assert_eq!(link.lock().connecting.len(), PEERS_MAX);
    assert_eq!(streams.statistics().dropped_peers, 10);
    let late = place(u32::MAX);
    link.report(StreamEvent::Connected(late));
    assert_eq!(streams.poll(NOW, &|_| true).changes, []);
    assert_eq!(link.lock().disconnected, [late]);
    // A lost peer makes room for another one.
    link.report(StreamEvent::Lost(place(3)));
    link.report(StreamEvent::Connected(late));
    assert_eq!(streams.poll(NOW, &|_| true).changes, [(late, StreamChange::Connected)]);
    assert_eq!((streams.statistics().displaced, streams.statistics().refused), (0, 1));
}

/// As many peers as there is room for, of which some have spoken, in this order.
fn full_house(spoken: &[u32]) -> (Arc<FakeLink>, Streams) {
    let (link, streams) = streams();
    for peer in 0..PEERS_MAX as u32 {
        link.report(StreamEvent::Connected(place(peer)));
        streams.poll(NOW, &NONE_PROVEN);
    }
    for peer in spoken {
        link.lock().to_read.push_back(framed(&[5; 40]));
        link.report(StreamEvent::Readable(place(*peer)));
        assert_eq!(streams.poll(NOW, &NONE_PROVEN).messages.len(), 1);
    }
    (link, streams)
}

/// A further peer connects. Returns the peer that gives way to it.
fn displaced_by(newcomer: u32, link: &FakeLink, streams: &Streams, is_proven: &dyn Fn(&Locator) -> bool) -> u32 {
    link.report(StreamEvent::Connected(place(newcomer)));
    let changes = streams.poll(NOW, is_proven).changes;
    let [(displaced, StreamChange::Lost), (connected, StreamChange::Connected)] = changes[..] else {
        panic!("{changes:?}")
    };
    assert_eq!(connected, place(newcomer));
    assert_eq!(link.lock().disconnected.pop(), Some(displaced));
    displaced.port
}

#[test]
fn newcomer_takes_the_place_of_the_peer_that_has_proved_least() {
    let everyone: Vec<u32> = (0..PEERS_MAX as u32).collect();
    // First the silent ones, in the order in which they came, without those that are proven.
    let (link, streams) = full_house(&[1, 0]);
    assert_eq!(displaced_by(1_000, &link, &streams, &|locator| *locator == place(2)), 3);
    assert_eq!(displaced_by(1_001, &link, &streams, &NONE_PROVEN), 2);
    assert_eq!(streams.statistics().displaced, 2);
    // Then those that have been silent for longest.
    let (link, streams) = full_house(&[&everyone[7..], &everyone[..7]].concat());
    assert_eq!(displaced_by(1_000, &link, &streams, &NONE_PROVEN), 7);
    assert_eq!(displaced_by(1_001, &link, &streams, &NONE_PROVEN), 1_000, "a newcomer that says nothing");
}

#[test]
fn newcomers_of_one_turn_do_not_displace_each_other() {
    let (link, streams) = full_house(&[]);
    let is_proven = |locator: &Locator| locator.port >= 10 && locator.port < 1_000;
    (1_000..1_020).for_each(|newcomer| link.report(StreamEvent::Connected(place(newcomer))));
    streams.poll(NOW, &is_proven);
    assert_eq!(streams.statistics().displaced, 10);
    assert_eq!(link.lock().disconnected.split_off(10).len(), 10, "the others are refused");
    assert!((1_000..1_010).all(|newcomer| streams.known(&place(newcomer)).is_some()));
}

#[test]
fn message_to_a_further_peer_displaces_one_for_the_next_message() {
    let (link, streams) = full_house(&[]);
    let waker = Arc::new(Waker::new().unwrap());
    streams.open(&waker);
    send(&streams, &[1; 40], &[1_000]);
    assert_eq!(streams.statistics().dropped_peers, 1);
    // The place is kept from a stranger that comes in the same turn.
    link.report(StreamEvent::Connected(place(1_001)));
    let changes = [(0, StreamChange::Lost), (1, StreamChange::Lost), (1_001, StreamChange::Connected)];
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes, changes.map(|(peer, change)| (place(peer), change)));
    send(&streams, &[1; 40], &[1_000]);
    assert_eq!((streams.statistics().dropped_peers, &link.lock().connecting[..]), (1, &[place(1_000)][..]));
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes, [], "no other peer gives way");
}

/// The link reports the end of a connection, as requested, after the peer has given way.
#[test]
fn end_of_displaced_connection_does_not_end_the_next_one() {
    let (link, streams) = full_house(&[]);
    assert_eq!(displaced_by(1_000, &link, &streams, &NONE_PROVEN), 0);
    link.report(StreamEvent::Lost(place(3)));
    streams.poll(NOW, &NONE_PROVEN);
    send(&streams, &[1; 40], &[0]);
    assert!(link.lock().connecting.is_empty(), "the former connection has not ended yet");
    link.report(StreamEvent::Lost(place(0)));
    streams.poll(NOW, &NONE_PROVEN);
    send(&streams, &[2; 40], &[0]);
    assert_eq!(link.lock().connecting, [place(0)]);
    link.lock().room.insert(place(0), usize::MAX);
    link.report(StreamEvent::Connected(place(0)));
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes, [(place(0), StreamChange::Connected)]);
    assert_eq!(link.lock().sent[&place(0)], framed(&[2; 40]));
}

/// The connection to the peer has opened before the link gets the request to end it.
#[test]
fn late_connection_of_displaced_peer_displaces_no_other_peer() {
    let (link, streams) = full_house(&[]);
    assert_eq!(displaced_by(1_000, &link, &streams, &NONE_PROVEN), 0);
    link.report(StreamEvent::Connected(place(0)));
    assert_eq!(streams.poll(NOW, &NONE_PROVEN).changes, []);
    assert_eq!(streams.statistics().displaced, 1);
}

#[test]
fn peer_that_came_in_this_turn_is_not_displaced() {
    let (link, streams) = full_house(&(0..PEERS_MAX as u32).collect::<Vec<_>>());
    link.report(StreamEvent::Lost(place(3)));
    (1_000..1_002).for_each(|newcomer| link.report(StreamEvent::Connected(place(newcomer))));
    streams.poll(NOW, &NONE_PROVEN);
    assert!((1_000..1_002).all(|newcomer| streams.known(&place(newcomer)).is_some()));
    assert!(streams.known(&place(0)).is_none());
}

#[test]
fn place_that_was_not_found_is_sought_again_after_a_pause() {
    let (link, streams) = full_house(&[]);
    let searched = std::cell::Cell::new(0);
    let all_proven = |_: &Locator| {
        searched.set(searched.get() + 1);
        true
    };
    for peer in 1_000..1_020 {
        link.report(StreamEvent::Connected(place(peer)));
        send(&streams, &[1; 40], &[2_000]);
        streams.poll(NOW, &all_proven);
    }
    assert_eq!((searched.get(), streams.statistics().refused), (PEERS_MAX, 20));
    let later = NOW + SEARCH_PAUSE;
    assert_eq!(streams.poll(later, &NONE_PROVEN).changes, [(place(0), StreamChange::Lost)]);
    assert!(streams.known(&place(2_000)).is_some(), "the message that found no place is remembered");
}

#[test]
fn peers_that_leave_are_bounded() {
    let (link, streams) = full_house(&[]);
    for newcomer in 1_000..1_000 + 2 * PEERS_MAX as u32 {
        link.report(StreamEvent::Connected(place(newcomer)));
        streams.poll(NOW, &NONE_PROVEN);
    }
    let statistics = streams.statistics();
    assert_eq!((statistics.displaced, statistics.refused), (PEERS_MAX as u64, PEERS_MAX as u64));
    assert_eq!(lock(&streams.peers).leaving.len(), PEERS_MAX);
}

#[test]
fn events_of_one_turn_are_bounded() {
    let (link, streams) = streams();
    (0..EVENTS_MAX as u32 + 1).for_each(|peer| link.report(StreamEvent::Connected(place(peer))));
    let news = streams.poll(NOW, &NONE_PROVEN);
    assert!(news.is_incomplete && news.changes.len() == EVENTS_MAX);
    let news = streams.poll(NOW, &NONE_PROVEN);
    assert!(!news.is_incomplete && news.changes.len() == 1);
}

#[test]
fn message_to_a_kind_without_a_link_is_counted() {
    let (_, streams) = streams();
    let mut batch = TransmitBatch::default();
    batch.push_message(&[1; 40], Arc::new([Locator { kind: KIND + 1, ..place(1) }]));
    batch.messages().for_each(|message| streams.send(&message));
    assert_eq!(streams.statistics().dropped_kind, 1);
}
