//! The judgement of a measurement.

use std::time::Duration;

use anyhow::Result;

use crate::attacks::Attack;
use crate::conditions::Conditions;
use crate::limits::{
    Actor, Failure, GIVE_UP_AFTER, GROWTH_MAX_BYTES, Limit, NEWCOMER_AFTER_MAX, NEWCOMER_DELAY_MAX, RATIO_MAX,
    WHOLE_AFTER_MAX,
};
use crate::measure::{Measured, measure};
use crate::newcomer::Arrival;

/// The limits of a run. Tests set lower ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// See [`RATIO_MAX`].
    pub(crate) ratio: f64,
    /// Whether bytes that the victim owes by QoS and credits are not counted: otherwise each attack has at least
    /// [`FREE_BYTES`].
    pub(crate) deducts_entitled: bool,
    /// See [`GROWTH_MAX_BYTES`].
    pub(crate) growth_bytes: u64,
    /// See [`WHOLE_AFTER_MAX`].
    pub(crate) whole_after: Duration,
    /// Whether victim and honest peer use DDS Security, so that no message of an attacker may have an effect.
    pub(crate) is_secured: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ratio: RATIO_MAX,
            deducts_entitled: true,
            growth_bytes: GROWTH_MAX_BYTES,
            whole_after: WHOLE_AFTER_MAX,
            is_secured: false,
        }
    }
}

impl Limits {
    /// The limits that a measurement passes.
    pub(crate) fn passed(&self, may_cost_samples: bool, measured: &Measured) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut fail = |limit, text| failures.push(Failure { limit, text });
        let ratio = measured.ratio(self.deducts_entitled);
        if ratio > self.ratio {
            fail(Limit::Ratio, format!("{ratio:.1} bytes came back for each byte, at most {} may", self.ratio));
        }
        let growth = measured.growth_bytes();
        if growth > self.growth_bytes {
            let (growth, most) = (growth >> 10, self.growth_bytes >> 10);
            fail(Limit::Memory, format!("the victim grew by {growth} KiB, at most by {most} KiB it may"));
        }
        match measured.whole_after() {
            None => fail(Limit::Recovery, format!("the flow was not whole again after {GIVE_UP_AFTER:?}")),
            Some(after) if after > self.whole_after => {
                let text = format!("the flow was whole again after {after:.1?}, the limit is {:.1?}", self.whole_after);
                fail(Limit::Recovery, text);
            }
            Some(_) => {}
        }
        let lost = measured.lost();
        if lost > 0 && (self.is_secured || !may_cost_samples) {
            fail(Limit::Loss, format!("{lost} samples of the honest pair are lost"));
        }
        if !measured.is_acknowledged() {
            fail(Limit::Acknowledgement, "samples of the flow stayed unacknowledged".to_owned());
        }
        if let Some(arrival) = measured.newcomer {
            failures.extend(delays(&arrival));
        }
        if self.is_secured {
            failures.extend(intrusions(measured));
        }
        failures
    }
}

/// The delays of a newcomer that pass a limit.
fn delays(arrival: &Arrival) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut fail = |limit, text| failures.push(Failure { limit, text });
    let most = arrival.alone + NEWCOMER_DELAY_MAX;
    match arrival.beside {
        None => fail(Limit::Newcomer, "a newcomer exchanged no sample with the victim".to_owned()),
        Some(time) if time > most => {
            fail(Limit::Newcomer, format!("a newcomer took {time:.1?}, the limit is {most:.1?}"));
        }
        Some(_) => {}
    }
    if arrival.beside.is_none() || arrival.after > NEWCOMER_AFTER_MAX {
        let text = format!(
            "after the attack, a newcomer waited for {:.1?}, the limit is {NEWCOMER_AFTER_MAX:.1?}",
            arrival.after
        );
        fail(Limit::LateNewcomer, text);
    }
    failures
}

/// The effects of an attacker on a secured victim.
fn intrusions(measured: &Measured) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut fail = |limit, text| failures.push(Failure { limit, text });
    let Measured { strange_matches, peer_matches, healed, foreign, .. } = *measured;
    if strange_matches > 0 {
        fail(Limit::Admission, format!("an unauthenticated participant matched {strange_matches} endpoints"));
    }
    if peer_matches < 2 {
        fail(Limit::Effect, format!("the honest peer kept {peer_matches} of its 2 matches"));
    }
    if healed > 0 {
        fail(Limit::Effect, format!("{healed} forged messages had an effect until the victim noticed them"));
    }
    if foreign > 0 {
        fail(
            Limit::Effect,
            format!("the readers of the flow took {foreign} samples that the honest pair did not write"),
        );
    }
    failures
}

/// Measurements of an attack of which each passes limits of time only, before the last one counts: the machine may be
/// busy for a while.
const TRIES: u32 = 5;

