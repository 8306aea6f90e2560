//! Parses the words of a command line to checked values.
//!
//! Every mistake on the line is reported, not only the first. The exception is a missing value, which makes the rest of
//! the line ambiguous.

use std::collections::BTreeMap;
use std::time::Duration;

use super::number;
use super::option::{
    Argument, Availability, Group, OptionDescriptor, RateLimit, SecretText, Side, ThreadAffinity, ThreadPriorities,
    Value,
};
use super::table::{self, OPTIONS};

/// The request of a command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Invocation {
    /// `-help` or `-h`, anywhere on the line.
    Help,
    /// A test run.
    Run(ParsedOptions),
}

/// All mistakes on a command line, one line of text each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError {
    /// At least one line.
    pub lines: Vec<String>,
}

/// The given options, each with its checked values in the order of the line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedOptions {
    given: BTreeMap<&'static str, Vec<Value>>,
}

/// Parses the words after the program's name.
pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Invocation, UsageError> {
    if words.iter().any(|word| matches!(word.as_ref(), "-help" | "-h")) {
        return Ok(Invocation::Help);
    }
    let mut options = ParsedOptions::default();
    let mut errors = Vec::new();
    let mut rest = words.iter().map(AsRef::as_ref).peekable();
    while let Some(word) = rest.next() {
        let option = match resolve(word) {
            Ok(option) => option,
            Err(line) => {
                errors.push(line);
                continue;
            }
        };
        let argument = rest.next_if(|next| takes_value(option) && !next.starts_with('-'));
        if argument.is_none() && requires_value(option) {
            errors.push(format!("Missing {} after -{}", option.argument.placeholder(), option.name));
            break;
        }
        match check_value(option, argument) {
            Ok(value) => options.add(option, value, &mut errors),
            Err(line) => errors.push(line),
        }
    }
    errors.extend(options.combination_errors());
    if errors.is_empty() { Ok(Invocation::Run(options)) } else { Err(UsageError { lines: errors }) }
}

/// The words of a correct line that belong to options of both sides, except the options in `except`.
pub fn words_of_both_sides<S: AsRef<str>>(words: &[S], except: &[&str]) -> Vec<String> {
    let mut taken = Vec::new();
    let mut rest = words.iter().map(AsRef::as_ref).peekable();
    while let Some(word) = rest.next() {
        let Ok(option) = resolve(word) else { continue };
        let argument = rest.next_if(|next| takes_value(option) && !next.starts_with('-'));
        if option.side == Side::Both && !except.contains(&option.name) {
            taken.extend(std::iter::once(word).chain(argument).map(str::to_owned));
        }
    }
    taken
}

impl ParsedOptions {
    /// Whether the option was given.
    pub fn has(&self, name: &'static str) -> bool {
        debug_assert!(table::descriptor(name).is_some(), "no option is called {name}");
        self.given.contains_key(name)
    }

    /// The number given to an option.
    pub fn integer(&self, name: &'static str) -> Option<u64> {
        self.last(name, |value| if let Value::Integer(number) = value { Some(*number) } else { None })
    }

    /// The duration given to an option.
    pub fn duration(&self, name: &'static str) -> Option<Duration> {
        self.last(name, |value| if let Value::Duration(duration) = value { Some(*duration) } else { None })
    }

    /// The text given to an option.
    pub fn text(&self, name: &'static str) -> Option<&str> {
        self.last(name, |value| if let Value::Text(text) = value { Some(text.as_str()) } else { None })
    }

    /// The secret given to an option.
    pub fn secret(&self, name: &'static str) -> Option<&SecretText> {
        self.last(name, |value| if let Value::Secret(text) = value { Some(text) } else { None })
    }

    /// Every text given to a repeatable option, in the order of the line.
    pub fn texts(&self, name: &'static str) -> Vec<&str> {
        debug_assert!(table::descriptor(name).is_some(), "no option is called {name}");
        let values = self.given.get(name).into_iter().flatten();
        values.filter_map(|value| if let Value::Text(text) = value { Some(text.as_str()) } else { None }).collect()
    }

