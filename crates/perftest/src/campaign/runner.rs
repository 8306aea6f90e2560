//! Runs one case: starts its processes, controls the measurement, and combines their results.

use std::time::Duration;

use peregrine_report::record::{Delivery, Measurement, Side, SideResult, Test};
use peregrine_report::stats::LatencyResult;
use zeroize::Zeroizing;

use super::cases::PlannedCase;
use super::job::{Answer, Job, Order, Sending, Sent};
use super::placement::{Place, Placement};
use super::series::Carrier;
use super::spec::Pace;
use crate::characterize::kept::Cores;
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::documents::documents;
use crate::domain::FreeDomain;
use crate::error::Error;
use crate::process::Process;

/// The argument that makes this program a party.
const PARTY_COMMAND: &str = "take-part";
/// Longest time for an answer besides the measurement: a party waits up to 15 seconds for its partners, and as long for
/// the last acknowledgment.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Patterns of the topics of a case.
const TOPICS: &[&str] = &["campaign *"];
/// Time in which every party of one host receives the start time of the warm-up.
const LEAD: Duration = Duration::from_millis(20);

/// Runs a case. A failed case leaves no process behind.
pub(super) fn run(
    planned: &PlannedCase,
    carrier: Carrier,
    cores: Cores,
    placement: &dyn Placement,
    stop: &Stop,
) -> Result<Measurement, Error> {
    let domain = FreeDomain::reserve()?;
    let mut parties = Vec::new();
    for (name, place, mut job) in jobs(planned, carrier, placement, domain.id())? {
        job.core = cores
            .filter(|_| planned.case.delivery == Delivery::SameHost)
            .map(|(publishers, subscribers)| if job.publishers_here.is_empty() { subscribers } else { publishers });
        let process = Process::start(name, placement.command(place, &[PARTY_COMMAND.into()])?)?;
        parties.push(PartyProcess { process, stop, job });
    }
    let mut addresses = Vec::new();
    for party in &mut parties {
        party.tell(&Order::Open(Box::new(party.job.clone())))?;
    }
    for party in &mut parties {
        let Answer::Opened { addresses: own } = party.hear(Duration::ZERO)? else { return Err(party.unexpected()) };
        addresses.extend(own);
    }
    for party in &mut parties {
        party.tell(&Order::Join { addresses: addresses.clone() })?;
    }
    for party in &mut parties {
        let Answer::Joined = party.hear(Duration::ZERO)? else { return Err(party.unexpected()) };
    }
    let sent = go(&mut parties, planned)?;
    for party in &mut parties {
        party.tell(&Order::Finish { sent: sent.clone() })?;
    }
    let mut sides = Vec::new();
    for party in &mut parties {
        let Answer::Results { sides: own } = party.hear(Duration::ZERO)? else { return Err(party.unexpected()) };
        sides.extend(own);
    }
    for party in parties {
        party.process.finish()?;
    }
    put_together(planned, sides)
}

/// Starts the receiving parties, then the sending ones, and waits for the send results.
fn go(parties: &mut [PartyProcess<'_>], planned: &PlannedCase) -> Result<Vec<Sent>, Error> {
    let mut all = Vec::new();
    let start_ns = common_start(planned, MonotonicNs::now());
    for sends in [false, true] {
        let limit = if sends { LEAD + planned.warm_up + planned.duration } else { Duration::ZERO };
        let is_due = |party: &&mut PartyProcess<'_>| party.job.publishers_here.is_empty() != sends;
        for party in parties.iter_mut().filter(is_due) {
            party.tell(&Order::Go { start_ns })?;
        }
        for party in parties.iter_mut().filter(is_due) {
            let Answer::Sent { sent } = party.hear(limit)? else { return Err(party.unexpected()) };
            all.extend(sent);
        }
    }
    Ok(all)
}

/// The beginning of the warm-up, so that all parties measure their processor time in the same window; `None` for hosts
/// with different clocks, where each party begins when it receives the order.
fn common_start(planned: &PlannedCase, now: MonotonicNs) -> Option<u64> {
    (planned.case.delivery != Delivery::TwoHosts).then(|| now.plus(LEAD).0)
}

struct PartyProcess<'a> {
    process: Process,
    stop: &'a Stop,
    job: Job,
}

