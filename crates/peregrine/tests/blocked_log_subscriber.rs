//! A subscriber of `tracing` that blocks the threads of a domain delays no task, no sample and no listener.

mod common;

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use common::{PATIENCE, Reading, config, eventually};
use peregrine::{DataReader, DomainConfig, DomainParticipant};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that blocks each thread of a domain until it is released.
#[derive(Default)]
struct Blocking {
    is_released: Mutex<bool>,
    released: Condvar,
    blocked: AtomicUsize,
}

struct Shared(Arc<Blocking>);

/// Releases the threads, which the drop of a participant joins.
struct Release<'b>(&'b Blocking);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        *self.0.is_released.lock().unwrap() = true;
        self.0.released.notify_all();
    }
}

impl Subscriber for Shared {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("peregrine")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let prefix = DomainConfig::default().threads.name_prefix;
        if thread::current().name().is_some_and(|name| name.starts_with(&*prefix)) {
            self.0.blocked.fetch_add(1, Ordering::SeqCst);
            let is_released = self.0.is_released.lock().unwrap();
            drop(self.0.released.wait_while(is_released, |is_released| !*is_released).unwrap());
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits until the waker of the task has run and the task is ready. `begin` runs while the task waits.
fn block_on<R>(task: impl Future<Output = R>, begin: impl FnOnce()) -> R {
    let (waker, end) = (Waker::from(Arc::new(Unpark(thread::current()))), Instant::now() + PATIENCE);
    let mut task = pin!(task);
    let mut begin = Some(begin);
    loop {
        if let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        begin.take().into_iter().for_each(|begin| begin());
        let left = end.saturating_duration_since(Instant::now());
        thread::park_timeout(left);
        assert!(Instant::now() < end, "the task is not woken");
    }
}

#[test]
fn log_subscriber_that_blocks_delays_no_task_and_no_listener() {
    let blocking = Arc::<Blocking>::default();
    tracing::subscriber::set_global_default(Shared(Arc::clone(&blocking))).unwrap();
    let here = DomainParticipant::builder(72).config(config()).build().unwrap();
    let mut other = config();
    other.receive_buffers = 17;
    let there = DomainParticipant::builder(72).config(other).build().unwrap();
    let _release = Release(&blocking);
    eventually("both participants emit an event", || blocking.blocked.load(Ordering::SeqCst) >= 2);

    let writer = here.topic::<Reading>("logged").unwrap().writer_builder().reliable().build().unwrap();
    let topic = there.topic::<Reading>("logged").unwrap();
    let (told, calls) = sync_channel(10);
    let mut readers = Vec::new();
    block_on(writer.wait_for_readers_async(2), || {
        let listener = move |reader: &DataReader<Reading>| told.send(reader.take().unwrap().len()).unwrap();
        readers.push(topic.reader_builder().reliable().on_data(listener).build().unwrap());
        readers.push(topic.reader_builder().reliable().build().unwrap());
    })
    .unwrap();
    let sample = block_on(readers[1].next(), || _ = writer.write(&Reading::new(1, 1)).unwrap()).unwrap();
    assert_eq!(sample.into_value(), Some(Reading::new(1, 1)));
    assert_eq!(calls.recv_timeout(PATIENCE).unwrap(), 1);
}
