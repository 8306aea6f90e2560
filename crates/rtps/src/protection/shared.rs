//! A [`Protection`] as the endpoints of a participant share it.

use core::ops::Deref;

use super::Protection;

/// Whether a participant can have a [`Protection`]. Without the feature `protection` none can, and the compiler leaves
/// out the branches of unprotected paths that ask for one.
pub(crate) const IS_AVAILABLE: bool = cfg!(any(test, feature = "protection"));

#[cfg(any(test, feature = "protection"))]
type Inner = alloc::sync::Arc<dyn Protection>;
#[cfg(not(any(test, feature = "protection")))]
type Inner = core::convert::Infallible;

/// The [`Protection`] of a participant, shared by its endpoints. Without the feature `protection` there is no value of
/// this type, and no participant is protected.
#[derive(Clone, Debug)]
pub struct SharedProtection(Inner);

impl SharedProtection {
    /// Shares this protection.
    #[cfg(any(test, feature = "protection"))]
    #[must_use]
    pub const fn new(protection: alloc::sync::Arc<dyn Protection>) -> Self {
        Self(protection)
    }
}

impl Deref for SharedProtection {
    type Target = dyn Protection;

    #[inline]
    fn deref(&self) -> &Self::Target {
        #[cfg(any(test, feature = "protection"))]
        return &*self.0;
        #[cfg(not(any(test, feature = "protection")))]
        match self.0 {}
    }
}
