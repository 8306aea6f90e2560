//! A subscriber of `tracing` is user code: it runs under no lock, and on no thread that keeps timers.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;

use common::{PATIENCE, Reading, config, eventually};
use peregrine::{DomainParticipant, user_code_panics};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that uses a participant at each event of the driver, and panics once.
#[derive(Default)]
struct Asking {
    participant: Mutex<Option<DomainParticipant>>,
    threads: Mutex<Vec<String>>,
    must_panic: AtomicBool,
}

struct Shared(Arc<Asking>);

impl Subscriber for Shared {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("peregrine::driver")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let asked = self.0.participant.lock().unwrap().clone();
        if let Some(participant) = asked {
            let _ = participant.discovered_participants();
            self.0.threads.lock().unwrap().push(thread::current().name().unwrap_or_default().to_owned());
            assert!(!self.0.must_panic.swap(false, Ordering::SeqCst), "on purpose");
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn panicking_log_subscriber_stops_no_thread() {
    let asking = Arc::<Asking>::default();
    tracing::subscriber::set_global_default(Shared(Arc::clone(&asking))).unwrap();
    let here = DomainParticipant::builder(10).config(config()).build().unwrap();
    *asking.participant.lock().unwrap() = Some(here.clone());
    asking.must_panic.store(true, Ordering::SeqCst);
    let before = user_code_panics();
    let (done, is_done) = sync_channel(64);
    thread::spawn(move || {
        let mut config = config();
        config.receive_buffers = 17;
        let there = DomainParticipant::builder(10).config(config).build().unwrap();
        let writer = here.topic::<Reading>("logged").unwrap().writer_builder().reliable().build().unwrap();
        let reader = there.topic::<Reading>("logged").unwrap().reader_builder().reliable().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        writer.write(&Reading::new(1, 1)).unwrap();
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 1)));
        eventually("the panic is counted", || user_code_panics() > before);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(3 * PATIENCE).expect("no thread waits for a lock, and none has ended");
    let threads = asking.threads.lock().unwrap().clone();
    assert!(threads.len() > 1 && !threads.iter().any(|name| name.contains("-ctrl-")), "{threads:?}");
    let gone = asking.participant.lock().unwrap().take();
    drop(gone);
}
