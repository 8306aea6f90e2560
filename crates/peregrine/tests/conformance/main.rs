//! Behaviour that DCPS requires, equal on every path from a writer to a reader, for types of every kind.
//!
//! A path is a configuration of two participants; a behaviour is a function of a path and a type. The macro at the end
//! of this file defines a test for each combination.

#[path = "../common/mod.rs"]
mod common;

mod behaviours;
mod endings;
#[allow(unreachable_pub, reason = "the simulator exports it")]
#[path = "../../../sim/src/protection.rs"]
mod mock_protection;
mod protected;
mod timing;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::PATIENCE;
use peregrine::qos::{DataReaderQos, DataWriterQos, Durability, History, Reliability};
use peregrine::xtypes::flat::{self, Flat, FlatError};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, LoanedSample, Selector, SequenceNumber, Timestamp,
};

/// The path from a writer to a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// By reference.
    SameProcess,
    /// In shared memory, as between two processes.
    SharedMemory,
    /// Through sockets of this host.
    Udp,
    /// Protected at all levels. The configuration permits all other paths, and protected samples take none of them.
    Protected,
}

impl Path {
    const fn domain(self) -> u32 {
        match self {
            Self::SameProcess => 45,
            Self::Udp => 46,
            Self::SharedMemory => 47,
            Self::Protected => 48,
        }
    }

    fn config(self) -> DomainConfig {
        let mut config = common::config();
        config.same_process = matches!(self, Self::SameProcess | Self::Protected);
        config.shared_memory = matches!(self, Self::SharedMemory | Self::Protected);
        if config.shared_memory {
            // Participants with different settings share neither sockets nor threads, as in two processes.
            static SIDES: AtomicUsize = AtomicUsize::new(0);
            config.threads.name_prefix = SIDES.fetch_add(1, Ordering::Relaxed).to_string();
        }
        config
    }

    /// A participant that discovers only participants of this test process.
    pub(crate) fn participant(self) -> DomainParticipant {
        let tag = format!("conformance {}", std::process::id());
        let builder = DomainParticipant::builder(self.domain()).config(self.config()).domain_tag(tag);
        match self {
            Self::Protected => builder.protection(protected::protection).build().unwrap(),
            Self::SameProcess | Self::SharedMemory | Self::Udp => builder.build().unwrap(),
        }
    }

    /// The two participants of a path.
    pub(crate) fn sides(self) -> [DomainParticipant; 2] {
        [self.participant(), self.participant()]
    }
}

/// The result of a write.
type Written = Result<SequenceNumber, peregrine::Error>;

/// A sample of the tests: an instance and a value.
pub(crate) trait Subject: DdsType + std::fmt::Debug + PartialEq + Send + Sync {
    fn new(id: u32, value: u32) -> Self;

    /// The value, after a check of the other members.
    fn value(&self) -> u32;

    /// Writes a sample with the current or the given timestamp: encoded, or built in place if the type permits.
    fn put(writer: &DataWriter<Self>, id: u32, value: u32, at: Option<Timestamp>) -> Written {
        write(writer, &Self::new(id, value), at)
    }

    /// Takes all values: decoded, or read in place if the type permits.
    fn take(reader: &DataReader<Self>) -> Vec<u32> {
        reader.take().unwrap().iter().filter_map(|sample| sample.value()).map(Self::value).collect()
    }
}

/// Encodes and writes a sample.
fn write<T: Subject>(writer: &DataWriter<T>, sample: &T, at: Option<Timestamp>) -> Written {
    at.map_or_else(|| writer.write(sample), |at| writer.write_at(sample, at))
}

/// Writes a sample of a plain type that is built in place.
fn write_on_loan<T: Subject>(writer: &DataWriter<T>, sample: T, at: Option<Timestamp>) -> Written {
    let mut lent = writer.loan()?;
    *lent = sample;
    match at {
        Some(at) => writer.write_loan_at(lent, at),
        None => writer.write_loan(lent),
    }
}

/// Takes the values of samples of a plain type, read in place.
fn take_plain<T: Subject>(reader: &DataReader<T>) -> Vec<u32> {
    take_in_place(reader, |sample| sample.borrow().expect("the sample is aligned").value())
}

/// Takes samples on loan; the result has the values of samples with data.
fn take_in_place<T: Subject>(reader: &DataReader<T>, look: impl Fn(&LoanedSample<T>) -> u32) -> Vec<u32> {
    let loan = reader.take_loaned(&Selector::ANY).unwrap();
    loan.iter().filter(|sample| sample.info().valid_data).map(look).collect()
}

/// A plain type: its memory is its encoding.
#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
pub(crate) struct Plain {
    #[dds(key)]
    id: u32,
    value: u32,
    octets: [u32; 16],
}

