//! Cores, priorities and memory of the threads of this process.

use rustix::mm::MlockAllFlags;
use rustix::thread::CpuSet;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::cli::option::Priority;
use crate::error::Error;
use crate::plan::ThreadPlan;

/// `SCHED_FIFO` priorities of `h`, `n` and `l`.
const HIGH: u8 = 80;
const NORMAL: u8 = 50;
const LOW: u8 = 20;

/// Kind of a thread, which selects its settings in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadKind {
    /// The thread that sends.
    Main,
    /// A thread that receives.
    Receive,
}

/// Applies the settings of the whole process. Called once, before other threads exist.
pub fn apply_to_process(plan: &ThreadPlan) -> Result<(), Error> {
    if plan.pin_memory {
        rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|error| {
            Error::Setup(format!("-pinMemory: cannot lock memory: {error}. Run as root, or raise 'ulimit -l'."))
        })?;
    }
    apply_to_current_thread(plan, ThreadKind::Main)
}

/// Binds the calling thread to its cores and sets its priority.
pub fn apply_to_current_thread(plan: &ThreadPlan, kind: ThreadKind) -> Result<(), Error> {
    if let Some(affinity) = &plan.affinity {
        let cores = match kind {
            ThreadKind::Main => &affinity.main,
            ThreadKind::Receive => &affinity.receive,
        };
        bind_current_thread(cores).map_err(|text| Error::Setup(format!("-threadCPUAffinity: {text}")))?;
    }
    if let Some(priorities) = plan.priorities {
        let priority = match kind {
            ThreadKind::Main => priorities.main,
            ThreadKind::Receive => priorities.receive,
        };
        set_current_thread_priority(priority)?;
    }
    Ok(())
}

/// A core for each side, on different physical cores if possible.
pub(crate) fn two_cores(allowed: &[usize]) -> Option<(usize, usize)> {
    let first = *allowed.first()?;
    let siblings = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list"))
        .unwrap_or_default();
    let is_sibling = |core: &usize| siblings.trim().split([',', '-']).any(|sibling| sibling == core.to_string());
    let others = &allowed[1..];
    let second = others.iter().find(|core| !is_sibling(core)).or_else(|| others.first())?;
    Some((first, *second))
}

/// Binds the calling thread, and threads that it will start, to these cores; an empty list binds to none.
pub(crate) fn bind_current_thread(cores: &[usize]) -> Result<(), String> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| format!("cannot use the cores {cores:?}: {error}; this machine has {}", online_cores_text()))
}

/// The `SCHED_FIFO` priority of this name or number.
pub fn priority_number(priority: Priority) -> u8 {
    match priority {
        Priority::Number(number) => number,
        Priority::High => HIGH,
        Priority::Normal => NORMAL,
        Priority::Low => LOW,
    }
}

/// Checks on a temporary thread whether receive threads can have their cores and priority.
pub fn check_receive_threads(plan: &ThreadPlan) -> Result<(), Error> {
    if plan.affinity.is_none() && plan.priorities.is_none() {
        return Ok(());
    }
    let plan = plan.clone();
    let tried = std::thread::spawn(move || apply_to_current_thread(&plan, ThreadKind::Receive)).join();
    tried.unwrap_or_else(|_| Err(Error::Setup("The settings of receive threads could not be tried".into())))
}

fn set_current_thread_priority(priority: Priority) -> Result<(), Error> {
    let number = priority_number(priority);
    let value = ThreadPriorityValue::try_from(number)
        .map_err(|error| Error::Setup(format!("-threadPriorities: {number}: {error}")))?;
    set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Crossplatform(value),
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    )
    .map_err(|error| {
        Error::Setup(format!(
            "-threadPriorities: cannot use the real-time priority {number}: {error:?}. Run as root, or raise 'ulimit -r'."
        ))
    })
}

/// Cores that the calling thread may use.
pub fn allowed_cores() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Number of cores of the machine, whether or not this process may use them.
pub fn online_cores() -> usize {
    let count = |range: &str| -> Option<usize> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?).map(|distance| distance + 1)
    };
    let counted: Option<usize> = online_cores_text().split(',').map(count).sum();
    counted.filter(|cores| *cores > 0).unwrap_or(1)
}

fn online_cores_text() -> String {
    std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_gets_its_core() {
        assert_eq!(two_cores(&[]), None);
        assert_eq!(two_cores(&[0]), None);
        assert_eq!(two_cores(&[4000, 4001]), Some((4000, 4001)));
    }
    use crate::cli::option::ThreadAffinity;

    #[test]
    fn thread_moves_to_its_cores() {
        let core = allowed_cores()[0];
        let affinity = ThreadAffinity { receive: vec![core], ..ThreadAffinity::default() };
        let plan = ThreadPlan { affinity: Some(affinity), ..ThreadPlan::default() };
        std::thread::spawn(move || {
            let before = allowed_cores();
            apply_to_current_thread(&plan, ThreadKind::Main).unwrap();
            assert_eq!(allowed_cores(), before);
            apply_to_current_thread(&plan, ThreadKind::Receive).unwrap();
            assert_eq!(allowed_cores(), [core]);
        })
        .join()
        .unwrap();
        assert!(online_cores() >= 1);
    }

    #[test]
    fn missing_core_is_named() {
        let affinity = ThreadAffinity { main: vec![1023], ..ThreadAffinity::default() };
        let plan = ThreadPlan { affinity: Some(affinity), ..ThreadPlan::default() };
        let error = std::thread::spawn(move || apply_to_current_thread(&plan, ThreadKind::Main)).join().unwrap();
        assert!(
            matches!(error, Err(Error::Setup(text)) if text.contains("-threadCPUAffinity") && text.contains("1023"))
        );
    }
}
