//! The budgets of the addresses at which remote endpoints are reached.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::net::Ipv4Addr;

use super::origin::Origin;
use crate::address_budget::AddressBudget;
use crate::limits::ADDRESS_BUDGETS_MAX;
use crate::locator::Locator;

/// The budgets, by host. The address at which the endpoints are reached counts, and not the one that a message came
/// from: the bytes go there.
#[derive(Debug, Default)]
pub(super) struct AddressBudgets {
    by_host: BTreeMap<Origin, Arc<AddressBudget>>,
}

impl AddressBudgets {
    /// The budget of the endpoints that are reached at these addresses, of which the first counts. It outlives its
    /// endpoints, so that new ones at the same address begin with what is left.
    pub(super) fn of(&mut self, to: &[Locator]) -> Arc<AddressBudget> {
        let Some(host) = to.first().map(host_of) else { return Arc::default() };
        if self.by_host.len() >= ADDRESS_BUDGETS_MAX && !self.by_host.contains_key(&host) {
            self.forget_least_used();
        }
        debug_assert!(self.by_host.len() <= ADDRESS_BUDGETS_MAX);
        Arc::clone(self.by_host.entry(host).or_default())
    }

    /// A full budget is as good as none. Of a budget without endpoints nothing depends.
    fn forget_least_used(&mut self) {
        let least = self.by_host.iter().min_by_key(|(_, budget)| (Arc::strong_count(budget) > 1, budget.used()));
        if let Some(host) = least.map(|(host, _)| *host) {
            self.by_host.remove(&host);
        }
    }
}

/// All loopback addresses are those of this machine.
fn host_of(locator: &Locator) -> Origin {
    match Origin::of_locator(locator) {
        Origin::V4(address) if address.is_loopback() => Origin::V4(Ipv4Addr::LOCALHOST),
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locator(host: u32, port: u16) -> Locator {
        Locator::from(core::net::SocketAddr::from((Ipv4Addr::from(host), port)))
    }

    fn is_same(a: &Arc<AddressBudget>, b: &Arc<AddressBudget>) -> bool {
        Arc::ptr_eq(a, b)
    }

    #[test]
    fn ports_of_one_host_share_a_budget() {
        let mut budgets = AddressBudgets::default();
        let first = budgets.of(&[locator(1, 7410)]);
        assert!(is_same(&first, &budgets.of(&[locator(1, 7412)])));
        assert!(!is_same(&first, &budgets.of(&[locator(2, 7410)])));
        drop(first);
        let again = budgets.of(&[locator(1, 7414)]);
        again.repairs.take(7);
        drop(again);
        assert_eq!(budgets.of(&[locator(1, 7410)]).used(), 7, "a host that comes again has no new budget");
    }

    #[test]
    fn loopback_addresses_share_a_budget() {
        let mut budgets = AddressBudgets::default();
        let [first, other] = [0x7f00_0001, 0x7f00_0203].map(|host| locator(host, 7410));
        assert!(is_same(&budgets.of(&[first]), &budgets.of(&[other])));
    }

    #[test]
    fn flood_of_addresses_takes_places_of_full_budgets_without_endpoints() {
        let mut budgets = AddressBudgets::default();
        budgets.of(&[locator(1, 1)]).repairs.take(1000);
        let in_use = budgets.of(&[locator(2, 1)]);
        for host in 3..3 * ADDRESS_BUDGETS_MAX as u32 {
            drop(budgets.of(&[locator(host, 1)]));
        }
        assert_eq!(budgets.by_host.len(), ADDRESS_BUDGETS_MAX);
        assert_eq!(budgets.of(&[locator(1, 2)]).used(), 1000);
        assert!(is_same(&in_use, &budgets.of(&[locator(2, 2)])));
    }
}
