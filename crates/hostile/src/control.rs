//! The questions and answers between the program and its processes: one line of JSON for each question and answer.

use serde::{Deserialize, Serialize};

use crate::flow::FlowReport;

/// Which of the victim's endpoints a stranger matches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Open,
    BestEffort,
    Flow,
}

/// A participant as its process describes it when it is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) prefix: [u8; 12],
    /// Ports of discovery and of user data on loopback.
    pub(crate) discovery_port: u16,
    pub(crate) user_port: u16,
    /// Writer and reader of the flow.
    pub(crate) flow_writer: [u8; 4],
    pub(crate) flow_reader: [u8; 4],
    /// Endpoints that strangers match; only a victim has them.
    pub(crate) open_writer: [u8; 4],
    pub(crate) open_reader: [u8; 4],
    pub(crate) best_effort_reader: [u8; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// The present state.
    State,
    /// The present state, with the number of participants.
    Participants,
    /// Forget the longest gap.
    Mark,
    /// Stop writing, and wait for acknowledgements.
    Finish,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) flow: FlowReport,
    /// After [`Question::Finish`]: whether all samples were acknowledged in time.
    pub(crate) is_acknowledged: bool,
    /// After [`Question::Participants`]: the participants that are known.
    pub(crate) participants: usize,
    /// The participants of the readers of the writer of the flow.
    pub(crate) flow_readers: Vec<[u8; 12]>,
    /// The participants of the writers of the reader of the flow.
    pub(crate) flow_writers: Vec<[u8; 12]>,
    /// Readers of the open writer, and writers of the open reader and of the best-effort reader.
    pub(crate) open_readers: usize,
    pub(crate) open_writers: usize,
    pub(crate) best_effort_writers: usize,
    /// Forged counts, claims and acknowledgements that the endpoints of the flow have noticed and dropped.
    pub(crate) healed: u64,
    /// Payload bytes of all datagrams received.
    pub(crate) bytes_received: u64,
    /// Datagrams that the kernel dropped at the sockets.
    pub(crate) kernel_drops: u64,
}

impl State {
    /// Number of remote readers (`as_reader`) or writers that these endpoints of the victim have matched.
    pub(crate) fn matches(&self, target: Target, as_reader: bool) -> usize {
        match (target, as_reader) {
            (Target::Flow, true) => self.flow_readers.len(),
            (Target::Flow, false) => self.flow_writers.len(),
            (Target::Open | Target::BestEffort, true) => self.open_readers,
            (Target::Open, false) => self.open_writers,
            (Target::BestEffort, false) => self.best_effort_writers,
        }
    }

    /// Matches of the victim with others than the honest peer.
    pub(crate) fn strange_matches(&self, peer: &Identity) -> usize {
        let of_flow = self.flow_readers.iter().chain(&self.flow_writers).filter(|prefix| **prefix != peer.prefix);
        self.open_readers + self.open_writers + self.best_effort_writers + of_flow.count()
    }

    /// Matches of the victim with the honest peer: at most one with its writer and one with its reader.
    pub(crate) fn peer_matches(&self, peer: &Identity) -> usize {
        let is_matched = |matched: &[[u8; 12]]| usize::from(matched.contains(&peer.prefix));
        is_matched(&self.flow_readers) + is_matched(&self.flow_writers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_reader_of_the_flow_raises_the_number_of_matches_whatever_its_prefix() {
        let matches = |flow_readers| State { flow_readers, ..State::default() }.matches(Target::Flow, true);
        for stranger in [[1; 12], [3; 12]] {
            assert_eq!((matches(vec![[2; 12]]), matches(vec![stranger, [2; 12]])), (1, 2));
        }
    }

    #[test]
    fn stranger_in_place_of_the_peer_counts_as_a_stranger() {
        let [peer, stranger] = [[1; 12], [2; 12]];
        let prefix = peer;
        let (discovery_port, user_port, entity) = (0, 0, [0; 4]);
        let identity = Identity {
            prefix,
            discovery_port,
            user_port,
            flow_writer: entity,
            flow_reader: entity,
            open_writer: entity,
            open_reader: entity,
            best_effort_reader: entity,
        };
        let state = State { flow_readers: vec![peer], flow_writers: vec![stranger], ..State::default() };
        assert_eq!((state.peer_matches(&identity), state.strange_matches(&identity)), (1, 1));
        let usual = State { flow_readers: vec![peer], flow_writers: vec![peer], ..State::default() };
        assert_eq!((usual.peer_matches(&identity), usual.strange_matches(&identity)), (2, 0));
    }
}
