//! The threads that drive the two peers of a run.

use std::fs;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::fault::Network;
use super::log::{Arrival, Log, Report, Written, wall_ns};
use super::setup::{PERIOD, SAMPLE_BYTES, Setup};
use crate::error::{Error, Result};
use crate::lab::NetNs;
use crate::peer::{Participant, Peer, Program, Status, Write};
use crate::qos::{DataType, Qos};

const DOMAIN: u32 = 7;
/// A report of Peregrine that the other side is authenticated.
const AUTHENTICATED: &str = " is authenticated";
const TOPIC: &str = "outage";
/// Every how many turns of its loop a side reports its status.
const WRITER_TURNS_PER_REPORT: u32 = 10;
/// The longest turn of the reader's loop, and so the longest time between two reports.
const TAKE_LIMIT: Duration = Duration::from_millis(100);
/// More than arrive in one turn, so that a turn lasts for its whole time.
const TAKE_COUNT: u32 = 100_000;
/// A run has one of each kind.
const ORDERS: usize = 2;
/// Additional time for answers beyond the length of the outage.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
}

enum Order {
    Kill,
    Restart,
}

/// The process of a side while it runs. The signal is sent under the lock under which the process is reaped, so that
/// its process id cannot belong to another process.
type Running = Arc<Mutex<Option<Pid>>>;

/// A side that runs. The drop ends its process.
pub(super) struct Side {
    orders: Option<SyncSender<Order>>,
    running: Running,
    thread: Option<JoinHandle<()>>,
}

impl Side {
    /// Starts the peer, and the thread that drives it.
    pub(super) fn start(
        role: Role,
        setup: &Setup,
        network: &Arc<Network>,
        length: Duration,
        log: &Arc<Log>,
    ) -> Result<Self> {
        let (program, place) = if role == Role::Writer { (&setup.writer, 0) } else { (&setup.reader, 1) };
        let security = setup.security.as_ref().map(|folders| folders[place].clone());
        let (orders, receiver) = sync_channel(ORDERS);
        let running = Running::default();
        let mut driver = Driver {
            role,
            program: program.clone(),
            participant: Participant { lease_ms: setup.lease_ms, security, ..Participant::default() },
            qos: setup.qos.clone(),
            network: Arc::clone(network),
            grace: length + GRACE,
            log: Arc::clone(log),
            running: Arc::clone(&running),
            orders: receiver,
            tells_reasons: setup.security.is_some() && Program::peregrine().is_ok_and(|own| own == *program),
            reasons: 0,
            authenticated: 0,
            processes: 0,
            next_seq: 1,
        };
        let peer = driver.launch()?;
        let thread = thread::spawn(move || {
            if let Err(error) = driver.drive(peer) {
                driver.log.add(|record| {
                    record.failure.get_or_insert(error.to_string());
                });
            }
        });
        Ok(Self { orders: Some(orders), running, thread: Some(thread) })
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = running.ok_or_else(|| Error::Violated("the process has ended before the outage".to_owned()))?;
        kill_process(pid, signal)
            .map_err(|cause| Error::Start { command: format!("kill {pid:?}"), cause: cause.into() })
    }

    pub(super) fn kill(&self) -> Result<()> {
        self.order(Order::Kill)
    }

    pub(super) fn restart(&self) -> Result<()> {
        self.order(Order::Restart)
    }

    fn order(&self, order: Order) -> Result<()> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent { Ok(()) } else { Err(Error::Violated("a side has ended before the outage".to_owned())) }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the thread of a side has panicked");
        }
    }
}

struct Driver {
    role: Role,
    program: Program,
    participant: Participant,
    qos: Qos,
    network: Arc<Network>,
    grace: Duration,
    log: Arc<Log>,
    running: Running,
    orders: Receiver<Order>,
    /// Whether the peer reports its authentications.
    tells_reasons: bool,
    /// The reports of the present process that were read, and the authentications among them.
    reasons: usize,
    authenticated: u32,
    processes: u32,
    next_seq: u32,
}

