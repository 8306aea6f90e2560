//! Threads: names, CPU affinity, scheduling, locked memory, and CPU idle latency.
//!
//! All functions concern the calling thread, except [`lock_memory`] and [`CpuLatencyGuard`]. The kernel may refuse each
//! of them to an ordinary user; the errors state the missing permission.

use crate::clock::MonotonicNs;
#[cfg(all(target_os = "linux", feature = "simulation"))]
use crate::simulation::Place;
use crate::sys;
use std::ffi::CString;
use std::io::{self, Write as _};
use std::sync::atomic::AtomicBool;
#[cfg(all(target_os = "linux", feature = "simulation"))]
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Starts a thread, on the simulated machine of the calling thread if there is one.
///
/// # Errors
/// The system cannot start another thread.
pub fn spawn(builder: thread::Builder, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    if let Some(machine) = crate::simulation::current() {
        let number = machine.fork();
        return builder.spawn(move || {
            let _member = crate::simulation::Member::begin(machine, number);
            body();
        });
    }
    builder.spawn(body)
}

/// Waits until the thread has ended.
///
/// # Errors
/// The thread has panicked.
pub fn join(thread: JoinHandle<()>) -> thread::Result<()> {
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    if let Some(machine) = crate::simulation::current() {
        let (id, of) = (thread.thread().id(), Arc::clone(&machine));
        machine.block(Place::Elsewhere, None, Arc::new(move || of.has_ended(id)));
    }
    thread.join()
}

/// Whether the thread has ended. Joining it then takes no time.
#[must_use]
pub fn has_ended(thread: &JoinHandle<()>) -> bool {
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    if let Some(machine) = crate::simulation::current() {
        return machine.has_ended(thread.thread().id());
    }
    thread.is_finished()
}

/// Sleeps until `is_woken` is set and the thread unparked, or until `end`; may return earlier.
pub fn park_until(end: MonotonicNs, is_woken: &Arc<AtomicBool>) {
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    if let Some(machine) = crate::simulation::current() {
        let is_woken = Arc::clone(is_woken);
        return machine.block(Place::Elsewhere, Some(end.0), Arc::new(move || is_woken.load(Ordering::SeqCst)));
    }
    let _ = is_woken;
    thread::park_timeout(end.since(MonotonicNs::now()));
}

/// The interval at which a simulated thread checks for changes that another one makes under a lock.
#[cfg(feature = "simulation")]
const WAIT_AGAIN_AFTER_NS: u64 = 100_000;

/// Waits for a notification of `condition`, without the lock; may return earlier.
pub fn wait_for<'m, T>(condition: &Condvar, mutex: &'m Mutex<T>, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    if let Some(machine) = crate::simulation::current() {
        drop(guard);
        let again = machine.monotonic_ns().saturating_add(WAIT_AGAIN_AFTER_NS);
        machine.block(Place::Elsewhere, Some(again), Arc::new(|| false));
        return mutex.lock().unwrap_or_else(PoisonError::into_inner);
    }
    let _ = mutex;
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// How the kernel chooses when a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Fair shares for all (`SCHED_OTHER`).
    Other,
    /// As usual, but a thread that wakes up interrupts no running one (`SCHED_BATCH`).
    Batch,
    /// Before all threads of lower priority, until it waits (`SCHED_FIFO`). Priority 1 to 99.
    Fifo(u8),
    /// As `Fifo`, but threads of equal priority take turns (`SCHED_RR`). Priority 1 to 99.
    RoundRobin(u8),
}

/// Names the calling thread. The system keeps the first 15 bytes.
///
/// # Errors
/// The name contains a zero byte.
pub fn set_name(name: &str) -> io::Result<()> {
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let name = CString::new(name.get(..end).unwrap_or_default())?;
    #[cfg(target_os = "linux")]
    {
        // SAFETY: `name` is a C string; the handle is the calling thread's own.
        let code = unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
        debug_assert_eq!(code, 0, "the name is short enough");
        Ok(())
    }
    #[cfg(target_os = "freebsd")]
    {
        // SAFETY: `name` is a C string; the handle is the calling thread's own.
        unsafe { libc::pthread_set_name_np(libc::pthread_self(), name.as_ptr()) };
        Ok(())
    }
    #[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
    {
        let _ = name;
        Err(io::Error::new(io::ErrorKind::Unsupported, "threads cannot be named on this system"))
    }
}

