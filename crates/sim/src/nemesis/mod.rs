//! A nemesis: worlds with attacks that begin and end, a time to heal, and checks of what must then hold.
//!
//! A seed determines the world, the schedule of attacks and all faults. `plan` draws them, `attack` begins and ends
//! them, `stage` writes, takes and records a [`trace::Trace`], `watch` looks at memory and stalls meanwhile,
//! `clock_watch` at what depends on time, and `checks` judges the trace.

mod attack;
pub mod checks;
mod clock_watch;
mod forge;
mod kind;
pub mod limits;
pub mod plan;
mod stage;
pub mod trace;
mod watch;

pub use kind::{Forgery, Kind};

use peregrine_rtps::time::Span;

use limits::{HEALING_TIME, HEALTHY, SETTLING_TIME};
use plan::Plan;
use stage::Stage;
use trace::Trace;

/// Plays the world of this seed, and judges it.
///
/// # Errors
/// The guarantees that were broken.
pub fn run(seed: u64) -> Result<Trace, String> {
    run_plan(Plan::draw(seed))
}

/// Plays a world with this plan, and judges it.
///
/// # Errors
/// The guarantees that were broken.
pub fn run_plan(plan: Plan) -> Result<Trace, String> {
    run_plan_within(plan, HEALING_TIME, SETTLING_TIME)
}

/// Plays a world with this plan, with another time to heal after the last attack, and to settle after the probes.
/// Judges it.
///
/// # Errors
/// The guarantees that were broken.
pub fn run_plan_within(plan: Plan, healing: Span, settling: Span) -> Result<Trace, String> {
    let described = format!("{plan:?}");
    let trace = play_within(plan, healing, settling).map_err(|why| format!("{why}\n  {described}"))?;
    let broken = checks::judge(&trace);
    if broken.is_empty() { Ok(trace) } else { Err(format!("{}\n  {described}", broken.join("\n  "))) }
}

/// Plays a world without a judgement at its end.
///
/// # Errors
/// The samples that a reader took and no writer wrote.
pub fn play(plan: Plan) -> Result<Trace, String> {
    play_within(plan, HEALING_TIME, SETTLING_TIME)
}

fn play_within(plan: Plan, healing: Span, settling: Span) -> Result<Trace, String> {
    let attacks = plan.attacks.clone();
    let mut stage = Stage::new(plan);
    let begin = stage.now();
    let mut waiting = attacks.clone();
    let mut active = Vec::new();
    let end = attacks.iter().map(|attack| attack.end).max().unwrap_or(Span::ZERO);
    while stage.now() < begin + end {
        let elapsed = stage.now().since(begin);
        let (due, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|attack| attack.begin <= elapsed);
        waiting = later;
        for attack in due {
            active.push(stage.begin_attack(attack));
        }
        let (over, going): (Vec<_>, Vec<_>) = active.into_iter().partition(|attack| attack.plan.end <= elapsed);
        active = going;
        for attack in over {
            stage.end_attack(attack);
        }
        for attack in &mut active {
            stage.go_on_attacking(attack);
        }
        stage.write_some();
        let step = stage.step();
        stage.pass(step)?;
        stage.take_some()?;
    }
    for attack in active {
        stage.end_attack(attack);
    }
    stage.heal(HEALTHY, healing)?;
    stage.note_matches();
    stage.probe()?;
    stage.settle(settling)?;
    Ok(stage.finish())
}
