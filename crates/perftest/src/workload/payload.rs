//! The octets that make a sample as long as it shall be.

use std::fs::File;
use std::io::{self, Read};

use super::status;
use crate::error::Error;
use crate::plan::PayloadFile;

/// Where payloads come from: one 0, or a file, over and over.
#[derive(Debug)]
pub(super) struct PayloadSource {
    octets: Vec<u8>,
}

/// The payloads of one length.
#[derive(Debug)]
pub(super) struct Payloads {
    /// The source, and behind it its beginning again, so that a payload is in one piece wherever it starts.
    octets: Vec<u8>,
    period: usize,
    len: usize,
    /// The length, without whole periods.
    step: usize,
    start: usize,
}

impl PayloadSource {
    /// Loads the file, when there is one.
    pub(super) fn open(file: Option<&PayloadFile>) -> Result<Self, Error> {
        let Some(PayloadFile { path, max_bytes }) = file else { return Ok(Self { octets: vec![0] }) };
        let refuse = |reason: String| Error::Setup(format!("-loadDataFromFile {}: {reason}", path.display()));
        let load = || -> io::Result<(Vec<u8>, u64)> {
            let mut file = File::open(path)?;
            let mut octets = Vec::new();
            file.by_ref().take(*max_bytes).read_to_end(&mut octets)?;
            Ok((octets, file.metadata()?.len()))
        };
        let (octets, file_len) = load().map_err(|error| refuse(error.to_string()))?;
        if octets.is_empty() {
            return Err(refuse("the file is empty".into()));
        }
        if file_len > octets.len() as u64 {
            status(&format!(
                "Of {} the first {} bytes are used (-maximumAllocableBufferSize).",
                path.display(),
                octets.len()
            ));
        }
        Ok(Self { octets })
    }

    /// Payloads of this length, from the beginning of the source.
    pub(super) fn payloads(&self, len: usize) -> Payloads {
        let period = self.octets.len();
        let mut octets = self.octets.clone();
        octets.reserve_exact(len);
        while octets.len() < period + len {
            let more = (period + len - octets.len()).min(octets.len());
            octets.extend_from_within(..more);
        }
        Payloads { octets, period, len, step: len % period, start: 0 }
    }
}

impl Payloads {
    /// The next: where one ends the next begins.
    #[inline]
    pub(super) fn next(&mut self) -> &[u8] {
        let start = self.start;
        self.start += self.step;
        if self.start >= self.period {
            self.start -= self.period;
        }
        &self.octets[start..start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_payloads_are_zeros() {
        let mut payloads = PayloadSource::open(None).unwrap().payloads(3);
        assert_eq!(payloads.next(), [0; 3]);
        assert_eq!(payloads.next(), [0; 3]);
        assert!(PayloadSource::open(None).unwrap().payloads(0).next().is_empty());
    }

    #[test]
    fn a_file_is_sent_over_and_over() {
        let source = PayloadSource { octets: b"abcde".to_vec() };
        let mut short = source.payloads(2);
        let sent: Vec<_> = (0..5).map(|_| String::from_utf8(short.next().to_vec()).unwrap()).collect();
        assert_eq!(sent, ["ab", "cd", "ea", "bc", "de"]);
        assert_eq!(source.payloads(7).next(), b"abcdeab");
        let mut long = source.payloads(12);
        long.next();
        assert_eq!(long.next(), b"cdeabcdeabcd");
    }
}
