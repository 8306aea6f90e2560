//! Time from `write` to the return of the listener of a reader in the same process, by size of the sample and form of
//! writing: encoded, built in place, shared. The floor is an `Arc` that passes through a mutex and a condition
//! variable; the last columns are the ratios of the medians of `write_loan` and `write_shared` to it.
//!
//! `same_process [COUNT]`: the number of writes of each form (default 100,000), fewer for large samples.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use peregrine::{
    DataReader, DataReaderListener, DataWriter, DdsType, DomainConfig, DomainParticipant, InterfaceSelection, Selector,
    StatusMask,
};

const DOMAIN: u32 = 121;
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of bytes copied for one row.
const BYTES_MAX: usize = 4 << 30;
/// Writes between two readings of the clock.
const BATCH: usize = 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A listener that reads every sample in place.
struct Look(Arc<AtomicU64>);

impl<T: DdsType + Numbered> DataReaderListener<T> for Look {
    fn on_data_available(&self, reader: &DataReader<T>) {
        reader
            .take_each(&Selector::ANY, |sample| {
                let value = sample.borrow().map_or(u64::MAX, Numbered::number);
                self.0.store(value, Ordering::Relaxed);
            })
            .unwrap();
    }
}

/// A sample that carries a number.
trait Numbered {
    fn number(&self) -> u64;
    fn set_number(&mut self, number: u64);
}

impl<const N: usize> Numbered for [u64; N] {
    fn number(&self) -> u64 {
        self.first().copied().unwrap_or(u64::MAX)
    }

    fn set_number(&mut self, number: u64) {
        self.first_mut().into_iter().for_each(|first| *first = number);
    }
}

fn main() -> Result<()> {
    let count = match std::env::args().nth(1) {
        None => 100_000,
        Some(word) => word.parse().map_err(|_| format!("usage: same_process [COUNT]; \"{word}\" is not a number"))?,
    };
    let mut config = DomainConfig::default();
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    let participant = DomainParticipant::builder(DOMAIN).config(config).build()?;
    println!("from write to the listener's return, ns: p50 and p99 of the mean of {BATCH} in a row");
    println!(
        "{:>10} {:>8} {:>15} {:>15} {:>15} {:>15} {:>12} {:>14}",
        "bytes", "count", "write", "write_loan", "write_shared", "floor", "loan / floor", "shared / floor"
    );
    measure::<4>(&participant, count)?;
    measure::<128>(&participant, count)?;
    measure::<8192>(&participant, count)?;
    measure::<131_072>(&participant, count)?;
    measure::<6_553_600>(&participant, count)
}

fn measure<const N: usize>(participant: &DomainParticipant, count: usize) -> Result<()> {
    let topic = participant.topic::<[u64; N]>(&format!("numbers {N}"))?;
    let seen = Arc::new(AtomicU64::new(0));
    let reader = topic.reader_builder().reliable().keep_last(1);
    let reader = reader.listener(Look(Arc::clone(&seen)), StatusMask::DATA_AVAILABLE).build()?;
    let writer = topic.writer_builder().reliable().keep_last(1).build()?;
    writer.wait_for_readers(1, PATIENCE)?;
    reader.wait_for_writers(1, PATIENCE)?;
    let octets = size_of::<[u64; N]>();
    let count = count.min(BYTES_MAX / octets).max(BATCH);
    let value: Box<[u64]> = vec![7; N].into_boxed_slice();
    let mut shared: Arc<[u64; N]> =
        value.clone().try_into().map(|value: Box<[u64; N]>| Arc::from(value)).map_err(|_| "length")?;
    let mut value: Box<[u64; N]> = value.try_into().map_err(|_| "length")?;
    let write = time(count, &seen, |number| {
        value.set_number(number);
        Ok(_ = writer.write(&value)?)
    })?;
    let loan = time(count, &seen, |number| {
        let mut loan = writer.loan()?;
        loan.set_number(number);
        Ok(_ = writer.write_loan(loan)?)
    })?;
    let times_of_shared = time(count, &seen, |number| write_shared(&writer, &mut shared, number))?;
    let exchange = Exchange::default();
    let floor = time(count, &seen, |number| {
        Arc::get_mut(&mut shared).ok_or("the exchange still holds the value")?.set_number(number);
        exchange.put(Arc::clone(&shared));
        seen.store(exchange.take().number(), Ordering::Relaxed);
        Ok(())
    })?;
    let cell = |(p50, p99): (u64, u64)| format!("{p50} / {p99}");
    let ratio = |(p50, _): (u64, u64)| p50 as f64 / floor.0.max(1) as f64;
    println!(
        "{octets:>10} {count:>8} {:>15} {:>15} {:>15} {:>15} {:>12.2} {:>14.2}",
        cell(write),
        cell(loan),
        cell(times_of_shared),
        cell(floor),
        ratio(loan),
        ratio(times_of_shared)
    );
    Ok(())
}

/// A place for one value, which passes from the thread that puts it to the thread that takes it.
struct Exchange<T> {
    place: Mutex<Place<T>>,
    is_filled: Condvar,
}

struct Place<T> {
    value: Option<Arc<T>>,
    /// Threads that wait for a value. Without them, `put` makes no system call.
    waiting: usize,
}

impl<T> Default for Exchange<T> {
    fn default() -> Self {
        Self { place: Mutex::new(Place { value: None, waiting: 0 }), is_filled: Condvar::new() }
    }
}

impl<T> Exchange<T> {
    fn put(&self, value: Arc<T>) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.value = Some(value);
        let is_awaited = place.waiting > 0;
        drop(place);
        if is_awaited {
            self.is_filled.notify_one();
        }
    }

    fn take(&self) -> Arc<T> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = place.value.take() {
                return value;
            }
            place.waiting += 1;
            place = self.is_filled.wait(place).unwrap_or_else(PoisonError::into_inner);
            place.waiting -= 1;
        }
    }
}

/// The reader has released the value, so that it can be written again.
fn write_shared<const N: usize>(writer: &DataWriter<[u64; N]>, value: &mut Arc<[u64; N]>, number: u64) -> Result<()> {
    Arc::get_mut(value).ok_or("a reader still holds the value")?.set_number(number);
    writer.write_shared(Arc::clone(value))?;
    Ok(())
}

/// The median and the 99th percentile of the time of a write, in nanoseconds. Each is checked to have arrived.
fn time(count: usize, seen: &AtomicU64, mut write: impl FnMut(u64) -> Result<()>) -> Result<(u64, u64)> {
    let mut times = Vec::with_capacity(count / BATCH);
    let mut number = 1;
    for round in 0..count / BATCH + count / BATCH / 10 + 1 {
        let before = Instant::now();
        for _ in 0..BATCH {
            number += 1;
            write(number)?;
        }
        let spent = before.elapsed().as_nanos() as u64 / BATCH as u64;
        if seen.load(Ordering::Relaxed) != number {
            return Err("the listener has not seen the last sample when write returns".into());
        }
        // The first tenth is the warm-up.
        if round > count / BATCH / 10 {
            times.push(spent);
        }
    }
    times.sort_unstable();
    let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len() - 1)).copied().unwrap_or(0);
    Ok((at(50), at(99)))
}
