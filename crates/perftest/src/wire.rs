//! What went over the sockets.

use peregrine_report::record::WireUse;

use crate::messaging::WireCounter;
use crate::resources::socket_drops;

/// Reads the counters of whatever carries the samples; for plain sockets it knows them from the samples.
pub(crate) struct WireMeter {
    counter: Option<WireCounter>,
    path: Vec<String>,
    sample_len: u64,
}

impl WireMeter {
    /// `path` is what is known of the path besides. Samples are of `sample_len` octets on a plain socket.
    pub(crate) fn new(counter: Option<WireCounter>, path: Vec<String>, sample_len: usize) -> Self {
        Self { counter, path, sample_len: sample_len as u64 }
    }

    /// Everything so far. `sent` and `received` are the caller's samples: plain sockets make one datagram and one system
    /// call of each.
    pub(crate) fn read(&self, sent: u64, received: u64) -> WireUse {
        let mut wire = self.counter.as_ref().map_or_else(
            || WireUse {
                send_calls: sent,
                receive_calls: received,
                datagrams_sent: sent,
                datagrams_received: received,
                bytes_sent: sent * self.sample_len,
                bytes_received: received * self.sample_len,
                ..WireUse::default()
            },
            |counter| counter(),
        );
        // The kernel's own count covers the sockets of both.
        wire.kernel_drops = wire.kernel_drops.max(socket_drops());
        wire.path.splice(0..0, self.path.iter().cloned());
        wire
    }
}

/// What sockets carry during one measurement after the other, where somebody counts.
pub(crate) struct WireSpan {
    meter: Option<WireMeter>,
    before: WireUse,
}

impl WireSpan {
    /// `name` is that of what carries the samples.
    pub(crate) fn new(counter: Option<WireCounter>, name: String) -> Self {
        let meter = counter.map(|counter| WireMeter::new(Some(counter), vec![name], 0));
        let mut span = Self { meter, before: WireUse::default() };
        span.begin();
        span
    }

    /// Begins a measurement.
    pub(crate) fn begin(&mut self) {
        self.before = self.meter.as_ref().map_or_else(WireUse::default, |meter| meter.read(0, 0));
    }

    /// What was carried since it began.
    pub(crate) fn spent(&self) -> Option<WireUse> {
        Some(spent(&self.before, self.meter.as_ref()?.read(0, 0)))
    }
}

/// What was used between two readings; the path is that of the later one.
pub(crate) fn spent(before: &WireUse, after: WireUse) -> WireUse {
    WireUse {
        send_calls: after.send_calls.saturating_sub(before.send_calls),
        receive_calls: after.receive_calls.saturating_sub(before.receive_calls),
        datagrams_sent: after.datagrams_sent.saturating_sub(before.datagrams_sent),
        datagrams_received: after.datagrams_received.saturating_sub(before.datagrams_received),
        bytes_sent: after.bytes_sent.saturating_sub(before.bytes_sent),
        bytes_received: after.bytes_received.saturating_sub(before.bytes_received),
        kernel_drops: after.kernel_drops.saturating_sub(before.kernel_drops),
        send_errors: after.send_errors.saturating_sub(before.send_errors),
        repairs: after.repairs.map(|repairs| repairs.saturating_sub(before.repairs.unwrap_or(0))),
        ..after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_sockets_are_known_from_the_samples_and_others_are_asked() {
        let raw = WireMeter::new(None, vec!["raw".into()], 100);
        let used = spent(&raw.read(3, 1), raw.read(10, 4));
        assert_eq!((used.datagrams_sent, used.receive_calls, used.bytes_sent), (7, 3, 700));
        assert_eq!(used.path, ["raw"]);
        let counter = || WireUse { send_calls: 5, repairs: Some(7), path: vec!["port".into()], ..WireUse::default() };
        let counted = WireMeter::new(Some(Box::new(counter)), vec!["dds".into()], 100).read(10, 10);
        assert_eq!((counted.send_calls, counted.datagrams_sent), (5, 0));
        assert_eq!(counted.path, ["dds", "port"]);
        let earlier = WireUse { repairs: Some(2), ..WireUse::default() };
        assert_eq!((spent(&earlier, counted).repairs, used.repairs), (Some(5), None));
    }

    #[test]
    fn a_span_tells_what_was_carried_since_it_began_or_nothing() {
        let calls = std::sync::atomic::AtomicU64::new(0);
        let counter = move || WireUse {
            send_calls: calls.fetch_add(10, std::sync::atomic::Ordering::Relaxed),
            ..WireUse::default()
        };
        let mut span = WireSpan::new(Some(Box::new(counter)), "dds".into());
        assert_eq!(span.spent().unwrap().send_calls, 10);
        span.begin();
        assert_eq!(span.spent().unwrap().send_calls, 10);
        assert!(WireSpan::new(None, "raw".into()).spent().is_none());
    }
}
