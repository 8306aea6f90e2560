//! The floor of protection: a thread seals the bytes of a sample and opens them again, with nothing else.

use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use peregrine_report::record::{Measurement, SendResult, Side, SideResult, ThroughputResult};

use super::cases::PlannedCase;
use crate::characterize::kept::Cores;
use crate::control::Stop;
use crate::error::Error;
use crate::protection::Protection;
use crate::recorder::LatencyRecorder;
use crate::threads::bind_current_thread;

const TAG_LEN: usize = 16;
/// The most passes over a sample.
const PASSES_MAX: usize = 4;
/// Turns between two checks of the stop request.
const TURNS_PER_LOOK: u64 = 64;

/// A pass over a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// AES-256-GMAC of all bytes.
    Sign,
    /// AES-256-GCM of all bytes.
    Encrypt,
    /// AES-256-GMAC of a tag, for one receiver.
    Origin,
}

/// The passes over a sample: of the payload first, of the message last.
const fn passes(protection: Protection) -> &'static [Pass] {
    use Pass::{Encrypt, Origin, Sign};
    match protection {
        Protection::Unprotected => &[],
        Protection::Sign => &[Sign],
        Protection::Encrypt => &[Encrypt],
        Protection::SignOriginDataEncrypt => &[Encrypt, Sign, Origin],
        Protection::SignSubmessageEncryptOriginDataEncrypt => &[Encrypt, Encrypt, Origin, Sign],
        Protection::SignSubmessageEncrypt => &[Encrypt, Sign],
    }
}

/// Measures the time in which one thread seals and opens the bytes of a sample.
pub(super) fn run(
    planned: &PlannedCase,
    protection: Protection,
    cores: Cores,
    stop: &Stop,
) -> Result<Measurement, Error> {
    let core = cores.map(|(publishers, _)| publishers);
    let latency = std::thread::scope(|scope| {
        let sealing = scope.spawn(|| {
            bind_current_thread(core.as_slice()).map_err(Error::Setup)?;
            measure(planned, passes(protection), stop)
        });
        sealing.join().unwrap_or_else(|_| Err(Error::Transfer("the thread that seals has panicked".into())))
    })?;
    let (samples, duration_ns) = (latency.moments().count(), planned.duration.as_nanos() as u64);
    let side = |side| SideResult { side, data_len: planned.data_len, ..SideResult::default() };
    let publisher = SideResult {
        latency: Some(latency.result()),
        send: Some(SendResult { samples, duration_ns, ..SendResult::default() }),
        ..side(Side::Publisher)
    };
    let bytes = samples.saturating_mul(planned.data_len);
    let throughput = ThroughputResult { samples, bytes, duration_ns, ..ThroughputResult::default() };
    let subscriber = SideResult { throughput: Some(throughput), ..side(Side::Subscriber) };
    Ok(planned.measurement(publisher, subscriber, Vec::new()))
}

