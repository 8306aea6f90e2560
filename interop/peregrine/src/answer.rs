//! Answers in the form of the protocol.

use serde::Serialize;

/// One sample of the answer to `take`.
#[derive(Serialize)]
pub(crate) struct Taken {
    pub(crate) key: u32,
    pub(crate) seq: u32,
    pub(crate) size: usize,
    pub(crate) intact: bool,
    pub(crate) valid: bool,
    pub(crate) instance: &'static str,
    pub(crate) taken_ns: u64,
}

/// The statuses of a writer or reader.
#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct Status {
    pub(crate) matched: u32,
    pub(crate) matched_total: u32,
    pub(crate) incompatible_qos: u32,
    pub(crate) incompatible_policy: u32,
    pub(crate) alive: u32,
    pub(crate) not_alive: u32,
    pub(crate) deadline_missed: u64,
    pub(crate) liveliness_lost: u64,
    pub(crate) sample_lost: u64,
    pub(crate) stalled: u64,
}

impl Status {
    /// Whether `FIELD OP VALUE` of a `wait` command holds; an unknown field or operator never does.
    pub(crate) fn holds(&self, field: &str, operator: &str, value: u64) -> bool {
        let found = match field {
            "matched" => self.matched.into(),
            "matched_total" => self.matched_total.into(),
            "incompatible_qos" => self.incompatible_qos.into(),
            "incompatible_policy" => self.incompatible_policy.into(),
            "alive" => self.alive.into(),
            "not_alive" => self.not_alive.into(),
            "deadline_missed" => self.deadline_missed,
            "liveliness_lost" => self.liveliness_lost,
            "sample_lost" => self.sample_lost,
            "stalled" => self.stalled,
            _ => return false,
        };
        match operator {
            "=" => found == value,
            ">=" => found >= value,
            _ => false,
        }
    }
}

/// A line of output.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Done {
        ok: bool,
    },
    Greeting {
        ok: bool,
        peer: String,
    },
    Samples {
        ok: bool,
        samples: Vec<Taken>,
    },
    Statuses {
        ok: bool,
        reached: bool,
        #[serde(flatten)]
        status: Status,
    },
    Reason {
        ok: bool,
        reason: Option<String>,
    },
    Refused {
        ok: bool,
        error: String,
    },
}

impl Answer {
    pub(crate) const DONE: Self = Self::Done { ok: true };

    pub(crate) const fn greeting(peer: String) -> Self {
        Self::Greeting { ok: true, peer }
    }

    pub(crate) const fn samples(samples: Vec<Taken>) -> Self {
        Self::Samples { ok: true, samples }
    }

    pub(crate) const fn statuses(status: Status, reached: bool) -> Self {
        Self::Statuses { ok: true, reached, status }
    }

    pub(crate) const fn reason(reason: Option<String>) -> Self {
        Self::Reason { ok: true, reason }
    }

    pub(crate) fn refused(error: &anyhow::Error) -> Self {
        Self::Refused { ok: false, error: format!("{error:#}") }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Status};

    #[test]
    fn condition_with_unknown_field_or_operator_is_false() {
        let status = Status { matched: 2, ..Status::default() };
        assert!(status.holds("matched", "=", 2));
        assert!(status.holds("matched", ">=", 1));
        assert!(!status.holds("matched", "=", 1));
        assert!(!status.holds("mismatched", "=", 0));
        assert!(!status.holds("matched", "<", 3));
    }

    #[test]
    fn answers_are_flat_objects() {
        let line = |answer: &Answer| serde_json::to_string(answer).unwrap();
        assert_eq!(line(&Answer::DONE), r#"{"ok":true}"#);
        assert_eq!(line(&Answer::samples(Vec::new())), r#"{"ok":true,"samples":[]}"#);
        assert!(
            line(&Answer::statuses(Status::default(), false)).starts_with(r#"{"ok":true,"reached":false,"matched":0,"#)
        );
        assert_eq!(line(&Answer::reason(None)), r#"{"ok":true,"reason":null}"#);
        let error = anyhow::anyhow!("a \"quoted\" reason").context("write");
        assert_eq!(line(&Answer::refused(&error)), r#"{"ok":false,"error":"write: a \"quoted\" reason"}"#);
    }
}