    /// The word chosen for an option.
    pub fn choice(&self, name: &'static str) -> Option<&'static str> {
        self.last(name, |value| if let Value::Choice(word) = value { Some(*word) } else { None })
    }

    /// The rate given to an option.
    pub fn rate(&self, name: &'static str) -> Option<RateLimit> {
        self.last(name, |value| if let Value::Rate(rate) = value { Some(*rate) } else { None })
    }

    /// `-threadPriorities`
    pub fn priorities(&self) -> Option<ThreadPriorities> {
        self.last(
            "threadPriorities",
            |value| {
                if let Value::Priorities(priorities) = value { Some(*priorities) } else { None }
            },
        )
    }

    /// `-threadCPUAffinity`
    pub fn affinity(&self) -> Option<&ThreadAffinity> {
        self.last(
            "threadCPUAffinity",
            |value| if let Value::Affinity(affinity) = value { Some(affinity) } else { None },
        )
    }

    /// The sizes given to an option.
    pub fn sizes(&self, name: &'static str) -> Option<&[u64]> {
        self.last(name, |value| if let Value::Sizes(sizes) = value { Some(sizes.as_slice()) } else { None })
    }

    /// The last value wins, as in RTI Perftest.
    fn last<'a, T>(&'a self, name: &'static str, select: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        debug_assert!(table::descriptor(name).is_some(), "no option is called {name}");
        self.given.get(name).and_then(|values| values.last()).and_then(select)
    }

    fn add(&mut self, option: &'static OptionDescriptor, value: Value, errors: &mut Vec<String>) {
        match option.availability {
            Availability::Now | Availability::Old => {}
            Availability::Refused => errors.push(format!("-{} is not supported: {}", option.name, option.help)),
            Availability::NotYet => errors.push(format!("-{} is not available yet", option.name)),
            Availability::Removed => {
                errors.push(format!("-{} was removed from RTI Perftest; instead use: {}", option.name, option.help));
            }
        }
        let values = self.given.entry(option.name).or_default();
        match option.argument {
            Argument::Repeated { max, .. } if values.len() >= max => {
                if values.len() == max {
                    errors.push(format!("-{} is given more than {max} times", option.name));
                }
            }
            Argument::Repeated { .. } => values.push(value),
            _ => *values = vec![value],
        }
    }

    /// RTI Perftest's checks after parsing: combinations that `-rawTransport`, `-pub` and `-sub` exclude.
    fn combination_errors(&self) -> Vec<String> {
        // Unavailable options are refused already.
        let is_available =
            |option: &&OptionDescriptor| matches!(option.availability, Availability::Now | Availability::Old);
        let given = || OPTIONS.iter().filter(is_available).filter(|option| self.given.contains_key(option.name));
        let mut errors = Vec::new();
        if self.has("rawTransport")
            && let Some(option) = given().find(|option| !option.raw)
        {
            errors.push(format!("-{} is not supported by raw sockets (-rawTransport)", option.name));
        }
        if self.has("sub") {
            let wrong = given().filter(|option| option.side == Side::Publisher);
            errors
                .extend(wrong.map(|option| format!("-{} is a publisher option; it cannot go with -sub", option.name)));
        } else if self.has("pub") {
            let wrong = given().filter(|option| option.side == Side::Subscriber);
            errors
                .extend(wrong.map(|option| format!("-{} is a subscriber option; it cannot go with -pub", option.name)));
        }
        errors
    }
}