fn measure(planned: &PlannedCase, passes: &[Pass], stop: &Stop) -> Result<LatencyRecorder, Error> {
    let len = usize::try_from(planned.data_len).unwrap_or(usize::MAX);
    let (mut octets, mut sealer, mut recorder) = (vec![0x5a; len], Sealer::new()?, LatencyRecorder::new(0));
    let begin = Instant::now();
    let end = planned.warm_up + planned.duration;
    for turn in 0_u64.. {
        let before = begin.elapsed();
        if before >= end {
            break;
        }
        if turn.is_multiple_of(TURNS_PER_LOOK) && stop.reason().is_some() {
            return Err(Error::Interrupted);
        }
        sealer.turn(passes, &mut octets)?;
        if before >= planned.warm_up {
            recorder.record(nanoseconds(begin.elapsed().saturating_sub(before)));
        }
    }
    if octets.iter().any(|octet| *octet != 0x5a) {
        return Err(Error::Transfer("opened bytes differ from those that were sealed".into()));
    }
    Ok(recorder)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Seals and opens bytes with one key.
struct Sealer {
    key: LessSafeKey,
    /// The number of the next nonce.
    next: u64,
}

impl Sealer {
    fn new() -> Result<Self, Error> {
        // The key protects nothing.
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(|_| failed())?;
        Ok(Self { key: LessSafeKey::new(key), next: 0 })
    }

    /// Seals the bytes by all passes, and opens them in the opposite order.
    fn turn(&mut self, passes: &[Pass], octets: &mut [u8]) -> Result<(), Error> {
        let mut tags = [(0, [0; TAG_LEN]); PASSES_MAX];
        let mut last = [0; TAG_LEN];
        for (pass, place) in passes.iter().zip(&mut tags) {
            let number = self.next;
            self.next = number.wrapping_add(1);
            let own = self.seal(*pass, nonce(number), octets, &last)?;
            // The text of an origin pass is the tag before, which its opening needs again.
            *place = (number, own);
            last = if *pass == Pass::Origin { last } else { own };
        }
        for (index, pass) in passes.iter().enumerate().rev() {
            let (number, tag) = tags.get(index).copied().ok_or_else(failed)?;
            let before = index.checked_sub(1).and_then(|index| tags.get(index)).map_or([0; TAG_LEN], |(_, tag)| *tag);
            self.open(*pass, nonce(number), octets, &before, &tag)?;
        }
        Ok(())
    }

    fn seal(&self, pass: Pass, nonce: Nonce, octets: &mut [u8], last: &[u8]) -> Result<[u8; TAG_LEN], Error> {
        let tag = match pass {
            Pass::Sign => self.key.seal_in_place_separate_tag(nonce, Aad::from(&*octets), &mut []),
            Pass::Origin => self.key.seal_in_place_separate_tag(nonce, Aad::from(last), &mut []),
            Pass::Encrypt => self.key.seal_in_place_separate_tag(nonce, Aad::empty(), octets),
        };
        tag.map_err(|_| failed())?.as_ref().try_into().map_err(|_| failed())
    }

    fn open(&self, pass: Pass, nonce: Nonce, octets: &mut [u8], before: &[u8], tag: &[u8]) -> Result<(), Error> {
        let key = &self.key;
        let is_opened = match pass {
            Pass::Sign => key.open_in_place_separate_tag(nonce, Aad::from(&*octets), tag, &mut []).is_ok(),
            Pass::Origin => key.open_in_place_separate_tag(nonce, Aad::from(before), tag, &mut []).is_ok(),
            Pass::Encrypt => key.open_in_place_separate_tag(nonce, Aad::empty(), tag, octets).is_ok(),
        };
        if is_opened { Ok(()) } else { Err(failed()) }
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

    #[test]
    fn sealed_bytes_are_opened_by_all_passes() {
        for protection in Protection::ALL {
            assert!(passes(protection).len() <= PASSES_MAX);
            let (mut octets, mut sealer) = (vec![1, 2, 3, 4, 5], Sealer::new().unwrap());
            for _ in 0..3 {
                sealer.turn(passes(protection), &mut octets).unwrap();
                assert_eq!(octets, [1, 2, 3, 4, 5], "{protection:?}");
            }
            assert_eq!(sealer.next, 3 * passes(protection).len() as u64);
        }
    }

    #[test]
    fn encryption_changes_bytes_and_a_changed_byte_is_not_opened() {
        let sealer = Sealer::new().unwrap();
        for pass in [Pass::Sign, Pass::Encrypt] {
            let mut octets = vec![9; 100];
            let tag = sealer.seal(pass, nonce(1), &mut octets, &[]).unwrap();
            assert_eq!(octets == [9; 100], pass == Pass::Sign);
            octets[50] ^= 1;
            assert!(sealer.open(pass, nonce(1), &mut octets, &[], &tag).is_err());
        }
    }
}
