//! The rate limit of datagrams: a token bucket.

use crate::time::{Instant, Span};

/// The rate and the size of a [`TokenBucket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucketConfig {
    /// Tokens that are added at the end of each period. At least one.
    pub tokens_per_period: u64,
    /// The greatest number of tokens, which the bucket also has at the start: the burst after a silence. At least one.
    pub tokens_max: u64,
    /// Bytes of UDP payload per token. A datagram takes whole tokens. At least one.
    pub bytes_per_token: u64,
    /// The interval between additions of tokens. Longer than zero.
    pub period: Span,
}

/// The interval between additions of tokens, unless a low rate needs a longer one.
const PERIOD: Span = Span::from_micros(100);
/// The number of periods whose tokens form the burst after a silence. A timer that is late by less loses no tokens.
const BURST_PERIODS: u64 = 10;
/// The bucket has tokens for the largest datagram.
const BURST_BYTES_MIN: u64 = 65_536;

impl TokenBucketConfig {
    /// A long-term rate in bits of UDP payload per second, with bursts of a millisecond, or of the largest datagram if
    /// that is more. `None` for a rate of zero.
    #[must_use]
    pub const fn bits_per_second(rate: u64) -> Option<Self> {
        if rate == 0 {
            return None;
        }
        let in_period = rate as u128 * PERIOD.0 as u128 / BIT_NANOSECONDS;
        let tokens = if in_period == 0 { 1 } else { in_period };
        // The number of tokens is an integer, so the period makes the rate exact. It is rounded up, so that the rate is
        // not exceeded.
        let period = (tokens * BIT_NANOSECONDS).div_ceil(rate as u128);
        let burst = (tokens as u64).saturating_mul(BURST_PERIODS);
        Some(Self {
            tokens_per_period: tokens as u64,
            tokens_max: if burst < BURST_BYTES_MIN { BURST_BYTES_MIN } else { burst },
            bytes_per_token: 1,
            period: Span(period as u64),
        })
    }

    /// Whether the configuration allows datagrams to be sent.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.tokens_per_period > 0 && self.tokens_max > 0 && self.bytes_per_token > 0 && self.period.0 > 0
    }
}

/// Bits of a byte times nanoseconds of a second.
const BIT_NANOSECONDS: u128 = 8_000_000_000;

/// A bucket that gains tokens with time. Each datagram takes tokens from it.
///
/// A datagram that needs more tokens than the bucket can hold is sent when the bucket is full, and leaves a debt: the
/// long-term rate follows the tokens for datagrams of any size.
#[derive(Debug)]
pub struct TokenBucket {
    config: TokenBucketConfig,
    /// Negative for a debt.
    tokens: i128,
    /// The time up to which tokens have been added: a whole number of periods after the first datagram.
    filled_at: Option<Instant>,
}

