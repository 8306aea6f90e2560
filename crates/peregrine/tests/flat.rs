//! FlatData that is built and read in place.
#![cfg(target_os = "linux")]

mod common;

use std::ops::Range;

use common::{PATIENCE, eventually};
use peregrine::error::{BadParameter, Precondition};
use peregrine::qos::RepresentationId;
use peregrine::xtypes::flat::{self, Flat, FlatError};
use peregrine::xtypes::{self, DecodeErrorKind, Endianness, Representation};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, Error, FlatLoan, LoanedSample, Selector,
};

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "appendable", flat)]
struct Image {
    #[dds(key)]
    camera: String,
    number: u64,
    note: Option<String>,
    pixels: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Loose {
    first: u32,
    second: u32,
}

/// The path of samples between the two sides of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Path {
    SameProcess,
    SharedMemory,
    Udp,
}

const PATHS: [Path; 3] = [Path::SameProcess, Path::SharedMemory, Path::Udp];

/// More bytes than any path copies out, and few enough for one datagram with headers.
const PIXELS: usize = 60_000;

fn participant(domain: u32, path: Path, side: &str) -> DomainParticipant {
    let mut config: DomainConfig = common::config();
    config.same_process = path == Path::SameProcess;
    config.shared_memory = path == Path::SharedMemory;
    if path == Path::SharedMemory {
        // Participants with different settings share neither sockets nor threads, as in two processes.
        config.threads.name_prefix = side.to_owned();
    }
    let tag = format!("flat {} {path:?}", std::process::id());
    DomainParticipant::builder(domain).config(config).domain_tag(tag).build().unwrap()
}

fn pair<W: DdsType, R: DdsType>(domain: u32, path: Path, depth: u32) -> (DataWriter<W>, DataReader<R>) {
    let [a, b] = ["a", "b"].map(|side| participant(domain, path, side));
    let writer = a.topic::<W>("images").unwrap().writer_builder().reliable().keep_last(depth).build().unwrap();
    let reader = b.topic::<R>("images").unwrap().reader_builder().reliable().keep_last(depth).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    if path == Path::SharedMemory {
        eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    }
    (writer, reader)
}

fn build(writer: &DataWriter<Flat<Image>>, number: u64) -> FlatLoan<Image> {
    let built = writer.loan_flat(PIXELS + 100, |image| {
        let image = image.camera("front")?.number(number)?.note(Some("sunny"))?;
        let image = image.pixels_with(|mut pixels| {
            pixels.fill(PIXELS, |octets| octets.fill(number as u8))?;
            pixels.finish()
        })?;
        image.finish()
    });
    built.unwrap()
}

fn assert_is(image: ImageView<'_>, number: u64) {
    assert_eq!((image.camera(), image.number(), image.note()), ("front", number, Some("sunny")));
    let pixels = image.pixels().as_slice().unwrap();
    assert!(pixels.len() == PIXELS && pixels.iter().all(|octet| *octet == number as u8), "sample {number} is torn");
}

/// Takes the next sample on loan and passes it to `look`.
fn take_one<T: DdsType>(reader: &DataReader<T>, look: impl FnOnce(&LoanedSample<T>)) {
    reader.wait_for_data(PATIENCE).unwrap();
    let loan = reader.take_loaned(&Selector { max_samples: 1, ..Selector::ANY }).unwrap();
    look(loan.first().unwrap());
}

fn addresses(octets: &[u8]) -> Range<usize> {
    let range = octets.as_ptr_range();
    range.start as usize..range.end as usize
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Whether bytes are in shared memory.
fn is_shared(octets: &[u8]) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let range = |line: &str| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
    };
    let mut shared = maps.lines().filter(|line| line.contains("memfd:peregrine")).filter_map(range);
    shared.any(|range| contains(&range, &addresses(octets)))
}