impl Driver {
    fn launch(&mut self) -> Result<Peer> {
        let mut peer = Peer::start(&self.program, self.host())?;
        peer.set_grace(self.grace);
        peer.participant(DOMAIN, &self.participant)?;
        match self.role {
            Role::Writer => peer.writer("e", TOPIC, DataType::KeyedSample, &self.qos)?,
            Role::Reader => peer.reader("e", TOPIC, DataType::KeyedSample, &self.qos)?,
        }
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer.pid());
        self.processes += 1;
        (self.reasons, self.authenticated) = (0, 0);
        Ok(peer)
    }

    fn host(&self) -> &NetNs {
        match self.role {
            Role::Writer => &self.network.hosts().a,
            Role::Reader => &self.network.hosts().b,
        }
    }

    /// Runs until the orders end.
    fn drive(&mut self, mut peer: Peer) -> Result<()> {
        let mut due = Instant::now();
        for turn in 0_u32.. {
            match self.orders.try_recv() {
                Ok(Order::Kill) => {
                    self.forget_process();
                    peer.kill()?;
                    let Ok(Order::Restart) = self.orders.recv() else { return Ok(()) };
                    peer = self.launch()?;
                    self.log.add(|record| record.restarted_ns = Some(wall_ns()));
                    due = Instant::now();
                }
                Ok(Order::Restart) | Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => break,
            }
            let result = match self.role {
                Role::Writer => self.write_one(&mut peer, &mut due),
                Role::Reader => self.take_some(&mut peer),
            };
            let result = result.and_then(|()| {
                let is_due = self.role == Role::Reader || turn.is_multiple_of(WRITER_TURNS_PER_REPORT);
                if is_due { self.report(&mut peer) } else { Ok(()) }
            });
            if result.is_err() {
                self.forget_process();
                return result;
            }
        }
        self.forget_process();
        Ok(())
    }

    fn forget_process(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Writes the next sample when it is due. Samples that were due meanwhile are not written later.
    fn write_one(&mut self, peer: &mut Peer, due: &mut Instant) -> Result<()> {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        *due = Instant::now().max(*due + PERIOD);
        let seq = self.next_seq;
        self.next_seq += 1;
        let from_ns = wall_ns();
        let write = Write { key: 1, first_seq: seq, size_bytes: SAMPLE_BYTES, count: 1, period_us: 0 };
        let is_accepted = match peer.write("e", &write) {
            Ok(()) => true,
            Err(Error::Refused { .. }) => false,
            Err(error) => return Err(error),
        };
        let until_ns = wall_ns();
        self.log.add(|record| record.written.push(Written { seq, from_ns, until_ns, is_accepted }));
        Ok(())
    }

    fn take_some(&mut self, peer: &mut Peer) -> Result<()> {
        let samples = peer.take("e", TAKE_COUNT, TAKE_LIMIT)?;
        if let Some(damaged) = samples.iter().find(|sample| !sample.intact) {
            return Err(Error::Violated(format!("damaged sample: {damaged:?}")));
        }
        let valid = samples.iter().filter(|sample| sample.valid);
        let arrivals: Vec<Arrival> =
            valid.map(|sample| Arrival { seq: sample.seq, taken_ns: sample.taken_ns }).collect();
        self.log.add(|record| record.arrivals.extend(arrivals));
        Ok(())
    }

    fn report(&mut self, peer: &mut Peer) -> Result<()> {
        if self.tells_reasons {
            let reasons = peer.reasons_from(self.reasons)?;
            self.reasons += reasons.len();
            let authentications = reasons.iter().filter(|reason| reason.contains(AUTHENTICATED)).count();
            self.authenticated += u32::try_from(authentications).unwrap_or(u32::MAX);
        }
        let status = peer.status("e")?;
        let at_ns = wall_ns();
        let resident_kib = resident_kib(peer.pid())?;
        let Status { matched, matched_total, sample_lost, stalled, .. } = status;
        let (process, authenticated) = (self.processes, self.authenticated);
        let report =
            Report { at_ns, matched, matched_total, sample_lost, stalled, resident_kib, process, authenticated };
        self.log.add(|record| match self.role {
            Role::Writer => record.writer.push(report),
            Role::Reader => record.reader.push(report),
        });
        Ok(())
    }
}

/// The resident memory of a process.
fn resident_kib(pid: Pid) -> Result<u64> {
    let file = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = fs::read_to_string(&file).map_err(|cause| Error::Start { command: file.clone(), cause })?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok());
    number.ok_or_else(|| Error::Violated(format!("no VmRSS in {file}")))
}
