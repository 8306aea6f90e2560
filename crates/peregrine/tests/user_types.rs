//! Code of hand-written types that uses the entity of the value: it runs under no lock, and on no thread that keeps
//! timers or leads the reception.

mod common;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{PATIENCE, Reading, config, eventually, participant};
use peregrine::xtypes::{DecodeError, Decoder, EncodeError, Encoder, Extents, KeyFacts, LengthCode, Sink};
use peregrine::{DdsType, DomainParticipant, FlowController, InstanceHandle, PublishMode, user_code_panics};

/// A function of the test that each call of the type's code invokes.
type Hook = Mutex<Option<Arc<dyn Fn() + Send + Sync>>>;

fn call(hook: &Hook) {
    thread_local! {
        static IS_INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    let found = hook.lock().unwrap().clone();
    if let Some(found) = found.filter(|_| !IS_INSIDE.replace(true)) {
        found();
        IS_INSIDE.set(false);
    }
}

/// A module with a hand-written type `Probe` that calls `HOOK`, and a topic type with a `Probe` as its key.
macro_rules! probe {
    ($name:ident) => {
        mod $name {
            use super::*;

            pub(super) static HOOK: Hook = Mutex::new(None);

            #[derive(Clone, Debug, PartialEq)]
            pub(super) struct Probe(pub(super) u32);

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = "final")]
            pub(super) struct Keyed {
                #[dds(key)]
                pub(super) id: Probe,
                pub(super) value: u32,
            }

            pub(super) fn keyed(id: u32, value: u32) -> Keyed {
                Keyed { id: Probe(id), value }
            }

            impl Drop for Probe {
                fn drop(&mut self) {
                    call(&HOOK);
                }
            }

            impl DdsType for Probe {
                const TYPE_NAME: &'static str = u32::TYPE_NAME;
                const PRIMITIVE: bool = u32::PRIMITIVE;
                const LENGTH_CODE: LengthCode = u32::LENGTH_CODE;
                const MIN_SIZE: usize = u32::MIN_SIZE;
                const EXTENTS: Extents = u32::EXTENTS;
                const TOPIC_KEY: KeyFacts = u32::TOPIC_KEY;
                const MEMBER_KEY: KeyFacts = u32::MEMBER_KEY;

                type Key = ();
                type MemberKey = u32;

                fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
                    call(&HOOK);
                    self.0.encode(encoder)
                }

                fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                    call(&HOOK);
                    u32::decode(decoder).map(Self)
                }

                fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
                    call(&HOOK);
                    u32::skip(decoder)
                }

                fn transcode_key<S: Sink>(
                    decoder: &mut Decoder<'_>,
                    encoder: &mut Encoder<'_, S>,
                ) -> Result<(), DecodeError> {
                    call(&HOOK);
                    u32::transcode_key(decoder, encoder)
                }

                fn default_value() -> Self {
                    Self(u32::default_value())
                }

                fn key(&self) {}

                fn member_key(&self) -> u32 {
                    self.0
                }
            }
        }
    };
}

probe!(deleted);
probe!(recalled);
probe!(received);
probe!(late);
probe!(replaced);
probe!(expired);

/// A participant that exchanges samples by reference with others of this configuration.
fn direct(domain: u32) -> DomainParticipant {
    let mut config = config();
    config.same_process = true;
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

/// A participant that exchanges samples over sockets.
fn apart(domain: u32) -> DomainParticipant {
    let mut config = config();
    config.receive_buffers = 17;
    config.shared_memory = false;
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

/// Runs `body` on a separate thread, so that a deadlock fails the test.
fn within_patience<R: Send + 'static>(what: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, is_done) = sync_channel(64);
    thread::spawn(move || done.send(body()));
    is_done.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: waits for a lock, or has panicked"))
}

/// Whether this is the name of a control, publishing or other thread that must not run user code.
fn keeps_timers(thread: &str) -> bool {
    thread.contains("-ctrl-") || thread.contains("-pub-")
}

/// Drops the function of the hook without holding the lock of the hook.
fn clear(hook: &Hook) {
    let gone = hook.lock().unwrap().take();
    drop(gone);
}

fn set(hook: &Hook, with: impl Fn() + Send + Sync + 'static) {
    *hook.lock().unwrap() = Some(Arc::new(with));
}

#[test]
fn key_function_can_use_writer_during_deletion() {
    use deleted::{HOOK, Keyed, keyed};
    let a = participant(62);
    let writer = a.topic::<Keyed>("deleted").unwrap().writer_builder().reliable().build().unwrap();
    writer.write(&keyed(1, 1)).unwrap();
    let (asking, calls) = (writer.clone(), Arc::new(AtomicUsize::new(0)));
    let counting = Arc::clone(&calls);
    set(&HOOK, move || {
        counting.fetch_add(1, Ordering::SeqCst);
        let _ = (asking.counters(), asking.lookup_instance(&keyed(1, 1)));
    });
    within_patience("deletion", move || writer.close(PATIENCE)).unwrap();
    assert!(calls.load(Ordering::SeqCst) > 0, "the instance is disposed by its key");
    clear(&HOOK);
}

#[test]
fn decoding_of_key_value_can_use_its_endpoints() {
    use recalled::{HOOK, Keyed, keyed};
    let a = direct(63);
    let topic = a.topic::<Keyed>("recalled").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&keyed(3, 1)).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let instance = writer.lookup_instance(&keyed(3, 0)).unwrap();
    let (asking_writer, asking_reader) = (writer.clone(), reader.clone());
    set(&HOOK, move || {
        let _ = (asking_writer.counters(), asking_reader.counters());
        let _ = asking_writer.write_serialized(InstanceHandle::NIL, 8, |_| {});
    });
    let values = within_patience("get_key_value", move || {
        [writer.get_key_value(instance).unwrap().id.0, reader.get_key_value(instance).unwrap().id.0]
    });
    assert_eq!(values, [3, 3]);
    clear(&HOOK);
}

