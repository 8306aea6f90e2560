//! Names at the ends of lines: each as near to its end as the others allow.

/// Splits a name into at most `most` lines of at most `width` characters. Of a longer name the end is kept, after an
/// ellipsis: names of one product begin alike.
pub(super) fn wrapped(name: &str, width: usize, most: usize) -> Vec<String> {
    let words: Vec<&str> = name.split_whitespace().collect();
    let from = |first: usize| {
        let ellipsis = if first == 0 { "" } else { "…" };
        filled(&format!("{ellipsis}{}", words.get(first..).unwrap_or_default().join(" ")), width)
    };
    let last = words.len().saturating_sub(1);
    let lines = (0..last).map(from).find(|lines| lines.len() <= most).unwrap_or_else(|| from(last));
    lines.into_iter().map(|line| cut(line, width)).collect()
}

/// Fills each line with as many words as fit, at least one.
fn filled(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn cut(line: String, width: usize) -> String {
    if line.chars().count() <= width {
        return line;
    }
    let kept: String = line.chars().take(width - 1).collect();
    format!("{}…", kept.trim_end_matches([' ', ',', '(']))
}

/// Moves labels of these heights, with their middles near `wanted`, apart and between `top` and `bottom`; `None` if
/// they do not all fit.
pub(super) fn spread(wanted: &[(f64, f64)], top: f64, bottom: f64) -> Option<Vec<f64>> {
    let total: f64 = wanted.iter().map(|(_, height)| height).sum();
    if total > bottom - top {
        return None;
    }
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|left, right| wanted[*left].0.total_cmp(&wanted[*right].0));
    let mut middles: Vec<f64> = wanted.iter().map(|(middle, _)| *middle).collect();
    let mut free_from = top;
    for index in &order {
        let half = wanted[*index].1 / 2.0;
        middles[*index] = middles[*index].max(free_from + half);
        free_from = middles[*index] + half;
    }
    let mut free_to = bottom;
    for index in order.iter().rev() {
        let half = wanted[*index].1 / 2.0;
        middles[*index] = middles[*index].min(free_to - half);
        free_to = middles[*index] - half;
    }
    Some(middles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_wrapped_at_words_and_keep_their_ends() {
        assert_eq!(wrapped("raw UDP", 12, 2), ["raw UDP"]);
        assert_eq!(wrapped("Peregrine best effort", 12, 2), ["Peregrine", "best effort"]);
        assert_eq!(wrapped("Peregrine best effort batched", 12, 2), ["…best effort", "batched"]);
        assert_eq!(wrapped("Peregrine best effort batched", 12, 3), ["Peregrine", "best effort", "batched"]);
        assert_eq!(wrapped("Peregrine, shared memory, zero copy", 13, 1), ["…zero copy"]);
        assert_eq!(wrapped("Cyclone DDS 11 UDP", 13, 1), ["…DDS 11 UDP"]);
        assert_eq!(wrapped("Extraordinarily", 8, 3), ["Extraor…"]);
        assert_eq!(wrapped("an extraordinarily", 8, 1), ["…extrao…"]);
        assert!(wrapped("", 8, 2).is_empty());
    }

    #[test]
    fn labels_keep_their_place_or_move_apart_within_bounds() {
        assert_eq!(spread(&[(50.0, 10.0), (20.0, 10.0)], 0.0, 100.0), Some(vec![50.0, 20.0]));
        let middles = spread(&[(95.0, 20.0), (96.0, 20.0), (97.0, 10.0)], 0.0, 100.0).unwrap();
        assert_eq!(middles, [60.0, 80.0, 95.0]);
        assert_eq!(spread(&[(5.0, 60.0), (5.0, 60.0)], 0.0, 100.0), None);
    }
}
