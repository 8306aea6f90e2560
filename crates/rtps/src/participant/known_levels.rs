//! The protection of local endpoints, needed for each received submessage. A [`Protection`] looks it up in tables that
//! all threads share.
//!
//! [`Protection`]: crate::protection::Protection

use crate::id::EntityId;
use crate::protection::ProtectionLevels;

/// A power of two. Endpoints with the same slot replace each other.
const SLOTS: usize = 16;

/// The levels of the endpoints that were last asked for. They are fixed for the lifetime of an endpoint.
#[derive(Debug, Default)]
pub(super) struct KnownLevels {
    slots: [Option<(EntityId, ProtectionLevels)>; SLOTS],
}

impl KnownLevels {
    /// The levels of `endpoint`, which `look_up` returns if they are not kept. They are kept if `is_local`: other
    /// endpoints may be created later, with other levels.
    #[inline]
    pub(super) fn of(
        &mut self,
        endpoint: EntityId,
        look_up: impl FnOnce() -> ProtectionLevels,
        is_local: impl FnOnce() -> bool,
    ) -> ProtectionLevels {
        let [.., number, kind] = endpoint.0;
        // A reader and a writer may have the same number. The kinds of readers have this bit.
        let slot = self.slots.get_mut((usize::from(number) * 2 + usize::from(kind >> 2 & 1)) % SLOTS);
        if let Some(Some((known, levels))) = slot.as_deref()
            && *known == endpoint
        {
            return *levels;
        }
        let levels = look_up();
        if is_local()
            && let Some(slot) = slot
        {
            *slot = Some((endpoint, levels));
        }
        levels
    }

    /// Forgets an endpoint that is deleted.
    pub(super) fn forget(&mut self, endpoint: EntityId) {
        for slot in &mut self.slots {
            slot.take_if(|(known, _)| *known == endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protection::ProtectionKind;

    const SIGNED: ProtectionLevels = ProtectionLevels {
        message: ProtectionKind::Sign,
        submessage: ProtectionKind::None,
        payload: ProtectionKind::None,
    };

    fn kept(known: &mut KnownLevels, endpoint: EntityId) -> Option<ProtectionLevels> {
        let mut is_kept = true;
        let levels = known.of(
            endpoint,
            || {
                is_kept = false;
                ProtectionLevels::default()
            },
            || false,
        );
        is_kept.then_some(levels)
    }

    #[test]
    fn levels_of_local_endpoints_are_looked_up_once() {
        let mut known = KnownLevels::default();
        let [writer, reader] = [EntityId::user_writer(1, true), EntityId::user_reader(1, true)];
        assert_eq!(known.of(writer, || SIGNED, || true), SIGNED);
        assert_eq!(known.of(reader, ProtectionLevels::default, || true), ProtectionLevels::default());
        assert_eq!(kept(&mut known, writer), Some(SIGNED));
        assert_eq!(kept(&mut known, reader), Some(ProtectionLevels::default()));
    }

    #[test]
    fn levels_of_endpoints_that_do_not_exist_are_looked_up_again() {
        let mut known = KnownLevels::default();
        let writer = EntityId::user_writer(1, true);
        assert_eq!(known.of(writer, || SIGNED, || false), SIGNED);
        assert_eq!(kept(&mut known, writer), None);
    }

    #[test]
    fn deleted_endpoint_is_forgotten() {
        let mut known = KnownLevels::default();
        let [first, second] = [1, 2].map(|number| EntityId::user_writer(number, true));
        known.of(first, || SIGNED, || true);
        known.of(second, || SIGNED, || true);
        known.forget(first);
        assert_eq!(kept(&mut known, first), None);
        assert_eq!(kept(&mut known, second), Some(SIGNED));
    }

    #[test]
    fn endpoints_of_one_slot_replace_each_other() {
        let mut known = KnownLevels::default();
        let [first, second] = [1, 257].map(|number| EntityId::user_writer(number, true));
        known.of(first, || SIGNED, || true);
        known.of(second, ProtectionLevels::default, || true);
        assert_eq!(kept(&mut known, first), None);
        assert_eq!(kept(&mut known, second), Some(ProtectionLevels::default()));
    }
}
