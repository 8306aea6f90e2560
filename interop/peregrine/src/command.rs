//! One line of the protocol (`interop/README.md`) as words and options.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A command's name, its words, and the options behind them.
pub(crate) struct Command<'l> {
    words: Vec<&'l str>,
    options: Vec<(&'l str, &'l str)>,
}

impl<'l> Command<'l> {
    pub(crate) fn parse(line: &'l str) -> Self {
        // `=` alone is an operator of `wait`, and `>=` is another: an option has a name before and a value after it.
        let as_option = |word: &'l str| {
            word.split_once('=').filter(|(name, value)| !name.is_empty() && *name != ">" && !value.is_empty())
        };
        let (mut words, mut options) = (Vec::new(), Vec::new());
        for word in line.split_whitespace() {
            match as_option(word) {
                Some(option) => options.push(option),
                None => words.push(word),
            }
        }
        Self { words, options }
    }

    pub(crate) fn name(&self) -> &'l str {
        self.words.first().copied().unwrap_or_default()
    }

    pub(crate) fn word(&self, index: usize) -> Result<&'l str> {
        self.words.get(index).copied().with_context(|| format!("word {index} of `{}` is missing", self.name()))
    }

    pub(crate) fn number<N: FromStr>(&self, index: usize) -> Result<N> {
        let word = self.word(index)?;
        word.parse().ok().with_context(|| format!("word {index} of `{}` is no number: {word}", self.name()))
    }

    /// Like [`Self::number`], for an optional number.
    pub(crate) fn number_or<N: FromStr>(&self, index: usize, absent: N) -> Result<N> {
        if self.words.len() > index { self.number(index) } else { Ok(absent) }
    }

    pub(crate) fn millis(&self, index: usize) -> Result<Duration> {
        self.number(index).map(Duration::from_millis)
    }

    pub(crate) fn option(&self, name: &str) -> Option<&'l str> {
        self.options.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }

    pub(crate) fn option_number<N: FromStr>(&self, name: &str) -> Result<Option<N>> {
        let parsed = |value: &str| value.parse().ok().with_context(|| format!("option {name} is no number: {value}"));
        self.option(name).map(parsed).transpose()
    }

    pub(crate) fn option_millis(&self, name: &str) -> Result<Option<Duration>> {
        Ok(self.option_number(name)?.map(Duration::from_millis))
    }

    /// The choice of the option; the first one if it is absent.
    pub(crate) fn choice<C: Copy>(&self, name: &str, choices: &[(&str, C)]) -> Result<C> {
        let chosen = match self.option(name) {
            None => choices.first(),
            Some(value) => choices.iter().find(|(word, _)| *word == value),
        };
        match chosen {
            Some((_, choice)) => Ok(*choice),
            None => bail!("option {name} has no value {}", self.option(name).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn operators_are_words_and_options_are_not() {
        let command = Command::parse("wait w matched >= 1 500");
        assert_eq!(command.word(3).unwrap(), ">=");
        assert_eq!(command.number::<u32>(4).unwrap(), 1);
        let command = Command::parse("wait w matched = 0 500");
        assert_eq!(command.word(3).unwrap(), "=");
        let command = Command::parse("writer w Topic Sample depth=3 reliability=best_effort");
        assert_eq!(command.option_number::<u32>("depth").unwrap(), Some(3));
        assert!(command.choice("reliability", &[("reliable", false), ("best_effort", true)]).unwrap());
        assert!(!command.choice("absent", &[("reliable", false), ("best_effort", true)]).unwrap());
    }

    #[test]
    fn invalid_command_is_refused_with_the_reason() {
        let error = |result: anyhow::Result<u32>| result.unwrap_err().to_string();
        assert_eq!(error(Command::parse("take r").number(2)), "word 2 of `take` is missing");
        assert_eq!(error(Command::parse("take r x").number(2)), "word 2 of `take` is no number: x");
        assert_eq!(
            error(Command::parse("writer history=some").choice("history", &[("all", 1)])),
            "option history has no value some"
        );
    }
}