impl Subject for Plain {
    fn new(id: u32, value: u32) -> Self {
        Self { id, value, octets: [value; 16] }
    }

    fn value(&self) -> u32 {
        assert_eq!(self.octets, [self.value; 16]);
        self.value
    }

    /// Writes every other sample on loan.
    fn put(writer: &DataWriter<Self>, id: u32, value: u32, at: Option<Timestamp>) -> Written {
        let sample = Self::new(id, value);
        if value.is_multiple_of(2) { write(writer, &sample, at) } else { write_on_loan(writer, sample, at) }
    }

    fn take(reader: &DataReader<Self>) -> Vec<u32> {
        take_plain(reader)
    }
}

/// A type without a key.
#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
pub(crate) struct Keyless {
    value: u32,
    octets: [u32; 16],
}

impl Subject for Keyless {
    fn new(_: u32, value: u32) -> Self {
        Self { value, octets: [value; 16] }
    }

    fn value(&self) -> u32 {
        assert_eq!(self.octets, [self.value; 16]);
        self.value
    }

    /// Writes all samples on loan.
    fn put(writer: &DataWriter<Self>, id: u32, value: u32, at: Option<Timestamp>) -> Written {
        write_on_loan(writer, Self::new(id, value), at)
    }

    fn take(reader: &DataReader<Self>) -> Vec<u32> {
        take_plain(reader)
    }
}

/// A type with strings and sequences, and a key that does not fit into a key hash.
#[derive(Clone, Debug, PartialEq, DdsType)]
pub(crate) struct Ordinary {
    #[dds(key)]
    name: String,
    value: u32,
    words: Vec<String>,
}

impl Subject for Ordinary {
    fn new(id: u32, value: u32) -> Self {
        let words = (0..value % 5).map(|n| format!("word {n}")).collect();
        Self { name: format!("the instance with the number {id}"), value, words }
    }

    fn value(&self) -> u32 {
        assert_eq!(self.words.len() as u32, self.value % 5);
        self.value
    }
}

/// A mutable FlatData structure with the same members and an optional one, built and read in its encoded form.
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable", flat)]
pub(crate) struct Built {
    #[dds(key)]
    name: String,
    value: u32,
    half: Option<u32>,
    words: Vec<String>,
}

impl Built {
    fn build<'w>(builder: BuiltBuilder<'w>, id: u32, value: u32) -> Result<flat::Done<'w, Self>, FlatError> {
        let builder = builder.name(&format!("the instance with the number {id}"))?.value(value)?;
        let builder = builder.half((value % 2 == 1).then_some(value % 10))?;
        let builder = builder.words_with(|mut words| {
            for n in 0..value % 5 {
                words.push(&format!("word {n}"))?;
            }
            words.finish()
        })?;
        builder.finish()
    }

    fn value(view: BuiltView<'_>) -> u32 {
        let value = view.value();
        assert!(view.words().iter().eq((0..value % 5).map(|n| format!("word {n}"))));
        assert_eq!(view.half(), (value % 2 == 1).then_some(value % 10));
        value
    }
}

impl Subject for Flat<Built> {
    fn new(id: u32, value: u32) -> Self {
        Self::build(|builder| Built::build(builder, id, value)).unwrap()
    }

    fn value(&self) -> u32 {
        Built::value(self.view())
    }

    /// Builds every other sample in place and changes it there.
    fn put(writer: &DataWriter<Self>, id: u32, value: u32, at: Option<Timestamp>) -> Written {
        if value.is_multiple_of(2) {
            return write(writer, &Self::new(id, value), at);
        }
        let mut lent = writer.loan_flat(512, |builder| Built::build(builder, id, value + 10))?;
        lent.view_mut().value_mut()?.set(value);
        match at {
            Some(at) => writer.write_flat_at(lent, at),
            None => writer.write_flat(lent),
        }
    }

    fn take(reader: &DataReader<Self>) -> Vec<u32> {
        take_in_place(reader, |sample| Built::value(sample.view().unwrap()))
    }
}

/// A writer and readers of one topic, not matched yet.
pub(crate) fn writer<T: Subject>(side: &DomainParticipant, topic: &str, qos: DataWriterQos) -> DataWriter<T> {
    side.topic(topic).unwrap().writer_builder().qos(qos).build().unwrap()
}

pub(crate) fn reader<T: Subject>(side: &DomainParticipant, topic: &str, qos: DataReaderQos) -> DataReader<T> {
    side.topic(topic).unwrap().reader_builder().qos(qos).build().unwrap()
}

