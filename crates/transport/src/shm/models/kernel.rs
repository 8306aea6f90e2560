//! Model of the kernel's futexes: comparing and falling asleep is one step, and waking a word wakes exactly the threads
//! that wait for it.

use crate::clock::MonotonicNs;
use crate::shm::futex::LocalDoorbell;
use crate::shm::sync::Ordering;
use loom::sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One for each run of a model.
#[derive(Default)]
struct Kernel {
    /// Number of wakes of each word, by its address.
    wakes: Mutex<BTreeMap<usize, u64>>,
    woken: Condvar,
}

loom::lazy_static! {
    static ref KERNEL: Kernel = Kernel { wakes: Mutex::new(BTreeMap::new()), woken: Condvar::new() };
}

/// A word to wait for, and whether it still has its recorded value.
pub(in crate::shm) struct Wait {
    address: usize,
    is_unchanged: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Wait {
    pub(in crate::shm) fn new<T>(word: &T, is_unchanged: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { address: address(word), is_unchanged: Box::new(is_unchanged) }
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}

pub(in crate::shm) fn wake<T>(word: &T) {
    *KERNEL.wakes.lock().unwrap().entry(address(word)).or_default() += 1;
    KERNEL.woken.notify_all();
}

pub(in crate::shm) fn wait_for(bell: &Arc<LocalDoorbell>, count: u32) -> Wait {
    let kept = Arc::clone(bell);
    Wait::new(bell.word(), move || kept.word().load(Ordering::Relaxed) == count)
}

/// loom models no deadlines: this waits without limit.
pub(in crate::shm) fn wait(waits: &[Wait], _deadline: Option<MonotonicNs>) {
    let mut wakes = KERNEL.wakes.lock().unwrap();
    if !waits.iter().all(|wait| (wait.is_unchanged)()) {
        return;
    }
    let count =
        |wakes: &BTreeMap<usize, u64>| -> u64 { waits.iter().filter_map(|wait| wakes.get(&wait.address)).sum() };
    let before = count(&wakes);
    while count(&wakes) == before {
        wakes = KERNEL.woken.wait(wakes).unwrap();
    }
}

fn address<T>(word: &T) -> usize {
    std::ptr::from_ref(word).addr()
}
