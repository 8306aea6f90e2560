//! Counters of a socket, readable from any thread at any time.

use std::io;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a socket since it was opened. Datagrams are counted as the network sees them: a super-datagram of eight
/// segments is eight datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// System calls that sent, successful or not.
    pub send_calls: u64,
    /// Datagrams that the kernel accepted.
    pub datagrams_sent: u64,
    /// Payload bytes that the kernel accepted.
    pub bytes_sent: u64,
    /// Super-datagrams that the kernel accepted, to be cut into datagrams by the kernel or the NIC (GSO).
    pub super_datagrams_sent: u64,
    /// Super-datagrams that this process cut after the kernel or the NIC had refused one.
    pub super_datagrams_split: u64,
    /// How often segmentation offload was given up: 0 or 1.
    pub segmentation_fallbacks: u64,
    /// System calls that received, successful or not.
    pub receive_calls: u64,
    /// Datagrams received whole.
    pub datagrams_received: u64,
    /// Payload bytes received in them.
    pub bytes_received: u64,
    /// Super-datagrams received, each made of several datagrams by the kernel or the NIC (GRO).
    pub super_datagrams_received: u64,
    /// Datagrams lost because they were longer than the receive buffer.
    pub datagrams_truncated: u64,
    /// Datagrams that the kernel dropped because the socket's receive buffer was full.
    pub kernel_drops: u64,
    /// Receive calls during which readers held every pooled buffer, so that the datagrams were copied.
    pub pool_exhaustions: u64,
    /// Errors of receive calls, nearly always an ICMP message about an earlier datagram. None is fatal.
    pub receive_errors: u64,
    /// Datagrams and super-datagrams that were not sent, by reason.
    pub send_errors: SendErrors,
}

/// Datagrams and super-datagrams that were not sent, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendErrors {
    /// The socket's send buffer was full, and stayed full for as long as the call may wait (`EAGAIN`). Counted per
    /// attempt: the sender may try again, and nothing is lost then.
    pub would_block: u64,
    /// An ICMP message reported that no socket receives at the destination (`ECONNREFUSED`).
    pub refused: u64,
    /// No route to the host or network, or the interface is down.
    pub unreachable: u64,
    /// Longer than the path allows, or than a UDP datagram can be (`EMSGSIZE`).
    pub too_large: u64,
    /// The device's queue or the kernel's memory was full (`ENOBUFS`, `ENOMEM`).
    pub no_buffers: u64,
    /// Forbidden, usually by a firewall rule (`EPERM`, `EACCES`).
    pub forbidden: u64,
    /// The link-layer address of the host, or of the router before it, is not known, and as many datagrams wait for it
    /// as may: the host is switched off or not on the network.
    pub unresolved: u64,
    /// Any other reason.
    pub other: u64,
}

impl SendErrors {
    /// Sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { would_block, refused, unreachable, too_large, no_buffers, forbidden, unresolved, other } = *self;
        [would_block, refused, unreachable, too_large, no_buffers, forbidden, unresolved, other].iter().sum()
    }
}

impl AddAssign for Statistics {
    fn add_assign(&mut self, other: Self) {
        self.send_calls += other.send_calls;
        self.datagrams_sent += other.datagrams_sent;
        self.bytes_sent += other.bytes_sent;
        self.super_datagrams_sent += other.super_datagrams_sent;
        self.super_datagrams_split += other.super_datagrams_split;
        self.segmentation_fallbacks += other.segmentation_fallbacks;
        self.receive_calls += other.receive_calls;
        self.datagrams_received += other.datagrams_received;
        self.bytes_received += other.bytes_received;
        self.super_datagrams_received += other.super_datagrams_received;
        self.datagrams_truncated += other.datagrams_truncated;
        self.kernel_drops += other.kernel_drops;
        self.pool_exhaustions += other.pool_exhaustions;
        self.receive_errors += other.receive_errors;
        self.send_errors += other.send_errors;
    }
}

impl AddAssign for SendErrors {
    fn add_assign(&mut self, other: Self) {
        self.would_block += other.would_block;
        self.refused += other.refused;
        self.unreachable += other.unreachable;
        self.too_large += other.too_large;
        self.no_buffers += other.no_buffers;
        self.forbidden += other.forbidden;
        self.unresolved += other.unresolved;
        self.other += other.other;
    }
}

/// The atomics behind [`Statistics`].
///
/// Each counter is independent of the others and orders no other access, hence relaxed throughout. The two directions
/// are in separate cache lines, because usually different threads send and receive.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) sent: SendCounters,
    pub(super) received: ReceiveCounters,
}