/// Lets the calling thread run on these CPUs only, numbered from 0.
///
/// # Errors
/// `cpus` is empty or names only CPUs that this host lacks or this process may not use (see `taskset -p`, cpusets).
#[cfg(target_os = "linux")]
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: an array of integers, for which all-zero bytes are a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let limit = libc::CPU_SETSIZE as usize;
    if let Some(cpu) = cpus.iter().find(|&&cpu| cpu >= limit) {
        let reason = format!("CPU {cpu} is beyond the {limit} that can be named");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    for &cpu in cpus {
        // SAFETY: `cpu` is below the size of the set, as just checked.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` lives across the call and its length is passed; 0 is the calling thread.
    sys::check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }).map(drop).map_err(|error| {
        let hint = "the host lacks them or this process may not use them";
        io::Error::new(error.kind(), format!("pinning the thread to CPUs {cpus:?}: {error}; {hint}"))
    })
}

/// Lets the calling thread run on these CPUs only, which this system cannot do.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    let reason = format!("pinning the thread to CPUs {cpus:?}: not possible on this system");
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

/// The CPUs on which the calling thread may run, in ascending order.
///
/// # Errors
/// Errors of `sched_getaffinity`, on hosts of more than 1024 CPUs.
#[cfg(target_os = "linux")]
pub fn affinity() -> io::Result<Vec<usize>> {
    // SAFETY: an array of integers, for which all-zero bytes are a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable and its length is passed; 0 is the calling thread.
    sys::check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })
        .map_err(|error| sys::in_operation("sched_getaffinity", &error))?;
    // SAFETY: `cpu` is below the size of the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Chooses the scheduling of the calling thread.
///
/// # Errors
/// The priority is not 1 to 99, or the process may not use this scheduling.
pub fn set_scheduling(scheduling: Scheduling) -> io::Result<()> {
    let (policy, priority) = match scheduling {
        Scheduling::Other => (libc::SCHED_OTHER, 0),
        Scheduling::Batch => (libc::SCHED_BATCH, 0),
        Scheduling::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Scheduling::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    if matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR) && !(1..=99).contains(&priority) {
        let reason = format!("real-time priority {priority} is not one of 1 to 99");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    // SAFETY: plain integers, for which all-zero bytes are a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority.into();
    // SAFETY: `parameters` lives across the call; the handle is the calling thread's own.
    let code = unsafe { libc::pthread_setschedparam(libc::pthread_self(), policy, &raw const parameters) };
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(code);
    let hint = "needs CAP_SYS_NICE or a limit that allows it (`ulimit -r`, /etc/security/limits.conf: rtprio)";
    Err(io::Error::new(error.kind(), format!("scheduling {scheduling:?} refused: {error}; {hint}")))
}

/// The scheduling of the calling thread.
///
/// # Errors
/// The thread has one that [`Scheduling`] does not name.
pub fn scheduling() -> io::Result<Scheduling> {
    // SAFETY: plain integers, for which all-zero bytes are a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread, and `parameters` lives across the call.
    let (policy, code) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &raw mut parameters)) };
    if policy < 0 || code < 0 {
        return Err(io::Error::last_os_error());
    }
    let priority = u8::try_from(parameters.sched_priority).unwrap_or_default();
    match policy & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => Ok(Scheduling::Other),
        libc::SCHED_BATCH => Ok(Scheduling::Batch),
        libc::SCHED_FIFO => Ok(Scheduling::Fifo(priority)),
        libc::SCHED_RR => Ok(Scheduling::RoundRobin(priority)),
        other => Err(io::Error::new(io::ErrorKind::Unsupported, format!("scheduling policy {other}"))),
    }
}

