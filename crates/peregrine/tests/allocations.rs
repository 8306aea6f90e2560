//! What a sample costs in a steady state: no allocation, on either side.

mod common;

use common::{PATIENCE, config, polled};
use peregrine::{DdsType, DomainConfig, DomainParticipant, FlowController, PublishMode, Selector, WaitSet};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Plain {
    #[dds(key)]
    id: u32,
    number: u32,
    octets: [u32; 32],
}

/// Blocks allocated while `samples` go from a writer through the sockets and a wait set to an application that borrows them.
fn exchange(domain: u32, config: DomainConfig, mode: PublishMode, warm_up: u32, samples: u32) -> u64 {
    let participant = DomainParticipant::builder(domain).config(config).build().unwrap();
    let topic = participant.topic::<Plain>("plain").unwrap();
    let writer = topic.writer_builder().reliable().keep_last(16).publish_mode(mode).build().unwrap();
    let reader = topic.reader_builder().reliable().keep_last(16).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let set = WaitSet::new();
    set.attach(&reader.read_condition(Selector::ANY));
    let mut active = Vec::with_capacity(4);
    let mut before = 0;
    for number in 0..warm_up + samples {
        if number == warm_up {
            before = dhat::HeapStats::get().total_blocks;
        }
        let sent = Plain { id: number % 4, number, octets: [number; 32] };
        writer.write(&sent).unwrap();
        set.wait_into(&mut active, PATIENCE).unwrap();
        let loan = reader.take_loaned(&Selector::ANY).unwrap();
        assert_eq!(loan.first().and_then(|s| s.borrow()), Some(&sent));
        drop(loan);
        let mut seen = 0;
        if number % 2 == 0 {
            writer.write(&sent).unwrap();
            set.wait_into(&mut active, PATIENCE).unwrap();
            reader.take_each(&Selector::ANY, |sample| seen = sample.decode().unwrap().number);
            assert_eq!(seen, number);
        }
    }
    dhat::HeapStats::get().total_blocks - before
}

/// One test, for what other tests allocate would count.
#[test]
fn nothing_is_allocated_per_sample() {
    const SAMPLES: u32 = 4000;
    let _profiler = dhat::Profiler::builder().testing().build();
    let asynchronous = || PublishMode::Asynchronous { flow: FlowController::fast() };
    for (domain, config, mode) in [
        (172, config(), PublishMode::Synchronous),
        (173, polled(), PublishMode::Synchronous),
        (192, config(), asynchronous()),
        (193, polled(), asynchronous()),
    ] {
        let allocations = exchange(domain, config, mode, 2000, SAMPLES);
        // Discovery of strangers and timers may allocate meanwhile, samples not.
        assert!(dhat::HeapStats::get().total_blocks > 0, "nothing is counted");
        assert!(allocations < u64::from(SAMPLES) / 10, "{allocations} allocations for {SAMPLES} samples");
    }
}
