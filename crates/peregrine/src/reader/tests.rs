//! Futures and streams of readers and writers, and their cleanup.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use peregrine_xtypes::facade::DdsType;

use crate::driver::base::parker::Parker;
use crate::qos::{Limit, ResourceLimits};
use crate::{DataReader, DataWriter, DomainConfig, DomainParticipant, Error, InterfaceSelection};

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Count {
    number: u32,
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Parker::of_this_thread();
    let waker = Waker::from(Arc::clone(&parker));
    let end = crate::driver::base::clock::now() + PATIENCE.into();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(crate::driver::base::clock::now() < end, "not ready within {PATIENCE:?}");
        parker.park_until(end);
    }
}

fn poll_once<F: Future>(future: F) -> (bool, F::Output)
where
    F::Output: Default,
{
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => (true, output),
        Poll::Pending => (false, F::Output::default()),
    }
}

fn pair(domain: u32) -> (DataWriter<Count>, DataReader<Count>) {
    let interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    let config = DomainConfig { interfaces, ..DomainConfig::default() };
    let participant = DomainParticipant::builder(domain).config(config).build().unwrap();
    let topic = participant.topic::<Count>("counts").unwrap();
    let limits = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let writer = topic.writer_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    block_on(writer.wait_for_readers_async(1)).unwrap();
    block_on(reader.wait_for_writers_async(1)).unwrap();
    (writer, reader)
}

#[test]
fn future_and_stream_yield_written_samples() {
    let (writer, reader) = pair(188);
    let writing = std::thread::spawn(move || {
        for number in 0..50 {
            block_on(writer.write_async(&Count { number })).unwrap();
        }
        block_on(writer.wait_for_acknowledgments_async()).unwrap();
        writer
    });
    for number in 0..25 {
        assert_eq!(block_on(reader.next()).unwrap().into_value(), Some(Count { number }));
    }
    let mut stream = reader.stream();
    for number in 25..50 {
        let sample = block_on(std::future::poll_fn(|context| pin!(&mut stream).poll_next(context)));
        assert_eq!(sample.unwrap().unwrap().into_value(), Some(Count { number }));
    }
    drop(writing.join().unwrap());
    reader.subscriber().delete_contained_entities();
    let mut next = || block_on(std::future::poll_fn(|context| pin!(&mut stream).poll_next(context)));
    assert!(matches!(next(), Some(Err(Error::AlreadyDeleted))));
    assert!(next().is_none());
    assert!(matches!(block_on(reader.next()), Err(Error::AlreadyDeleted)));
    drop(stream);
    assert_eq!(reader.inner.core.lock().wakers.len(), 0);
}

#[test]
fn dropped_future_leaves_no_waker() {
    let (writer, reader) = pair(189);
    let wakers = || reader.inner.core.lock().wakers.len();
    assert!(!poll_once(async { reader.next().await.is_ok() }).0);
    assert_eq!(wakers(), 0);
    {
        let mut future = pin!(reader.next());
        let mut stream = pin!(reader.stream());
        for _ in 0..3 {
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(stream.as_mut().poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(wakers(), 2, "polling again does not add another waker");
    }
    assert_eq!(wakers(), 0);
    // The first sample fills the reader, the second the writer, so that the third has no room.
    writer.write(&Count { number: 0 }).unwrap();
    block_on(writer.wait_for_acknowledgments_async()).unwrap();
    writer.write(&Count { number: 1 }).unwrap();
    assert!(!poll_once(async { writer.write_async(&Count { number: 2 }).await.is_ok() }).0);
    assert!(!poll_once(async { writer.wait_for_acknowledgments_async().await.is_ok() }).0);
    // The dropped write has written no sample.
    assert_eq!(block_on(reader.next()).unwrap().into_value(), Some(Count { number: 0 }));
    assert_eq!(block_on(reader.next()).unwrap().into_value(), Some(Count { number: 1 }));
    block_on(writer.wait_for_acknowledgments_async()).unwrap();
    assert!(reader.take().unwrap().is_empty());
}
