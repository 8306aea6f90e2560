use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::driver::base::clock::now;
use crate::{DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, InterfaceSelection};

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Number {
    value: u64,
}

const ENDPOINTS: usize = 100;

/// Readers and writers without a match, which have no inputs but those of the test.
struct Endpoints {
    readers: Vec<Arc<ReaderCore>>,
    writers: Vec<Arc<WriterCore>>,
    _handles: (DomainParticipant, Vec<DataReader<Number>>, Vec<DataWriter<Number>>),
}

impl Endpoints {
    fn new(domain: u32) -> Self {
        let interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
        let config = DomainConfig { interfaces, ..DomainConfig::default() };
        let participant = DomainParticipant::builder(domain).config(config).build().unwrap();
        let topics = ["read", "written"].map(|name| format!("{name} by {}", std::process::id()));
        let [read, written] = topics.map(|name| participant.topic::<Number>(&name).unwrap());
        let readers: Vec<_> = (0..ENDPOINTS).map(|_| read.reader().unwrap()).collect();
        let writers: Vec<_> = (0..ENDPOINTS).map(|_| written.writer().unwrap()).collect();
        let locked = participant.inner.core.lock();
        let cores = (locked.readers.values().cloned().collect(), locked.writers.values().cloned().collect());
        drop(locked);
        Self { readers: cores.0, writers: cores.1, _handles: (participant, readers, writers) }
    }
}

#[test]
fn endpoints_with_many_inputs_are_listed_once_in_each_round() {
    let Endpoints { readers, writers, _handles } = Endpoints::new(73);
    let mut dirty = DirtyEndpoints::default();
    for _ in 0..3 {
        for (reader, writer) in readers.iter().zip(&writers).cycle().take(5 * ENDPOINTS) {
            dirty.reader(reader);
            dirty.writer(writer);
        }
        assert_eq!((dirty.readers.len(), dirty.writers.len()), (ENDPOINTS, ENDPOINTS));
        dirty.after(now());
        assert!(dirty.is_empty() && !dirty.owes_answers());
    }
}

/// Two threads with lists of their own add an endpoint in turns.
#[test]
fn list_of_duplicates_past_the_bound_is_a_fault() {
    let Endpoints { readers, .. } = Endpoints::new(75);
    let (mut one, mut other) = (DirtyEndpoints::default(), DirtyEndpoints::default());
    let add = |list: &mut DirtyEndpoints, other: &mut DirtyEndpoints| {
        other.reader(&readers[0]);
        list.reader(&readers[0]);
        other.readers.clear();
    };
    (0..LISTED_MAX).for_each(|_| add(&mut one, &mut other));
    assert_eq!(one.readers.len(), LISTED_MAX);
    let past = catch_unwind(AssertUnwindSafe(|| add(&mut one, &mut other)));
    assert_eq!(past.is_err(), cfg!(debug_assertions));
}
