//! Runs two threads with one end each: ping-pong, and the highest rate.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use peregrine_report::record::{SendResult, Side, SideResult, ThroughputResult};

use super::end::{End, Ends};
use crate::characterize::kept::Cores;
use crate::clock::{MonotonicNs, thread_cpu_ns, with_one_interval_more};
use crate::control::Stop;
use crate::error::Error;
use crate::recorder::LatencyRecorder;
use crate::threads::{bind_current_thread, online_cores};

/// Duration of the warm-up round trips, as a fraction of the measurement.
const WARMUP_SHARE: u32 = 4;
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sequential round trips.
pub(super) fn latency(
    (mut near, far): Ends,
    size: usize,
    time: Duration,
    cores: Cores,
    stop: &Stop,
) -> Result<(SideResult, SideResult), Error> {
    both_sides(cores, || ping(near.as_mut(), size, time, stop), |ended| echo(far, size, ended))
}

/// One direction at the highest rate.
pub(super) fn throughput(
    (mut near, far): Ends,
    size: usize,
    time: Duration,
    cores: Cores,
    stop: &Stop,
) -> Result<(SideResult, SideResult), Error> {
    let (publisher, mut subscriber) =
        both_sides(cores, || flood(near.as_mut(), size, time, stop), |ended| count(far, size, ended))?;
    let sent = publisher.send.as_ref().map_or(0, |send| send.samples);
    if let Some(received) = &mut subscriber.throughput {
        received.lost = sent.saturating_sub(received.samples);
    }
    Ok((publisher, subscriber))
}

/// Starts a thread bound to a core.
pub(super) fn on_core<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    core: Option<usize>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'scope,
) -> ScopedJoinHandle<'scope, Result<T, Error>> {
    scope.spawn(move || {
        bind_current_thread(core.as_slice()).map_err(Error::Setup)?;
        work()
    })
}

/// Runs both sides to their ends. The near side sets the far side's flag when it has ended; the far side ends when no
/// more messages arrive. Each side owns its end, so that a failed side leaves no blocked partner.
fn both_sides(
    cores: Cores,
    near: impl FnOnce() -> Result<SideResult, Error> + Send,
    far: impl FnOnce(&AtomicBool) -> Result<SideResult, Error> + Send,
) -> Result<(SideResult, SideResult), Error> {
    let ended = &AtomicBool::new(false);
    let (near, far) = std::thread::scope(|scope| {
        let far = on_core(scope, cores.map(|cores| cores.1), || far(ended));
        let near = on_core(scope, cores.map(|cores| cores.0), near).join();
        ended.store(true, Ordering::Release);
        (near, far.join())
    });
    let failed = |side| move |_| Err(Error::Transfer(format!("the {side} thread failed")));
    let (near, far) = (near.unwrap_or_else(failed("sending")), far.unwrap_or_else(failed("receiving")));
    // The side that failed first has the better error; the other one only lost its partner.
    match (near, far) {
        (Ok(near), Ok(far)) => Ok((near, far)),
        (_, Err(error)) | (Err(error), _) => Err(error),
    }
}

fn ping(end: &mut dyn End, size: usize, time: Duration, stop: &Stop) -> Result<SideResult, Error> {
    let message = vec![7; size];
    let mut recorder = LatencyRecorder::new(0);
    let cpu = CpuUse::begin();
    let start = MonotonicNs::now();
    let (record_from, end_at) = (start.plus(time / WARMUP_SHARE), start.plus(time / WARMUP_SHARE + time));
    let mut sent = 0;
    loop {
        let sent_at = MonotonicNs::now();
        if sent_at >= end_at {
            break;
        }
        if stop.reason().is_some() {
            return Err(Error::Interrupted);
        }
        send_one(end, &message)?;
        sent += 1;
        receive_one(end)?;
        if sent_at >= record_from {
            recorder.record(MonotonicNs::now().since_ns(sent_at) / 2);
        }
    }
    let duration_ns = MonotonicNs::now().since_ns(start);
    Ok(SideResult {
        latency: Some(recorder.result()),
        send: Some(SendResult { samples: sent, duration_ns, ..SendResult::default() }),
        ..cpu.side(Side::Publisher, size)
    })
}

