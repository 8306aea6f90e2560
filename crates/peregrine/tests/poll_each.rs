//! `poll_each` yields the same samples as polling and `take`, on every delivery path.
#![cfg(target_os = "linux")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Block, PATIENCE, polled};
use peregrine::{DataReader, DataWriter, DomainParticipant, Selector, StatusMask, WaitStrategy};

/// Payload lengths that are copied, held briefly, and received in separate datagrams.
const LENGTHS: [usize; 6] = [0, 8, 100, 5000, 63_000, 1 << 20];

struct Pair {
    a: DomainParticipant,
    b: DomainParticipant,
    writer: DataWriter<Block>,
    reader: DataReader<Block>,
}

impl Pair {
    /// Each side has sockets and shared memory of its own, as in two processes.
    fn new(domain: u32, shared_memory: bool) -> Self {
        let side = |name: &str| {
            let mut config = polled();
            config.shared_memory = shared_memory;
            config.threads.name_prefix = name.to_owned();
            DomainParticipant::builder(domain).config(config).build().unwrap()
        };
        let (a, b) = (side("a"), side("b"));
        let writer = a.topic::<Block>("polled").unwrap().writer_builder().reliable().keep_all().build().unwrap();
        let reader = b.topic::<Block>("polled").unwrap().reader_builder().reliable().keep_all().build().unwrap();
        let pair = Self { a, b, writer, reader };
        let channels = u64::from(shared_memory);
        pair.until("the endpoints match", || {
            pair.writer.matched_subscriptions().len() == 1
                && pair.reader.matched_publications().len() == 1
                && pair.a.shared_memory_statistics().readers == channels
                && pair.b.shared_memory_statistics().writers == channels
        });
        pair
    }

    fn until(&self, what: &str, mut happened: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !happened() {
            assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
            self.a.poll(Duration::ZERO);
            self.b.poll(Duration::ZERO);
        }
    }

    /// Polls for samples until `enough`; the writer's side polls meanwhile.
    fn poll_until(&self, mut look: impl FnMut(Block), enough: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !enough() {
            assert!(Instant::now() < end, "not within {PATIENCE:?}");
            // One sample at a time: a poll may have received several.
            self.reader
                .poll_each(&Selector { max_samples: 1, ..Selector::ANY }, |sample| {
                    if sample.info().valid_data {
                        look(sample.decode().unwrap());
                    }
                })
                .unwrap();
            self.a.poll(Duration::ZERO);
        }
    }

    /// The numbers of the next samples.
    fn poll_numbers(&self, count: usize) -> Vec<u64> {
        let numbers = std::cell::RefCell::new(Vec::new());
        self.poll_until(|block| numbers.borrow_mut().push(block.number), || numbers.borrow().len() >= count);
        numbers.into_inner()
    }
}

#[test]
fn poll_each_yields_samples_of_every_length_in_order() {
    for (domain, shared_memory) in [(40, true), (41, false)] {
        let pair = Pair::new(domain, shared_memory);
        let mut expected = 0;
        for round in 0..20 {
            // Single samples, and several waiting samples.
            let together = 1 + round % 3;
            for _ in 0..LENGTHS.len() / together {
                for ahead in 0..together as u64 {
                    let number = expected + ahead;
                    pair.writer.write(&Block::new(number, LENGTHS[number as usize % LENGTHS.len()])).unwrap();
                }
                let shown = AtomicU64::new(0);
                let first = expected;
                pair.poll_until(
                    |block| {
                        let number = first + shown.fetch_add(1, Ordering::Relaxed);
                        assert!(block == Block::new(number, LENGTHS[number as usize % LENGTHS.len()]), "{number}");
                    },
                    || shown.load(Ordering::Relaxed) == together as u64,
                );
                expected += together as u64;
                pair.until("all samples are acknowledged", || {
                    pair.writer.wait_for_acknowledgments(Duration::ZERO).is_ok()
                });
            }
        }
        assert_eq!(pair.reader.counters().samples, expected);
        assert!(!pair.reader.status_changes().intersects(StatusMask::DATA_AVAILABLE), "all samples were taken");
        let received = pair.b.shared_memory_statistics().received;
        assert_eq!(received, if shared_memory { expected } else { 0 });
    }
}