#[derive(Default)]
#[repr(align(128))]
pub(super) struct SendCounters {
    pub(super) calls: AtomicU64,
    pub(super) datagrams: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) super_datagrams: AtomicU64,
    pub(super) split: AtomicU64,
    pub(super) fallbacks: AtomicU64,
    would_block: AtomicU64,
    refused: AtomicU64,
    unreachable: AtomicU64,
    too_large: AtomicU64,
    no_buffers: AtomicU64,
    forbidden: AtomicU64,
    pub(super) unresolved: AtomicU64,
    other: AtomicU64,
}

#[derive(Default)]
#[repr(align(128))]
pub(super) struct ReceiveCounters {
    pub(super) calls: AtomicU64,
    pub(super) datagrams: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) super_datagrams: AtomicU64,
    pub(super) truncated: AtomicU64,
    pub(super) kernel_drops: AtomicU64,
    pub(super) exhaustions: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Relaxed);
}

impl SendCounters {
    /// Counts one datagram or super-datagram that was not sent.
    pub(super) fn count_error(&self, error: &io::Error) {
        let counter = match error.raw_os_error() {
            Some(libc::EAGAIN) => &self.would_block,
            Some(libc::ECONNREFUSED) => &self.refused,
            Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN | libc::EHOSTDOWN | libc::EADDRNOTAVAIL) => {
                &self.unreachable
            }
            Some(libc::EMSGSIZE) => &self.too_large,
            Some(libc::ENOBUFS | libc::ENOMEM) => &self.no_buffers,
            Some(libc::EPERM | libc::EACCES) => &self.forbidden,
            _ => &self.other,
        };
        add(counter, 1);
    }
}

impl ReceiveCounters {
    /// Adopts the kernel's count of drops, which has 32 bits and wraps.
    pub(super) fn update_kernel_drops(&self, kernel_count: u32) {
        let widen = |known: u64| {
            let news = kernel_count.wrapping_sub(known as u32);
            // A stale reading must not look like four billion new drops.
            (news < 1 << 31).then(|| known.wrapping_add(u64::from(news)))
        };
        // `Err` means that the reading is not newer.
        let _ = self.kernel_drops.fetch_update(Relaxed, Relaxed, widen);
    }
}

impl Counters {
    pub(super) fn snapshot(&self) -> Statistics {
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        let Self { sent, received } = self;
        Statistics {
            send_calls: load(&sent.calls),
            datagrams_sent: load(&sent.datagrams),
            bytes_sent: load(&sent.bytes),
            super_datagrams_sent: load(&sent.super_datagrams),
            super_datagrams_split: load(&sent.split),
            segmentation_fallbacks: load(&sent.fallbacks),
            receive_calls: load(&received.calls),
            datagrams_received: load(&received.datagrams),
            bytes_received: load(&received.bytes),
            super_datagrams_received: load(&received.super_datagrams),
            datagrams_truncated: load(&received.truncated),
            kernel_drops: load(&received.kernel_drops),
            pool_exhaustions: load(&received.exhaustions),
            receive_errors: load(&received.errors),
            send_errors: SendErrors {
                would_block: load(&sent.would_block),
                refused: load(&sent.refused),
                unreachable: load(&sent.unreachable),
                too_large: load(&sent.too_large),
                no_buffers: load(&sent.no_buffers),
                forbidden: load(&sent.forbidden),
                unresolved: load(&sent.unresolved),
                other: load(&sent.other),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_has_its_reason() {
        let counters = Counters::default();
        for errno in
            [libc::EAGAIN, libc::ECONNREFUSED, libc::ENETUNREACH, libc::EMSGSIZE, libc::ENOBUFS, libc::EPERM, libc::EIO]
        {
            counters.sent.count_error(&io::Error::from_raw_os_error(errno));
        }
        let expected = SendErrors {
            would_block: 1,
            refused: 1,
            unreachable: 1,
            too_large: 1,
            no_buffers: 1,
            forbidden: 1,
            unresolved: 0,
            other: 1,
        };
        assert_eq!(counters.snapshot().send_errors, expected);
        assert_eq!(expected.total(), 7);
    }

    #[test]
    fn kernel_drops_survive_wrapping_and_late_readings() {
        let received = ReceiveCounters::default();
        received.update_kernel_drops(u32::MAX);
        assert_eq!(received.kernel_drops.load(Relaxed), 0, "half the range or more is not news");
        received.kernel_drops.store(u64::from(u32::MAX), Relaxed);
        received.update_kernel_drops(4);
        assert_eq!(received.kernel_drops.load(Relaxed), u64::from(u32::MAX) + 5);
        received.update_kernel_drops(2);
        assert_eq!(received.kernel_drops.load(Relaxed), u64::from(u32::MAX) + 5);
    }
}
