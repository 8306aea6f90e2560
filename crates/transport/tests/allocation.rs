//! In the steady state, neither sending nor receiving allocates memory.
//!
//! In its own test program, because it replaces the allocator of the whole program.

#[allow(dead_code, reason = "each test program uses a part")]
mod common;

use common::{pattern, send, socket};
use peregrine_transport::udp::{Receiver, ReceiverOptions, SocketOptions, Wait};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls are passed to the system's allocator; the counter itself does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Covers readers that keep the last few samples, single datagrams, bursts, and trains cut by the kernel and here.
#[test]
fn steady_state_allocates_no_memory() {
    let content = pattern(6000);
    for segmentation_offload in [true, false] {
        let options = SocketOptions { segmentation_offload, ..Default::default() };
        let (near, far) = (socket(&options), socket(&options));
        let mut receiver = Receiver::new(&ReceiverOptions { batch: 4, max_buffers: 64, ..Default::default() });
        let mut kept = VecDeque::with_capacity(64);
        let mut before = allocations();
        for round in 0..300 {
            if round == 100 {
                before = allocations();
            }
            let bytes = content.get(..10 + round).unwrap();
            let datagrams = match round % 3 {
                0 => {
                    send(&near, far.local_address(), bytes, None);
                    1
                }
                1 => {
                    (0..6).for_each(|_| send(&near, far.local_address(), bytes, None));
                    6
                }
                _ => {
                    send(&near, far.local_address(), &content, Some(1000));
                    6
                }
            };
            let mut received = 0;
            while received < datagrams {
                for datagram in receiver.receive(&far, Wait::Block).unwrap() {
                    received += 1;
                    kept.push_back(Arc::clone(datagram.buffer));
                }
                while kept.len() > 20 {
                    kept.pop_front();
                }
            }
        }
        assert_eq!(allocations() - before, 0, "segmentation offload: {segmentation_offload}");
        assert!(before > 0, "the allocator counts allocations");
        assert_eq!(far.statistics().pool_exhaustions, 0);
    }
}