/// Keeps all memory of the process, present and future, from being swapped out.
///
/// # Errors
/// The process may not lock so much memory.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }).map(drop).map_err(|error| {
        let hint = "needs CAP_IPC_LOCK or a limit that allows it (`ulimit -l`, /etc/security/limits.conf: memlock)";
        io::Error::new(error.kind(), format!("locking the memory of the process: {error}; {hint}"))
    })
}

/// While this value lives, no CPU of the host enters an idle state from which waking takes longer than the given time.
///
/// An idle CPU otherwise takes tens of microseconds to wake; with 0 it does not sleep at all and draws more power.
#[derive(Debug)]
pub struct CpuLatencyGuard {
    // The kernel ends the request when this file is closed.
    _device: std::fs::File,
}

impl CpuLatencyGuard {
    /// Requests wake-ups within `latency_us` microseconds.
    ///
    /// # Errors
    /// The process may not write `/dev/cpu_dma_latency`, or the system lacks it, as all but Linux do.
    pub fn hold(latency_us: i32) -> io::Result<Self> {
        const PATH: &str = "/dev/cpu_dma_latency";
        let hold = || {
            let mut device = std::fs::OpenOptions::new().write(true).open(PATH)?;
            device.write_all(&latency_us.to_ne_bytes())?;
            Ok(Self { _device: device })
        };
        hold().map_err(|error: io::Error| {
            let hint = "only root may write it, unless its owner or mode was changed";
            io::Error::new(
                error.kind(),
                format!("requesting {latency_us} us of CPU wake-up latency in {PATH}: {error}; {hint}"),
            )
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::thread;

    /// Runs `test` on a new thread, whose name, affinity and scheduling end with it.
    fn on_a_thread(test: fn()) {
        thread::spawn(test).join().unwrap();
    }

    #[test]
    fn names_are_cut_at_fifteen_bytes_between_characters() {
        on_a_thread(|| {
            let name = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            set_name("receive").unwrap();
            assert_eq!(name(), "receive\n");
            set_name("abcdefghijklmn\u{fc}p").unwrap();
            assert_eq!(name(), "abcdefghijklmn\n");
            assert!(set_name("a\0b").is_err());
        });
    }

    #[test]
    fn thread_is_pinned_to_an_allowed_cpu() {
        on_a_thread(|| {
            let cpu = affinity().unwrap()[0];
            set_affinity(&[cpu]).unwrap();
            assert_eq!(affinity().unwrap(), [cpu]);
            let error = set_affinity(&[]).unwrap_err().to_string();
            assert!(error.starts_with("pinning the thread to CPUs []"), "{error}");
            assert!(set_affinity(&[1 << 20]).unwrap_err().to_string().contains("1048576"));
        });
    }

    #[test]
    fn scheduling_is_as_set() {
        on_a_thread(|| {
            assert_eq!(scheduling().unwrap(), Scheduling::Other);
            for wanted in [Scheduling::Batch, Scheduling::Other] {
                set_scheduling(wanted).unwrap();
                assert_eq!(scheduling().unwrap(), wanted);
            }
        });
    }

    #[test]
    fn impossible_priorities_are_refused_and_forbidden_ones_explained() {
        on_a_thread(|| {
            assert_eq!(set_scheduling(Scheduling::Fifo(0)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(set_scheduling(Scheduling::RoundRobin(100)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            match set_scheduling(Scheduling::Fifo(1)) {
                Ok(()) => {
                    // SAFETY: asks about the calling thread.
                    assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_FIFO);
                }
                Err(error) => assert!(error.to_string().contains("ulimit -r"), "{error}"),
            }
            set_scheduling(Scheduling::Other).unwrap();
        });
    }

    #[test]
    fn cpu_latency_is_held_or_the_error_states_the_reason() {
        match CpuLatencyGuard::hold(1000) {
            Ok(guard) => drop(guard),
            Err(error) => assert!(error.to_string().contains("/dev/cpu_dma_latency"), "{error}"),
        }
    }
}