impl PartyProcess<'_> {
    fn tell(&mut self, order: &Order) -> Result<(), Error> {
        // An order may contain a key.
        let line = serde_json::to_string(order).map(Zeroizing::new);
        self.process.tell(&line.map_err(|error| Error::Transfer(error.to_string()))?)
    }

    fn hear(&mut self, longer: Duration) -> Result<Answer, Error> {
        let line = self.process.hear(MonotonicNs::now().plus(ANSWER_LIMIT + longer), self.stop)?;
        serde_json::from_str(&line)
            .map_err(|error| Error::Transfer(format!("{}: an answer cannot be read: {error}", self.process.name())))
    }

    fn unexpected(&self) -> Error {
        Error::Transfer(format!("{} sent an unexpected answer", self.process.name()))
    }
}

/// Name, place and job of each party, subscribers first.
fn jobs(
    planned: &PlannedCase,
    carrier: Carrier,
    placement: &dyn Placement,
    domain: u32,
) -> Result<Vec<(String, Place, Job)>, Error> {
    let case = &planned.case;
    let address_of = |place: Place| {
        placement
            .address(place)
            .ok_or_else(|| Error::Setup(format!("There is no {place:?} place: {}", placement.description())))
    };
    let is_far = case.delivery == Delivery::TwoHosts;
    let near = if is_far { address_of(Place::Near)? } else { std::net::Ipv4Addr::LOCALHOST.into() };
    let documents = match carrier {
        Carrier::Peregrine(dds) => dds.protection.map(|protection| documents(protection, TOPICS)).transpose()?,
        Carrier::RawUdp => None,
    };
    let job = |publishers_here: Vec<u32>, subscribers_here: Vec<u32>| Job {
        carrier,
        publishers: case.publishers,
        subscribers: case.subscribers,
        topics: case.topics,
        reliability: case.reliability,
        publishing: case.publishing,
        history_depth: planned.history_depth,
        data_type: planned.data_type,
        data_len: planned.data_len,
        sending: match planned.pace {
            Pace::PingPong => Sending::PingPong,
            Pace::Unpaced => Sending::Unpaced,
            Pace::Rate(rate) => Sending::Rate(rate),
        },
        // Two hosts have two clocks, so only round trips can be timed.
        echo: match planned.pace {
            Pace::PingPong => true,
            Pace::Rate(_) => is_far,
            Pace::Unpaced => false,
        },
        wait: planned.wait,
        patterns: planned.patterns,
        core: None,
        warm_up: planned.warm_up,
        duration: planned.duration,
        domain,
        address: near,
        peer: None,
        documents: match (&documents, publishers_here.is_empty()) {
            (None, _) => None,
            (Some([publisher, _]), false) => Some(publisher.clone()),
            (Some([_, subscriber]), true) => Some(subscriber.clone()),
        },
        publishers_here,
        subscribers_here,
    };
    if case.delivery == Delivery::SameProcess {
        let all = job((0..case.publishers).collect(), (0..case.subscribers).collect());
        return Ok(vec![("the process".into(), Place::Near, all)]);
    }
    let mut jobs = Vec::new();
    for number in 0..case.subscribers {
        let own = job(Vec::new(), vec![number]);
        let name = format!("subscriber {}", number + 1);
        if is_far {
            let far = address_of(Place::Far)?;
            jobs.push((name, Place::Far, Job { address: far, peer: Some(near), ..own }));
        } else {
            jobs.push((name, Place::Near, own));
        }
    }
    for number in 0..case.publishers {
        let peer = is_far.then(|| address_of(Place::Far)).transpose()?;
        let own = Job { peer, ..job(vec![number], Vec::new()) };
        jobs.push((format!("publisher {}", number + 1), Place::Near, own));
    }
    Ok(jobs)
}

