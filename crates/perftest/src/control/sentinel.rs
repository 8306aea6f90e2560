//! Control messages: samples whose payload has one of three special lengths.

use std::fmt;

use crate::clock::MonotonicNs;
use crate::messaging::{Origin, Sample};

/// Key of every control sample of a publisher, so that each content filter can let it through.
pub const CONTROL_KEY: [u8; 4] = [0xff, 0xff, 0, 0];

/// Meaning of a control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sentinel {
    /// From a publisher: warm up. From a subscriber: all partners are discovered.
    Initialize,
    /// From a publisher: the test has ended. From a subscriber: the end is confirmed, or the subscriber leaves.
    Finished,
    /// From a publisher: the next sample starts a new size. From a subscriber: ready for the new size.
    LengthChanged,
}

const PAYLOAD: [u8; 1236] = [0; 1236];
/// First bytes of the INITIALIZE of a publisher that writes patterns, as [`crate::payload::write_some`] does.
const PATTERN_MARK: &[u8; 8] = b"pattern1";
const PATTERN_PAYLOAD: [u8; Sentinel::Initialize.payload_len()] = {
    let mut payload = [0; Sentinel::Initialize.payload_len()];
    payload.split_at_mut(PATTERN_MARK.len()).0.copy_from_slice(PATTERN_MARK);
    payload
};

impl Sentinel {
    /// Payload length of this message.
    pub const fn payload_len(self) -> usize {
        match self {
            Self::Initialize => 1234,
            Self::Finished => 1235,
            Self::LengthChanged => 1236,
        }
    }

    /// Meaning of a sample; `None` for data.
    ///
    /// Data may have the length of LENGTH_CHANGED, because partners of other vendors do not avoid it; then the key
    /// decides.
    #[inline]
    pub fn of_sample(sample: &Sample<'_>) -> Option<Self> {
        match Self::of_payload_len(sample.payload.len()) {
            Some(Self::LengthChanged) if sample.key != CONTROL_KEY => None,
            sentinel => sentinel,
        }
    }

    /// Possible meaning of a payload of this length; `None` for data.
    #[inline]
    pub const fn of_payload_len(len: usize) -> Option<Self> {
        match len {
            1234 => Some(Self::Initialize),
            1235 => Some(Self::Finished),
            1236 => Some(Self::LengthChanged),
            _ => None,
        }
    }

    /// A control sample of publisher or subscriber `entity_id`.
    ///
    /// `seq_num` is that of the last data sample. `counter` occupies the field that carries the clock in data, see
    /// [`ControlCounter`]. [`ProcessNumber::introduce`] makes INITIALIZE.
    pub fn sample(self, entity_id: u32, seq_num: u32, counter: u64) -> Sample<'static> {
        Sample {
            key: CONTROL_KEY,
            entity_id: entity_id as i32,
            seq_num,
            timestamp: counter,
            latency_ping: Sample::NO_PING,
            origin: Sample::NO_ORIGIN,
            payload: &PAYLOAD[..self.payload_len()],
        }
    }
}

/// Distinguishes processes that have the same publisher or subscriber number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessNumber(u64);

impl ProcessNumber {
    /// Value of the sequence number in an INITIALIZE with a process number. RTI Perftest leaves it at 0, and its clock
    /// field carries no process number.
    const MARK: u32 = 0x5047_5054;

    /// The number of this process.
    pub fn of_this_process() -> Self {
        Self(MonotonicNs::now().0 << 22 | u64::from(std::process::id() & 0x003f_ffff))
    }

