//! The payload that fills a sample to its length.

use std::fs::File;
use std::io::{self, Read};

use super::side::status;
use crate::error::Error;
use crate::payload;
use crate::plan::PayloadFile;

/// Source of payloads: a zero byte or a file, repeated; or a pattern for each sample.
#[derive(Debug)]
pub(super) struct PayloadSource {
    bytes: Vec<u8>,
    patterns: bool,
}

/// Payloads of one length.
#[derive(Debug)]
pub(super) struct Payloads {
    /// The source followed by its beginning, so that each payload is contiguous wherever it starts.
    bytes: Vec<u8>,
    period: usize,
    len: usize,
    /// The length modulo the period.
    step: usize,
    start: usize,
    patterns: bool,
}

/// Number that selects the pattern of a sample.
#[inline]
pub(super) fn number_of(publisher: u32, seq_num: u32) -> u64 {
    u64::from(publisher) << 32 | u64::from(seq_num)
}

impl PayloadSource {
    /// Loads the file, if there is one; without a file there may be patterns.
    pub(super) fn open(file: Option<&PayloadFile>, patterns: bool) -> Result<Self, Error> {
        let Some(PayloadFile { path, max_bytes }) = file else { return Ok(Self { bytes: vec![0], patterns }) };
        let refuse = |reason: String| Error::Setup(format!("-loadDataFromFile {}: {reason}", path.display()));
        let load = || -> io::Result<(Vec<u8>, u64)> {
            let mut file = File::open(path)?;
            let mut bytes = Vec::new();
            file.by_ref().take(*max_bytes).read_to_end(&mut bytes)?;
            Ok((bytes, file.metadata()?.len()))
        };
        let (bytes, file_len) = load().map_err(|error| refuse(error.to_string()))?;
        if bytes.is_empty() {
            return Err(refuse("the file is empty".into()));
        }
        if file_len > bytes.len() as u64 {
            status(&format!(
                "Of {} the first {} bytes are used (-maximumAllocableBufferSize).",
                path.display(),
                bytes.len()
            ));
        }
        Ok(Self { bytes, patterns: false })
    }

    /// Whether each payload has its own pattern.
    pub(super) fn writes_patterns(&self) -> bool {
        self.patterns
    }

    /// Payloads of this length, from the beginning of the source.
    pub(super) fn payloads(&self, len: usize) -> Payloads {
        let period = self.bytes.len();
        let mut bytes = self.bytes.clone();
        bytes.reserve_exact(len);
        while bytes.len() < period + len {
            let more = (period + len - bytes.len()).min(bytes.len());
            bytes.extend_from_within(..more);
        }
        Payloads { bytes, period, len, step: len % period, start: 0, patterns: self.patterns }
    }
}

impl Payloads {
    /// The next payload, of the sample with this [`number_of`]: it starts where the last one ended.
    #[inline]
    pub(super) fn next(&mut self, number: u64) -> &[u8] {
        if self.patterns {
            payload::write_some(&mut self.bytes[..self.len], number);
            return &self.bytes[..self.len];
        }
        let start = self.start;
        self.start += self.step;
        if self.start >= self.period {
            self.start -= self.period;
        }
        &self.bytes[start..start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_without_file_is_zeros() {
        let mut payloads = PayloadSource::open(None, false).unwrap().payloads(3);
        assert_eq!(payloads.next(0), [0; 3]);
        assert_eq!(payloads.next(1), [0; 3]);
        assert!(PayloadSource::open(None, false).unwrap().payloads(0).next(0).is_empty());
    }

    #[test]
    fn payload_with_patterns_depends_on_sample() {
        let source = PayloadSource::open(None, true).unwrap();
        assert!(source.writes_patterns());
        for len in [0, 3, 100, 10_000] {
            let mut payloads = source.payloads(len);
            for number in [number_of(0, 0), number_of(0, 1), number_of(7, 1)] {
                let bytes = payloads.next(number);
                assert!(bytes.len() == len && payload::are_some_intact(bytes, number));
            }
        }
    }

    #[test]
    fn file_is_sent_repeatedly() {
        let source = PayloadSource { bytes: b"abcde".to_vec(), patterns: false };
        let mut short = source.payloads(2);
        let sent: Vec<_> = (0..5).map(|_| String::from_utf8(short.next(0).to_vec()).unwrap()).collect();
        assert_eq!(sent, ["ab", "cd", "ea", "bc", "de"]);
        assert_eq!(source.payloads(7).next(0), b"abcdeab");
        let mut long = source.payloads(12);
        long.next(0);
        assert_eq!(long.next(1), b"cdeabcdeabcd");
    }
}