#[test]
fn flat_sample_in_shared_memory_is_built_and_read_in_place() {
    let (writer, reader) = pair::<Flat<Image>, Flat<Image>>(55, Path::SharedMemory, 1);
    for number in 0..50 {
        let image = build(&writer, number);
        assert!(is_shared(image.payload()) && is_shared(image.view().pixels().as_slice().unwrap()));
        let len = image.payload().len();
        writer.write_flat(image).unwrap();
        take_one(&reader, |sample| {
            let image = sample.view().unwrap();
            assert_is(image, number);
            assert!(is_shared(image.pixels().as_slice().unwrap()) && is_shared(image.camera().as_bytes()));
            assert_eq!(sample.bytes().len(), len, "the length of the built sample, not the capacity");
        });
    }
    let statistics = writer.publisher().participant().shared_memory_statistics();
    assert_eq!((statistics.sent, statistics.copied_in), (50, 0));
}

#[test]
fn flat_sample_in_same_process_is_read_where_it_was_built() {
    let (writer, reader) = pair::<Flat<Image>, Flat<Image>>(56, Path::SameProcess, 1);
    for number in 0..50 {
        let image = build(&writer, number);
        let built = addresses(image.payload());
        writer.write_flat(image).unwrap();
        take_one(&reader, |sample| {
            assert_is(sample.view().unwrap(), number);
            assert_eq!(addresses(sample.view().unwrap().pixels().as_slice().unwrap()).len(), PIXELS);
            assert!(contains(&built, &addresses(sample.view().unwrap().pixels().as_slice().unwrap())));
        });
    }
}

#[test]
fn flat_sample_over_udp_is_read_in_receive_buffer() {
    let (writer, reader) = pair::<Flat<Image>, Flat<Image>>(57, Path::Udp, 1);
    for number in 0..50 {
        writer.write_flat(build(&writer, number)).unwrap();
        take_one(&reader, |sample| {
            let image = sample.view().unwrap();
            assert_is(image, number);
            assert!(contains(&addresses(sample.bytes()), &addresses(image.pixels().as_slice().unwrap())));
        });
    }
    assert!(writer.publisher().participant().shared_memory_statistics().sent == 0);
}

/// A writer that keeps one sample would reuse the memory of the previous sample for the next one if that memory were
/// free.
#[test]
fn held_sample_is_not_overwritten() {
    for path in PATHS {
        let (writer, reader) = pair::<Flat<Image>, Flat<Image>>(58, path, 1);
        writer.write_flat(build(&writer, 7)).unwrap();
        reader.wait_for_data(PATIENCE).unwrap();
        let held = reader.take_loaned(&Selector::ANY).unwrap();
        let image = held.first().unwrap().view().unwrap();
        assert_is(image, 7);
        for number in 8..108 {
            writer.write_flat(build(&writer, number)).unwrap();
        }
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        assert_is(image, 7);
        drop(held);
        take_one(&reader, |sample| assert_is(sample.view().unwrap(), 107));
    }
}

#[test]
fn flat_and_ordinary_endpoints_exchange_samples() {
    for path in PATHS {
        let (writer, reader) = pair::<Flat<Image>, Image>(59, path, 1);
        writer.write_flat(build(&writer, 3)).unwrap();
        take_one(&reader, |sample| {
            let image = sample.value().unwrap();
            assert_eq!((image.camera.as_str(), image.number, image.pixels.len()), ("front", 3, PIXELS));
        });
    }
    let [a, b] = ["a", "b"].map(|side| participant(60, Path::SameProcess, side));
    let reader = b.topic::<Flat<Image>>("images").unwrap().reader_builder().reliable().build().unwrap();
    let image = Image { camera: "front".into(), number: 4, note: Some("sunny".into()), pixels: vec![4; PIXELS] };
    for (id, is_flat) in [(RepresentationId::XCDR1, false), (RepresentationId::XCDR2, true)] {
        let topic = a.topic::<Image>("images").unwrap();
        let writer = topic.writer_builder().reliable().representation(id).build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        writer.write(&image).unwrap();
        take_one(&reader, |sample| {
            assert_eq!(sample.decode().unwrap().to_value(), image);
            match sample.view() {
                Ok(view) => assert_is(view, 4),
                Err(Error::Decode(error)) => assert!(!is_flat && error.kind == DecodeErrorKind::NotFlat),
                Err(error) => panic!("{error}"),
            }
            assert_eq!(sample.view().is_ok(), is_flat);
        });
        drop(writer);
        take_one(&reader, |sample| {
            let problem = sample.view().unwrap_err();
            assert!(matches!(problem, Error::PreconditionNotMet(_)), "{problem}: the end of the writer");
        });
    }
}

