//! The floor of protection: a thread seals the bytes of samples and opens them again, with nothing else.
//!
//! Beside ping-pong it is the time in which one sample is sealed and opened. Beside unpaced samples it is the rate of
//! the slower of the two: one core seals and another opens.

use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use peregrine_report::record::{Measurement, SendResult, Side, SideResult, ThroughputResult};
use peregrine_report::stats::LatencyResult;

use super::cases::PlannedCase;
use super::series::{Sealing, samples_per_batch};
use super::spec::Pace;
use crate::characterize::kept::Cores;
use crate::control::Stop;
use crate::error::Error;
use crate::protection::Protection;
use crate::recorder::LatencyRecorder;
use crate::threads::bind_current_thread;

const TAG_LEN: usize = 16;
/// Samples that are sealed before they are opened, to measure a rate: reading the clock takes longer than a short one.
const SAMPLES_PER_BURST: usize = 64;
/// Turns between two checks of the stop request.
const TURNS_PER_LOOK: u64 = 64;

/// A pass over bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// AES-256-GMAC of all bytes.
    Sign,
    /// AES-256-GCM of all bytes.
    Encrypt,
    /// AES-256-GMAC of the last tag, for one receiver.
    Origin,
}

/// The passes of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passes {
    /// Over each sample: its payload, then its submessage.
    of_sample: &'static [Pass],
    /// Over each message.
    of_message: &'static [Pass],
}

const fn passes(protection: Protection) -> Passes {
    use Pass::{Encrypt, Origin, Sign};
    let (of_sample, of_message): (&[Pass], &[Pass]) = match protection {
        Protection::Unprotected => (&[], &[]),
        Protection::Sign => (&[], &[Sign]),
        Protection::Encrypt => (&[], &[Encrypt]),
        Protection::SignOriginDataEncrypt => (&[Encrypt], &[Sign, Origin]),
        Protection::SignSubmessageEncryptOriginDataEncrypt => (&[Encrypt, Encrypt, Origin], &[Sign]),
        Protection::SignSubmessageEncrypt => (&[Encrypt], &[Sign]),
    };
    Passes { of_sample, of_message }
}

/// Measures the time in which one thread seals and opens samples.
pub(super) fn run(planned: &PlannedCase, sealing: Sealing, cores: Cores, stop: &Stop) -> Result<Measurement, Error> {
    let core = cores.map(|(publishers, _)| publishers);
    std::thread::scope(|scope| {
        let sealing = scope.spawn(|| {
            bind_current_thread(core.as_slice()).map_err(Error::Setup)?;
            let work = Work::new(planned, sealing)?;
            if planned.pace == Pace::PingPong { work.latency(planned, stop) } else { work.throughput(planned, stop) }
        });
        sealing.join().unwrap_or_else(|_| Err(Error::Transfer("the thread that seals has panicked".into())))
    })
}

/// The bytes of one message, and what seals them.
struct Work {
    octets: Vec<u8>,
    data_len: usize,
    passes: Passes,
    sealer: Sealer,
}

/// The content of all bytes that are not sealed.
const CONTENT: u8 = 0x5a;

impl Work {
    fn new(planned: &PlannedCase, sealing: Sealing) -> Result<Self, Error> {
        let data_len = usize::try_from(planned.data_len).unwrap_or(usize::MAX).max(1);
        let samples = samples_per_message(sealing.batched, data_len);
        Ok(Self {
            octets: vec![CONTENT; data_len.saturating_mul(samples)],
            data_len,
            passes: passes(sealing.protection),
            sealer: Sealer::new()?,
        })
    }

    fn latency(mut self, planned: &PlannedCase, stop: &Stop) -> Result<Measurement, Error> {
        let mut recorder = LatencyRecorder::new(0);
        self.repeat(planned, stop, |work, counts| {
            let begin = Instant::now();
            work.seal()?;
            work.open()?;
            if counts {
                recorder.record(nanoseconds(begin.elapsed()));
            }
            Ok(())
        })?;
        let (samples, duration_ns) = (recorder.moments().count(), nanoseconds(planned.duration));
        Ok(measurement(planned, samples, duration_ns, Some(recorder.result())))
    }

