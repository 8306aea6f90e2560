//! Receives samples and examines them in place.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use peregrine::xtypes::flat::Flat;
use peregrine::{DataReader, DdsType, DomainParticipant, LoanedSample, Selector};

use crate::campaign::party::link::Receiver;
use crate::campaign::types::{Octets, SampleType, Stamp, Stamped};
use crate::clock::MonotonicNs;
use crate::error::Error;
use crate::messaging::dds::Poller;

/// The type of a topic whose samples can be examined.
pub(in crate::campaign::party) trait Look: DdsType + Send + Sync + 'static {
    /// Passes a sample with a value to `look_at`: in place where possible, else decoded.
    ///
    /// # Errors
    /// The sample cannot be decoded.
    fn look(sample: &LoanedSample<Self>, look_at: &mut dyn FnMut(&dyn Stamped)) -> Result<(), peregrine::Error>;
}

impl<T: SampleType> Look for T {
    fn look(sample: &LoanedSample<Self>, look_at: &mut dyn FnMut(&dyn Stamped)) -> Result<(), peregrine::Error> {
        match sample.borrow() {
            Some(value) => look_at(value),
            // By reference, so that a large value is on the stack only once.
            None => match sample.decode() {
                Ok(ref value) => look_at(value),
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }
}

impl Look for Flat<Octets> {
    fn look(sample: &LoanedSample<Self>, look_at: &mut dyn FnMut(&dyn Stamped)) -> Result<(), peregrine::Error> {
        look_at(&sample.view()?);
        Ok(())
    }
}

/// A reader on which an application thread waits.
pub(super) struct DdsReceiver<T: DdsType> {
    pub(super) reader: DataReader<T>,
    /// The polled participant, and the poller that pauses meanwhile.
    pub(super) polling: Option<(DomainParticipant, Arc<Poller>)>,
    pub(super) corrupt: Option<u64>,
}

impl<T: Look> Receiver for DdsReceiver<T> {
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn join(&mut self, senders: u32, deadline: MonotonicNs) -> Result<(), Error> {
        wait_for_writers(&self.reader, senders, deadline)
    }

    fn receive(&mut self, limit: Duration, on_sample: &mut dyn FnMut(Stamp, MonotonicNs)) -> Result<(), Error> {
        let (corrupt, mut count) = (&mut self.corrupt, 0);
        let mut look = |value: &dyn Stamped| {
            let stamp = value.stamp();
            on_sample(stamp, MonotonicNs::now());
            if let Some(corrupt) = corrupt {
                *corrupt += u64::from(!value.is_filled(stamp.id()));
            }
        };
        count += look_at_each(&self.reader, &mut look)?;
        let Some((participant, poller)) = &self.polling else {
            if count > 0 {
                return Ok(());
            }
            return match self.reader.wait_for_data(limit) {
                Ok(()) => look_at_each(&self.reader, &mut look).map(drop),
                Err(peregrine::Error::Timeout(_)) => Ok(()),
                Err(error) => Err(failed(&error)),
            };
        };
        poller.note_other();
        let end = MonotonicNs::now().plus(limit);
        while count == 0 && !end.remaining().is_zero() {
            participant.poll(Duration::ZERO);
            count += look_at_each(&self.reader, &mut look)?;
        }
        Ok(())
    }

    fn corrupt(&self) -> Option<u64> {
        self.corrupt
    }
}

/// Waits until `count` writers are matched.
pub(in crate::campaign::party) fn wait_for_writers<T: DdsType>(
    reader: &DataReader<T>,
    writers: u32,
    deadline: MonotonicNs,
) -> Result<(), Error> {
    let found = reader.wait_for_writers(writers as usize, deadline.remaining());
    found.map_err(|error| Error::Partner(error.to_string()))
}

fn failed(error: &peregrine::Error) -> Error {
    Error::Transfer(error.to_string())
}

/// Takes all available samples and returns their number.
pub(in crate::campaign::party) fn look_at_each<T: Look>(
    reader: &DataReader<T>,
    look_at: &mut dyn FnMut(&dyn Stamped),
) -> Result<usize, Error> {
    let mut result = Ok(());
    let taken = reader.take_each(&Selector::ANY, |sample: &LoanedSample<T>| {
        if sample.info().valid_data
            && let Err(error) = T::look(sample, look_at)
        {
            result = Err(Error::Transfer(error.to_string()));
        }
    });
    result?;
    taken.map_err(|error| failed(&error))
}