fn send_one(end: &mut dyn End, message: &[u8]) -> Result<(), Error> {
    let deadline = MonotonicNs::now().plus(PATIENCE);
    while end.send(message).map_err(|error| Error::Transfer(format!("cannot send: {error}")))? == 0 {
        if deadline.remaining().is_zero() {
            return Err(Error::Transfer(format!("there was no room to send within {} s", PATIENCE.as_secs())));
        }
    }
    Ok(())
}

fn receive_one(end: &mut dyn End) -> Result<(), Error> {
    let deadline = MonotonicNs::now().plus(PATIENCE);
    loop {
        match end.receive().map_err(receiving)? {
            Some(1) => return Ok(()),
            Some(0) => {}
            Some(count) => return Err(Error::Transfer(format!("{count} answers to one message"))),
            None if deadline.remaining().is_zero() => {
                return Err(Error::Transfer(format!("no answer arrived within {} s", PATIENCE.as_secs())));
            }
            None => {}
        }
    }
}

fn echo(mut end: Box<dyn End>, size: usize, ended: &AtomicBool) -> Result<SideResult, Error> {
    let message = vec![7; size];
    let cpu = CpuUse::begin();
    loop {
        match end.receive().map_err(receiving)? {
            Some(count) => (0..count).try_for_each(|_| send_one(end.as_mut(), &message))?,
            None if ended.load(Ordering::Acquire) => return Ok(cpu.side(Side::Subscriber, size)),
            None => {}
        }
    }
}

fn flood(end: &mut dyn End, size: usize, time: Duration, stop: &Stop) -> Result<SideResult, Error> {
    /// Calls between two readings of the clock.
    const CALLS: u32 = 8;
    let message = vec![7; size];
    let cpu = CpuUse::begin();
    let start = MonotonicNs::now();
    let end_at = start.plus(time);
    let mut samples = 0;
    while !end_at.remaining().is_zero() {
        if stop.reason().is_some() {
            return Err(Error::Interrupted);
        }
        for _ in 0..CALLS {
            samples += end.send(&message).map_err(|error| Error::Transfer(format!("cannot send: {error}")))?;
        }
    }
    let duration_ns = MonotonicNs::now().since_ns(start);
    let send = SendResult { samples, duration_ns, ..SendResult::default() };
    Ok(SideResult { send: Some(send), ..cpu.side(Side::Publisher, size) })
}

fn count(mut end: Box<dyn End>, size: usize, ended: &AtomicBool) -> Result<SideResult, Error> {
    let cpu = CpuUse::begin();
    let (mut samples, mut first, mut last) = (0_u64, None, MonotonicNs::now());
    loop {
        match end.receive().map_err(receiving)? {
            Some(count) => {
                last = MonotonicNs::now();
                first.get_or_insert(last);
                samples += count;
            }
            None if ended.load(Ordering::Acquire) => break,
            None => {}
        }
    }
    let duration_ns = first.map_or(0, |first| with_one_interval_more(last.since_ns(first), samples));
    let bytes = samples.saturating_mul(size as u64);
    let throughput = ThroughputResult { samples, bytes, duration_ns, ..ThroughputResult::default() };
    Ok(SideResult { throughput: Some(throughput), ..cpu.side(Side::Subscriber, size) })
}

fn receiving(error: io::Error) -> Error {
    Error::Transfer(format!("cannot receive: {error}"))
}

/// Processor time of the calling thread since a moment.
struct CpuUse {
    since: MonotonicNs,
    used_ns: u64,
}

impl CpuUse {
    fn begin() -> Self {
        Self { since: MonotonicNs::now(), used_ns: thread_cpu_ns() }
    }

    /// A result with the share of all cores used so far.
    fn side(&self, side: Side, size: usize) -> SideResult {
        let wall_ns = MonotonicNs::now().since_ns(self.since).max(1);
        let used_ns = thread_cpu_ns().saturating_sub(self.used_ns);
        let cpu_percent = used_ns as f64 * 100.0 / wall_ns as f64 / online_cores() as f64;
        SideResult { side, data_len: size as u64, cpu_percent, ..SideResult::default() }
    }
}
