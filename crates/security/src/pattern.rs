//! Patterns of file names, as `fnmatch` of POSIX matches them.

use core::fmt;

use crate::limits::PATTERN_CHARS;

/// A pattern: `*` any characters, `?` one character, `[a-z]` one of these, `[!a-z]` one of others, `\` a literal.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    flags: Flags,
    items: Vec<Item>,
}

/// Flags of `fnmatch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags {
    /// Only a slash matches a slash.
    pub(crate) pathname: bool,
    /// A backslash is a character like others.
    pub(crate) no_escape: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Item {
    Literal(char),
    One,
    Any,
    Set { negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    /// A pattern without flags. Longer patterns than [`PATTERN_CHARS`] are cut, and match nothing.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self::with_flags(text, Flags::default())
    }

    pub(crate) fn with_flags(text: &str, flags: Flags) -> Self {
        let characters: Vec<char> = text.chars().take(PATTERN_CHARS).collect();
        let is_cut = text.chars().nth(PATTERN_CHARS).is_some();
        let items =
            if is_cut { vec![Item::Set { negated: false, ranges: Vec::new() }] } else { items(&characters, flags) };
        Self { text: text.to_owned(), flags, items }
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole text matches. Takes at most as many steps as the product of both lengths.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        if !self.flags.pathname {
            return matches(&self.items, &text);
        }
        // No item but a literal matches a slash, so that the parts between slashes match one by one.
        let mut parts = self.items.split(|item| *item == Item::Literal('/'));
        let mut texts = text.split(|character| *character == '/');
        loop {
            match (parts.next(), texts.next()) {
                (None, None) => return true,
                (Some(part), Some(text)) if matches(part, text) => {}
                _ => return false,
            }
        }
    }

    /// Whether this matches all that `text` matches, if `text` is taken as a pattern too. May be false where it does.
    #[must_use]
    pub fn covers(&self, text: &str) -> bool {
        if is_pattern(text) { self.text == text || self.items == [Item::Any] } else { self.matches(text) }
    }

    /// Whether some text matches this and `text`, if `text` is taken as a pattern too. May be true although none does.
    #[must_use]
    pub fn intersects(&self, text: &str) -> bool {
        if !is_pattern(text) {
            return self.matches(text);
        }
        let other = Self::with_flags(text, self.flags);
        intersect(&self.items, &other.items)
    }
}

/// Whether a partition name is an expression for several partitions.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn items(characters: &[char], flags: Flags) -> Vec<Item> {
    let mut items = Vec::new();
    let mut rest = characters;
    while let Some((&character, behind)) = rest.split_first() {
        rest = behind;
        let item = match character {
            '*' => Item::Any,
            '?' => Item::One,
            '\\' if !flags.no_escape => match rest.split_first() {
                Some((&literal, behind)) => {
                    rest = behind;
                    Item::Literal(literal)
                }
                None => Item::Literal('\\'),
            },
            '[' => match set(rest, flags) {
                Some((item, behind)) => {
                    rest = behind;
                    item
                }
                // Without an end, the bracket is a character like others.
                None => Item::Literal('['),
            },
            literal => Item::Literal(literal),
        };
        // Several stars match the same as one.
        if !(item == Item::Any && items.last() == Some(&Item::Any)) {
            items.push(item);
        }
    }
    items
}

/// The set after a bracket, and the characters behind the set.
fn set(characters: &[char], flags: Flags) -> Option<(Item, &[char])> {
    let (negated, mut rest) = match characters.split_first()? {
        ('!' | '^', rest) => (true, rest),
        _ => (false, characters),
    };
    let mut ranges = Vec::new();
    loop {
        let (first, behind) = set_character(rest, flags)?;
        // A bracket that closes nothing yet is a member.
        if rest.first() == Some(&']') && !ranges.is_empty() {
            return Some((Item::Set { negated, ranges }, behind));
        }
        if flags.pathname && first == '/' {
            return None;
        }
        rest = behind;
        let last = match rest {
            ['-', end, ..] if *end != ']' => {
                let (last, behind) = set_character(rest.get(1..)?, flags)?;
                rest = behind;
                last
            }
            _ => first,
        };
        ranges.push((first, last));
    }
}

fn set_character(characters: &[char], flags: Flags) -> Option<(char, &[char])> {
    let (&first, rest) = characters.split_first()?;
    if first == '\\' && !flags.no_escape {
        let (&literal, rest) = rest.split_first()?;
        return Some((literal, rest));
    }
    Some((first, rest))
}

/// Each star first matches nothing, and one character more after each failure behind it. Only the last star is tried
/// again: what an earlier one could match, the last one can match as well.
fn matches(pattern: &[Item], text: &[char]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), text.get(from)) {
            (None, None) => return true,
            (Some(Item::Any), _) => {
                retry = Some((at + 1, from));
                at += 1;
                continue;
            }
            (Some(item), Some(character)) if item.matches(*character) => {
                at += 1;
                from += 1;
                continue;
            }
            _ => {}
        }
        match retry {
            Some((behind_star, start)) if start < text.len() => {
                retry = Some((behind_star, start + 1));
                (at, from) = (behind_star, start + 1);
            }
            _ => return false,
        }
    }
}

