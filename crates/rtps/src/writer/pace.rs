//! How fast datagrams may leave: a token bucket.

use crate::time::{Instant, Span};

/// How a [`TokenBucket`] is filled, and what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucketConfig {
    /// Tokens that are added at the end of each period. At least one.
    pub tokens_per_period: u64,
    /// Tokens that the bucket holds at most, and at the start: what may leave at once after a silence. At least one.
    pub tokens_max: u64,
    /// Bytes of UDP payload that one token lets leave. A datagram takes whole tokens. At least one.
    pub octets_per_token: u64,
    /// How often tokens are added. Longer than zero.
    pub period: Span,
}

/// Tokens are added so often, where a rate does not ask for longer.
const PERIOD: Span = Span::from_micros(100);
/// After a silence so many periods' worth of tokens may leave at once. It is also how late a timer may be without any
/// being lost.
const BURST_PERIODS: u64 = 10;
/// The largest datagram leaves without the bucket going into debt.
const BURST_OCTETS_MIN: u64 = 65_536;

impl TokenBucketConfig {
    /// For so many bits of UDP payload a second in the long run, in bursts of a millisecond, or of the largest datagram
    /// if that is more. `None` for a rate of zero.
    #[must_use]
    pub const fn bits_per_second(rate: u64) -> Option<Self> {
        if rate == 0 {
            return None;
        }
        let in_period = rate as u128 * PERIOD.0 as u128 / BIT_NANOSECONDS;
        let tokens = if in_period == 0 { 1 } else { in_period };
        // The tokens are whole, so the period is what makes the rate exact: rounded up, so that it is never more.
        let period = (tokens * BIT_NANOSECONDS).div_ceil(rate as u128);
        let burst = (tokens as u64).saturating_mul(BURST_PERIODS);
        Some(Self {
            tokens_per_period: tokens as u64,
            tokens_max: if burst < BURST_OCTETS_MIN { BURST_OCTETS_MIN } else { burst },
            octets_per_token: 1,
            period: Span(period as u64),
        })
    }

    /// Whether every field has a value that lets datagrams leave.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.tokens_per_period > 0 && self.tokens_max > 0 && self.octets_per_token > 0 && self.period.0 > 0
    }
}

/// Bits of an byte times nanoseconds of a second.
const BIT_NANOSECONDS: u128 = 8_000_000_000;

/// A bucket that tokens are added to as time passes, and that each datagram takes some of.
///
/// A datagram that needs more tokens than the bucket can hold leaves when it is full, and leaves a debt: the rate in
/// the long run is that of the tokens, however large the datagrams are.
#[derive(Debug)]
pub struct TokenBucket {
    config: TokenBucketConfig,
    /// Below zero, the debt.
    tokens: i128,
    /// Up to when tokens have been added: a whole number of periods after the first datagram.
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

    /// How it is filled.
    #[must_use]
    pub const fn config(&self) -> TokenBucketConfig {
        self.config
    }

    /// A message of so many bytes wants to leave to so many destinations: takes the tokens for all of them.
    ///
    /// # Errors
    /// When there will be enough, if no other writer takes any: nothing has been taken.
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
        let each = (octets as u64).div_ceil(self.config.octets_per_token);
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

    fn bucket(tokens_per_period: u64, tokens_max: u64, octets_per_token: u64, period: Span) -> TokenBucket {
        let config = TokenBucketConfig { tokens_per_period, tokens_max, octets_per_token, period };
        TokenBucket::new(config).unwrap()
    }

    /// Lets datagrams of these bytes leave one after the other, and tells when the last one did.
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
    fn a_full_bucket_lets_a_burst_leave_then_keeps_to_the_period() {
        let mut bucket = bucket(2, 4, 100, Span::from_millis(1));
        // 100 bytes take a token, 101 two.
        assert_eq!(bucket.take(START, 100, 1), Ok(()));
        assert_eq!(bucket.take(START, 101, 1), Ok(()));
        let next = START + Span::from_millis(1);
        assert_eq!(bucket.take(START, 200, 1), Err(next));
        assert_eq!(bucket.take(Instant(next.0 - 1), 200, 1), Err(next));
        assert_eq!(bucket.take(next, 200, 1), Ok(()));
        // One token is left of that period; three take another period.
        assert_eq!(bucket.take(next, 100, 3), Err(next + Span::from_millis(1)));
    }

