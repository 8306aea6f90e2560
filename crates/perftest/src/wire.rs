//! Traffic of the sockets.

use peregrine_report::record::WireUse;

use crate::messaging::WireCounter;
use crate::resources::socket_drops;

/// Reads the counters of the transport and of the kernel.
pub(crate) struct WireMeter {
    counter: WireCounter,
    path: Vec<String>,
}

impl WireMeter {
    /// `path` is what is known of the path besides.
    pub(crate) fn new(counter: WireCounter, path: Vec<String>) -> Self {
        Self { counter, path }
    }

    /// Everything so far.
    pub(crate) fn read(&self) -> WireUse {
        let mut wire = (self.counter)();
        // The kernel's own count covers the sockets of both.
        wire.kernel_drops = wire.kernel_drops.max(socket_drops());
        wire.path.splice(0..0, self.path.iter().cloned());
        wire
    }
}

/// The traffic of consecutive measurements.
pub(crate) struct WireSpan {
    meter: WireMeter,
    before: WireUse,
}

impl WireSpan {
    /// `name` is that of what carries the samples.
    pub(crate) fn new(counter: WireCounter, name: String) -> Self {
        let meter = WireMeter::new(counter, vec![name]);
        Self { before: meter.read(), meter }
    }

    /// Begins a measurement.
    pub(crate) fn begin(&mut self) {
        self.before = self.meter.read();
    }

    /// The traffic since the beginning of the span.
    pub(crate) fn spent(&self) -> WireUse {
        spent(&self.before, self.meter.read())
    }
}

/// The traffic between two readings; the path is that of the later one.
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
    fn path_facts_precede_results() {
        let counter = || WireUse { send_calls: 5, repairs: Some(7), path: vec!["port".into()], ..WireUse::default() };
        let counted = WireMeter::new(Box::new(counter), vec!["dds".into()]).read();
        assert_eq!((counted.send_calls, counted.datagrams_sent), (5, 0));
        assert_eq!(counted.path, ["dds", "port"]);
        let earlier = WireUse { repairs: Some(2), ..WireUse::default() };
        assert_eq!(spent(&earlier, counted).repairs, Some(5));
    }

    #[test]
    fn span_reports_traffic_since_its_start() {
        let calls = std::sync::atomic::AtomicU64::new(0);
        let counter = move || WireUse {
            send_calls: calls.fetch_add(10, std::sync::atomic::Ordering::Relaxed),
            ..WireUse::default()
        };
        let mut span = WireSpan::new(Box::new(counter), "dds".into());
        assert_eq!(span.spent().send_calls, 10);
        span.begin();
        assert_eq!(span.spent().send_calls, 10);
    }
}
