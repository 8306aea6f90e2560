//! Values that readers of this process share, and that are encoded when another process needs bytes.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use peregrine_rtps::payload::{Octets, Payload};
use peregrine_xtypes::{DdsType, Endianness, Representation, encode, encoded_len};

use crate::topic_type::serialized_key;

/// A value on its way, and its bytes once they were needed.
struct SharedValue<T> {
    value: Arc<T>,
    representation: Representation,
    octets: OnceLock<Vec<u8>>,
}

/// A payload that is this value.
pub(super) fn payload<T: DdsType + Send + Sync>(value: Arc<T>, representation: Representation) -> Payload {
    Payload::foreign(Arc::new(SharedValue { value, representation, octets: OnceLock::new() }))
}

/// The value in a payload that is one of this Rust type.
pub(crate) fn value<T: 'static>(payload: &Payload) -> Option<&Arc<T>> {
    payload.value()?.downcast_ref()
}

impl<T: DdsType + Send + Sync> Octets for SharedValue<T> {
    fn octets(&self) -> &[u8] {
        self.octets.get_or_init(|| {
            let mut octets = vec![0; encoded_len(&*self.value, self.representation)];
            match encode(&*self.value, self.representation, Endianness::NATIVE, &mut octets) {
                Ok(_) => octets,
                Err(error) => {
                    // The write call has already returned, so the error cannot reach its caller. Readers fail to decode
                    // the empty payload.
                    tracing::error!(%error, type_name = T::TYPE_NAME, "a shared value has no encoding");
                    Vec::new()
                }
            }
        })
    }

    fn known_len(&self) -> Option<usize> {
        self.octets.get().map(Vec::len)
    }

    fn held_bytes(&self) -> usize {
        size_of::<T>() + self.octets.get().map_or(0, Vec::capacity)
    }

    fn value(&self) -> Option<&(dyn Any + Send + Sync)> {
        Some(&self.value)
    }

    fn key(&self) -> Option<Vec<u8>> {
        serialized_key(&*self.value).ok()
    }
}

impl<T> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValue").field("is_encoded", &self.octets.get().is_some()).finish_non_exhaustive()
    }
}
