//! Flow controllers of asynchronous writers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peregrine_rtps::time::Instant;
use peregrine_rtps::transmit::Message;
use peregrine_rtps::writer::pace::{TokenBucket, TokenBucketConfig};

use crate::error::{Argument, BadParameter, Error, Unit};

/// Limits the rate of all datagrams of asynchronous writers: user data, repairs and protocol messages. Clones are
/// handles of the same controller: writers with one controller share its rate, even across domains.
#[derive(Clone, Default)]
pub struct FlowController {
    /// `None`: no limit.
    bucket: Option<Arc<Mutex<TokenBucket>>>,
}

/// Nothing would ever leave.
fn zero(argument: Argument, unit: Unit) -> Error {
    BadParameter::OutOfRange { argument, value: 0, min: 1, max: u64::MAX, unit }.into()
}

impl FlowController {
    /// A controller without a limit.
    #[must_use]
    pub const fn fast() -> Self {
        Self { bucket: None }
    }

    /// A controller with a limit of `rate` bits of UDP payload per second, and bursts of a millisecond or of the
    /// largest datagram, whichever is more.
    ///
    /// # Errors
    /// [`Error::BadParameter`] for a rate of zero.
    pub fn bits_per_second(rate: u64) -> Result<Self, Error> {
        let config = TokenBucketConfig::bits_per_second(rate);
        Self::token_bucket(config.ok_or_else(|| zero(Argument::BitsPerSecond, Unit::BitsPerSecond))?)
    }

    /// A controller with a token bucket that the application configures.
    ///
    /// # Errors
    /// [`Error::BadParameter`] if a field is zero: no datagram could ever be sent.
    pub fn token_bucket(config: TokenBucketConfig) -> Result<Self, Error> {
        let bucket = TokenBucket::new(config).ok_or_else(|| match config {
            TokenBucketConfig { tokens_per_period: 0, .. } => zero(Argument::TokensPerPeriod, Unit::None),
            TokenBucketConfig { tokens_max: 0, .. } => zero(Argument::TokensMax, Unit::None),
            TokenBucketConfig { bytes_per_token: 0, .. } => zero(Argument::BytesPerToken, Unit::Bytes),
            _ => zero(Argument::TokenPeriod, Unit::Nanoseconds),
        })?;
        Ok(Self { bucket: Some(Arc::new(Mutex::new(bucket))) })
    }

    /// The token bucket; `None` without a limit.
    #[must_use]
    pub fn config(&self) -> Option<TokenBucketConfig> {
        self.bucket.as_deref().map(|bucket| lock(bucket).config())
    }

    /// The number of messages that may be sent now, and the time at which the next one may.
    pub(crate) fn allow<'a>(
        &self,
        now: Instant,
        messages: impl ExactSizeIterator<Item = Message<'a>>,
    ) -> (usize, Option<Instant>) {
        let Some(bucket) = &self.bucket else { return (messages.len(), None) };
        let mut bucket = lock(bucket);
        let mut allowed = 0;
        for message in messages {
            match bucket.take(now, message.len(), message.to().len()) {
                Ok(()) => allowed += 1,
                Err(at) => return (allowed, Some(at)),
            }
        }
        (allowed, None)
    }
}

impl fmt::Debug for FlowController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.config() {
            Some(config) => f.debug_tuple("FlowController").field(&config).finish(),
            None => f.write_str("FlowController(fast)"),
        }
    }
}

fn lock(bucket: &Mutex<TokenBucket>) -> MutexGuard<'_, TokenBucket> {
    bucket.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peregrine_rtps::locator::Locator;
    use peregrine_rtps::time::Span;
    use peregrine_rtps::transmit::TransmitBatch;

    #[test]
    fn writers_share_the_tokens_of_a_controller() {
        let period = Span::from_millis(1);
        let config = TokenBucketConfig { tokens_per_period: 1, tokens_max: 4, bytes_per_token: 1000, period };
        let flow = FlowController::token_bucket(config).unwrap();
        let other = flow.clone();
        let to: Arc<[Locator]> = Arc::new([Locator::INVALID]);
        let mut batch = TransmitBatch::default();
        (0..3).for_each(|_| batch.push_message(&[0; 1000], Arc::clone(&to)));
        let (start, later) = (Instant(5), Instant(5) + period);
        assert_eq!(flow.allow(start, batch.messages()), (3, None));
        assert_eq!(other.allow(start, batch.messages()), (1, Some(later)));
        assert_eq!(flow.allow(start, batch.messages()), (0, Some(later)));
        assert_eq!(FlowController::fast().allow(start, batch.messages()), (3, None));
    }

    #[test]
    fn controller_without_throughput_is_refused() {
        assert!(matches!(FlowController::bits_per_second(0), Err(Error::BadParameter(_))));
        let period = Span::ZERO;
        let config = TokenBucketConfig { tokens_per_period: 1, tokens_max: 1, bytes_per_token: 1, period };
        assert!(FlowController::token_bucket(config).unwrap_err().to_string().contains("period"));
        assert_eq!(FlowController::fast().config(), None);
    }
}