/// Combines the results of the sides. If subscribers have timed the samples, the latency of the measurement is that of
/// all subscribers together.
fn put_together(planned: &PlannedCase, sides: Vec<SideResult>) -> Result<Measurement, Error> {
    let (mut publishers, mut subscribers): (Vec<_>, Vec<_>) =
        sides.into_iter().partition(|side| side.side == Side::Publisher);
    if publishers.is_empty() || subscribers.is_empty() {
        return Err(Error::Transfer("the results of a side are missing".into()));
    }
    let received: u64 = subscribers.iter().filter_map(|side| side.throughput.as_ref()).map(|sum| sum.samples).sum();
    if received == 0 {
        return Err(Error::NoData("no sample has arrived".into()));
    }
    let (mut publisher, subscriber) = (publishers.remove(0), subscribers.remove(0));
    if publisher.latency.as_ref().is_some_and(|latency| latency.count == 0) {
        return Err(Error::NoData("no latency was measured: no ping was answered".into()));
    }
    publishers.extend(subscribers);
    if publisher.latency.is_none() && planned.test() == Test::OpenLoop {
        let all = || std::iter::once(&subscriber).chain(&publishers);
        publisher.latency = merged(all().filter_map(|side| side.latency.as_ref()));
        publisher.scheduled_latency = merged(all().filter_map(|side| side.scheduled_latency.as_ref()));
    }
    Ok(planned.measurement(publisher, subscriber, publishers))
}