/// Finds the option of a word: its full name or an unambiguous prefix, case-insensitive. Of several options of
/// security, the first in ASCII order is meant, as in RTI Perftest: `-secureP` is `-securePSK`.
fn resolve(word: &str) -> Result<&'static OptionDescriptor, String> {
    let cannot_parse = || format!("Cannot parse '{word}': invalid input. Use -help to see the options.");
    let typed = word.strip_prefix('-').filter(|typed| !typed.is_empty()).ok_or_else(cannot_parse)?;
    if let Some(exact) = OPTIONS.iter().find(|option| option.name.eq_ignore_ascii_case(typed)) {
        return Ok(exact);
    }
    let begins = |option: &&OptionDescriptor| {
        !matches!(option.availability, Availability::Old | Availability::Removed)
            && option.name.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed))
    };
    let candidates: Vec<_> = OPTIONS.iter().filter(begins).collect();
    match candidates[..] {
        [] => Err(cannot_parse()),
        [only] => Ok(only),
        [first, ..] if candidates.iter().all(|option| option.group == Group::Security) => {
            Ok(candidates.into_iter().min_by_key(|option| option.name).unwrap_or(first))
        }
        _ => {
            let names: Vec<_> = candidates.iter().map(|option| format!("-{}", option.name)).collect();
            Err(format!("'{word}' is ambiguous: {}", names.join(", ")))
        }
    }
}

fn takes_value(option: &OptionDescriptor) -> bool {
    option.argument != Argument::Flag
}

fn requires_value(option: &OptionDescriptor) -> bool {
    !matches!(
        option.argument,
        Argument::Flag | Argument::OptionalInteger { .. } | Argument::OptionalText { .. } | Argument::Sizes { .. }
    )
}

fn check_value(option: &OptionDescriptor, text: Option<&str>) -> Result<Value, String> {
    let Some(text) = text else { return Ok(Value::Present) };
    let name = option.name;
    let refuse = |reason: String| format!("Bad value for -{name}: {reason}; permitted: {}", option.argument.range());
    let within = |number: u64, min: u64, max: u64| {
        if (min..=max).contains(&number) { Ok(number) } else { Err(refuse(format!("{number} is out of range"))) }
    };
    match option.argument {
        Argument::Flag => Ok(Value::Present),
        Argument::Integer { min, max, .. } | Argument::OptionalInteger { min, max, .. } => {
            within(number::parse_integer(text).map_err(refuse)?, min, max).map(Value::Integer)
        }
        Argument::Seconds { min_ms } => {
            let duration = number::parse_duration(text).map_err(refuse)?;
            if duration < Duration::from_millis(min_ms) {
                return Err(refuse(format!("'{text}' is too short")));
            }
            Ok(Value::Duration(duration))
        }
        Argument::Choice { permitted, not_yet, refused, .. } => {
            if let Some(word) = permitted.iter().find(|word| **word == text) {
                return Ok(Value::Choice(word));
            }
            if not_yet.contains(&text) {
                return Err(format!("-{name} {text} is not available yet"));
            }
            if let Some((_, reason)) = refused.iter().find(|(word, _)| *word == text) {
                return Err(format!("-{name} {text} is not supported: {reason}"));
            }
            Err(refuse(format!("'{text}' is none of them")))
        }
        Argument::Text { .. } | Argument::OptionalText { .. } | Argument::Repeated { .. } => {
            Ok(Value::Text(text.to_owned()))
        }
        Argument::Secret { .. } => Ok(Value::Secret(text.into())),
        Argument::Span { max, .. } => {
            let span = number::parse_span(text).map_err(refuse)?;
            within(*span.end(), 0, max)?;
            Ok(Value::Span(span))
        }
        Argument::Rate { max, .. } => {
            let rate = number::parse_rate(text).map_err(refuse)?;
            within(rate.per_second, 1, max)?;
            Ok(Value::Rate(rate))
        }
        Argument::Priorities => number::parse_priorities(text).map(Value::Priorities).map_err(refuse),
        Argument::Affinity => number::parse_affinity(text).map(Value::Affinity).map_err(refuse),
        Argument::Sizes { min, max } => {
            let sizes = number::parse_sizes(text).map_err(refuse)?;
            for size in &sizes {
                within(*size, min, max)?;
            }
            Ok(Value::Sizes(sizes))
        }
    }
}

#[cfg(test)]
mod tests;
