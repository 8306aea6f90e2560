//! The waits in which a thread of the application leads at one place of reception.
//!
//! A lead in which the thread receives its own sample saves a wake-up. A lead in which the thread receives for others
//! costs one. The thread leads as long as it has saved more wake-ups than it has cost.

use std::cell::Cell;

use super::system::thread_local;

/// Number of waits in which a thread does not lead after it has received for others.
const EXCLUDED_WAITS: u32 = 64;
/// Most receptions for others in a row that do not end the leads of a thread.
const FOR_OTHERS_MAX: u32 = 8;

thread_local! {
    static AT_SOCKETS: Cell<LeadBalance> = const { Cell::new(LeadBalance::new()) };
}

/// The balance of one thread at one place.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct LeadBalance {
    /// Number of further waits in which the thread does not lead.
    excluded: u32,
    /// Leads for own samples more than receptions for others, at most [`FOR_OTHERS_MAX`].
    own: u32,
}

impl LeadBalance {
    pub(in crate::driver) const fn new() -> Self {
        Self { excluded: 0, own: 0 }
    }

    /// Reads and changes the balance of the calling thread at sockets.
    pub(in crate::driver) fn of_this_thread_at_sockets<R>(change: impl FnOnce(&mut Self) -> R) -> R {
        AT_SOCKETS.with(|cell| {
            let mut balance = cell.get();
            let result = change(&mut balance);
            cell.set(balance);
            result
        })
    }

    /// Whether the thread does not lead in this wait. Counts the wait.
    pub(in crate::driver) const fn is_excluded(&mut self) -> bool {
        let is_excluded = self.excluded > 0;
        self.excluded = self.excluded.saturating_sub(1);
        is_excluded
    }

    /// The thread does not lead in the next `waits`.
    pub(in crate::driver) const fn exclude(&mut self, waits: u32) {
        self.excluded = waits;
    }

    /// Records that the thread has received for others only. Returns whether it leads on.
    pub(in crate::driver) const fn leads_on_after_others(&mut self) -> bool {
        let leads_on = self.own > 0;
        self.own = self.own.saturating_sub(1);
        if !leads_on {
            self.exclude(EXCLUDED_WAITS);
        }
        leads_on
    }

    /// Records that a lead has ended with a sample for the thread itself.
    pub(in crate::driver) const fn on_own_sample(&mut self) {
        if self.own < FOR_OTHERS_MAX {
            self.own += 1;
        }
    }
}

// The loom models include this file in another folder.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WAITS: u32 = 10_000;

    /// The number of waits in which a thread leads. `for_others`: how many times the thread receives for others while
    /// it waits for each sample of its own.
    fn waits_with_lead(for_others: &[u32]) -> u32 {
        let (mut balance, mut leads) = (LeadBalance::new(), 0);
        for others in for_others.iter().cycle().take(WAITS as usize) {
            if !balance.is_excluded() && (0..*others).all(|_| balance.leads_on_after_others()) {
                leads += 1;
                balance.on_own_sample();
            }
        }
        leads
    }

    #[test]
    fn thread_leads_on_while_most_samples_are_its_own() {
        assert_eq!(waits_with_lead(&[0]), WAITS);
        assert_eq!(waits_with_lead(&[0, 0, 0, 1]), WAITS);
        assert_eq!(waits_with_lead(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]), WAITS);
    }

    #[test]
    fn thread_that_receives_for_others_leads_in_few_waits() {
        let leads = waits_with_lead(&[1, 2]);
        assert!(leads < WAITS / 32, "{leads}");
        assert_eq!(waits_with_lead(&[10]), 0);
    }
}