#[test]
fn key_function_of_received_sample_can_use_its_entities() {
    use received::{HOOK, Keyed, keyed};
    let (a, b) = (participant(64), apart(64));
    let reader = b.topic::<Keyed>("received").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    let writer = a.topic::<Keyed>("received").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let (asking, there, threads) = (reader.clone(), b.clone(), Arc::new(Mutex::new(Vec::new())));
    let noting = Arc::clone(&threads);
    set(&HOOK, move || {
        let _ = (asking.counters(), there.discovered_participants());
        noting.lock().unwrap().push(thread::current().name().unwrap_or_default().to_owned());
    });
    let sample = within_patience("reception", move || {
        for value in 0..3 {
            writer.write(&keyed(5, value)).unwrap();
        }
        let samples = [0, 1, 2].map(|_| reader.wait_and_take(PATIENCE).unwrap());
        let instance = samples[2].info().instance;
        assert_eq!(reader.get_key_value(instance).unwrap(), keyed(5, 0), "the key is kept");
        samples[2].value().map(|keyed| (keyed.id.0, keyed.value))
    });
    assert_eq!(sample, Some((5, 2)));
    assert!(threads.lock().unwrap().iter().all(|name| !keeps_timers(name)), "{threads:?}");
    clear(&HOOK);
}

#[test]
fn shared_value_is_encoded_without_lock_for_later_reader() {
    use late::{HOOK, Keyed, keyed};
    let (a, b) = (direct(65), apart(65));
    let topic = a.topic::<Keyed>("late").unwrap();
    let durable = topic.writer_builder().reliable().keep_all().transient_local();
    let writer = durable.build().unwrap();
    let near = topic.reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let (asking, threads) = (writer.clone(), Arc::new(Mutex::new(Vec::new())));
    let noting = Arc::clone(&threads);
    set(&HOOK, move || {
        let _ = (asking.counters(), asking.matched_subscriptions());
        noting.lock().unwrap().push(thread::current().name().unwrap_or_default().to_owned());
    });
    let written = writer.clone();
    within_patience("write_shared", move || written.write_shared(Arc::new(keyed(1, 7)))).unwrap();
    let far = within_patience("late joiner", move || {
        let far = b.topic::<Keyed>("late").unwrap().reader_builder().reliable().keep_all();
        let far = far.transient_local().build().unwrap();
        far.wait_and_take(PATIENCE).unwrap().value().map(|keyed| keyed.value)
    });
    assert_eq!(far, Some(7));
    assert_eq!(near.wait_and_take(PATIENCE).unwrap().value().map(|keyed| keyed.value), Some(7));
    assert!(threads.lock().unwrap().iter().all(|name| !keeps_timers(name)), "{threads:?}");
    clear(&HOOK);
}

#[test]
fn destructor_of_replaced_shared_value_can_use_its_endpoints() {
    use replaced::{HOOK, Keyed, keyed};
    let a = direct(66);
    let topic = a.topic::<Keyed>("replaced").unwrap();
    let writer = topic.writer_builder().reliable().keep_last(1).build().unwrap();
    let reader = topic.reader_builder().reliable().keep_last(1).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let (asking_writer, asking_reader) = (writer.clone(), reader.clone());
    let calls = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&calls);
    set(&HOOK, move || {
        counting.fetch_add(1, Ordering::SeqCst);
        let _ = (asking_writer.counters(), asking_reader.counters());
    });
    within_patience("replacement", move || {
        for value in 0..4 {
            writer.write_shared(Arc::new(keyed(1, value))).unwrap();
        }
        assert_eq!(reader.take().unwrap().len(), 1);
        reader.close().unwrap();
        writer.close(PATIENCE).unwrap();
    });
    assert!(calls.load(Ordering::SeqCst) >= 3);
    clear(&HOOK);
}

