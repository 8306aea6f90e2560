//! `--hosts`: over a real sshd on each of two hosts, with keys made for the test.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use peregrine_interop::{Link, NetNs, TwoHosts};
use peregrine_report::record::Record;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Folder, Outcome, PROGRAM, Process, start_command};
use crate::lab::{PLAN, assert_plan_was_run};
use crate::remaining::{entries, namespace, processes, processes_about, wait_until_gone, words};

const SSHD: &str = "/usr/sbin/sshd";

/// Two hosts on which sshd runs. The program under test runs on the first; ssh knows them as `a` and `b`.
struct Servers {
    hosts: TwoHosts,
    folder: Folder,
    daemons: Vec<Child>,
}

impl Servers {
    fn named(name: &str) -> Self {
        let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
        let folder = Folder::new(name);
        // sshd drops its privileges into this folder.
        fs::create_dir_all("/run/sshd").unwrap();
        for key in ["host", "user", "stranger"] {
            let file = folder.path(key);
            let status = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &file]).status();
            assert!(status.unwrap().success());
        }
        for part in ["here", "far-a", "far-b", "bin"] {
            fs::create_dir(folder.path(part)).unwrap();
        }
        let mut servers = Self { hosts, folder, daemons: Vec::new() };
        servers.write_client_configuration();
        for (name, address) in [("a", TwoHosts::ADDRESSES[0]), ("b", TwoHosts::ADDRESSES[1])] {
            servers.serve(name, address);
        }
        servers
    }

    fn write_client_configuration(&self) {
        let key = fs::read_to_string(self.folder.path("host.pub")).unwrap();
        let stranger = fs::read_to_string(self.folder.path("stranger.pub")).unwrap();
        let [a, b] = TwoHosts::ADDRESSES;
        fs::write(self.folder.path("known"), format!("{a} {key}{b} {key}changed {stranger}")).unwrap();
        let path = |name: &str| self.folder.path(name);
        let lines = [
            "Host *".to_owned(),
            format!(" IdentityFile {}", path("user")),
            " IdentitiesOnly yes".to_owned(),
            format!(" UserKnownHostsFile {}", path("known")),
            " GlobalKnownHostsFile /dev/null".to_owned(),
            " StrictHostKeyChecking yes".to_owned(),
            " User root".to_owned(),
            // A user's interactive configuration must not interfere.
            " RequestTTY force".to_owned(),
            " RemoteCommand tmux".to_owned(),
            " ControlMaster auto".to_owned(),
            format!("Host a\n HostName {a}\nHost b\n HostName {b}"),
            format!("Host refused\n HostName {b}\n Port 9"),
            "Host absent\n HostName 10.83.0.77".to_owned(),
            format!("Host changed\n HostName {b}\n HostKeyAlias changed"),
            format!("Host locked\n HostName {b}\n PubkeyAuthentication no"),
        ];
        fs::write(path("config"), lines.join("\n") + "\n").unwrap();
    }

    fn serve(&mut self, name: &str, address: &str) {
        let path = |name: &str| self.folder.path(name);
        let far = path(&format!("far-{name}"));
        let lines = [
            format!("HostKey {}", path("host")),
            format!("AuthorizedKeysFile {}", path("user.pub")),
            format!("ListenAddress {address}"),
            format!("SetEnv PATH={}:/usr/bin:/bin TMPDIR={far}", path("bin")),
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nUseDNS no\n"
                .to_owned(),
        ];
        let config = path(&format!("sshd-{name}"));
        fs::write(&config, lines.join("\n")).unwrap();
        let host = if name == "a" { &self.hosts.a } else { &self.hosts.b };
        let mut command = host.command(SSHD);
        let mut daemon =
            command.args(["-D", "-e", "-f", &config]).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(daemon.stderr.take().unwrap()).lines();
        let first: Vec<_> = log.by_ref().map_while(Result::ok).take(1).collect();
        self.daemons.push(daemon);
        assert!(first.iter().any(|line| line.contains("Server listening")), "{first:?}");
        // The log must be read, or sshd blocks.
        std::thread::spawn(move || log.for_each(drop));
    }

    /// Starts the program on host a, with these arguments after the command.
    fn start(&self, command: &str, hosts: &str, words: &str) -> Process {
        let mut program = self.hosts.a.command(PROGRAM);
        program.env("TMPDIR", self.folder.path("here"));
        start_command(
            program,
            &format!("{command} --hosts {hosts} --ssh-config {} {words}", self.folder.path("config")),
        )
    }

    fn run(&self, command: &str, words: &str) -> Outcome {
        self.start(command, "a,b", words).finish()
    }

    fn record(&self) -> Record {
        Record::read(BufReader::new(fs::File::open(self.folder.path("out/record.jsonl")).unwrap())).unwrap()
    }

    /// On no host a process but sshd itself, and no file where this program puts them.
    fn assert_nothing_remains(&self) {
        let daemons: BTreeSet<_> =
            self.daemons.iter().map(Child::id).map(|id| PathBuf::from(format!("/proc/{id}"))).collect();
        let networks: Vec<_> = daemons.iter().filter_map(|daemon| namespace(daemon, "net")).collect();
        assert_eq!(networks.len(), 2);
        wait_until_gone("a process on a host", || {
            let is_there =
                |process: &PathBuf| namespace(process, "net").is_some_and(|network| networks.contains(&network));
            let left = processes().into_iter().filter(|process| is_there(process) && !daemons.contains(process));
            left.map(|process| words(&process).join(" ")).collect()
        });
        wait_until_gone("a file", || {
            ["here", "far-a", "far-b"].iter().flat_map(|part| entries(&self.folder.path(part))).collect()
        });
        let config = self.folder.path("config");
        wait_until_gone("a process here", || processes_about(&config));
    }

    /// Puts a program on the path of both hosts.
    fn install(&self, name: &str, script: &str) {
        let file = self.folder.path(&format!("bin/{name}"));
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Ends the processes of the daemon's connections, like a broken network.
fn cut_connections(host: &NetNs, daemon: &Child) {
    let output = Command::new("ip").args(["netns", "pids", host.name()]).output().unwrap();
    let ids =
        String::from_utf8_lossy(&output.stdout).lines().map(|id| id.trim().parse().unwrap()).collect::<Vec<i32>>();
    let is_connection = |id: &i32| {
        *id != daemon.id() as i32
            && words(format!("/proc/{id}").as_ref()).first().is_some_and(|word| word.starts_with("sshd"))
    };
    let connections: Vec<_> = ids.into_iter().filter(is_connection).collect();
    assert!(!connections.is_empty());
    for id in connections {
        let _ = kill_process(Pid::from_raw(id).unwrap(), Signal::KILL);
    }
}

#[test]
fn load_runs_on_hosts_without_installed_program() {
    let servers = Servers::named("ssh-load");
    let out = servers.folder.path("out");
    let outcome = servers.run("load", &format!("--rate 500 --time 300 --size 100 --out {out} -- -keyed"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for line in ["Copying this program to a", "Copying this program to b", "Host a: 10.83.0.1", "Host b: 10.83.0.2"] {
        assert!(outcome.stderr.lines().any(|said| said == line), "{line}: {outcome:?}");
    }
    assert!(outcome.stdout.iter().any(|line| line.contains("round trip from the intended send")), "{outcome:?}");
    let record = servers.record();
    assert!(
        record.header.command_line.iter().any(|word| word == "--hosts") && record.end.is_some_and(|end| end.complete)
    );
    let [measurement] = &record.measurements[..] else { panic!("{:?}", record.measurements) };
    let probes = measurement.publisher.probes.as_ref().unwrap();
    assert!(probes.sent > 0 && probes.answered == probes.sent, "{probes:?}");
    // Both hosts are this machine, which the program detects; otherwise the uncertainty would be printed.
    assert!(measurement.publisher.one_way.as_ref().unwrap().clock.same_clock);
    servers.assert_nothing_remains();
}

#[test]
fn series_and_plans_use_installed_program() {
    let servers = Servers::named("ssh-characterize");
    fs::copy(PROGRAM, servers.folder.path("bin/perftest")).unwrap();
    let out = servers.folder.path("out");
    let outcome = servers.run("characterize", &format!("--quick --repetitions 1 --time 20 --sizes 64 --out {out}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(!outcome.stderr.contains("Copying"), "{outcome:?}");
    let record = servers.record();
    assert_eq!(record.measurements.len(), 8);
    assert!(!record.header.idle_states_disabled, "this machine's cores are not those that measure");
    for series in &record.header.series {
        assert!(series.options.join(" ").contains("-nic 10.83.0.1 -peer 10.83.0.2"), "{series:?}");
    }
    assert!(record.host.interfaces.iter().any(|interface| interface.name == TwoHosts::INTERFACE), "{:?}", record.host);
    fs::remove_dir_all(&out).unwrap();

    let plan = servers.folder.path("plan.toml");
    fs::write(&plan, PLAN).unwrap();
    let outcome = servers.run("run", &format!("{plan} --out {out}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_plan_was_run(&servers.record(), "a and b");
    servers.assert_nothing_remains();
}

#[test]
fn installed_program_of_another_version_is_not_used() {
    let servers = Servers::named("ssh-version");
    servers.install("perftest", "#!/bin/sh\necho perftest 0.0.0\n");
    let outcome = servers.run("load", "--rate 100 --time 50 --size 100 -- -raw");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stderr.contains("Copying this program to b"), "{outcome:?}");

    // A copy does not run on another architecture.
    servers.install("uname", "#!/bin/sh\necho Linux riscv64\n");
    let outcome = servers.run("load", "--rate 100 --time 50 --size 100 -- -raw");
    assert_eq!((outcome.code, outcome.stderr.lines().count()), (255, 1), "{outcome:?}");
    for word in ["Host a: ", "riscv64", "perftest 0.0.0", "install perftest"] {
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
    }
    servers.assert_nothing_remains();
}

#[test]
fn unusable_host_is_named_with_the_remedy() {
    let servers = Servers::named("ssh-failures");
    for (name, word) in [
        ("refused", "is sshd running"),
        ("absent", "cannot be reached"),
        ("changed", "connect once by hand: ssh changed"),
        ("locked", "ssh-copy-id locked"),
        ("nowhere.invalid", "cannot be resolved"),
    ] {
        let outcome = servers.start("load", &format!("{name},b"), "--time 10").finish();
        assert_eq!((outcome.code, outcome.stderr.lines().count()), (255, 1), "{outcome:?}");
        assert!(outcome.stderr.contains(&format!("Host {name}: ")) && outcome.stderr.contains(word), "{outcome:?}");
    }
    // A host that is reachable, with an address that it does not have: its sender does not wait for it.
    let outcome = servers.run("load", "--time 10 --addresses 10.83.0.1,10.83.0.99 -- -discoveryTimeout 3600");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    for word in ["10.83.0.99: no such interface", "The responder failed"] {
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
    }
    // If the second host is not usable, the connection to the first one is closed.
    let outcome = servers.start("load", "a,refused", "--time 10").finish();
    assert!(outcome.code == 255 && outcome.stderr.contains("Host refused: "), "{outcome:?}");
    servers.assert_nothing_remains();
}

/// A load between the hosts that does not end by itself.
fn running(servers: &Servers) -> Process {
    let out = servers.folder.path("out");
    let load = servers.start("load", "a,b", &format!("--rate 200 --time 3000000 --size 100 --out {out}"));
    load.wait_for_stderr(|line| line.contains("answers, round trip"));
    load
}

#[test]
fn hosts_after_ctrl_c_keep_only_the_record() {
    let servers = Servers::named("ssh-interrupted");
    let load = running(&servers);
    load.interrupt();
    let outcome = load.finish();
    assert_eq!(outcome.code, 130, "{outcome:?}");
    servers.assert_nothing_remains();
    assert!(servers.record().end.is_some_and(|end| !end.complete));
}

#[test]
fn hosts_after_kill_keep_no_files() {
    let servers = Servers::named("ssh-killed");
    let load = running(&servers);
    load.kill();
    servers.assert_nothing_remains();
}

#[test]
fn host_after_lost_connection_keeps_no_files() {
    let servers = Servers::named("ssh-lost");
    let load = running(&servers);
    cut_connections(&servers.hosts.b, &servers.daemons[1]);
    let outcome = load.finish();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("The responder failed"), "{outcome:?}");
    servers.assert_nothing_remains();
}
