//! A writer's view of the matched readers in its process.

use std::any::TypeId;
use std::sync::{Arc, Weak};

use peregrine_rtps::id::Guid;

use super::reader::ReaderCore;
use crate::driver::route::registry::Registry;

/// The readers of this process.
pub(in crate::driver) static READERS: Registry<ReaderCore> = Registry::new();

/// A matched reader of this process, as its writer knows it.
#[derive(Clone)]
pub(crate) struct LocalReader {
    pub(crate) guid: Guid,
    pub(crate) core: Arc<ReaderCore>,
    /// Both sides have the same Rust type, and therefore identify instances in the same way.
    pub(crate) is_same_type: bool,
}

impl LocalReader {
    /// The reader, if it is in this process and enabled.
    pub(in crate::driver) fn find(guid: Guid, type_id: TypeId) -> Option<Self> {
        let core = READERS.find(guid).as_ref().and_then(Weak::upgrade)?;
        let is_same_type = core.type_id == type_id;
        Some(Self { guid, core, is_same_type })
    }
}