#[test]
fn destructor_of_expired_shared_value_runs_on_no_timer_thread() {
    use expired::{HOOK, Keyed, keyed};
    let a = direct(67);
    let topic = a.topic::<Keyed>("expired").unwrap();
    let writer = topic.writer_builder().lifespan(Duration::from_millis(20)).build().unwrap();
    let reader = topic.reader_builder().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let (dropped, drops) = sync_channel(64);
    let dropped = Mutex::new(dropped);
    let asking = reader.clone();
    writer.write_shared(Arc::new(keyed(1, 1))).unwrap();
    set(&HOOK, move || {
        let _ = asking.counters();
        let _ = dropped.lock().unwrap().send(thread::current().name().unwrap_or_default().to_owned());
    });
    let thread = drops.recv_timeout(PATIENCE).expect("the value is dropped when its lifespan has ended");
    assert!(!keeps_timers(&thread), "{thread}");
    clear(&HOOK);
}

/// A waker of a task that reports its thread.
struct Tells(Mutex<SyncSender<String>>);

impl Tells {
    fn waker() -> (Waker, Receiver<String>) {
        let (told, calls) = sync_channel(64);
        (Waker::from(Arc::new(Self(Mutex::new(told)))), calls)
    }
}

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(thread::current().name().unwrap_or_default().to_owned());
    }
}

/// Polls a pending future, which keeps the waker.
fn poll_pending(future: Pin<&mut impl Future>, waker: &Waker) {
    assert!(future.poll(&mut Context::from_waker(waker)).is_pending());
}

#[test]
fn task_is_woken_while_application_thread_leads() {
    let (a, b) = (participant(69), apart(69));
    let [task, thread] = ["task", "thread"].map(|name| {
        let writer = a.topic::<Reading>(name).unwrap().writer_builder().reliable().build().unwrap();
        let reader = b.topic::<Reading>(name).unwrap().reader_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
        (writer, reader)
    });
    let (took, has_taken) = sync_channel(64);
    let (writer, reader) = thread;
    let waiting = thread::spawn(move || {
        for _ in 0..4 {
            reader.wait_and_take(2 * PATIENCE).unwrap();
            took.send(()).unwrap();
        }
    });
    // From its second wait on, the thread leads the reception.
    for value in 0..3 {
        writer.write(&Reading::new(1, value)).unwrap();
        has_taken.recv_timeout(PATIENCE).unwrap();
    }
    let (waker, calls) = Tells::waker();
    let mut data = Box::pin(task.1.wait_for_data_async());
    poll_pending(data.as_mut(), &waker);
    task.0.write(&Reading::new(1, 1)).unwrap();
    let thread = calls.recv_timeout(PATIENCE).expect("the task is woken while the other thread waits");
    assert!(!keeps_timers(&thread), "{thread}");
    writer.write(&Reading::new(1, 3)).unwrap();
    waiting.join().unwrap();
}

/// The publishing thread hands the samples of an asynchronous writer to readers of this process.
#[test]
fn publishing_thread_wakes_no_task_itself() {
    let a = direct(70);
    let topic = a.topic::<Reading>("published").unwrap();
    let mode = PublishMode::Asynchronous { flow: FlowController::fast() };
    let writer = topic.writer_builder().reliable().publish_mode(mode).build().unwrap();
    let reader = topic.reader_builder().reliable().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let (waker, calls) = Tells::waker();
    let mut data = Box::pin(reader.wait_for_data_async());
    poll_pending(data.as_mut(), &waker);
    writer.write(&Reading::new(1, 1)).unwrap();
    let thread = calls.recv_timeout(PATIENCE).expect("the task is woken");
    assert!(!keeps_timers(&thread), "{thread}");
}

/// A waker of a task that reports its thread and then panics.
struct Panics(Mutex<SyncSender<String>>);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(thread::current().name().unwrap_or_default().to_owned());
        panic!("on purpose");
    }
}

/// Discovery wakes tasks from the control thread, which has to go on.
#[test]
fn panicking_waker_is_counted_and_stops_no_thread() {
    let a = participant(68);
    let writer = a.topic::<Reading>("woken").unwrap().writer_builder().reliable().build().unwrap();
    let before = user_code_panics();
    let (told, calls) = sync_channel(64);
    let waker = Waker::from(Arc::new(Panics(Mutex::new(told))));
    let mut matched = Box::pin(writer.wait_for_readers_async(1));
    assert!(matches!(matched.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending));
    let b = apart(68);
    let reader = b.topic::<Reading>("woken").unwrap().reader_builder().reliable().build().unwrap();
    let thread = calls.recv_timeout(PATIENCE).expect("the task is woken");
    assert!(!keeps_timers(&thread), "{thread}");
    eventually("the panic is counted", || user_code_panics() > before);
    let mut poll = || Pin::new(&mut matched).poll(&mut Context::from_waker(Waker::noop()));
    eventually("the future is ready", || poll().is_ready());
    // Discovery and data continue.
    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 1)));
    let late = a.topic::<Reading>("late").unwrap().writer_builder().reliable().build().unwrap();
    let _late_reader = b.topic::<Reading>("late").unwrap().reader_builder().reliable().build().unwrap();
    late.wait_for_readers(1, PATIENCE).unwrap();
}