/// Waits until both ends match and samples take the intended path.
pub(crate) fn matched<T: Subject>(writer: &DataWriter<T>, reader: &DataReader<T>) {
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let (here, there) = (writer.publisher().participant(), reader.subscriber().participant());
    if here.domain().0 == Path::SharedMemory.domain() && here.guid() != there.guid() {
        common::eventually("shared memory is used", || {
            here.shared_memory_statistics().readers > 0 && there.shared_memory_statistics().writers > 0
        });
    }
    if here.domain().0 == Path::Protected.domain() {
        assert_eq!(writer.shared_memory_readers(), 0, "a protected sample never lies in shared memory as plain bytes");
    }
}

/// Reliable, KEEP_ALL.
pub(crate) fn writer_qos() -> DataWriterQos {
    DataWriterQos { history: History::KeepAll, ..DataWriterQos::default() }
}

/// Reliable, KEEP_ALL.
pub(crate) fn reader_qos() -> DataReaderQos {
    DataReaderQos { reliability: Reliability::RELIABLE, history: History::KeepAll, ..DataReaderQos::default() }
}

pub(crate) fn durable_writer_qos() -> DataWriterQos {
    DataWriterQos { durability: Durability::TransientLocal, ..writer_qos() }
}

pub(crate) fn durable_reader_qos() -> DataReaderQos {
    DataReaderQos { durability: Durability::TransientLocal, ..reader_qos() }
}

/// Writes a sample now.
pub(crate) fn put<T: Subject>(writer: &DataWriter<T>, id: u32, value: u32) -> SequenceNumber {
    T::put(writer, id, value, None).unwrap()
}

/// Takes the values of all samples.
pub(crate) fn values<T: Subject>(reader: &DataReader<T>) -> Vec<u32> {
    T::take(reader)
}

/// Takes until `count` values were received.
pub(crate) fn take_values<T: Subject>(reader: &DataReader<T>, count: usize) -> Vec<u32> {
    let mut all = Vec::new();
    while all.len() < count {
        reader.wait_for_data(PATIENCE).unwrap_or_else(|error| panic!("{all:?} of {count}: {error}"));
        all.extend(values(reader));
    }
    all
}

/// Defines a test of each behaviour for each path and type: the first group for every type, the second for types with
/// keys. The name of the topic is that of the behaviour.
macro_rules! conformance {
    (every { $($module:ident: $($behaviour:ident)*;)* } keyed { $($of_keyed:ident: $($keyed:ident)*;)* }) => {
        mod same_process {
            conformance!(@path SameProcess [$($($module $behaviour)*)*] [$($($of_keyed $keyed)*)*]);
        }
        #[cfg(target_os = "linux")]
        mod shared_memory {
            conformance!(@path SharedMemory [$($($module $behaviour)*)*] [$($($of_keyed $keyed)*)*]);
        }
        mod udp {
            conformance!(@path Udp [$($($module $behaviour)*)*] [$($($of_keyed $keyed)*)*]);
        }
        mod protected_udp {
            conformance!(@path Protected [$($($module $behaviour)*)*] [$($($of_keyed $keyed)*)*]);
        }
    };
    (@path $path:ident [$($every:ident)*] [$($keyed:ident)*]) => {
        conformance!(@kind plain crate::Plain, $path $($every)* $($keyed)*);
        conformance!(@kind ordinary crate::Ordinary, $path $($every)* $($keyed)*);
        conformance!(@kind flat crate::Flat<crate::Built>, $path $($every)* $($keyed)*);
        conformance!(@kind keyless crate::Keyless, $path $($every)*);
    };
    (@kind $kind:ident $type:ty, $path:ident $($module:ident $behaviour:ident)*) => {
        mod $kind {
            $(#[test]
            fn $behaviour() {
                let topic = concat!(stringify!($behaviour), " ", stringify!($kind));
                crate::$module::$behaviour::<$type>(crate::Path::$path, topic);
            })*
        }
    };
}

conformance! {
    every {
        behaviours:
            reliable_samples_reach_every_reader_in_order
            best_effort_samples_arrive
            different_partitions_do_not_match
            full_reader_rejects_samples_until_it_has_room
            full_writer_blocks
            listener_is_notified_of_every_sample
            samples_of_asynchronous_writer_arrive
            shared_values_arrive
            topic_presentation_keeps_order_of_writing;
        timing:
            expired_sample_is_removed
            samples_are_ordered_by_source_timestamp
            writer_without_assertion_loses_liveliness;
    }
    keyed {
        behaviours:
            keep_last_keeps_the_last_of_each_instance
            late_joiners_get_the_kept_samples;
        endings:
            ended_instance_is_alive_again_after_write
            deleted_writer_ends_its_instances
            stronger_writer_owns_instance
            ended_instance_is_purged_after_delay;
        timing:
            sample_within_minimum_separation_is_filtered
            missed_deadline_is_notified_on_both_sides;
    }
}