impl TokenBucket {
    /// A full bucket; `None` for a configuration that is not [valid](TokenBucketConfig::is_valid).
    #[must_use]
    pub const fn new(config: TokenBucketConfig) -> Option<Self> {
        if !config.is_valid() {
            return None;
        }
        Some(Self { config, tokens: config.tokens_max as i128, filled_at: None })
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> TokenBucketConfig {
        self.config
    }

    /// Takes the tokens for a message of this length to this number of destinations.
    ///
    /// # Errors
    /// The time at which the tokens suffice, unless another writer takes some. No tokens have been taken.
    pub fn take(&mut self, now: Instant, octets: usize, destinations: usize) -> Result<(), Instant> {
        self.fill(now);
        let cost = self.cost(octets, destinations);
        let needed = cost.min(i128::from(self.config.tokens_max));
        if self.tokens >= needed {
            self.tokens -= cost;
            return Ok(());
        }
        let missing = (needed - self.tokens).unsigned_abs();
        let periods = missing.div_ceil(u128::from(self.config.tokens_per_period));
        let wait = periods.saturating_mul(u128::from(self.config.period.0));
        let wait = Span(u64::try_from(wait).unwrap_or(u64::MAX));
        Err(self.filled_at.unwrap_or(now) + wait)
    }

    fn cost(&self, octets: usize, destinations: usize) -> i128 {
        let each = (octets as u64).div_ceil(self.config.bytes_per_token);
        i128::from(each.saturating_mul(destinations as u64))
    }

    fn fill(&mut self, now: Instant) {
        let filled_at = *self.filled_at.get_or_insert(now);
        let periods = now.since(filled_at).0 / self.config.period.0;
        if periods == 0 {
            return;
        }
        let added = i128::from(periods).saturating_mul(i128::from(self.config.tokens_per_period));
        self.tokens = self.tokens.saturating_add(added).min(i128::from(self.config.tokens_max));
        self.filled_at = Some(filled_at + self.config.period.times(periods));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const START: Instant = Instant(1_000_000_000);

    fn bucket(tokens_per_period: u64, tokens_max: u64, bytes_per_token: u64, period: Span) -> TokenBucket {
        let config = TokenBucketConfig { tokens_per_period, tokens_max, bytes_per_token, period };
        TokenBucket::new(config).unwrap()
    }

    /// Sends datagrams of these lengths one after the other. Returns when the last one was sent.
    fn drain(bucket: &mut TokenBucket, mut now: Instant, datagrams: impl IntoIterator<Item = usize>) -> Instant {
        for octets in datagrams {
            while let Err(at) = bucket.take(now, octets, 1) {
                assert!(at > now);
                now = at;
            }
        }
        now
    }

    #[test]
    fn full_bucket_allows_burst_and_then_one_per_period() {
        let mut bucket = bucket(2, 4, 100, Span::from_millis(1));
        // A datagram of 100 bytes takes one token, one of 101 bytes takes two.
        assert_eq!(bucket.take(START, 100, 1), Ok(()));
        assert_eq!(bucket.take(START, 101, 1), Ok(()));
        let next = START + Span::from_millis(1);
        assert_eq!(bucket.take(START, 200, 1), Err(next));
        assert_eq!(bucket.take(Instant(next.0 - 1), 200, 1), Err(next));
        assert_eq!(bucket.take(next, 200, 1), Ok(()));
        // One token remains of that period; three tokens need another period.
        assert_eq!(bucket.take(next, 100, 3), Err(next + Span::from_millis(1)));
    }

    #[test]
    fn message_larger_than_bucket_leaves_debt() {
        let mut bucket = bucket(1, 2, 100, Span::from_millis(1));
        assert_eq!(bucket.take(START, 1000, 1), Ok(()));
        // The wait covers eight tokens of debt and one more.
        assert_eq!(bucket.take(START, 100, 1), Err(START + Span::from_millis(9)));
    }

    #[test]
    fn megabyte_takes_time_of_given_rate() {
        const LEN: usize = 1 << 20;
        const FRAGMENT: usize = 1472;
        for rate in [1_000_000, 100_000_000, 1_000_000_000, 10_000_000_000_u64] {
            let config = TokenBucketConfig::bits_per_second(rate).unwrap();
            let mut bucket = TokenBucket::new(config).unwrap();
            let fragments = LEN.div_ceil(FRAGMENT);
            let took = drain(&mut bucket, START, core::iter::repeat_n(FRAGMENT, fragments)).since(START);
            // The burst of a full bucket takes no time.
            let paced = (fragments * FRAGMENT) as u64 - config.tokens_max.min((fragments * FRAGMENT) as u64);
            let least = u128::from(paced) * BIT_NANOSECONDS / u128::from(rate);
            assert!(u128::from(took.0) >= least, "{rate}: {took:?}");
            assert!(u128::from(took.0) <= least + 2 * u128::from(config.period.0) + least / 100, "{rate}: {took:?}");
        }
    }

    #[test]
    fn rate_of_fractional_bytes_per_period_is_exact() {
        for rate in [1, 7, 999, 12_345, 987_654_321, u64::MAX] {
            let config = TokenBucketConfig::bits_per_second(rate).unwrap();
            assert!(config.is_valid());
            let stated = u128::from(config.tokens_per_period) * BIT_NANOSECONDS / u128::from(config.period.0);
            assert!(
                stated <= u128::from(rate) && stated >= u128::from(rate) - u128::from(rate) / 1000 - 1,
                "{rate}: {stated}"
            );
        }
        assert_eq!(TokenBucketConfig::bits_per_second(0), None);
    }

    #[test]
    fn bucket_that_allows_no_datagram_is_rejected() {
        let good = TokenBucketConfig { tokens_per_period: 1, tokens_max: 1, bytes_per_token: 1, period: Span(1) };
        assert!(TokenBucket::new(good).is_some());
        for bad in [
            TokenBucketConfig { tokens_per_period: 0, ..good },
            TokenBucketConfig { tokens_max: 0, ..good },
            TokenBucketConfig { bytes_per_token: 0, ..good },
            TokenBucketConfig { period: Span::ZERO, ..good },
        ] {
            assert!(TokenBucket::new(bad).is_none(), "{bad:?}");
        }
    }

    proptest! {
        /// In any order of datagrams and pauses, the bytes never exceed the tokens; and a caller that returns at the
        /// stated time succeeds, but not a nanosecond earlier.
        #[test]
        fn sent_bytes_do_not_exceed_tokens(
            per_period in 1_u64..50,
            max in 1_u64..200,
            bytes_per_token in 1_u64..2000,
            period in 1_u64..1_000_000,
            steps in prop::collection::vec((0_u64..3_000_000, 1_usize..70_000, 1_usize..4), 1..60),
        ) {
            let mut bucket = bucket(per_period, max, bytes_per_token, Span(period));
            let mut now = START;
            let mut used = 0_u128;
            let mut largest = 0_u128;
            for (pause, octets, destinations) in steps {
                now = now + Span(pause);
                if let Err(at) = bucket.take(now, octets, destinations) {
                    prop_assert!(at > now);
                    let early = Instant(at.0 - 1);
                    prop_assert_eq!(bucket.take(early, octets, destinations), Err(at));
                    now = at;
                    prop_assert_eq!(bucket.take(now, octets, destinations), Ok(()));
                }
                let cost = (octets as u128).div_ceil(u128::from(bytes_per_token)) * destinations as u128;
                used += cost;
                largest = largest.max(cost);
                let added = u128::from(now.since(START).0 / period) * u128::from(per_period);
                // Only the last datagram may have caused a debt.
                prop_assert!(used <= u128::from(max) + added + largest, "{used} of {max} + {added}");
            }
        }

        #[test]
        fn any_configuration_does_not_overflow(per_period: u64, max: u64, bytes_per_token: u64, period: u64, steps: Vec<(u64, usize, usize)>) {
            let config = TokenBucketConfig {
                tokens_per_period: per_period.max(1),
                tokens_max: max.max(1),
                bytes_per_token: bytes_per_token.max(1),
                period: Span(period.max(1)),
            };
            let mut bucket = TokenBucket::new(config).unwrap();
            for (at, octets, destinations) in steps {
                if let Err(next) = bucket.take(Instant(at), octets, destinations) {
                    prop_assert!(next >= Instant(at) || next == Instant::FAR_FUTURE);
                }
            }
        }
    }
}
