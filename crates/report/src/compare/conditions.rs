//! The settings under which two series are compared.

use serde::Serialize;

use crate::numbers::count_text;
use crate::record::{Case, Measurement, Publishing};
use crate::table::{Row, asked_rate, layout_of_case};

/// Settings of a measurement besides its series, kind and size.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Conditions {
    /// The case of a campaign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<Box<Case>>,
    /// Samples per second of the schedule, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
}

impl Conditions {
    pub(super) fn of(measurement: &Measurement) -> Self {
        Self { case: measurement.case.clone(), rate_per_s: asked_rate(measurement) }
    }

    pub(crate) fn of_row(row: &Row) -> Self {
        Self { case: row.case.clone().map(Box::new), rate_per_s: row.rate_per_s }
    }

    /// Whether processes, places, rate and wait method are the same, as far as plain sockets have them.
    pub(super) fn has_layout_of(&self, other: &Self) -> bool {
        let layout = |one: &Self| (one.rate_per_s, one.case.as_deref().map(layout_of_case));
        layout(self) == layout(other)
    }

    /// Whether at most the sending thread differs, which not every middleware lets choose.
    pub(super) fn differs_in_thread_only(&self, other: &Self) -> bool {
        let without_thread = |one: &Self| {
            let case = one.case.as_deref().map(|case| Case { publishing: Publishing::default(), ..case.clone() });
            (one.rate_per_s, case)
        };
        without_thread(self) == without_thread(other)
    }

    /// Each setting as text, always in the same order; empty if a record lacks the setting.
    fn texts(&self) -> [String; 8] {
        let of = |text: &dyn Fn(&Case) -> String| self.case.as_deref().map_or_else(String::new, text);
        [
            self.rate_per_s.map_or_else(|| "no fixed rate".into(), |rate| format!("{rate}/s")),
            of(&|case| case.delivery.to_string()),
            of(&|case| case.reliability.to_string()),
            of(&|case| case.publishing.to_string()),
            of(&|case| format!("{} to {}", case.publishers, case.subscribers)),
            of(&|case| count_text(case.topics, "topic", "topics")),
            of(&|case| case.data_type.clone()),
            of(&|case| case.wait.map_or_else(String::new, |wait| format!("wait {wait}"))),
        ]
    }
}

/// For each of these conditions the settings in which any of them differ, each after a comma.
pub(crate) fn varying(all: &[&Conditions]) -> Vec<String> {
    let texts: Vec<[String; 8]> = all.iter().map(|one| one.texts()).collect();
    let varies = |place: usize| texts.windows(2).any(|pair| pair[0][place] != pair[1][place]);
    let places: Vec<usize> = (0..8).filter(|place| varies(*place)).collect();
    let line = |texts: &[String; 8]| {
        let shown = places.iter().filter_map(|place| texts.get(*place)).filter(|text| !text.is_empty());
        shown.map(|text| format!(", {text}")).collect::<String>()
    };
    texts.iter().map(line).collect()
}
