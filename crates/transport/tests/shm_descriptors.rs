//! A reader process without free descriptors. The only test of its program, because the limit is per process.
#![cfg(target_os = "linux")]

use peregrine_transport::shm::{
    Gone, Listener, Metadata, Overflow, Reader, ReaderConfig, Trust, Writer, WriterConfig, WriterKey,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::AsRawFd;

/// While this exists, the process opens no more descriptors.
struct NoDescriptors(Rlimit);

impl NoDescriptors {
    fn begin() -> Self {
        let before = getrlimit(Resource::Nofile);
        let first_free = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
        setrlimit(Resource::Nofile, Rlimit { current: Some(first_free as u64), ..before }).unwrap();
        Self(before)
    }
}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.0).unwrap();
    }
}

/// The reader's samples keep the link open, which would hide the end from the writer.
#[test]
fn writer_learns_of_a_reader_that_cannot_map_a_segment() {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    let mut writer = Writer::new(WriterConfig { entries: 2, ..WriterConfig::default() }).unwrap();
    let mut reader = Reader::new(ReaderConfig::default()).unwrap();
    let mut connecting = reader.connect(listener.address(), WriterKey([7; 16])).unwrap();
    let request = listener.accept().unwrap().expect("the reader has connected");
    let to_reader = writer.admit(request, Overflow::Block).unwrap();
    let to_writer = reader.add(connecting.poll().unwrap().expect("the writer has answered")).unwrap();
    let publish_small = |writer: &mut Writer| {
        let small = writer.loan(10).unwrap();
        writer.publish(small, Metadata::default()).unwrap();
    };
    publish_small(&mut writer);
    assert!(reader.take().unwrap().is_some(), "the reader has mapped the segment of small samples");
    (0..2).for_each(|_| publish_small(&mut writer));
    // The writer announces the segment to the reader before the ring has room for the sample.
    let large = writer.loan(100_000).unwrap();
    let large = writer.publish(large, Metadata::default()).expect_err("the ring is full");
    let held = [(); 2].map(|()| reader.take().unwrap().expect("a sample"));
    let no_descriptors = NoDescriptors::begin();
    assert!(reader.take().unwrap().is_none());
    drop(no_descriptors);
    let gone = reader.poll_gone().expect("the reader has ended the channel");
    assert!(gone.writer == to_writer && matches!(gone.reason, Gone::Broken(_)), "{gone:?}");
    writer.service();
    assert_eq!(writer.poll_gone().map(|gone| gone.reader), Some(to_reader));
    drop((held, large));
}