    #[test]
    fn message_larger_than_the_bucket_leaves_when_the_bucket_is_full_and_is_charged_afterwards() {
        let mut bucket = bucket(1, 2, 100, Span::from_millis(1));
        assert_eq!(bucket.take(START, 1000, 1), Ok(()));
        // Eight tokens of debt, and one.
        assert_eq!(bucket.take(START, 100, 1), Err(START + Span::from_millis(9)));
    }

    #[test]
    fn a_megabyte_takes_its_time_at_a_given_rate() {
        const LEN: usize = 1 << 20;
        const FRAGMENT: usize = 1472;
        for rate in [1_000_000, 100_000_000, 1_000_000_000, 10_000_000_000_u64] {
            let config = TokenBucketConfig::bits_per_second(rate).unwrap();
            let mut bucket = TokenBucket::new(config).unwrap();
            let fragments = LEN.div_ceil(FRAGMENT);
            let took = drain(&mut bucket, START, core::iter::repeat_n(FRAGMENT, fragments)).since(START);
            // What a full bucket lets leave at once takes no time.
            let paced = (fragments * FRAGMENT) as u64 - config.tokens_max.min((fragments * FRAGMENT) as u64);
            let least = u128::from(paced) * BIT_NANOSECONDS / u128::from(rate);
            assert!(u128::from(took.0) >= least, "{rate}: {took:?}");
            assert!(u128::from(took.0) <= least + 2 * u128::from(config.period.0) + least / 100, "{rate}: {took:?}");
        }
    }

    #[test]
    fn rates_that_are_no_whole_octets_per_period_are_kept() {
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
    fn a_bucket_that_lets_nothing_leave_is_refused() {
        let good = TokenBucketConfig { tokens_per_period: 1, tokens_max: 1, octets_per_token: 1, period: Span(1) };
        assert!(TokenBucket::new(good).is_some());
        for bad in [
            TokenBucketConfig { tokens_per_period: 0, ..good },
            TokenBucketConfig { tokens_max: 0, ..good },
            TokenBucketConfig { octets_per_token: 0, ..good },
            TokenBucketConfig { period: Span::ZERO, ..good },
        ] {
            assert!(TokenBucket::new(bad).is_none(), "{bad:?}");
        }
    }

    proptest! {
        /// Never more than the tokens allow, in any order of datagrams and pauses; and a caller that returns when told
        /// is let go, not a nanosecond earlier.
        #[test]
        fn no_more_leaves_than_tokens_were_there_for(
            per_period in 1_u64..50,
            max in 1_u64..200,
            octets_per_token in 1_u64..2000,
            period in 1_u64..1_000_000,
            steps in prop::collection::vec((0_u64..3_000_000, 1_usize..70_000, 1_usize..4), 1..60),
        ) {
            let mut bucket = bucket(per_period, max, octets_per_token, Span(period));
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
                let cost = (octets as u128).div_ceil(u128::from(octets_per_token)) * destinations as u128;
                used += cost;
                largest = largest.max(cost);
                let added = u128::from(now.since(START).0 / period) * u128::from(per_period);
                // Only the last datagram may have gone into debt.
                prop_assert!(used <= u128::from(max) + added + largest, "{used} of {max} + {added}");
            }
        }

        #[test]
        fn nothing_overflows(per_period: u64, max: u64, octets_per_token: u64, period: u64, steps: Vec<(u64, usize, usize)>) {
            let config = TokenBucketConfig {
                tokens_per_period: per_period.max(1),
                tokens_max: max.max(1),
                octets_per_token: octets_per_token.max(1),
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
