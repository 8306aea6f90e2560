//! PEM: base64 between lines that name the content (RFC 7468). Text around the blocks is ignored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// A block that is not closed, or has other content than base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MalformedPem {
    /// From 1.
    pub(super) line: usize,
}

/// A block.
pub(super) struct Block<'a> {
    pub(super) label: &'a str,
    /// Lines such as `Proc-Type: 4,ENCRYPTED` before the content.
    pub(super) has_headers: bool,
    pub(super) octets: Zeroizing<Vec<u8>>,
}

/// The blocks, in order.
pub(super) fn blocks(text: &str) -> impl Iterator<Item = Result<Block<'_>, MalformedPem>> {
    let mut lines = text.lines().enumerate();
    core::iter::from_fn(move || {
        let (at, label) = lines.find_map(|(index, line)| Some((index + 1, label(line, BEGIN)?)))?;
        Some(content(label, at, &mut lines))
    })
}

fn content<'a>(
    label_begun: &'a str,
    at: usize,
    lines: &mut (impl Iterator<Item = (usize, &'a str)> + Clone),
) -> Result<Block<'a>, MalformedPem> {
    // With room for all lines, the text does not move, and leaves no copy of a key behind.
    let until_end = lines.clone().take_while(|(_, line)| !line.starts_with('-'));
    let room = until_end.map(|(_, line)| line.len()).sum();
    let mut base64 = Zeroizing::new(String::with_capacity(room));
    let mut has_headers = false;
    for (index, line) in lines {
        let malformed = MalformedPem { line: index + 1 };
        if let Some(ended) = label(line, END) {
            let octets = STANDARD.decode(base64.as_bytes()).map_err(|_| MalformedPem { line: at })?;
            let block = Block { label: label_begun, has_headers, octets: Zeroizing::new(octets) };
            return if ended == label_begun { Ok(block) } else { Err(malformed) };
        }
        if line.contains(':') && base64.is_empty() {
            has_headers = true;
        } else if !line.starts_with('-') {
            base64.push_str(line.trim());
        } else {
            return Err(malformed);
        }
    }
    Err(MalformedPem { line: at })
}

fn label<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.trim_end().strip_prefix(mark)?.strip_suffix(DASHES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Label, whether there are headers, and content; or the line of the fault.
    type Read = Result<(String, bool, Vec<u8>), usize>;

    fn all(text: &str) -> Vec<Read> {
        let blocks = blocks(text).take(10);
        blocks
            .map(|block| block.map(|b| (b.label.to_owned(), b.has_headers, b.octets.to_vec())).map_err(|e| e.line))
            .collect()
    }

    #[test]
    fn blocks_are_found_between_other_text() {
        let text = "Certificate:\r\n    Data: 1\n-----BEGIN A-----\r\nAQ\r\nID\r\n-----END A-----\r\nmore\n\
                    -----BEGIN B C-----\nProc-Type: 4,ENCRYPTED\n\nBAU=\n-----END B C-----";
        let expected = [Ok(("A".to_owned(), false, vec![1, 2, 3])), Ok(("B C".to_owned(), true, vec![4, 5]))];
        assert_eq!(all(text), expected);
        assert_eq!(all("nothing"), []);
    }

    #[test]
    fn malformed_blocks_are_refused_with_their_line() {
        assert_eq!(all("\n-----BEGIN A-----\nAQID\n"), [Err(2)]);
        assert_eq!(all("-----BEGIN A-----\nAQID\n-----END B-----\n"), [Err(3)]);
        assert_eq!(all("-----BEGIN A-----\nA?ID\n-----END A-----\n"), [Err(1)]);
        assert_eq!(all("-----BEGIN A-----\nAQID\n-----BEGIN A-----\n"), [Err(3)]);
    }
}
