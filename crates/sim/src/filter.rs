//! A content filter for samples that are one number.

use std::sync::atomic::{AtomicU64, Ordering};

use peregrine_rtps::writer::SampleFilter;

/// Accepts samples whose number, in the four bytes after the encapsulation header, is a multiple of the divisor.
#[derive(Debug)]
pub struct MultiplesOf {
    divisor: u32,
    evaluations: AtomicU64,
}

impl MultiplesOf {
    /// A filter for multiples of this number.
    #[must_use]
    pub const fn new(divisor: u32) -> Self {
        Self { divisor, evaluations: AtomicU64::new(0) }
    }

    /// How often a writer has evaluated the filter.
    #[must_use]
    pub fn evaluations(&self) -> u64 {
        self.evaluations.load(Ordering::Relaxed)
    }
}

impl SampleFilter for MultiplesOf {
    fn matches(&self, payload: &[u8]) -> bool {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        let number = payload.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        number.is_some_and(|number| number.is_multiple_of(self.divisor))
    }
}
