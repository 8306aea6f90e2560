//! The kinds of attacks.

/// A kind of attack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Announcements to the group are lost.
    MulticastOutage,
    /// Everything from one node to another is lost, and nothing of the other direction.
    DirectionOutage,
    /// Everything in one of two networks is lost.
    RouteOutage,
    /// Everything to one port is lost: discovery by unicast, or samples.
    PortOutage,
    /// Everything from and to a node is lost.
    Isolation,
    /// A process is stopped and goes on later. Its clocks go on meanwhile.
    Stop,
    /// A machine is suspended and resumed. Its monotonic clock stands still meanwhile.
    Suspend,
    /// A process ends without a message, and starts again with another GUID.
    Crash,
    /// A process says goodbye, and starts again with another GUID.
    Goodbye,
    /// One node hears nothing of another for longer than its lease, and forgets it; the other still knows it.
    Forget,
    /// The wall clock of a node steps.
    ClockStep,
    /// The applications of a node take no samples.
    SlowReader,
    /// The acknowledgements of a node are lost.
    SilentReader,
    /// Forged messages in the name of an endpoint.
    Forge,
    /// The same datagram a thousand times.
    Flood,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::MulticastOutage,
        Self::DirectionOutage,
        Self::RouteOutage,
        Self::PortOutage,
        Self::Isolation,
        Self::Stop,
        Self::Suspend,
        Self::Crash,
        Self::Goodbye,
        Self::Forget,
        Self::ClockStep,
        Self::SlowReader,
        Self::SilentReader,
        Self::Forge,
        Self::Flood,
    ];
}

/// A kind of forged message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Forgery {
    /// A HEARTBEAT with the highest count, of samples far ahead.
    HeartbeatAhead,
    /// A HEARTBEAT with a high count, of no samples.
    HeartbeatEmpty,
    /// A GAP of the next 100,000 samples.
    GapAhead,
    /// A GAP of a few samples that are under way.
    GapUnderWay,
    /// An ACKNACK with the highest count, of everything written.
    AcknowledgeAll,
    /// An ACKNACK of samples that were never written.
    AcknowledgeAhead,
    /// A request for the last 256 samples.
    RequestAll,
    /// A request for fragments.
    RequestFragments,
    /// The next sample.
    Sample,
    /// The next sample, as the end of an instance.
    Dispose,
    /// A fragment of a large sample.
    Fragment,
    /// A HEARTBEAT_FRAG of a large sample.
    HeartbeatFragment,
    /// Bytes without a meaning after a valid header.
    Garbage,
    /// The goodbye of a participant.
    ParticipantDisposal,
    /// The end of a reader or writer.
    EndpointDisposal,
}

impl Forgery {
    /// All kinds that heal by themselves with the next true messages, or harm a few samples only.
    pub const HEALING: [Self; 12] = [
        Self::HeartbeatAhead,
        Self::HeartbeatEmpty,
        Self::GapAhead,
        Self::GapUnderWay,
        Self::AcknowledgeAll,
        Self::AcknowledgeAhead,
        Self::RequestAll,
        Self::RequestFragments,
        Self::Sample,
        Self::Dispose,
        Self::HeartbeatFragment,
        Self::Garbage,
    ];

    /// Kinds that may keep a reader from samples of several fragments for as long as it is matched.
    pub const LASTING: [Self; 1] = [Self::Fragment];

    /// Kinds that harm discovery.
    pub const OF_DISCOVERY: [Self; 2] = [Self::ParticipantDisposal, Self::EndpointDisposal];
}
