//! Copying from memory to memory on one core: the upper bound of every transport that copies.

use std::hint::black_box;
use std::time::Duration;

use peregrine_report::record::{SendResult, Side, SideResult, ThroughputResult};

use super::turn::on_core;
use crate::characterize::kept::Cores;
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;

/// Copies between two readings of the clock, whose cost then does not count.
const COPIES: u64 = 256;

/// Copies between the same two buffers, which stay in the caches as far as they fit.
pub(super) fn measure(
    size: usize,
    time: Duration,
    cores: Cores,
    stop: &Stop,
) -> Result<(SideResult, SideResult), Error> {
    let (count, duration_ns) =
        std::thread::scope(|scope| on_core(scope, cores.map(|cores| cores.0), || copy(size, time, stop)).join())
            .unwrap_or_else(|_| Err(Error::Transfer("the thread that copies failed".into())))?;
    let side = |side| SideResult { side, data_len: size as u64, ..SideResult::default() };
    let send = SendResult { samples: count, duration_ns, ..SendResult::default() };
    let throughput = ThroughputResult {
        samples: count,
        bytes: count.saturating_mul(size as u64),
        duration_ns,
        ..ThroughputResult::default()
    };
    let publisher = SideResult { send: Some(send), ..side(Side::Publisher) };
    Ok((publisher, SideResult { throughput: Some(throughput), ..side(Side::Subscriber) }))
}

/// Number of copies, and their duration.
fn copy(size: usize, time: Duration, stop: &Stop) -> Result<(u64, u64), Error> {
    let (source, mut target) = (vec![7_u8; size], vec![0_u8; size]);
    let start = MonotonicNs::now();
    let end = start.plus(time);
    let mut count = 0;
    while !end.remaining().is_zero() {
        if stop.reason().is_some() {
            return Err(Error::Interrupted);
        }
        for _ in 0..COPIES {
            black_box(&mut target).copy_from_slice(black_box(&source));
        }
        count += COPIES;
    }
    Ok((count, MonotonicNs::now().since_ns(start)))
}
