//! Numbers and small structured values of the command line.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::option::{Priority, RateLimit, ThreadAffinity, ThreadPriorities, WaitMethod};

/// Highest core number that an affinity list may name.
const MAX_CORE: usize = 1023;

/// Parses a whole number with an optional suffix: k, M, G are powers of 1000, Ki, Mi, Gi powers of 1024.
pub(super) fn parse_integer(text: &str) -> Result<u64, String> {
    let digits_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, suffix) = text.split_at(digits_len);
    if digits.is_empty() {
        return Err(format!("'{text}' is not a whole number"));
    }
    let factor = match suffix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(format!("'{text}' has '{suffix}' after the number; the suffixes are k, M, G, Ki, Mi, Gi")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is too large"))?;
    number.checked_mul(factor).ok_or_else(|| format!("'{text}' is too large"))
}

/// Parses whole seconds, or a whole number followed by `ms` or `s`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return Ok(Duration::from_millis(parse_integer(milliseconds)?));
    }
    Ok(Duration::from_secs(parse_integer(text.strip_suffix('s').unwrap_or(text))?))
}

/// Parses `n`, `n:spin` or `n:sleep`; a bare number means spin.
pub(super) fn parse_rate(text: &str) -> Result<RateLimit, String> {
    let (number, method) = match text.split_once(':') {
        None => (text, WaitMethod::Spin),
        Some((number, "spin")) => (number, WaitMethod::Spin),
        Some((number, "sleep")) => (number, WaitMethod::Sleep),
        Some((_, other)) => return Err(format!("the method '{other}' is neither 'spin' nor 'sleep'")),
    };
    Ok(RateLimit { per_second: parse_integer(number)?, method })
}

/// Parses sizes joined by colons; the result is sorted and has no duplicates.
pub(super) fn parse_sizes(text: &str) -> Result<Vec<u64>, String> {
    let mut sizes = text.split(':').map(parse_integer).collect::<Result<Vec<_>, _>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// Parses one number, or the first and last of a range joined by a colon.
pub(super) fn parse_span(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let (first, last) = (parse_integer(first)?, parse_integer(last)?);
    if first > last { Err(format!("the range '{text}' runs backwards")) } else { Ok(first..=last) }
}

/// Parses `main:receive:event`.
pub(super) fn parse_priorities(text: &str) -> Result<ThreadPriorities, String> {
    let parts = text.split(':').map(parse_priority).collect::<Result<Vec<_>, _>>()?;
    match parts[..] {
        [main, receive, event] => Ok(ThreadPriorities { main, receive, event }),
        _ => Err(format!("'{text}' must have three parts, X:Y:Z")),
    }
}

fn parse_priority(text: &str) -> Result<Priority, String> {
    match text {
        "h" => Ok(Priority::High),
        "n" => Ok(Priority::Normal),
        "l" => Ok(Priority::Low),
        _ => match text.parse() {
            Ok(number @ 1..=99) => Ok(Priority::Number(number)),
            _ => Err(format!("the priority '{text}' is not 1 to 99, h, n or l")),
        },
    }
}

/// Parses up to four core lists, `main:receive:event:database`.
pub(super) fn parse_affinity(text: &str) -> Result<ThreadAffinity, String> {
    let mut lists = text.split(':').map(parse_cores).collect::<Result<Vec<_>, _>>()?;
    if lists.len() > 4 {
        return Err(format!("'{text}' has more than four parts, A:B:C:D"));
    }
    lists.resize(4, Vec::new());
    let mut next = || lists.remove(0);
    Ok(ThreadAffinity { main: next(), receive: next(), event: next(), database: next() })
}

fn parse_cores(text: &str) -> Result<Vec<usize>, String> {
    let mut cores = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse_core(first)?, parse_core(last)?);
        if first > last {
            return Err(format!("the core range '{part}' runs backwards"));
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}

fn parse_core(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(core) if core <= MAX_CORE => Ok(core),
        _ => Err(format!("'{text}' is not a core number (0 to {MAX_CORE})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_suffixes_and_reject_junk() {
        assert_eq!(parse_integer("0"), Ok(0));
        assert_eq!(parse_integer("63000"), Ok(63_000));
        assert_eq!(parse_integer("10k"), Ok(10_000));
        assert_eq!(parse_integer("2M"), Ok(2_000_000));
        assert_eq!(parse_integer("1G"), Ok(1_000_000_000));
        assert_eq!(parse_integer("64Ki"), Ok(65_536));
        assert!(parse_integer("12abc").unwrap_err().contains("'abc' after the number"));
        assert!(parse_integer("k").unwrap_err().contains("not a whole number"));
        assert!(parse_integer("1.5").is_err());
        assert!(parse_integer("").is_err());
        assert!(parse_integer("99999999999999999999").unwrap_err().contains("too large"));
        assert!(parse_integer("99999999999999999G").unwrap_err().contains("too large"));
    }

    #[test]
    fn duration_without_suffix_is_in_seconds() {
        assert_eq!(parse_duration("20"), Ok(Duration::from_secs(20)));
        assert_eq!(parse_duration("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(parse_duration("250us").is_err());
    }

    #[test]
    fn span_is_one_number_or_ascending() {
        assert_eq!(parse_span("7"), Ok(7..=7));
        assert_eq!(parse_span("7:9"), Ok(7..=9));
        assert!(parse_span("9:7").unwrap_err().contains("runs backwards"));
        assert!(parse_span("1:").is_err() && parse_span("1:2:3").is_err());
    }

    #[test]
    fn rate_without_method_spins() {
        assert_eq!(parse_rate("500"), Ok(RateLimit { per_second: 500, method: WaitMethod::Spin }));
        assert_eq!(parse_rate("10k:sleep"), Ok(RateLimit { per_second: 10_000, method: WaitMethod::Sleep }));
        assert!(parse_rate("500:wait").unwrap_err().contains("'wait' is neither"));
        assert!(parse_rate(":spin").is_err());
    }

    #[test]
    fn affinity_lists_and_ranges() {
        let affinity = parse_affinity("0:1,3-5::2").unwrap();
        assert_eq!(affinity.main, [0]);
        assert_eq!(affinity.receive, [1, 3, 4, 5]);
        assert_eq!(affinity.event, [] as [usize; 0]);
        assert_eq!(affinity.database, [2]);
        assert_eq!(parse_affinity("7").unwrap().main, [7]);
        assert!(parse_affinity("5-3").unwrap_err().contains("backwards"));
        assert!(parse_affinity("0:1:2:3:4").is_err());
        assert!(parse_affinity("a").is_err());
        assert!(parse_affinity("0-4000000000").is_err());
    }

    #[test]
    fn priorities_are_numbers_or_letters() {
        let priorities = parse_priorities("80:h:l").unwrap();
        assert_eq!(priorities.main, Priority::Number(80));
        assert_eq!(priorities.receive, Priority::High);
        assert_eq!(priorities.event, Priority::Low);
        assert!(parse_priorities("80:80").unwrap_err().contains("three parts"));
        assert!(parse_priorities("100:1:1").is_err());
    }

    #[test]
    fn sizes_are_sorted_and_unique() {
        assert_eq!(parse_sizes("1k:32:64:32"), Ok(vec![32, 64, 1000]));
        assert!(parse_sizes("32::64").is_err());
    }
}
