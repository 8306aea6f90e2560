//! Hosts for tests: network namespaces that vanish with their last socket, however the test ends.

use crate::common::patience;
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::interface::{self, Interface};
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace, kept alive by a thread in it.
pub(crate) struct Host {
    thread_id: libc::pid_t,
    jobs: Option<mpsc::SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// A host with only its loopback interface, which is up.
    pub(crate) fn new() -> Self {
        let (jobs, queue) = mpsc::sync_channel::<Job>(16);
        let (tell, told) = mpsc::sync_channel(16);
        let thread = std::thread::spawn(move || {
            // SAFETY: no pointers are involved; only this thread changes its namespace.
            let (result, thread_id) = unsafe { (libc::unshare(libc::CLONE_NEWNET), libc::gettid()) };
            let result = if result == 0 { Ok(thread_id) } else { Err(std::io::Error::last_os_error()) };
            tell.send(result).unwrap();
            queue.into_iter().for_each(|job| job());
        });
        let thread_id = told.recv().unwrap().unwrap_or_else(|error| {
            panic!("this test makes network namespaces, which needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN): {error}")
        });
        let host = Self { thread_id, jobs: Some(jobs), thread: Some(thread) };
        host.ip("link set lo up multicast on");
        host
    }

    /// Runs `job` on this host; sockets that it opens stay there.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::sync_channel(16);
        let job = move || drop(tell.send(job()));
        self.jobs.as_ref().unwrap().send(Box::new(job)).expect("the host's thread has ended by a panic");
        told.recv().expect("the job has panicked on the host's thread")
    }

    /// Runs a command on this host.
    pub(crate) fn command(&self, command: &str) {
        let command = command.to_owned();
        let failure = self.run(move || {
            let mut words = command.split(' ');
            let output = Command::new(words.next().unwrap()).args(words).output();
            let output = output.unwrap_or_else(|error| panic!("{command} (Debian package iproute2): {error}"));
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            (!output.status.success()).then(|| format!("{command}: {text}"))
        });
        assert_eq!(failure, None);
    }

    pub(crate) fn ip(&self, arguments: &str) {
        self.command(&format!("ip {arguments}"));
    }

    /// Two hosts joined by a cable of MTU 1500: 10.77.0.1 and fd77::1 here, 10.77.0.2 and fd77::2 there.
    pub(crate) fn pair() -> (Self, Self) {
        let (here, there) = (Self::new(), Self::new());
        here.ip(&format!("link add veth0 mtu 1500 type veth peer name veth0 mtu 1500 netns {}", there.thread_id));
        for (host, number) in [(&here, 1), (&there, 2)] {
            host.ip(&format!("address add 10.77.0.{number}/24 dev veth0"));
            host.ip(&format!("address add fd77::{number}/64 dev veth0 nodad"));
            host.ip("link set veth0 up");
        }
        here.await_link("veth0");
        there.await_link("veth0");
        (here, there)
    }

    /// Waits until an interface is connected and has its IPv6 multicast route: the kernel does both in its own time,
    /// and until then drops what arrives.
    pub(crate) fn await_link(&self, name: &'static str) {
        let multicast = move |line: &str| line.starts_with("ff00") && line.ends_with(name);
        let routes = || std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap();
        let ready = move || routes().lines().any(multicast);
        let deadline = patience();
        while !(self.interface(name).flags.running && self.run(ready)) {
            assert!(MonotonicNs::now() < deadline, "{name} is not connected");
            std::thread::yield_now();
        }
    }

    /// The interface of this name.
    pub(crate) fn interface(&self, name: &'static str) -> Interface {
        let all = self.run(|| interface::list().unwrap());
        all.into_iter().find(|interface| interface.name == name).expect("the interface was just created")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // `run` has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
