//! Samples of a listener: taken, timed and echoed on the thread that receives them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use peregrine::status::StatusMask;
use peregrine::{DataReader, DdsType};

use super::arrivals::{Arrival, Arrivals};
use super::dds::receiving::{Look, look_at_each, wait_for_writers};
use super::link::{Receiver, Sender};
use crate::campaign::types::{Stamp, Stamped};
use crate::clock::MonotonicNs;
use crate::error::Error;

/// State shared by the listener and the reader thread.
struct Shared {
    /// Echoes samples of the first writer.
    echo: Mutex<Option<Box<dyn Sender>>>,
    arrivals: Arrivals,
    /// Corrupt samples.
    corrupt: AtomicU64,
    patterns: bool,
    /// The first failure, which ends the reader.
    failure: Mutex<Option<Error>>,
}

/// A reader with a listener. The thread that calls `receive` counts the samples that the listener took, many at a time,
/// or waits for each.
pub(super) struct Listening<T: DdsType> {
    reader: DataReader<T>,
    shared: Arc<Shared>,
    /// Samples that are being counted.
    taken: Vec<Arrival>,
}

impl<T: Look> Listening<T> {
    pub(super) fn start(reader: DataReader<T>, patterns: bool, arrivals: Arrivals) -> Self {
        let shared = Arc::new(Shared {
            echo: Mutex::default(),
            arrivals,
            corrupt: AtomicU64::new(0),
            patterns,
            failure: Mutex::default(),
        });
        let listener = {
            let shared = Arc::clone(&shared);
            move |reader: &DataReader<T>| shared.take(reader)
        };
        reader.set_listener(Some(Arc::new(listener)), StatusMask::DATA_AVAILABLE);
        Self { reader, shared, taken: Vec::new() }
    }
}

impl Shared {
    fn take<T: Look>(&self, reader: &DataReader<T>) {
        let result = look_at_each(reader, &mut |value: &dyn Stamped| {
            let (stamp, now) = (value.stamp(), MonotonicNs::now());
            if stamp.writer == 0
                && let Some(echo) = self.echo.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
                && let Err(error) = echo.send(&stamp)
            {
                self.fail(error);
            }
            self.arrivals.push((stamp, now));
            if self.patterns && !value.is_filled(stamp.id()) {
                self.corrupt.fetch_add(1, Ordering::Relaxed);
            }
        });
        if let Err(error) = result {
            self.fail(error);
        }
    }

    fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl<T: Look> Receiver for Listening<T> {
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn join(&mut self, senders: u32, deadline: MonotonicNs) -> Result<(), Error> {
        wait_for_writers(&self.reader, senders, deadline)
    }

    fn receive(&mut self, limit: Duration, on_sample: &mut dyn FnMut(Stamp, MonotonicNs)) -> Result<(), Error> {
        self.shared.arrivals.take(limit, &mut self.taken);
        self.taken.drain(..).for_each(|(stamp, at)| on_sample(stamp, at));
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn corrupt(&self) -> Option<u64> {
        self.shared.patterns.then(|| self.shared.corrupt.load(Ordering::Relaxed))
    }

    fn check(&mut self) -> Result<(), Error> {
        let mut echo = self.shared.echo.lock().unwrap_or_else(PoisonError::into_inner);
        echo.as_mut().map_or(Ok(()), |echo| echo.check())
    }

    fn send_back(&mut self, echo: Box<dyn Sender>) -> Option<Box<dyn Sender>> {
        *self.shared.echo.lock().unwrap_or_else(PoisonError::into_inner) = Some(echo);
        None
    }
}

impl<T: DdsType> Drop for Listening<T> {
    fn drop(&mut self) {
        // Dropping the reader waits for a running listener, so that listener must not wait for room.
        self.shared.arrivals.end();
        self.reader.set_listener(None, StatusMask::NONE);
    }
}
