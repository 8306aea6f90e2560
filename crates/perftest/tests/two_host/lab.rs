//! `perftest lab`: a lab starts, has the requested properties, and leaves nothing behind.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use peregrine_report::record::{Delivery, Record};

use crate::common::{Folder, Outcome, PROGRAM, Process, columns, run, start, start_command};
use crate::remaining::{entries, namespace, processes, wait_until_gone, words};

fn record(folder: &Folder) -> Record {
    Record::read(BufReader::new(std::fs::File::open(folder.path("out/record.jsonl")).unwrap())).unwrap()
}

/// The numbers of a line such as `Link near to far: 12 packets sent, 0 more dropped by its queue, 3 of them lost`.
fn traffic(outcome: &Outcome, direction: &str) -> Vec<u64> {
    let line = outcome.stderr.lines().find(|line| line.starts_with(&format!("Link {direction}: "))).unwrap();
    line.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn packets_are_lost_in_both_directions_at_the_requested_rate() {
    let folder = Folder::new("lab-loss");
    let out = folder.path("out");
    let outcome = run(&format!("lab --loss 5% -- load --rate 4000 --time 1000 --size 100 --out {out} -- -raw"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let mut lost_there = 0;
    for direction in ["near to far", "far to near"] {
        let numbers = traffic(&outcome, direction);
        let [sent, lost] = numbers[..] else { panic!("{outcome:?}") };
        // 2 % of 4000 are more than four standard deviations.
        assert!(sent > 1000 && (0.03..0.07).contains(&(lost as f64 / sent as f64)), "{direction}: {lost} of {sent}");
        lost_there = lost_there.max(lost);
    }
    let record = record(&folder);
    assert!(record.header.command_line.iter().any(|word| word == "lab"), "{:?}", record.header);
    let measurement = &record.measurements[0];
    let received = measurement.subscriber.throughput.as_ref().unwrap();
    assert_eq!(received.samples + received.lost, measurement.publisher.send.as_ref().unwrap().samples);
    assert!(0 < received.lost && received.lost <= lost_there, "{received:?}");
}

#[test]
fn link_limits_rate_without_drops() {
    let outcome =
        run("lab --link 20mbit -- -pub -noPrint -noOutputHeaders -dataLen 8192 -batchSize 0 -executionTime 2");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let row = outcome.stderr.lines().find_map(|line| line.strip_prefix("subscriber 0: ")).unwrap();
    let row = columns(row);
    // A reader that was paused catches up.
    assert!((5.0..30.0).contains(&row[3]) && row[4] == 0.0, "{row:?}");
    let numbers = traffic(&outcome, "near to far");
    let [sent, dropped] = numbers[..] else { panic!("{outcome:?}") };
    // Packets of 1500 bytes: six per sample.
    assert!(sent as f64 > row[1] * 5.0 && dropped == 0, "{outcome:?}");
}

#[test]
fn packets_are_as_large_as_the_link_permits() {
    for (mtu, packets) in [(1500, 6), (9000, 1)] {
        let line = format!(
            "lab --mtu {mtu} -- -pub -noPrint -noOutputHeaders -raw -dataLen 8192 -batchSize 0 -numIter 500 -latencyCount 500"
        );
        let outcome = run(&line);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let sent = traffic(&outcome, "near to far")[0];
        assert!((500 * packets..500 * (packets + 1)).contains(&sent), "MTU {mtu}: {sent}");
    }
}

#[test]
fn publisher_command_starts_its_subscribers() {
    let both = "-keyed -bestEffort -scan 32:64 -numSubscribers 2 -executionTime 100ms -latencyCount 10";
    let outcome = run(&format!("lab -- -pub -noPrint -noOutputHeaders {both}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.stdout.iter().map(|row| columns(row)[0]).collect::<Vec<_>>(), [32.0, 64.0], "{outcome:?}");
    for number in 0..2 {
        let name = format!("subscriber {number}: ");
        let rows: Vec<_> = outcome.stderr.lines().filter_map(|line| line.strip_prefix(&name)).map(columns).collect();
        assert!(rows.len() == 2 && rows.iter().all(|row| row[1] > 0.0), "{outcome:?}");
    }
}

#[test]
fn comparison_commands_run_between_hosts() {
    for (command, measurements) in
        [("characterize --quick --repetitions 1 --time 20 --sizes 64", 8), ("ab --blocks 1 --time 20 --size 64", 8)]
    {
        let folder = Folder::new("lab-compare");
        let outcome = run(&format!("lab --link 1gbit -- {command} --out {}", folder.path("out")));
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let record = record(&folder);
        assert_eq!(record.measurements.len(), measurements, "{command}");
        for series in &record.header.series {
            assert!(series.options.join(" ").contains("-nic 10.83.0.1 -peer 10.83.0.2"), "{series:?}");
        }
        // The interfaces of the near host, not the machine's.
        let interfaces: Vec<_> = record.host.interfaces.iter().map(|interface| interface.name.as_str()).collect();
        assert!(
            interfaces.contains(&"link0") && interfaces.iter().all(|name| ["lo", "link0"].contains(name)),
            "{interfaces:?}"
        );
    }
}

/// One case of a plan, between the two hosts.
pub(crate) const PLAN: &str = "title = \"A test\"\nduration_s = 0.1\nwarm_up_s = 0.02\nrepetitions = 1\nseries = [\"peregrine\"]\n\
                               [[matrix]]\nrates = [200]\nsizes = [64]\ndelivery = [\"two_hosts\"]\n";

/// The plan ran between two places with this description.
pub(crate) fn assert_plan_was_run(record: &Record, place: &str) {
    assert!(record.header.plan.as_ref().unwrap().place.contains(place), "{:?}", record.header);
    let [measurement] = &record.measurements[..] else { panic!("{:?}", record.measurements) };
    assert_eq!(measurement.case.as_ref().unwrap().delivery, Delivery::TwoHosts);
    assert!(measurement.subscriber.throughput.as_ref().unwrap().samples > 0, "{measurement:?}");
}

#[test]
fn plan_runs_between_the_hosts() {
    let folder = Folder::new("lab-plan");
    std::fs::write(folder.path("plan.toml"), PLAN).unwrap();
    let outcome = run(&format!("lab --link 1gbit -- run {} --out {}", folder.path("plan.toml"), folder.path("out")));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_plan_was_run(&record(&folder), "1000 Mbit/s");
}

/// A running lab that does not end by itself.
struct Running {
    process: Process,
    folder: Folder,
    interfaces: BTreeSet<String>,
    names: BTreeSet<String>,
    process_namespace: PathBuf,
    networks: BTreeSet<PathBuf>,
}

impl Running {
    fn start(name: &str) -> Self {
        let folder = Folder::new(name);
        let (interfaces, names) = (entries("/sys/class/net"), entries("/run/netns"));
        let load = format!("load --rate 200 --time 3000000 --size 100 --out {}", folder.path("out"));
        let process = start(&format!("lab --link 100mbit --loss 1% -- {load}"));
        process.wait_for_stderr(|line| line.contains("answers, round trip"));
        // The first process inside names the folder, and is in another process namespace than this test.
        let own = namespace("/proc/self".as_ref(), "pid");
        let out = folder.path("out");
        let inner = processes()
            .into_iter()
            .find(|process| namespace(process, "pid") != own && words(process).contains(&out))
            .unwrap();
        let process_namespace = namespace(&inner, "pid").unwrap();
        let inside =
            || processes().into_iter().filter(|process| namespace(process, "pid").as_ref() == Some(&process_namespace));
        let networks: BTreeSet<_> = inside().filter_map(|process| namespace(&process, "net")).collect();
        // The sender, the keeper of the far host, and the responder there.
        assert!(inside().count() >= 3 && networks.len() == 2, "{networks:?}");
        assert!(networks.iter().all(|network| Some(network) != namespace("/proc/self".as_ref(), "net").as_ref()));
        Self { process, folder, interfaces, names, process_namespace, networks }
    }

    /// No process, and so no namespace and no link; no name, no file.
    fn assert_nothing_remains(&self) {
        let is_of_the_lab = |process: &PathBuf| {
            namespace(process, "pid").as_ref() == Some(&self.process_namespace)
                || namespace(process, "net").is_some_and(|network| self.networks.contains(&network))
        };
        wait_until_gone("a process of the lab", || {
            processes()
                .iter()
                .filter(|process| is_of_the_lab(process))
                .map(|process| words(process).join(" "))
                .collect()
        });
        assert_eq!(entries("/sys/class/net"), self.interfaces);
        let known: BTreeSet<_> = entries("/run/netns").difference(&self.names).cloned().collect();
        // Other tests of this process name theirs.
        assert!(known.iter().all(|name| name.starts_with("peregrine-")), "{known:?}");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        for network in &self.networks {
            let network = network.display().to_string();
            assert!(!mounts.contains(&network), "{network} is mounted");
        }
        assert_eq!(entries(&self.folder.path(".")), BTreeSet::from(["out".to_owned()]));
    }
}

#[test]
fn lab_after_ctrl_c_leaves_only_the_record() {
    let running = Running::start("lab-interrupted");
    running.process.interrupt();
    running.assert_nothing_remains();
    let record = record(&running.folder);
    assert!(record.end.is_some_and(|end| !end.complete));
    assert_eq!(running.process.finish().code, 130);
}

#[test]
fn lab_after_kill_leaves_nothing() {
    let running = Running::start("lab-killed");
    running.process.kill();
    running.assert_nothing_remains();
}

#[test]
fn lab_after_kill_of_first_process_leaves_nothing() {
    let running = Running::start("lab-inner-killed");
    let own = namespace("/proc/self".as_ref(), "pid");
    let out = running.folder.path("out");
    let is_first = |process: &PathBuf| namespace(process, "pid") != own && words(process).contains(&out);
    let inner = processes().into_iter().find(is_first).unwrap();
    let id: i32 = inner.file_name().unwrap().to_str().unwrap().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), rustix::process::Signal::KILL).unwrap();
    running.assert_nothing_remains();
    assert_ne!(running.process.finish().code, 0);
}

#[test]
fn failure_inside_the_lab_fails_the_command() {
    let outcome = run("lab -- load --rate 10 --time 10 -- -pub");
    assert_eq!(outcome.code, 255, "{outcome:?}");
    assert!(outcome.stderr.contains("-pub is set by this command"), "{}", outcome.stderr);
    let outcome = run("lab -- load --hosts a,b");
    assert!(outcome.code == 255 && outcome.stderr.contains("--hosts cannot be used with a lab"), "{outcome:?}");
    let outcome = run("lab -- -sub");
    assert!(outcome.code == 255 && outcome.stderr.contains("that of the publisher"), "{outcome:?}");
}

#[test]
fn missing_lab_tools_are_named() {
    let mut command = Command::new(PROGRAM);
    command.env("PATH", "/nonexistent");
    let outcome = start_command(command, "lab --link 1gbit --loss 1% -- load").finish();
    assert_eq!(outcome.code, 255, "{outcome:?}");
    for word in ["unshare", "nsenter", "ip", "tc", "nft", "apt-get install iproute2 mount nftables util-linux"] {
        assert!(outcome.stderr.contains(word), "{}", outcome.stderr);
    }
    let mut command = Command::new(PROGRAM);
    command.env("PATH", "/nonexistent");
    let outcome = start_command(command, "lab -- load").finish();
    assert!(!outcome.stderr.contains("nftables"), "nothing is lost: {}", outcome.stderr);

    // Other users may not be able to access the folder of this program.
    let folder = Folder::new("lab-nobody");
    let program = folder.path("perftest");
    std::fs::copy(PROGRAM, &program).unwrap();
    let mut command = Command::new(program);
    command.uid(65_534).gid(65_534);
    let outcome = start_command(command, "lab -- load").finish();
    assert_eq!((outcome.code, outcome.stderr.lines().count()), (255, 1), "{outcome:?}");
    assert!(outcome.stderr.contains("needs root"), "{}", outcome.stderr);
}