/// A value that readers of this process share was checked when it was created.
#[test]
fn shared_flat_sample_is_read_in_place() {
    let (writer, reader) = pair::<Flat<Image>, Flat<Image>>(62, Path::SameProcess, 1);
    let sample = std::sync::Arc::new(Flat::from_payload(build(&writer, 5).payload().to_vec()).unwrap());
    let built = addresses(sample.payload());
    writer.write_shared(sample).unwrap();
    take_one(&reader, |sample| {
        assert_is(sample.view().unwrap(), 5);
        assert!(contains(&built, &addresses(sample.view().unwrap().pixels().as_slice().unwrap())));
    });
}

#[test]
fn misuse_of_loans_is_refused_with_the_reason() {
    let participant = participant(63, Path::SameProcess, "a");
    let topic = participant.topic::<Flat<Image>>("images").unwrap();
    let (writer, other) = (topic.writer().unwrap(), topic.writer().unwrap());
    let small = writer.loan_flat(16, |image| image.camera("front")?.number(1)?.note(None)?.pixels(&[1; 32])?.finish());
    let too_small = BadParameter::CapacityExceeded { type_name: "Image", capacity: 16 };
    assert!(matches!(small, Err(Error::BadParameter(cause)) if cause == too_small));
    let huge = writer.loan_flat(usize::MAX, |image| image.camera("")?.number(1)?.note(None)?.pixels(&[])?.finish());
    assert!(matches!(huge, Err(Error::BadParameter(BadParameter::TooLong { max: 2_147_483_647, .. }))));
    let foreign = writer.write_flat(build(&other, 1));
    assert!(matches!(foreign, Err(Error::PreconditionNotMet(Precondition::ForeignLoan))));
    let loose = participant.topic::<Flat<Loose>>("loose").unwrap().writer().unwrap();
    let missing = loose.loan_flat(64, |loose| loose.second(2)?.finish());
    assert!(matches!(missing, Err(Error::Flat(FlatError::MissingMember { member: "first", .. }))), "{missing:?}");
    let old = topic.writer_builder().representation(RepresentationId::XCDR1).build().unwrap();
    let refused = old.loan_flat(64, |image| image.camera("")?.number(1)?.note(None)?.pixels(&[])?.finish());
    assert!(matches!(refused, Err(Error::PreconditionNotMet(Precondition::NotXcdr2))));
}

/// A built sample equals the encoding of the value, regardless of the previous content of the memory.
#[test]
fn bytes_of_flat_loan_equal_the_encoding() {
    for path in PATHS {
        let (writer, reader) = pair::<Flat<Image>, Flat<Image>>(64, path, 1);
        drop(build(&writer, 255));
        let built = writer
            .loan_flat(PIXELS + 100, |image| image.camera("no")?.number(9)?.note(None)?.pixels(&[1, 2, 3])?.finish());
        let image = Image { camera: "no".into(), number: 9, note: None, pixels: vec![1, 2, 3] };
        let mut encoded = vec![0; xtypes::encoded_len(&image, Representation::Xcdr2)];
        xtypes::encode(&image, Representation::Xcdr2, Endianness::NATIVE, &mut encoded).unwrap();
        let built = built.unwrap();
        assert_eq!(built.payload(), encoded);
        assert_eq!(flat::view::<Image>(&encoded).unwrap().number(), built.view().number());
        writer.write_flat(built).unwrap();
        take_one(&reader, |sample| assert_eq!(sample.bytes(), encoded));
    }
}
