//! DATA_ON_READERS: readers of a subscriber have unread samples (DDS 1.4 §2.2.4.1).

use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use crate::condition::StatusSource;
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::weak_list::WeakList;
use crate::driver::endpoint::reader::ReaderCore;
use crate::driver::host::Host;
use crate::status::StatusMask;

/// The status DATA_ON_READERS of a subscriber. Each query derives the status from the readers, so that a subscriber
/// which is not observed costs nothing.
pub(super) struct DataOnReaders {
    host: Arc<dyn Host>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    readers: WeakList<ReaderCore>,
    watchers: Vec<Watcher>,
    next: u64,
}

/// A waker that is registered with every reader.
struct Watcher {
    id: u64,
    waker: Waker,
    left: Vec<(Weak<ReaderCore>, u64)>,
}

impl DataOnReaders {
    pub(super) fn new(host: Arc<dyn Host>) -> Self {
        Self { host, state: Mutex::new(State::default()) }
    }

    fn lock(&self) -> Guard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn add(&self, reader: &Arc<ReaderCore>) {
        let mut state = self.lock();
        state.readers.push(Arc::downgrade(reader));
        for watcher in &mut state.watchers {
            watcher.leave_with(reader);
        }
    }
}

impl Watcher {
    fn leave_with(&mut self, reader: &Arc<ReaderCore>) {
        self.left.retain(|(r, _)| r.strong_count() > 0);
        let id = reader.lock().wakers.add(StatusMask::DATA_AVAILABLE.into(), self.waker.clone());
        self.left.push((Arc::downgrade(reader), id));
    }
}

impl StatusSource for DataOnReaders {
    fn changes(&self) -> StatusMask {
        let has_news = |r: Arc<ReaderCore>| r.lock().statuses.changed.contains(StatusMask::DATA_AVAILABLE);
        let any = self.lock().readers.iter().any(has_news);
        if any { StatusMask::DATA_ON_READERS } else { StatusMask::NONE }
    }

    fn watch(&self, _: StatusMask, waker: Waker) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        let mut watcher = Watcher { id: state.next, waker, left: Vec::new() };
        state.readers.iter().for_each(|reader| watcher.leave_with(&reader));
        state.watchers.push(watcher);
        state.next
    }

    fn unwatch(&self, id: u64) {
        let mut state = self.lock();
        for watcher in state.watchers.extract_if(.., |w| w.id == id) {
            for (reader, id) in watcher.left {
                if let Some(reader) = reader.upgrade() {
                    reader.lock().wakers.remove(id);
                }
            }
        }
    }

    fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }
}
