//! Separates code, comments and literals of a Rust source.

/// Replaces the inside of comments, string and character literals by spaces; line ends stay where they are.
pub(super) fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at).unwrap_or(at);
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// The comments of the source, each with the index of its first line.
pub(super) fn comments(source: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = source.chars().collect();
    let (mut found, mut line, mut at) = (Vec::new(), 0, 0);
    while at < chars.len() {
        let end = literal_end(&chars, at).unwrap_or(at + 1);
        let text = &chars[at..end.min(chars.len())];
        if let ['/', '/' | '*', ..] = text {
            found.push((line, text.iter().collect()));
        }
        line += text.iter().filter(|&&c| c == '\n').count();
        at = end;
    }
    found
}

/// The end of the comment or literal that starts at `at`, if any.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let rest = &chars[at..];
    let after_word = at > 0 && is_word(chars[at - 1]);
    match rest {
        ['/', '/', ..] => Some(at + rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())),
        ['/', '*', ..] => Some(block_comment_end(chars, at)),
        ['"', ..] => Some(quoted_end(chars, at + 1, '"')),
        ['r', '"' | '#', ..] if !after_word => raw_string_end(chars, at + 1),
        ['b' | 'c', 'r', '"' | '#', ..] if !after_word => raw_string_end(chars, at + 2),
        ['\'', '\\', ..] => Some(quoted_end(chars, at + 1, '\'')),
        // Anything else behind an apostrophe is a lifetime.
        ['\'', _, '\'', ..] => Some(at + 3),
        _ => None,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < chars.len() {
        match chars[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `at` is behind the `r`; a raw identifier such as `r#type` is not a string.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    let open = at + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |&quote: &usize| {
        let tail = &chars[quote + 1..];
        chars[quote] == '"' && tail.len() >= hashes && tail[..hashes].iter().all(|&c| c == '#')
    };
    Some((open + 1..chars.len()).find(closes).map_or(chars.len(), |quote| quote + 1 + hashes))
}

/// Whether `word` occurs in `line` as a whole word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::{code_only, comments, has_word};

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let source = "a // unsafe\nb /* x /* unsafe */ y */ c \"un\\\"safe\" d r#\"unsafe\"# 'u' '\\'' e\n";
        let code = code_only(source);
        assert_eq!(code.lines().count(), 2);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
        assert_eq!(code.chars().count(), source.chars().count());
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        let source = "fn f<'a>(r#type: &'a u8, bar: for<'b> fn(&'b u8)) -> &'static str";
        assert_eq!(code_only(source), source);
    }

    #[test]
    fn unterminated_literal_ends_with_the_file() {
        for source in ["\"abc", "/* abc", "r#\"abc\"", "'\\", "\"\\"] {
            assert_eq!(code_only(source).trim(), "", "{source}");
        }
    }

    #[test]
    fn comments_are_found_with_their_lines() {
        let source = "//! A\nfn f() { g(\"// no\"); } // B\n/* C\nD */ h('\"') /// E\n";
        let found = comments(source);
        let expected = [(0, "//! A"), (1, "// B"), (2, "/* C\nD */"), (3, "/// E")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("x unsafe {", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