    /// INITIALIZE of publisher or subscriber `entity_id` in this process.
    pub fn introduce(self, entity_id: u32) -> Sample<'static> {
        Sentinel::Initialize.sample(entity_id, Self::MARK, self.0)
    }

    /// INITIALIZE of a publisher that writes patterns into its payloads. Other programs ignore its payload.
    pub fn introduce_with_patterns(self, publisher: u32) -> Sample<'static> {
        Sample { payload: &PATTERN_PAYLOAD, ..self.introduce(publisher) }
    }

    /// Whether an INITIALIZE comes from a publisher that writes patterns.
    pub fn announces_patterns(sample: &Sample<'_>) -> bool {
        Self::of_introduction(sample).is_some() && sample.payload.starts_with(PATTERN_MARK)
    }

    /// The number in an INITIALIZE; `None` for programs without one, such as RTI Perftest.
    pub fn of_introduction(sample: &Sample<'_>) -> Option<Self> {
        (sample.seq_num == Self::MARK).then_some(Self(sample.timestamp))
    }
}

/// Identifies a process of a partner, for every program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partner {
    /// By the process number in its INITIALIZE.
    Process(ProcessNumber),
    /// By its participant, for RTI Perftest, which sends no process number.
    Participant(Origin),
}

impl Partner {
    /// Sender of an INITIALIZE; `None` if neither the sample nor the middleware identifies it.
    pub fn of_introduction(sample: &Sample<'_>) -> Option<Self> {
        let participant = || (sample.origin != Sample::NO_ORIGIN).then_some(Self::Participant(sample.origin));
        ProcessNumber::of_introduction(sample).map(Self::Process).or_else(participant)
    }
}

/// Content of the clock field in FINISHED and LENGTH_CHANGED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlCounter {
    /// Number of sizes that have ended before, which is the number of this message's round.
    pub round: u32,
    /// Number of earlier transmissions of this message.
    pub attempt: u32,
}

impl ControlCounter {
    /// The value of the field.
    pub fn to_timestamp(self) -> u64 {
        u64::from(self.round) << 32 | u64::from(self.attempt)
    }

    /// Decodes the value of the field.
    pub fn from_timestamp(timestamp: u64) -> Self {
        Self { round: (timestamp >> 32) as u32, attempt: timestamp as u32 }
    }
}

impl fmt::Display for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialize => "INITIALIZE",
            Self::Finished => "FINISHED",
            Self::LengthChanged => "LENGTH_CHANGED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinel_lengths_have_their_meanings() {
        for sentinel in [Sentinel::Initialize, Sentinel::Finished, Sentinel::LengthChanged] {
            let sample = sentinel.sample(7, 9, 1);
            assert_eq!(Sentinel::of_payload_len(sample.payload.len()), Some(sentinel));
            assert_eq!((sample.entity_id, sample.seq_num, sample.key), (7, 9, [0xff, 0xff, 0, 0]));
        }
        assert_eq!(Sentinel::of_payload_len(1233), None);
        assert_eq!(Sentinel::of_payload_len(1237), None);
    }

    #[test]
    fn sample_of_sentinel_length_with_another_key_is_data() {
        let control = Sentinel::LengthChanged.sample(0, 1, 0);
        assert_eq!(Sentinel::of_sample(&control), Some(Sentinel::LengthChanged));
        assert_eq!(Sentinel::of_sample(&Sample { key: [0; 4], ..control }), None);
        let finished = Sample { key: [0; 4], ..Sentinel::Finished.sample(0, 1, 0) };
        assert_eq!(Sentinel::of_sample(&finished), Some(Sentinel::Finished));
    }

    #[test]
    fn introduction_identifies_its_process() {
        let process = ProcessNumber::of_this_process();
        assert_ne!(process, ProcessNumber::of_this_process());
        assert_eq!(ProcessNumber::of_introduction(&process.introduce(3)), Some(process));
        assert_eq!(ProcessNumber::of_introduction(&Sentinel::Initialize.sample(3, 0, 77)), None);
        let patterned = process.introduce_with_patterns(3);
        assert_eq!(ProcessNumber::of_introduction(&patterned), Some(process));
        assert_eq!(Sentinel::of_sample(&patterned), Some(Sentinel::Initialize));
        assert!(
            ProcessNumber::announces_patterns(&patterned) && !ProcessNumber::announces_patterns(&process.introduce(3))
        );
    }
}
