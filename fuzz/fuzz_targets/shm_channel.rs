//! A writer and a reader of shared memory, and an attacker that overwrites any words and bytes in the pages of either:
//! nothing panics, every call ends, and nothing stays mapped.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use peregrine_transport::shm::{
    Listener, Message, Metadata, Overflow, Reader, ReaderConfig, Sample, Trust, Writer, WriterConfig, WriterKey,
};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

#[derive(Arbitrary, Debug)]
enum Page {
    Ring,
    Holds,
    Sleeper,
    Bells,
    Samples,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Publish(u16),
    Take,
    Drop(u8),
    Service,
    Trim,
    Write {
        page: Page,
        word: u8,
        value: u64,
    },
    /// Entries contain small numbers.
    WriteSmall {
        page: Page,
        word: u8,
        value: u8,
    },
}

#[derive(Arbitrary, Debug)]
struct Input {
    evicts: bool,
    message: Vec<u8>,
    steps: Vec<Step>,
}

impl Page {
    fn name(&self) -> &str {
        match self {
            Self::Ring => "memfd:peregrine-ring",
            Self::Holds => "memfd:peregrine-holds",
            Self::Sleeper => "memfd:peregrine-sleeper",
            Self::Bells => "memfd:peregrine-doorbells",
            Self::Samples => "memfd:peregrine-samples",
        }
    }
}

fn maps() -> String {
    std::fs::read_to_string("/proc/self/maps").expect("every process has one")
}

/// The range at which this process has mapped the page for writing.
fn find(page: &Page) -> Option<std::ops::Range<u64>> {
    let maps = maps();
    let line = maps.lines().find(|line| line.contains("rw-s") && line.contains(page.name()))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

fn write(memory: &File, page: &Page, word: u8, value: u64) {
    let Some(range) = find(page) else { return };
    let place = range.start + u64::from(word) * 8;
    assert!(place + 8 <= range.end, "every page is larger than the offset");
    memory.write_all_at(&value.to_ne_bytes(), place).expect("it is mapped");
}

fn check_message(bytes: &[u8]) {
    if let Some(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()), Some(message));
    }
}

fn pair(evicts: bool) -> (Listener, Writer, Reader) {
    let mut listener = Listener::new(Trust::SameUser).expect("descriptors");
    let config = WriterConfig { entries: 4, max_holds: 4, max_bytes: 1 << 18, ..Default::default() };
    let mut writer = Writer::new(config).expect("the bounds are good");
    let mut reader = Reader::new(ReaderConfig::default()).expect("the bounds are good");
    let mut connecting = reader.connect(listener.address(), WriterKey::default()).expect("it listens");
    let request = listener.accept().expect("descriptors").expect("it has connected");
    let overflow = if evicts { Overflow::Evict } else { Overflow::Block };
    writer.admit(request, overflow).expect("memory");
    reader.add(connecting.poll().expect("admitted").expect("answered")).expect("the only one");
    (listener, writer, reader)
}

fuzz_target!(|input: Input| {
    check_message(&input.message);
    let memory = OpenOptions::new().write(true).open("/proc/self/mem").expect("its own memory");
    let (listener, mut writer, mut reader) = pair(input.evicts);
    let mut held: Vec<Sample> = Vec::new();
    for step in input.steps.iter().take(64) {
        match step {
            Step::Publish(len) => {
                let Ok(slot) = writer.loan(usize::from(*len)) else { continue };
                let _ = writer.publish(slot, Metadata::default());
            }
            Step::Take => {
                if let Ok(Some(sample)) = reader.take() {
                    std::hint::black_box(sample.iter().fold(0_u8, |sum, octet| sum.wrapping_add(*octet)));
                    held.push(sample);
                }
            }
            Step::Drop(which) if !held.is_empty() => drop(held.swap_remove(usize::from(*which) % held.len())),
            Step::Drop(_) => {}
            Step::Service => {
                writer.service();
                reader.service();
            }
            Step::Trim => {
                writer.trim();
            }
            Step::Write { page, word, value } => write(&memory, page, *word, *value),
            Step::WriteSmall { page, word, value } => write(&memory, page, *word, u64::from(*value)),
        }
    }
    drop((listener, writer, reader, held));
    assert!(!maps().contains("memfd:peregrine"), "a page stays mapped");
});