fn merged<'a>(all: impl Iterator<Item = &'a LatencyResult>) -> Option<LatencyResult> {
    all.fold(None, |sum: Option<LatencyResult>, own| Some(sum.map_or_else(|| own.clone(), |sum| sum.merged(own))))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::process::Command;

    use super::*;
    use crate::campaign::cases::{Cases, Conditions};
    use crate::campaign::peer::PeerPrograms;
    use crate::campaign::series::{Dds, Form, Path};
    use crate::campaign::spec::Plan;

    const PEREGRINE: Carrier =
        Carrier::Peregrine(Dds { path: Path::Udp, form: Form::Values, batched: false, protection: None });

    /// Two addresses that no test connects to.
    struct TwoHosts;

    impl Placement for TwoHosts {
        fn description(&self) -> String {
            "two hosts".into()
        }

        fn command(&self, _: Place, _: &[String]) -> Result<Command, Error> {
            Err(Error::Setup("no process is started here".into()))
        }

        fn address(&self, place: Place) -> Option<IpAddr> {
            Some(if place == Place::Near { [192, 0, 2, 1] } else { [192, 0, 2, 2] }.into())
        }
    }

    fn planned(delivery: &str, rate: &str) -> PlannedCase {
        let text = format!(
            "title = \"t\"\nseries = [\"peregrine\"]\nduration_s = 1\n[[matrix]]\nrates = [{rate}]\nsizes = [64]\n\
             subscribers = [2]\ndelivery = [\"{delivery}\"]\n"
        );
        let conditions = Conditions { two_hosts: true, peers: PeerPrograms::none(""), quick: None };
        Cases::of(&Plan::read("p.toml", &text).unwrap(), &conditions).planned.remove(0)
    }

    #[test]
    fn each_delivery_has_its_processes() {
        let who = |delivery| -> Vec<_> {
            let jobs = jobs(&planned(delivery, "30"), PEREGRINE, &TwoHosts, 1).unwrap();
            jobs.into_iter()
                .map(|(_, place, job)| (place, job.publishers_here.len(), job.subscribers_here.len()))
                .collect()
        };
        assert_eq!(who("same_process"), [(Place::Near, 1, 2)]);
        assert_eq!(who("same_host"), [(Place::Near, 0, 1), (Place::Near, 0, 1), (Place::Near, 1, 0)]);
        assert_eq!(who("two_hosts"), [(Place::Far, 0, 1), (Place::Far, 0, 1), (Place::Near, 1, 0)]);
    }

    #[cfg(feature = "security")]
    #[test]
    fn secured_parties_have_documents_of_one_authority_and_different_certificates() {
        use crate::protection::Protection;
        let dds = |protection| Dds { path: Path::Udp, form: Form::Values, batched: false, protection };
        let jobs =
            |protection| jobs(&planned("same_host", "30"), Carrier::Peregrine(dds(protection)), &TwoHosts, 1).unwrap();
        assert!(jobs(None).iter().all(|(_, _, job)| job.documents.is_none()));
        let jobs = jobs(Some(Protection::Encrypt));
        let [subscriber, other, publisher] = [0, 1, 2].map(|index| jobs[index].2.documents.as_ref().unwrap());
        assert_eq!((subscriber, &publisher.identity_ca), (other, &subscriber.identity_ca));
        assert_ne!(subscriber.certificate, publisher.certificate);
        assert_eq!(&*publisher.used.messages, "ENCRYPT");
    }

    #[test]
    fn two_hosts_get_addresses_and_time_round_trips() {
        let jobs = jobs(&planned("two_hosts", "30"), PEREGRINE, &TwoHosts, 1).unwrap();
        let (far, near) = (&jobs[0].2, &jobs[2].2);
        assert_eq!((far.address, far.peer), (near.peer.unwrap(), Some(near.address)));
        assert!(near.echo && far.echo);
        let of = |delivery, rate| super::jobs(&planned(delivery, rate), PEREGRINE, &TwoHosts, 1).unwrap()[0].2.echo;
        assert!(!of("same_host", "30") && of("same_host", "\"ping-pong\"") && !of("two_hosts", "\"unpaced\""));
    }

    #[test]
    fn parties_of_two_hosts_begin_at_start_command() {
        let start = |delivery| common_start(&planned(delivery, "30"), MonotonicNs(1_000));
        assert_eq!(start("same_host"), Some(1_000 + LEAD.as_nanos() as u64));
        assert_eq!((start("same_process"), start("two_hosts")), (start("same_host"), None));
    }

    #[test]
    fn scheduled_latency_merges_all_subscribers() {
        let latency = |value_ns, count| LatencyResult {
            count,
            min_ns: value_ns,
            max_ns: value_ns,
            histogram: vec![(value_ns, count)],
            ..LatencyResult::default()
        };
        let subscriber = |value_ns| SideResult {
            side: Side::Subscriber,
            latency: Some(latency(value_ns, 3)),
            throughput: Some(peregrine_report::record::ThroughputResult { samples: 3, ..Default::default() }),
            ..SideResult::default()
        };
        let sides = vec![SideResult::default(), subscriber(100), subscriber(200)];
        let measurement = put_together(&planned("same_host", "30"), sides).unwrap();
        let all = measurement.publisher.latency.unwrap();
        assert_eq!((all.count, all.min_ns, all.max_ns), (6, 100, 200));
        assert_eq!((measurement.others.len(), measurement.subscriber.latency.unwrap().count), (1, 3));
    }

    #[test]
    fn case_without_samples_or_side_fails() {
        let silent = SideResult { side: Side::Subscriber, ..SideResult::default() };
        let error = put_together(&planned("same_host", "30"), vec![SideResult::default(), silent.clone()]).unwrap_err();
        assert_eq!(error, Error::NoData("no sample has arrived".into()));
        assert!(put_together(&planned("same_host", "30"), vec![silent.clone()]).is_err());
        let throughput = peregrine_report::record::ThroughputResult { samples: 9, ..Default::default() };
        let unanswered = SideResult { latency: Some(LatencyResult::default()), ..SideResult::default() };
        let sides = vec![unanswered, SideResult { throughput: Some(throughput), ..silent }];
        let error = put_together(&planned("same_host", "\"ping-pong\""), sides).unwrap_err();
        assert_eq!(error, Error::NoData("no latency was measured: no ping was answered".into()));
    }
}
