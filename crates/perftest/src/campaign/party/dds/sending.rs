//! Sends samples of each form. While a sample is in flight, the sender prepares the next one.

use std::net::SocketAddr;
use std::time::Duration;

use peregrine::xtypes::flat::Flat;
use peregrine::{DataWriter, DdsType, DomainParticipant, FlatLoan, WriteLoan};

use crate::campaign::party::link::Sender;
use crate::campaign::series::Path;
use crate::campaign::types::{Octets, SampleType, Stamp};
use crate::clock::MonotonicNs;
use crate::error::Error;
use crate::messaging::dds::SharedMemoryPath;
use crate::payload;

/// A writer, and the path that its samples must take.
pub(super) struct Writing<T: DdsType> {
    writer: DataWriter<T>,
    path: Path,
    shared_memory: Option<SharedMemoryPath>,
    topic: String,
}

impl<T: DdsType> Writing<T> {
    pub(super) fn new(writer: DataWriter<T>, path: Path, participant: &DomainParticipant, topic: String) -> Self {
        let shared_memory = (path == Path::SharedMemory).then(|| SharedMemoryPath::new(participant.clone()));
        Self { writer, path, shared_memory, topic }
    }

    fn join(&mut self, receivers: u32, deadline: MonotonicNs) -> Result<(), Error> {
        let found = self.writer.wait_for_readers(receivers as usize, deadline.remaining());
        found.map_err(|error| Error::Partner(error.to_string()))?;
        if let Some(path) = &mut self.shared_memory
            && !path.wait_for(&self.writer, &self.topic, receivers, deadline.remaining())?
        {
            let text = "Not every reader of topic";
            return Err(Error::Partner(format!("{text} {} has connected by shared memory in time.", self.topic)));
        }
        Ok(())
    }

    fn finish(&self, limit: Duration) -> Result<(), Error> {
        self.writer.wait_for_acknowledgments(limit).map_err(|error| Error::Partner(error.to_string()))
    }

