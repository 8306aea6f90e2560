//! The forms of a sample: a value, FlatData, or loaned memory.

use std::marker::PhantomData;

use peregrine::qos::RepresentationId;
use peregrine::xtypes::flat::Flat;

use super::receiving::Look;
use super::sending::{FlatSender, InPlaceSender, LoanSender, ValueSender, Writing};
use crate::campaign::job::Job;
use crate::campaign::party::link::Sender;
use crate::campaign::series::Form;
use crate::campaign::types::{DataType, Octets, SampleType, TypeTask};

/// A form of the samples of one type.
pub(super) trait SampleForm: 'static {
    /// The type of the topic.
    type Type: Look;
    /// The representation in which the form is written.
    const REPRESENTATION: RepresentationId;
    /// Whether the form must not copy samples.
    const IS_IN_PLACE: bool;

    fn sender(writing: Writing<Self::Type>, job: &Job) -> Box<dyn Sender>;
}

/// A function that is generic over the form.
pub(super) trait FormTask {
    type Output;

    fn run<F: SampleForm>(self) -> Self::Output;
}

/// Runs a task with this form of this type.
pub(super) fn with_form<T: FormTask>(form: Form, data_type: DataType, task: T) -> T::Output {
    match (form, data_type) {
        (Form::Values, _) => data_type.with(OfValues(task)),
        // The plan's checks refuse other types.
        (Form::Flat, _) => task.run::<Built<false>>(),
        (Form::InPlace, DataType::Octets) => task.run::<Built<true>>(),
        (Form::InPlace, _) => data_type.with(OfLoans(task)),
    }
}

/// Values that are written.
struct Values<T>(PhantomData<T>);

impl<T: SampleType> SampleForm for Values<T> {
    type Type = T;
    const REPRESENTATION: RepresentationId = RepresentationId::XCDR1;
    const IS_IN_PLACE: bool = false;

    fn sender(writing: Writing<T>, job: &Job) -> Box<dyn Sender> {
        Box::new(ValueSender::new(writing, T::of_len(job.data_len), job.patterns))
    }
}

/// Values of a plain type, made in loaned memory.
struct Loans<T>(PhantomData<T>);

impl<T: SampleType> SampleForm for Loans<T> {
    type Type = T;
    const REPRESENTATION: RepresentationId = RepresentationId::XCDR1;
    const IS_IN_PLACE: bool = true;

    fn sender(writing: Writing<T>, job: &Job) -> Box<dyn Sender> {
        Box::new(LoanSender::new(writing, job.patterns))
    }
}

/// Samples built in loaned memory: with all bytes copied into it, or only the bytes that are checked.
pub(super) struct Built<const IN_PLACE: bool>;

impl<const IN_PLACE: bool> SampleForm for Built<IN_PLACE> {
    type Type = Flat<Octets>;
    const REPRESENTATION: RepresentationId = RepresentationId::XCDR2;
    const IS_IN_PLACE: bool = IN_PLACE;

    fn sender(writing: Writing<Self::Type>, job: &Job) -> Box<dyn Sender> {
        if IN_PLACE {
            Box::new(InPlaceSender::new(writing, job.data_len, job.patterns))
        } else {
            Box::new(FlatSender::new(writing, job.data_len, job.patterns))
        }
    }
}

struct OfValues<T>(T);

impl<T: FormTask> TypeTask for OfValues<T> {
    type Output = T::Output;

    fn run<S: SampleType>(self) -> T::Output {
        self.0.run::<Values<S>>()
    }
}

struct OfLoans<T>(T);

impl<T: FormTask> TypeTask for OfLoans<T> {
    type Output = T::Output;

    fn run<S: SampleType>(self) -> T::Output {
        self.0.run::<Loans<S>>()
    }
}
