//! The samples that readers must receive.

use std::collections::BTreeMap;
use std::sync::Mutex;

use peregrine::InstanceState;

use super::plan::{Ending, Kind, Life, Plan, WriterPlan};
use super::stage::Log;
use crate::machines::config::lock;

/// Key and length of each sample of a writer. Writers share no key.
pub(super) fn script(index: u32, plan: &WriterPlan, has_instances: bool) -> Vec<(u32, usize)> {
    let mut rng = fastrand::Rng::with_seed(u64::from(index) << 32 | u64::from(plan.samples));
    (0..plan.samples)
        .map(|_| (if has_instances { index * 8 + rng.u32(..3) } else { 0 }, rng.usize(..=plan.len_max)))
        .collect()
}

/// The last number of each key.
pub(super) fn last_numbers(script: &[(u32, usize)]) -> BTreeMap<u32, u32> {
    script.iter().enumerate().map(|(number, (key, _))| (*key, number as u32)).collect()
}

/// The samples that a reader must receive and has not received.
pub(super) fn missing(plan: &Plan, index: usize, log: &Mutex<Log>) -> Option<String> {
    let reader = &plan.readers[index];
    let topic = plan.topics[reader.topic];
    let log = lock(log);
    // With one instance for all writers, KEEP_LAST replaces samples of others.
    let is_alone = topic.kind == Kind::Keyed || plan.writers_of(reader).count() == 1;
    for (writer, writer_plan) in plan.writers_of(reader).filter(|(_, writer)| plan.is_entitled(reader, writer)) {
        let script = script(writer, writer_plan, topic.kind == Kind::Keyed);
        for (key, last) in last_numbers(&script) {
            let taken = log.numbers.get(&(writer, key)).map_or(&[][..], Vec::as_slice);
            let of_key = script.iter().filter(|(other, _)| *other == key).count();
            let is_there = match topic.depth {
                None => taken.len() >= of_key,
                Some(_) => taken.last() == Some(&last) || !is_alone,
            };
            if !is_there {
                let found = (taken.len(), taken.last());
                return Some(format!(
                    "reader {index} lacks samples of writer {writer}, key {key}: has {found:?} of {of_key}"
                ));
            }
        }
    }
    None
}

/// The instances whose end a reader must observe and has not observed.
pub(super) fn unended(plan: &Plan, index: usize, log: &Mutex<Log>) -> Option<String> {
    let reader = &plan.readers[index];
    let topic = plan.topics[reader.topic];
    if topic.kind != Kind::Keyed || plan.life_of_reader(reader) == Life::Doomed || reader.leaves() {
        return None;
    }
    let log = lock(log);
    for (writer, writer_plan) in plan.writers_of(reader) {
        let is_doomed = plan.life_of_writer(writer_plan) == Life::Doomed;
        if !is_doomed && !plan.is_entitled(reader, writer_plan) {
            continue;
        }
        for key in last_numbers(&script(writer, writer_plan, true)).into_keys() {
            let instance = log.instances.iter().find(|(_, other)| **other == key).map(|(instance, _)| instance);
            let state = instance.and_then(|instance| log.states.get(instance)).copied();
            let has_ended = match writer_plan.ends {
                // A process that crashes leaves its instances without a writer, and does not dispose them.
                _ if is_doomed => state != Some(InstanceState::Alive),
                Ending::Dispose => state == Some(InstanceState::NotAliveDisposed),
                Ending::Leave | Ending::Unregister => state == Some(InstanceState::NotAliveNoWriters),
            };
            if !has_ended {
                return Some(format!(
                    "reader {index}: key {key} of writer {writer} is {state:?} ({:?})",
                    writer_plan.ends
                ));
            }
        }
    }
    None
}