    fn check(&mut self) -> Result<(), Error> {
        if let Some(path) = &mut self.shared_memory {
            return path.check(&self.writer, &self.topic);
        }
        match self.writer.counters().samples_sent {
            sent if sent > 0 && self.path == Path::SameProcess => {
                let text = "was to stay within the process, and";
                Err(Error::Transfer(format!("Topic {} {text} {sent} of its samples went in messages.", self.topic)))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a sample was sent.
fn written<W>(result: Result<W, peregrine::Error>) -> Result<bool, Error> {
    match result {
        Ok(_) => Ok(true),
        Err(peregrine::Error::Timeout(text)) => Err(Error::Partner(format!("No subscriber acknowledges: {text}"))),
        Err(error) => Err(failed(&error)),
    }
}

fn failed(error: &peregrine::Error) -> Error {
    Error::Transfer(error.to_string())
}

macro_rules! joins_finishes_and_checks {
    () => {
        fn join(&mut self, _: &[SocketAddr], receivers: u32, deadline: MonotonicNs) -> Result<(), Error> {
            self.writing.join(receivers, deadline)
        }

        fn finish(&mut self, limit: Duration) -> Result<(), Error> {
            self.writing.finish(limit)
        }

        fn check(&mut self) -> Result<(), Error> {
            self.writing.check()
        }
    };
}

/// Writes a value.
pub(super) struct ValueSender<T: SampleType> {
    writing: Writing<T>,
    value: Box<T>,
    patterns: bool,
    /// The sample whose pattern the value contains.
    filled_for: Option<u64>,
}

impl<T: SampleType> ValueSender<T> {
    pub(super) fn new(writing: Writing<T>, value: Box<T>, patterns: bool) -> Self {
        Self { writing, value, patterns, filled_for: None }
    }

    fn fill(&mut self, number: u64) {
        if self.patterns && self.filled_for != Some(number) {
            self.value.fill(number);
            self.filled_for = Some(number);
        }
    }
}

impl<T: SampleType> Sender for ValueSender<T> {
    joins_finishes_and_checks!();

    fn send(&mut self, stamp: &Stamp) -> Result<bool, Error> {
        self.fill(stamp.id());
        self.value.set_stamp(stamp);
        let result = self.writing.writer.write(&self.value);
        // Prepares the expected next sample while no thread waits for it.
        self.fill(stamp.id().wrapping_add(1));
        written(result)
    }
}

/// Writes a value of a plain type in loaned memory. Only the stamp and the checked bytes are written anew for each
/// sample.
pub(super) struct LoanSender<T: SampleType> {
    writing: Writing<T>,
    patterns: bool,
    /// The next loan, and the sample whose pattern it contains.
    next: Option<(u64, WriteLoan<T>)>,
}

impl<T: SampleType> LoanSender<T> {
    pub(super) fn new(writing: Writing<T>, patterns: bool) -> Self {
        Self { writing, patterns, next: None }
    }

    fn make(&self, number: u64) -> Result<WriteLoan<T>, Error> {
        let mut loan = self.writing.writer.loan().map_err(|error| failed(&error))?;
        if self.patterns {
            loan.fill(number);
        }
        Ok(loan)
    }
}

impl<T: SampleType> Sender for LoanSender<T> {
    joins_finishes_and_checks!();

    fn send(&mut self, stamp: &Stamp) -> Result<bool, Error> {
        let mut loan = match self.next.take() {
            Some((number, loan)) if number == stamp.id() || !self.patterns => loan,
            Some(_) | None => self.make(stamp.id())?,
        };
        loan.set_stamp(stamp);
        let sent = written(self.writing.writer.write_loan(loan))?;
        let next = stamp.id().wrapping_add(1);
        self.next = Some((next, self.make(next)?));
        Ok(sent)
    }
}

/// Builds a sample in loaned memory. Only the stamp and the checked bytes are written anew for each sample.
pub(super) struct InPlaceSender {
    writing: Writing<Flat<Octets>>,
    data_len: u64,
    patterns: bool,
    /// The next loan, and the sample whose pattern it contains.
    next: Option<(u64, FlatLoan<Octets>)>,
}

impl InPlaceSender {
    pub(super) fn new(writing: Writing<Flat<Octets>>, data_len: u64, patterns: bool) -> Self {
        Self { writing, data_len, patterns, next: None }
    }

    fn make(&self, number: u64) -> Result<FlatLoan<Octets>, Error> {
        let fill = |bytes: &mut [u8]| {
            if self.patterns {
                payload::write_some(bytes, number);
            }
        };
        let capacity = Octets::payload_len(self.data_len);
        let stamp = Stamp::default();
        let writer = &self.writing.writer;
        let loan = writer.loan_flat(capacity, |builder| Octets::build(builder, &stamp, self.data_len, fill));
        loan.map_err(|error| failed(&error))
    }
}

impl Sender for InPlaceSender {
    joins_finishes_and_checks!();

    fn send(&mut self, stamp: &Stamp) -> Result<bool, Error> {
        let mut loan = match self.next.take() {
            Some((number, loan)) if number == stamp.id() || !self.patterns => loan,
            Some(_) | None => self.make(stamp.id())?,
        };
        Octets::stamp_in_place(loan.view_mut(), stamp).map_err(|error| Error::Transfer(error.to_string()))?;
        let sent = written(self.writing.writer.write_flat(loan))?;
        let next = stamp.id().wrapping_add(1);
        self.next = Some((next, self.make(next)?));
        Ok(sent)
    }
}

/// Builds a sample in loaned memory and copies all bytes into it, like an application that has its data elsewhere.
pub(super) struct FlatSender {
    writing: Writing<Flat<Octets>>,
    value: Box<Octets>,
    data_len: u64,
    patterns: bool,
    /// The sample whose pattern the value contains.
    filled_for: Option<u64>,
}

impl FlatSender {
    pub(super) fn new(writing: Writing<Flat<Octets>>, data_len: u64, patterns: bool) -> Self {
        Self { writing, value: Octets::of_len(data_len), data_len, patterns, filled_for: None }
    }

    fn fill(&mut self, number: u64) {
        if self.patterns && self.filled_for != Some(number) {
            self.value.fill(number);
            self.filled_for = Some(number);
        }
    }
}

impl Sender for FlatSender {
    joins_finishes_and_checks!();

    fn send(&mut self, stamp: &Stamp) -> Result<bool, Error> {
        self.fill(stamp.id());
        let capacity = Octets::payload_len(self.data_len);
        let data = self.value.data();
        let fill = |bytes: &mut [u8]| bytes.copy_from_slice(data);
        let writer = &self.writing.writer;
        let loan = writer.loan_flat(capacity, |builder| Octets::build(builder, stamp, self.data_len, fill));
        let result = writer.write_flat(loan.map_err(|error| failed(&error))?);
        self.fill(stamp.id().wrapping_add(1));
        written(result)
    }
}
