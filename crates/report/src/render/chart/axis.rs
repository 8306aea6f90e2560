//! Conversion of values to coordinates, and places of ticks.

/// Spacing of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::render) enum Scale {
    /// From zero.
    Linear,
    /// By decades.
    Logarithmic,
}

/// Range and ticks of an axis.
#[derive(Debug, Clone)]
pub(in crate::render) struct Axis {
    pub(in crate::render) title: String,
    pub(in crate::render) scale: Scale,
    /// Values with a tick; computed if empty.
    pub(in crate::render) ticks: Vec<(f64, String)>,
}

/// Converts values to coordinates.
pub(super) struct Projection {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Projection {
    pub(super) fn new(axis: &Axis, values: &[f64], from: f64, to: f64) -> Self {
        let highest = values.iter().copied().fold(0.0_f64, f64::max);
        let lowest = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let (low, high, ticks) = match axis.scale {
            _ if highest <= 0.0 => (0.1, 1.0, Vec::new()),
            Scale::Linear => {
                let step = nice_step(highest / 6.0);
                let high = highest * 1.04;
                let count = (high / step).floor() as u32;
                (0.0, high, (0..=count).map(|tick| f64::from(tick) * step).map(labelled).collect())
            }
            Scale::Logarithmic => {
                let (low, high) =
                    if axis.ticks.is_empty() { log_bounds(lowest, highest) } else { (lowest / 1.15, highest * 1.15) };
                (low, high, log_ticks(low, high))
            }
        };
        let ticks = if axis.ticks.is_empty() { ticks } else { axis.ticks.clone() };
        Self { scale: axis.scale, low, high, from, to, ticks }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    pub(super) fn holds(&self, value: f64) -> bool {
        (self.low * 0.999..=self.high * 1.001).contains(&value)
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step * 0.999).unwrap_or(10.0);
    factor * power
}

/// Bounds at 1, 2 or 5 times a power of ten, at least a factor of ten apart so that small differences look small.
fn log_bounds(lowest: f64, highest: f64) -> (f64, f64) {
    let floor_step = |value: f64| {
        let power = 10_f64.powf(value.log10().floor());
        let factor = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power <= value * 1.001).unwrap_or(1.0);
        factor * power
    };
    let low = floor_step(lowest);
    (low, nice_step(highest).max(low * 10.0))
}

fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let factors: &[f64] = if high / low > 2_000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
        .filter(|value| (low * 0.999..=high * 1.001).contains(value))
        .map(labelled)
        .collect()
}

fn labelled(value: f64) -> (f64, String) {
    (value, short(value))
}

/// At most four characters or so: 0.5, 20, 3k, 1.5M.
pub(in crate::render) fn short(value: f64) -> String {
    let (scaled, suffix) = match value {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.2}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(nice_step(0.9), 1.0);
        assert_eq!(nice_step(23.0), 50.0);
        assert_eq!(log_bounds(3.1, 48.0), (2.0, 50.0));
        let labels: Vec<_> = log_ticks(2.0, 50.0).into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["2", "5", "10", "20", "50"]);
        assert_eq!([short(0.5), short(1500.0), short(2e6), short(63.0)], ["0.5", "1.5k", "2M", "63"]);
    }

    #[test]
    fn values_land_inside_the_frame() {
        let axis = |scale| Axis { title: String::new(), scale, ticks: Vec::new() };
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let projection = Projection::new(&axis(scale), &[3.0, 47.0, 1000.0], 300.0, 20.0);
            for value in [3.0, 47.0, 1000.0] {
                assert!((20.0..=300.0).contains(&projection.at(value)), "{scale:?} {value}");
            }
            assert!(projection.at(1000.0) < projection.at(3.0));
        }
    }
}