/// By the prefixes of both patterns, whether some text matches both prefixes.
fn intersect(one: &[Item], other: &[Item]) -> bool {
    let mut row = vec![false; other.len() + 1];
    for index in 0..=one.len() {
        let mut next = vec![false; other.len() + 1];
        for column in 0..=other.len() {
            let is_any = |items: &[Item], at: usize| at.checked_sub(1).and_then(|at| items.get(at)) == Some(&Item::Any);
            let above = index > 0 && row.get(column) == Some(&true);
            let left = column > 0 && next.get(column - 1) == Some(&true);
            let diagonal = index > 0 && column > 0 && row.get(column - 1) == Some(&true);
            let pair =
                index.checked_sub(1).and_then(|at| one.get(at)).zip(column.checked_sub(1).and_then(|at| other.get(at)));
            let found = (index == 0 && column == 0)
                || (above && (is_any(one, index) || is_any(other, column)))
                || (left && (is_any(one, index) || is_any(other, column)))
                || (diagonal && pair.is_some_and(|(one, other)| one.meets(other)));
            if let Some(cell) = next.get_mut(column) {
                *cell = found;
            }
        }
        row = next;
    }
    row.last() == Some(&true)
}

impl Item {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == character,
            Self::One | Self::Any => true,
            Self::Set { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated
            }
        }
    }

    /// Whether some character matches both. True for two sets, although they may have nothing in common.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Literal(literal), item) | (item, Self::Literal(literal)) => item.matches(*literal),
            _ => true,
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_as_fnmatch_does() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "a/b.c", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("*a*b", "xaxbxab", true),
            ("?", "", false),
            ("?", "é", true),
            ("[abc]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "ax", false),
            ("[]a]", "]", true),
            ("[!]a]", "b", true),
            ("[a-]", "-", true),
            ("[a", "[a", true),
            ("[]", "[]", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("a\\", "a\\", true),
            ("Square", "square", false),
            ("rt/*", "rt/chatter", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn slash_is_matched_by_a_slash_only_if_asked() {
        let flags = Flags { pathname: true, no_escape: true };
        for (pattern, text, expected) in [
            ("AGV/*", "AGV/1", true),
            ("AGV/*", "AGV/1/2", false),
            ("*", "a/b", false),
            ("*/*", "a/b", true),
            ("a?b", "a/b", false),
            ("a[/]b", "a/b", false),
            ("\\*", "\\abc", true),
        ] {
            assert_eq!(Pattern::with_flags(pattern, flags).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn expressions_are_covered_by_the_same_expression_and_by_a_star() {
        for (pattern, text, covers, intersects) in [
            ("A*", "A*", true, true),
            ("*", "A*", true, true),
            ("A*", "AB", true, true),
            ("A*", "B*", false, false),
            ("A*", "*B", false, true),
            ("AB", "A?", false, true),
            ("AB", "A?C", false, false),
            ("A[xy]", "Az*", false, false),
            ("A*C", "AB*", false, true),
            ("", "*", false, true),
        ] {
            assert_eq!(Pattern::new(pattern).covers(text), covers, "{pattern} {text}");
            assert_eq!(Pattern::new(pattern).intersects(text), intersects, "{pattern} {text}");
        }
    }

    #[test]
    fn pattern_with_many_stars_takes_bounded_time() {
        // Backtracking into all stars would not end.
        let pattern = Pattern::new(&"*a".repeat(400));
        assert!(!pattern.matches(&"a".repeat(399)));
        assert!(!Pattern::new(&format!("{}b", "*a".repeat(200))).matches(&"a".repeat(4000)));
    }

    #[test]
    fn too_long_pattern_matches_nothing() {
        assert!(Pattern::new(&"a".repeat(PATTERN_CHARS)).matches(&"a".repeat(PATTERN_CHARS)));
        let long = Pattern::new(&"*".repeat(PATTERN_CHARS + 1));
        assert!(!long.matches("a") && !long.matches(""));
    }

    /// The definition, by recursion.
    fn slow(pattern: &[Item], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((Item::Any, rest)) => (0..=text.len()).any(|at| slow(rest, &text[at..])),
            Some((item, rest)) => text.split_first().is_some_and(|(c, text)| item.matches(*c) && slow(rest, text)),
        }
    }

    proptest! {
        #[test]
        fn matching_equals_its_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let pattern = Pattern::new(&pattern);
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(pattern.matches(&text), slow(&pattern.items, &characters));
        }

        #[test]
        fn text_that_matches_both_proves_an_intersection(
            one in "[ab*?]{0,6}",
            other in "[ab]{0,2}[*?][ab*?]{0,4}",
            text in "[ab]{0,6}",
        ) {
            let (first, second) = (Pattern::new(&one), Pattern::new(&other));
            if first.matches(&text) && second.matches(&text) {
                prop_assert!(first.intersects(&other));
            }
            if first.covers(&other) && second.matches(&text) {
                prop_assert!(first.matches(&text));
            }
        }

        #[test]
        fn any_text_is_a_pattern(pattern in ".{0,40}", text in ".{0,40}") {
            let pattern = Pattern::new(&pattern);
            let _ = (pattern.matches(&text), pattern.covers(&text), pattern.intersects(&text));
        }
    }
}
