//! Comparison of partitions (DDS 1.4 §2.2.3.13): equal names, or the name of one side and a POSIX pattern of the other.

use core::str::Chars;

use super::policy::Partition;

impl Partition {
    /// Whether a writer and a reader with these partitions have one in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.names().any(|ours| other.names().any(|theirs| meet(ours, theirs)))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let default = if self.0.is_empty() { Some("") } else { None };
        default.into_iter().chain(self.0.iter().map(|name| name.as_str()))
    }
}

fn meet(a: &str, b: &str) -> bool {
    match (is_pattern(a), is_pattern(b)) {
        (true, false) => matches_pattern(a, b),
        (false, true) => matches_pattern(b, a),
        // Two patterns match only if they are equal as text.
        _ => a == b,
    }
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// An element of a pattern that matches one character.
enum Single<'a> {
    Any,
    Literal(char),
    Set { members: &'a str, negated: bool },
}

/// Matches as `fnmatch` does. Backtracks to the last `*` only, so the time is bounded by the product of the lengths.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    let mut retry: Option<(Chars<'_>, Chars<'_>)> = None;
    loop {
        if let Some(rest) = pattern.as_str().strip_prefix('*') {
            pattern = rest.chars();
            retry = Some((pattern.clone(), name.clone()));
            continue;
        }
        let advanced = match (next_single(&mut pattern), name.next()) {
            (None, None) => return true,
            (Some(single), Some(character)) => single.accepts(character),
            _ => false,
        };
        if !advanced {
            // Extend the match of the last `*` by one character.
            let Some((after_star, mut from)) = retry.take() else { return false };
            if from.next().is_none() {
                return false;
            }
            (pattern, name) = (after_star.clone(), from.clone());
            retry = Some((after_star, from));
        }
    }
}

fn next_single<'a>(pattern: &mut Chars<'a>) -> Option<Single<'a>> {
    Some(match pattern.next()? {
        '?' => Single::Any,
        '[' => match split_set(pattern.as_str()) {
            Some((set, rest)) => {
                *pattern = rest.chars();
                set
            }
            None => Single::Literal('['),
        },
        '\\' => Single::Literal(pattern.next().unwrap_or('\\')),
        literal => Single::Literal(literal),
    })
}

/// Splits the text after a `[` into the set and the remainder. A `]` in first position is a member.
fn split_set(text: &str) -> Option<(Single<'_>, &str)> {
    let (negated, text) = match text.strip_prefix(['!', '^']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (end, _) = text.char_indices().skip(1).find(|&(_, character)| character == ']')?;
    let (members, rest) = text.split_at_checked(end)?;
    Some((Single::Set { members, negated }, rest.strip_prefix(']')?))
}

impl Single<'_> {
    fn accepts(&self, character: char) -> bool {
        match *self {
            Self::Any => true,
            Self::Literal(literal) => literal == character,
            Self::Set { members, negated } => is_member(members, character) != negated,
        }
    }
}

fn is_member(members: &str, character: char) -> bool {
    let mut members = members.chars();
    while let Some(low) = members.next() {
        let mut ahead = members.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) => {
                members = ahead;
                high
            }
            _ => low,
        };
        if (low..=high).contains(&character) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn partition(names: &[&str]) -> Partition {
        Partition(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn one_common_name_matches() {
        assert!(partition(&["a", "b"]).meets(&partition(&["c", "b"])));
        assert!(!partition(&["a"]).meets(&partition(&["b"])));
    }

    #[test]
    fn missing_name_equals_empty_name() {
        assert!(partition(&[]).meets(&partition(&[""])));
        assert!(partition(&[]).meets(&partition(&[])));
        assert!(partition(&[]).meets(&partition(&["*"])));
        assert!(!partition(&[]).meets(&partition(&["a"])));
        assert!(!partition(&[]).meets(&partition(&["?"])));
    }

    #[test]
    fn pattern_of_either_side_matches_name() {
        for (pattern, name, expected) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b*", "abc", true),
            ("a*b*c", "a123bbb4c", true),
            ("a*b*c", "a123bbb4", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]x]*", "]y", true),
            ("[a-]*", "-", true),
            ("[a", "[a", true),
            ("?", "ü", true),
            ("*\\*", "a*", false),
            ("\\[*", "[x", false),
            ("[*]b", "*b", false),
        ] {
            assert_eq!(partition(&[pattern]).meets(&partition(&[name])), expected, "{pattern} {name}");
            assert_eq!(partition(&[name]).meets(&partition(&[pattern])), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn pattern_matches_only_equal_pattern() {
        assert!(partition(&["a*"]).meets(&partition(&["a*"])));
        assert!(!partition(&["a*"]).meets(&partition(&["*a"])));
        assert!(!partition(&["a*"]).meets(&partition(&["a?"])));
    }

    #[test]
    fn hostile_pattern_is_matched_in_bounded_time() {
        let pattern = "*a".repeat(128);
        let name = "a".repeat(255) + "b";
        assert!(!matches_pattern(&pattern, &name));
    }

    /// The definition as an exponential recursion.
    fn reference(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&'*', rest)), _) => (0..=name.len()).any(|n| reference(rest, &name[n..])),
            (Some((&'?', pattern)), Some((_, name))) => reference(pattern, name),
            (Some((p, pattern)), Some((c, name))) => p == c && reference(pattern, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn match_equals_recursive_definition(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            let (p, n): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
            prop_assert_eq!(matches_pattern(&pattern, &name), reference(&p, &n));
        }
    }
}
