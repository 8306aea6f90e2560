//! Properties of the link of a lab.

use std::fmt;

/// Bytes of a frame on a cable outside the packet: preamble, checksum and gap.
pub(super) const UNSEEN_LEN: u32 = 24;
/// Bytes of a frame header.
const HEADER_LEN: u64 = 14;
/// Delay of a kernel timer, in microseconds, that does not slow the link below its rate.
const TIMER_SLACK_US: u64 = 200;
/// Bytes that may wait for the link. More than the send buffers of several sockets, so that a sender blocks on its own
/// buffer: a full queue drops silently.
pub(super) const QUEUE_LEN: u64 = 4 << 20;

/// Rate, loss and largest packet of the link, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(super) struct Link {
    /// Rate of the link: 100mbit, 1gbit, any number with kbit, mbit or gbit, or unlimited
    #[arg(long = "link", value_name = "RATE", default_value = "unlimited", value_parser = rate)]
    pub(super) rate: LinkRate,
    /// Share of the packets that are lost in each direction, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = loss)]
    pub(super) loss: Loss,
    /// Largest IP packet in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    pub(super) mtu: u32,
}

/// Bits per second of frames on the cable; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkRate(pub(super) Option<u64>);

/// Lost packets in a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loss(pub(super) u32);

impl Link {
    /// Bytes that may leave at once. On a cable this is one frame; a token bucket needs two, plus the bytes that pass
    /// while a timer is late. With more, whole samples would pass unlimited.
    pub(super) fn burst_len(&self, bits_per_s: u64) -> u64 {
        let frame_len = u64::from(self.mtu) + HEADER_LEN + u64::from(UNSEEN_LEN);
        (2 * frame_len).max(bits_per_s / 8 * TIMER_SLACK_US / 1_000_000)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate.0 {
            None => write!(f, "unlimited rate")?,
            Some(bits) => write!(f, "{} Mbit/s", bits as f64 / 1e6)?,
        }
        write!(f, ", {} % of the packets lost each way, MTU {}", f64::from(self.loss.0) / 1e4, self.mtu)
    }
}

fn rate(text: &str) -> Result<LinkRate, String> {
    const UNITS: [(&str, u64); 3] = [("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];
    /// Below the range a token bucket of two frames takes seconds; above it has no effect.
    const RANGE: std::ops::RangeInclusive<f64> = 100e3..=400e9;
    if text == "unlimited" {
        return Ok(LinkRate(None));
    }
    let lower = text.to_ascii_lowercase();
    UNITS
        .iter()
        .find_map(|(unit, factor)| Some(lower.strip_suffix(unit)?.parse::<f64>().ok()? * *factor as f64))
        .filter(|bits| RANGE.contains(bits))
        .map(|bits| LinkRate(Some(bits as u64)))
        .ok_or_else(|| "a rate is 'unlimited', or a number with kbit, mbit or gbit, from 100kbit to 400gbit".into())
}

fn loss(text: &str) -> Result<Loss, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if (0.0..=90.0).contains(&percent) => Ok(Loss((percent * 1e4).round() as u32)),
        _ => Err("a loss is a number from 0 to 90, in percent".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_losses_are_parsed() {
        assert_eq!(rate("unlimited"), Ok(LinkRate(None)));
        assert_eq!(rate("100mbit"), Ok(LinkRate(Some(100_000_000))));
        assert_eq!(rate("2.5Gbit"), Ok(LinkRate(Some(2_500_000_000))));
        for wrong in ["", "mbit", "100", "-1mbit", "0kbit", "nanmbit", "infgbit", "1tbit"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(loss("1%"), Ok(Loss(10_000)));
        assert_eq!(loss("0.0001"), Ok(Loss(1)));
        for wrong in ["", "%", "-1%", "91", "nan"] {
            assert!(loss(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn burst_covers_two_frames_or_200_microseconds() {
        let link = |mtu| Link { rate: LinkRate(None), loss: Loss(0), mtu };
        assert_eq!(link(1500).burst_len(100_000_000), 2 * 1538);
        assert_eq!(link(9000).burst_len(100_000_000), 2 * 9038);
        assert_eq!(link(1500).burst_len(1_000_000_000), 25_000);
    }

    #[test]
    fn link_is_described() {
        let link = Link { rate: LinkRate(Some(100_000_000)), loss: Loss(5_000), mtu: 1500 };
        assert_eq!(link.to_string(), "100 Mbit/s, 0.5 % of the packets lost each way, MTU 1500");
    }
}
