//! The kinds of attacks.

use crate::vendor::Difference;

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
    /// A fragment of a large sample, with the number of one of the next samples.
    FragmentOfLargeSample,
    /// A fragment of a large sample, with a number that is written much later or never.
    FragmentAhead,
    /// A fragment of a sample that is longer than readers accept, with the number of one of the next samples.
    FragmentTooLong,
    /// A fragment of the next sample, with its true size, in smaller pieces.
    FragmentCutDifferently,
    /// A fragment of the next sample, with its true size and pieces, and with another content.
    FragmentContent,
    /// A HEARTBEAT_FRAG of a large sample.
    HeartbeatFragment,
    /// Bytes without a meaning after a valid header.
    Garbage,
    /// The next sample, written an hour ahead.
    SampleAhead,
    /// An announcement of the writer's participant with a lease of a millisecond.
    AnnouncedLease,
    /// One with the id of another vendor.
    AnnouncedVendor,
    /// One without built-in endpoints.
    AnnouncedBuiltinEndpoints,
    /// One with addresses of a host without a participant.
    AnnouncedAddresses,
    /// A HEARTBEAT of the writer of publications with the highest count, of announcements far ahead.
    BuiltinHeartbeat,
    /// A GAP of the announcements of publications up to far ahead.
    BuiltinGap,
    /// An ACKNACK with the highest count of the reader of publications, of announcements that do not exist.
    BuiltinAcknowledge,
    /// A participant message that asserts the liveliness of writers.
    Liveliness,
    /// The goodbye of a participant.
    ParticipantDisposal,
    /// The end of a writer.
    EndpointDisposal,
    /// The end of a reader.
    ReaderDisposal,
    /// The announcement of a writer with another type.
    EndpointChange,
}

impl Forgery {
    /// Whether the reader may take what is forged for the next sample, since the fragment states the true size.
    pub(super) const fn is_credible_fragment(self) -> bool {
        matches!(self, Self::FragmentCutDifferently | Self::FragmentContent)
    }

    /// All kinds that heal by themselves with the next true messages, or harm a few samples only.
    pub const HEALING: [Self; 26] = [
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
        Self::FragmentOfLargeSample,
        Self::FragmentAhead,
        Self::FragmentTooLong,
        Self::FragmentCutDifferently,
        Self::FragmentContent,
        Self::HeartbeatFragment,
        Self::Garbage,
        Self::SampleAhead,
        Self::AnnouncedLease,
        Self::AnnouncedVendor,
        Self::AnnouncedBuiltinEndpoints,
        Self::AnnouncedAddresses,
        Self::BuiltinHeartbeat,
        Self::BuiltinGap,
        Self::BuiltinAcknowledge,
        Self::Liveliness,
    ];

    /// Kinds that end matches for a while.
    pub const OF_DISCOVERY: [Self; 4] =
        [Self::ParticipantDisposal, Self::EndpointDisposal, Self::ReaderDisposal, Self::EndpointChange];

    /// Whether messages of this kind do harm that lasts, if the writer or the reader of the attacked pair belongs to an
    /// implementation with this difference: what was acknowledged, also by the attacker, is not repeated.
    #[must_use]
    pub const fn harms_for_good(self, difference: Difference, (at_writer, at_reader): (bool, bool)) -> bool {
        let is_of_it = match self {
            Self::EndpointDisposal | Self::EndpointChange | Self::AcknowledgeAll => at_writer,
            Self::ReaderDisposal => at_reader,
            _ => false,
        };
        is_of_it && matches!(difference, Difference::RepeatsNothingAcknowledged)
    }

    /// The kinds among which worlds were drawn before there were others, so that a seed means the same world.
    pub const FORMER: [Self; 19] = [
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
        Self::FragmentOfLargeSample,
        Self::FragmentAhead,
        Self::FragmentTooLong,
        Self::FragmentCutDifferently,
        Self::FragmentContent,
        Self::HeartbeatFragment,
        Self::Garbage,
        Self::ParticipantDisposal,
        Self::EndpointDisposal,
    ];

    /// Whether messages of this kind concern discovery, and go to its port.
    pub const fn is_of_discovery(self) -> bool {
        matches!(
            self,
            Self::AnnouncedLease
                | Self::AnnouncedVendor
                | Self::AnnouncedBuiltinEndpoints
                | Self::AnnouncedAddresses
                | Self::BuiltinHeartbeat
                | Self::BuiltinGap
                | Self::BuiltinAcknowledge
                | Self::Liveliness
                | Self::ParticipantDisposal
                | Self::EndpointDisposal
                | Self::ReaderDisposal
                | Self::EndpointChange
        )
    }
}
