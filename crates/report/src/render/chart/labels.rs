//! Names at the ends of lines: each as near to its end as the others allow.

/// Splits a name into lines of at most `width` characters: at words, and within words that are longer.
pub(super) fn wrapped(name: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.extend(pieces(word, width)),
        }
    }
    lines
}

fn pieces(word: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    characters.chunks(width.max(1)).map(|piece| piece.iter().collect()).collect()
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
    fn long_name_is_wrapped_and_keeps_every_character() {
        assert_eq!(wrapped("raw UDP", 12), ["raw UDP"]);
        assert_eq!(wrapped("Peregrine best effort batched", 12), ["Peregrine", "best effort", "batched"]);
        assert_eq!(wrapped("Cyclone DDS 11 UDP", 13), ["Cyclone DDS", "11 UDP"]);
        assert_eq!(wrapped("an extraordinarily long", 8), ["an", "extraord", "inarily", "long"]);
        assert!(wrapped("", 8).is_empty());
    }

    #[test]
    fn labels_keep_their_place_or_move_apart_within_bounds() {
        assert_eq!(spread(&[(50.0, 10.0), (20.0, 10.0)], 0.0, 100.0), Some(vec![50.0, 20.0]));
        let middles = spread(&[(95.0, 20.0), (96.0, 20.0), (97.0, 10.0)], 0.0, 100.0).unwrap();
        assert_eq!(middles, [60.0, 80.0, 95.0]);
        assert_eq!(spread(&[(5.0, 60.0), (5.0, 60.0)], 0.0, 100.0), None);
    }
}
