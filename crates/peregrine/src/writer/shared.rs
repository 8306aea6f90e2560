//! Values that readers of this process share, and that are encoded when another reader needs bytes.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use peregrine_rtps::payload::{Octets, Payload};
use peregrine_xtypes::{DdsType, Endianness, Representation, encode, encoded_len};

use crate::driver::base::user_code::{drop_user_value, run_user_code};
use crate::topic_type::serialized_key_inline;

/// A shared value and, once a reader needed them, its serialized bytes. A cache may drop it under a lock; the
/// destructor of the application then runs later: see [`drop_user_value`].
struct SharedValue<T: Send + Sync + 'static> {
    /// `None` only during the drop.
    value: Option<Arc<T>>,
    representation: Representation,
    octets: OnceLock<Vec<u8>>,
    key: SharedKey,
}

/// The serialized key of a shared value.
pub(super) enum SharedKey {
    /// Encoded when a reader needs the key, perhaps under a lock: the type calls no code of the application.
    OnDemand,
    /// Encoded before the value was written; `None` if that failed.
    Made(Option<Vec<u8>>),
}

/// A payload that holds this value.
pub(super) fn payload<T: DdsType + Send + Sync>(
    value: Arc<T>,
    representation: Representation,
    key: SharedKey,
) -> Payload {
    Payload::foreign(Arc::new(SharedValue { value: Some(value), representation, octets: OnceLock::new(), key }))
}

/// The value in a payload; `None` if the payload does not hold a shared value of this Rust type.
pub(crate) fn value<T: 'static>(payload: &Payload) -> Option<&Arc<T>> {
    payload.value()?.downcast_ref()
}

impl<T: DdsType + Send + Sync> Octets for SharedValue<T> {
    fn octets(&self) -> &[u8] {
        self.octets.get_or_init(|| {
            let Some(value) = self.value.as_deref() else { return Vec::new() };
            let encoded = run_user_code(|| {
                let mut octets = vec![0; encoded_len(value, self.representation)];
                encode(value, self.representation, Endianness::NATIVE, &mut octets).map(|_| octets)
            });
            match encoded {
                Ok(octets) => octets,
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
        // The value may be encoded at any time, and the length must not change then.
        size_of::<T>()
    }

    fn value(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.value.as_ref().map(|value| value as _)
    }

    fn key(&self) -> Option<Vec<u8>> {
        match &self.key {
            SharedKey::OnDemand => serialized_key_inline(self.value.as_deref()?).ok(),
            SharedKey::Made(key) => key.clone(),
        }
    }
}

impl<T: Send + Sync + 'static> Drop for SharedValue<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            drop_user_value(value);
        }
    }
}

impl<T: Send + Sync> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValue").field("is_encoded", &self.octets.get().is_some()).finish_non_exhaustive()
    }
}