    fn throughput(mut self, planned: &PlannedCase, stop: &Stop) -> Result<Measurement, Error> {
        let samples_per_message = (self.octets.len() / self.data_len).max(1);
        let messages = (SAMPLES_PER_BURST / samples_per_message).max(1);
        let (mut samples, mut sealing, mut opening) = (0_u64, Duration::ZERO, Duration::ZERO);
        self.repeat(planned, stop, |work, counts| {
            let begin = Instant::now();
            (0..messages).try_for_each(|_| work.seal())?;
            let sealed = begin.elapsed();
            (0..messages).try_for_each(|_| work.open())?;
            if counts {
                samples += (messages * samples_per_message) as u64;
                opening += begin.elapsed().saturating_sub(sealed);
                sealing += sealed;
            }
            Ok(())
        })?;
        Ok(measurement(planned, samples, nanoseconds(sealing.max(opening)), None))
    }

    /// Calls `turn` until the time of the case is over, and states whether the warm-up is. At least one turn counts.
    fn repeat(
        &mut self,
        planned: &PlannedCase,
        stop: &Stop,
        mut turn: impl FnMut(&mut Self, bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        // On a busy machine, the whole time of a short case may pass between two turns.
        let mut has_counted = false;
        for number in 0_u64.. {
            let before = begin.elapsed();
            if has_counted && before >= planned.warm_up + planned.duration {
                break;
            }
            if number.is_multiple_of(TURNS_PER_LOOK) && stop.reason().is_some() {
                return Err(Error::Interrupted);
            }
            has_counted = before >= planned.warm_up;
            turn(self, has_counted)?;
        }
        if self.octets.iter().any(|octet| *octet != CONTENT) {
            return Err(Error::Transfer("opened bytes differ from those that were sealed".into()));
        }
        Ok(())
    }

    /// Seals the message: each sample, then the whole.
    fn seal(&mut self) -> Result<(), Error> {
        let Self { octets, data_len, passes, sealer } = self;
        for sample in octets.chunks_mut(*data_len) {
            passes.of_sample.iter().try_for_each(|pass| sealer.seal(*pass, sample))?;
        }
        passes.of_message.iter().try_for_each(|pass| sealer.seal(*pass, octets))
    }

    /// Opens what was sealed last.
    fn open(&mut self) -> Result<(), Error> {
        let Self { octets, data_len, passes, sealer } = self;
        passes.of_message.iter().rev().try_for_each(|pass| sealer.open(*pass, octets))?;
        for sample in octets.chunks_mut(*data_len).rev() {
            passes.of_sample.iter().rev().try_for_each(|pass| sealer.open(*pass, sample))?;
        }
        Ok(())
    }
}

fn samples_per_message(batched: bool, data_len: usize) -> usize {
    if batched { samples_per_batch(data_len) } else { 1 }
}

fn measurement(planned: &PlannedCase, samples: u64, duration_ns: u64, latency: Option<LatencyResult>) -> Measurement {
    let side = |side| SideResult { side, data_len: planned.data_len, ..SideResult::default() };
    let send = Some(SendResult { samples, duration_ns, ..SendResult::default() });
    let publisher = SideResult { latency, send, ..side(Side::Publisher) };
    let bytes = samples.saturating_mul(planned.data_len);
    let throughput = Some(ThroughputResult { samples, bytes, duration_ns, ..ThroughputResult::default() });
    planned.measurement(publisher, SideResult { throughput, ..side(Side::Subscriber) }, Vec::new())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Seals and opens bytes with one key. The text sealed last is opened first.
struct Sealer {
    key: LessSafeKey,
    /// The number of the next nonce.
    next: u64,
    /// The nonce and the tag of each pass that is not opened yet.
    tags: Vec<(u64, [u8; TAG_LEN])>,
}

impl Sealer {
    fn new() -> Result<Self, Error> {
        // The key protects nothing.
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(|_| failed())?;
        Ok(Self { key: LessSafeKey::new(key), next: 0, tags: Vec::new() })
    }

    fn seal(&mut self, pass: Pass, octets: &mut [u8]) -> Result<(), Error> {
        let number = self.next;
        self.next = number.wrapping_add(1);
        let last = self.last_tag();
        let tag = match pass {
            Pass::Sign => self.key.seal_in_place_separate_tag(nonce(number), Aad::from(&*octets), &mut []),
            Pass::Origin => self.key.seal_in_place_separate_tag(nonce(number), Aad::from(&last), &mut []),
            Pass::Encrypt => self.key.seal_in_place_separate_tag(nonce(number), Aad::empty(), octets),
        };
        let tag = tag.map_err(|_| failed())?.as_ref().try_into().map_err(|_| failed())?;
        self.tags.push((number, tag));
        Ok(())
    }

    fn open(&mut self, pass: Pass, octets: &mut [u8]) -> Result<(), Error> {
        let (number, tag) = self.tags.pop().ok_or_else(failed)?;
        let (key, nonce, before) = (&self.key, nonce(number), self.last_tag());
        let is_opened = match pass {
            Pass::Sign => key.open_in_place_separate_tag(nonce, Aad::from(&*octets), &tag, &mut []).is_ok(),
            Pass::Origin => key.open_in_place_separate_tag(nonce, Aad::from(&before), &tag, &mut []).is_ok(),
            Pass::Encrypt => key.open_in_place_separate_tag(nonce, Aad::empty(), &tag, octets).is_ok(),
        };
        if is_opened { Ok(()) } else { Err(failed()) }
    }

    fn last_tag(&self) -> [u8; TAG_LEN] {
        self.tags.last().map_or([0; TAG_LEN], |(_, tag)| *tag)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    let (low, _) = nonce.split_at_mut(8);
    low.copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn failed() -> Error {
    Error::Transfer("the cryptographic library failed".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::cases::{Cases, Conditions};
    use crate::campaign::peer::PeerPrograms;
    use crate::campaign::spec::Plan;

    fn work(protection: Protection, data_len: usize, samples: usize) -> Work {
        let octets = vec![CONTENT; data_len * samples];
        Work { octets, data_len, passes: passes(protection), sealer: Sealer::new().unwrap() }
    }

    #[test]
    fn sealed_messages_are_opened_by_all_passes_in_the_opposite_order() {
        for protection in Protection::ALL {
            let Passes { of_sample, of_message } = passes(protection);
            let mut work = work(protection, 5, 3);
            let original = work.octets.clone();
            for _ in 0..2 {
                work.seal().unwrap();
            }
            assert_eq!(work.sealer.tags.len(), 2 * (3 * of_sample.len() + of_message.len()), "{protection:?}");
            let encrypts = of_sample.iter().chain(of_message).any(|pass| *pass == Pass::Encrypt);
            assert_eq!(work.octets != original, encrypts, "{protection:?}");
            for _ in 0..2 {
                work.open().unwrap();
            }
            assert_eq!((work.octets, work.sealer.tags.len()), (original, 0), "{protection:?}");
        }
    }

    #[test]
    fn changed_byte_is_not_opened() {
        for protection in [Protection::Sign, Protection::Encrypt] {
            let mut work = work(protection, 100, 1);
            work.seal().unwrap();
            work.octets[50] ^= 1;
            assert!(work.open().is_err(), "{protection:?}");
        }
    }

    #[test]
    fn batch_has_as_many_samples_as_fit() {
        let samples = [(false, 32), (true, 32), (true, 8192), (true, 63_000)];
        assert_eq!(samples.map(|(batched, data_len)| samples_per_message(batched, data_len)), [1, 256, 1, 1]);
    }

    /// The measurement of a series in a plan of one case, of 20 ms.
    fn measured(series: &str, rate: &str) -> Measurement {
        let text = format!(
            "title = \"t\"\nseries = [\"{series}\"]\nduration_s = 0.01\nwarm_up_s = 0.01\n[[matrix]]\n\
             rates = [\"{rate}\"]\nsizes = [32]\n"
        );
        let conditions = Conditions { two_hosts: false, peers: PeerPrograms::none(""), quick: None };
        let planned = Cases::of(&Plan::read("p.toml", &text).unwrap(), &conditions).planned.remove(0);
        let super::super::cases::CaseProgram::Sealing(sealing) = planned.mover else { panic!("{planned:?}") };
        run(&planned, sealing, None, &Stop::default()).unwrap()
    }

    #[test]
    fn ping_pong_gives_latencies_and_unpaced_samples_the_rate_of_the_slower_side() {
        let latency = measured("sealing-rtps-encrypt", "ping-pong");
        assert!(latency.publisher.latency.unwrap().count > 0);
        let single = measured("sealing-rtps-encrypt", "unpaced");
        let batched = measured("sealing-rtps-encrypt-batched", "unpaced");
        for (measurement, samples) in [(&single, SAMPLES_PER_BURST as u64), (&batched, 256)] {
            let throughput = measurement.subscriber.throughput.as_ref().unwrap();
            assert!(throughput.samples > 0 && throughput.samples.is_multiple_of(samples), "{throughput:?}");
            assert_eq!(throughput.bytes, throughput.samples * 32);
            assert!(throughput.duration_ns > 0 && measurement.publisher.latency.is_none());
        }
    }
}
