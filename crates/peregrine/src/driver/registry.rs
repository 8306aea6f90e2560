//! The endpoints of this process: those that reach each other without messages.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use peregrine_rtps::id::Guid;

use super::reader::ReaderCore;
use super::writer::WriterCore;

/// Everyone who takes part, of all participants of this process. A GUID is unique, so the domain need not be asked.
#[derive(Default)]
struct Endpoints {
    readers: HashMap<Guid, Weak<ReaderCore>>,
    writers: HashMap<Guid, Weak<WriterCore>>,
}

static ENDPOINTS: RwLock<Option<Endpoints>> = RwLock::new(None);

/// A matched reader of this process, as its writer knows it.
#[derive(Clone)]
pub(crate) struct LocalReader {
    pub(crate) guid: Guid,
    pub(crate) core: Arc<ReaderCore>,
    /// Both sides have the same Rust type, so that they tell instances apart by the same means.
    pub(crate) is_same_type: bool,
}

impl LocalReader {
    /// The reader, if it is in this process and takes part.
    pub(super) fn find(guid: Guid, type_id: TypeId) -> Option<Self> {
        let core = with(|endpoints| endpoints.readers.get(&guid).and_then(Weak::upgrade))?;
        let is_same_type = core.type_id == type_id;
        Some(Self { guid, core, is_same_type })
    }
}

/// The writer, if it is in this process and takes part.
pub(super) fn writer(guid: Guid) -> Option<Weak<WriterCore>> {
    with(|endpoints| endpoints.writers.get(&guid).cloned())
}

pub(super) fn add_reader(core: &Arc<ReaderCore>) {
    if core.domain.config.same_process {
        with_mut(|endpoints| _ = endpoints.readers.insert(core.guid, Arc::downgrade(core)));
    }
}

pub(super) fn add_writer(core: &Arc<WriterCore>) {
    if core.domain.config.same_process {
        with_mut(|endpoints| _ = endpoints.writers.insert(core.guid, Arc::downgrade(core)));
    }
}

pub(super) fn remove_reader(guid: Guid) {
    with_mut(|endpoints| _ = endpoints.readers.remove(&guid));
}

pub(super) fn remove_writer(guid: Guid) {
    with_mut(|endpoints| _ = endpoints.writers.remove(&guid));
}

fn with<R>(look: impl FnOnce(&Endpoints) -> Option<R>) -> Option<R> {
    ENDPOINTS.read().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(look)
}

fn with_mut(change: impl FnOnce(&mut Endpoints)) {
    let mut endpoints = ENDPOINTS.write().unwrap_or_else(PoisonError::into_inner);
    change(endpoints.get_or_insert_default());
}