#[test]
fn poll_each_yields_cached_samples_first() {
    let pair = Pair::new(42, true);
    for number in 0..3 {
        pair.writer.write(&Block::new(number, 100)).unwrap();
    }
    // Received and read, so that the samples are in the cache.
    pair.until("the samples were received", || pair.reader.read().unwrap().len() == 3);
    pair.writer.write(&Block::new(3, 100)).unwrap();
    assert_eq!(pair.poll_numbers(4), [0, 1, 2, 3]);
    for number in 4..8 {
        pair.writer.write(&Block::new(number, 5000)).unwrap();
    }
    assert_eq!(pair.poll_numbers(1), [4]);
    pair.until("take_next gets the next samples", || pair.reader.take_next().unwrap().is_some());
    assert_eq!(pair.poll_numbers(2), [6, 7]);
}

#[test]
fn poll_each_yields_selected_samples_only() {
    let pair = Pair::new(43, true);
    pair.writer.write(&Block::new(0, 8)).unwrap();
    assert_eq!(pair.poll_numbers(1), [0]);
    pair.writer.write(&Block::new(1, 8)).unwrap();
    let mut shown = 0;
    for selector in [
        Selector { max_samples: 0, ..Selector::ANY },
        Selector { not_read: false, ..Selector::ANY },
        Selector { alive: false, ..Selector::ANY },
    ] {
        for _ in 0..100 {
            shown += pair.reader.poll_each(&selector, |_| {}).unwrap();
        }
    }
    assert_eq!(shown, 0);
    assert_eq!(pair.poll_numbers(1), [1]);
}

#[test]
fn polled_samples_notify_listener() {
    let pair = Pair::new(44, true);
    let heard = Arc::new(AtomicU64::new(0));
    let listener = {
        let heard = Arc::clone(&heard);
        move |reader: &DataReader<Block>| {
            heard.fetch_add(reader.take().unwrap().len() as u64, Ordering::Relaxed);
        }
    };
    for len in LENGTHS {
        pair.writer.write(&Block::new(0, len)).unwrap();
        pair.poll_numbers(1);
    }
    pair.reader.set_listener(Some(Arc::new(listener)), StatusMask::DATA_AVAILABLE);
    for (number, len) in (1..).zip(LENGTHS) {
        pair.writer.write(&Block::new(0, len)).unwrap();
        pair.poll_until(|_| panic!("the listener has it"), || heard.load(Ordering::Relaxed) == number);
    }
}

#[test]
fn callback_can_write_and_poll_again() {
    let pair = Pair::new(46, true);
    let echoes = pair.b.topic::<Block>("echoes").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let by_a = pair.a.topic::<Block>("echoes").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    pair.until("the endpoints match", || {
        echoes.matched_subscriptions().len() == 1 && by_a.matched_publications().len() == 1
    });
    for (number, len) in (0..).zip(LENGTHS) {
        pair.writer.write(&Block::new(2 * number, len)).unwrap();
        pair.writer.write(&Block::new(2 * number + 1, len)).unwrap();
        let mut shown = Vec::new();
        let end = Instant::now() + PATIENCE;
        while shown.len() < 2 {
            assert!(Instant::now() < end, "{len}: {shown:?}");
            pair.reader
                .poll_each(&Selector::ANY, |sample| {
                    let block = sample.decode().unwrap();
                    echoes.write(&block).unwrap();
                    shown.push(block.number);
                    pair.reader
                        .poll_each(&Selector::ANY, |next| {
                            echoes.write(&next.decode().unwrap()).unwrap();
                            shown.push(next.decode().unwrap().number);
                            assert_eq!(sample.decode().unwrap(), block, "the sample is held during the call");
                        })
                        .unwrap();
                })
                .unwrap();
            pair.a.poll(Duration::ZERO);
        }
        assert_eq!(shown, [2 * number, 2 * number + 1]);
        let mut echoed = 0;
        pair.until("the echoes arrive", || {
            echoed += by_a
                .poll_each(&Selector::ANY, |sample| assert_eq!(sample.decode().unwrap().octets.len(), len))
                .unwrap();
            echoed == 2
        });
    }
}

#[test]
fn poll_each_under_block_takes_samples() {
    let mut config = polled();
    config.wait = WaitStrategy::Block;
    config.same_process = true;
    let participant = DomainParticipant::builder(47).config(config).build().unwrap();
    let topic = participant.topic::<Block>("polled").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Block::new(1, 8)).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let mut shown = 0;
    assert_eq!(reader.poll_each(&Selector::ANY, |sample| shown = sample.decode().unwrap().number).unwrap(), 1);
    assert_eq!(shown, 1);
}