/// Measures an attack, and again while only limits of time are passed that are no known misses.
pub(crate) fn measure_fairly(attack: &Attack, conditions: &Conditions, limits: &Limits) -> Result<Measured> {
    let of_time = [Limit::Recovery, Limit::Acknowledgement, Limit::Newcomer, Limit::LateNewcomer];
    // The victim believes forged terms that the peer does not contradict in time.
    let is_loss_of_time = attack.actor == Actor::Impostor && !limits.is_secured;
    let is_timed =
        |failure: &Failure| of_time.contains(&failure.limit) || is_loss_of_time && failure.limit == Limit::Loss;
    let mut measured = measure(attack, conditions)?;
    let expected = attack.expected_of(limits.is_secured);
    for _ in 1..TRIES {
        let passed = limits.passed(attack.may_cost_samples, &measured);
        if !passed.iter().all(is_timed) || expected.failures(&passed, conditions.duration).is_empty() {
            break;
        }
        measured = measure(attack, conditions)?;
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FREE_BYTES;

    fn limits_of(failures: &[Failure]) -> Vec<Limit> {
        failures.iter().map(|failure| failure.limit).collect()
    }

    #[test]
    fn quiet_measurement_passes_no_limit() {
        assert_eq!(Limits::default().passed(false, &Measured::quiet()), []);
    }

    #[test]
    fn each_damage_passes_its_limit() {
        let of = |change: &dyn Fn(&mut Measured)| {
            let mut measured = Measured::quiet();
            change(&mut measured);
            limits_of(&Limits::default().passed(false, &measured))
        };
        assert_eq!(of(&|m| m.back_bytes = FREE_BYTES + m.entitled_bytes + 11 * m.sent_bytes), [Limit::Ratio]);
        assert_eq!(of(&|m| m.to_peer_bytes = FREE_BYTES + m.entitled_bytes + 11 * m.sent_bytes), [Limit::Ratio]);
        assert_eq!(of(&|m| m.resident_peak_bytes = m.resident_before_bytes + GROWTH_MAX_BYTES + 1), [Limit::Memory]);
        assert_eq!(of(&|m| m.down.lost = 1), [Limit::Loss]);
        assert_eq!(of(&|m| m.up.is_acknowledged = false), [Limit::Acknowledgement]);
        assert_eq!(of(&|m| m.down.whole_after_ns = None), [Limit::Recovery]);
        assert_eq!(of(&|m| m.up.whole_after_ns = Some(1_000_000_001)), [Limit::Recovery]);
    }

    #[test]
    fn newcomer_that_waits_too_long_beside_or_after_an_attack_passes_a_limit() {
        let of = |beside: Option<u64>, after| {
            let (beside, after) = (beside.map(Duration::from_millis), Duration::from_millis(after));
            let arrival = Arrival { alone: Duration::from_millis(5), beside, after };
            let measured = Measured { newcomer: Some(arrival), ..Measured::quiet() };
            limits_of(&Limits::default().passed(false, &measured))
        };
        assert_eq!(of(Some(1_005), 0), []);
        assert_eq!(of(Some(1_006), 0), [Limit::Newcomer]);
        assert_eq!(of(Some(8_000), 3_000), [Limit::Newcomer]);
        assert_eq!(of(Some(8_001), 3_001), [Limit::Newcomer, Limit::LateNewcomer]);
        assert_eq!(of(None, 3_000), [Limit::Newcomer, Limit::LateNewcomer]);
    }

    #[test]
    fn impostor_may_cost_samples() {
        let mut measured = Measured::quiet();
        measured.up.lost = 5;
        assert_eq!(Limits::default().passed(true, &measured), []);
    }

    #[test]
    fn forged_terms_of_the_peer_may_cost_no_sample() {
        let attack = crate::attacks::ATTACKS.iter().find(|attack| attack.name == "forged-terms").unwrap();
        let mut measured = Measured::quiet();
        measured.down.lost = 1;
        assert_eq!(limits_of(&Limits::default().passed(attack.may_cost_samples, &measured)), [Limit::Loss]);
    }

    #[test]
    fn secured_victim_allows_no_effect_of_forged_messages() {
        let of = |change: &dyn Fn(&mut Measured)| {
            let mut measured = Measured::quiet();
            change(&mut measured);
            let limits = |is_secured| Limits { is_secured, ..Limits::default() };
            assert_eq!(limits(false).passed(true, &measured), []);
            limits_of(&limits(true).passed(true, &measured))
        };
        assert_eq!(of(&|_| {}), []);
        assert_eq!(of(&|m| m.up.lost = 1), [Limit::Loss]);
        assert_eq!(of(&|m| m.strange_matches = 1), [Limit::Admission]);
        assert_eq!(of(&|m| m.peer_matches = 1), [Limit::Effect]);
        assert_eq!(of(&|m| m.healed = 1), [Limit::Effect]);
        assert_eq!(of(&|m| m.foreign = 1), [Limit::Effect]);
    }
}
