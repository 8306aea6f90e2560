//! The questions and answers between the program and its processes: one line of JSON for each question and answer.

use serde::{Deserialize, Serialize};

use crate::flow::FlowReport;

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
    /// Forget the longest gap.
    Mark,
    /// Stop writing, and wait for acknowledgements.
    Finish,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) flow: FlowReport,
    /// After [`Question::Finish`]: whether all samples were acknowledged in time.
    pub(crate) is_acknowledged: bool,
    /// Readers of the writer of the flow.
    pub(crate) flow_readers: usize,
    /// Writers of the reader of the flow.
    pub(crate) flow_writers: usize,
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
    /// Matches of the victim with others than the honest peer, which has one writer and one reader.
    pub(crate) fn strange_matches(&self) -> usize {
        let of_flow = [self.flow_readers, self.flow_writers].map(|matches| matches.saturating_sub(1));
        self.open_readers + self.open_writers + self.best_effort_writers + of_flow.iter().sum::<usize>()
    }

    /// Matches of the victim with the honest peer: at most one with its writer and one with its reader.
    pub(crate) fn peer_matches(&self) -> usize {
        self.flow_readers.min(1) + self.flow_writers.min(1)
    }
}
