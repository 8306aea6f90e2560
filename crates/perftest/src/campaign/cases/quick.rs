//! Reduces a plan to a quick run: first drops values of lists, then whole cases.

use std::time::Duration;

use crate::campaign::spec::{List, Matrix};

/// Reason for cases whose value is neither first nor middle nor last in its list.
pub(super) const THINNED_OUT: &str =
    "skipped: the quick run keeps the first, the middle and the last value of each list (--quick)";
/// Reason for cases that exceed the time limit.
pub(super) const NO_TIME: &str = "skipped: the quick run would exceed its time limit (--within)";

impl Matrix {
    /// Keeps the first, the middle and the last value of every list.
    pub(super) fn thin_out(&mut self) {
        keep_three(&mut self.rates);
        keep_three(&mut self.types);
        if let Some(sizes) = &mut self.sizes {
            keep_three(sizes);
        }
        keep_three(&mut self.subscribers);
        keep_three(&mut self.publishers);
        keep_three(&mut self.topics);
        keep_three(&mut self.reliability);
        keep_three(&mut self.publishing);
        keep_three(&mut self.delivery);
        if let Some(wait) = &mut self.wait {
            keep_three(&mut wait.0);
        }
    }
}

/// Removes cases, evenly over the plan, until the rest fits into `limit`, and returns them. A case that stays is
/// measured with all series.
pub(super) fn keep_within<T>(limit: Duration, questions: &mut Vec<T>, cost: impl Fn(&T) -> Duration) -> Vec<T> {
    for most in (1..=questions.len()).rev() {
        let kept = |index: &usize| is_kept(*index, questions.len(), most);
        let time = || (0..questions.len()).filter(kept).map(|index| cost(&questions[index])).sum::<Duration>();
        if most == 1 || time() <= limit {
            return keep_evenly(questions, most);
        }
    }
    Vec::new()
}

fn keep_three<T>(list: &mut List<T>) {
    let kept = [0, list.0.len() / 2, list.0.len().saturating_sub(1)];
    let mut index = 0;
    list.0.retain(|_| {
        index += 1;
        kept.contains(&(index - 1))
    });
}

/// Keeps at most `most` values, spread evenly over the list, and returns the others.
fn keep_evenly<T>(values: &mut Vec<T>, most: usize) -> Vec<T> {
    let len = values.len();
    let mut index = 0;
    values
        .extract_if(.., |_| {
            index += 1;
            !is_kept(index - 1, len, most)
        })
        .collect()
}

/// Whether the value at `index` of `len` is among the `most` that are kept.
fn is_kept(index: usize, len: usize, most: usize) -> bool {
    len <= most || index * most / len != (index + 1) * most / len
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn thinning_keeps_order_and_count(len in 0..500_usize, most in 1..200_usize) {
            let mut values: Vec<usize> = (0..len).collect();
            let others = keep_evenly(&mut values, most);
            prop_assert_eq!(values.len(), len.min(most));
            prop_assert!(values.is_sorted());
            values.extend(others);
            values.sort_unstable();
            prop_assert!(values.into_iter().eq(0..len));
        }
    }
}
