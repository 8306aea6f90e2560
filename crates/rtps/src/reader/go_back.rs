//! Repeated reception of a writer's samples, because some were forged or missed.

use alloc::vec::Vec;

use crate::id::Guid;
use crate::seq::SequenceNumber;

use super::Reader;
use super::proxy::WriterProxy;
use super::skip::Again;

impl WriterProxy {
    /// Whether the sample was received, and is not among those that are received again. Such a sample withdraws no
    /// claim: an impostor can send it, and all others would have to come again.
    pub(super) fn is_confirmed(&self, number: SequenceNumber) -> bool {
        let again = self
            .irrelevant
            .as_ref()
            .and_then(|irrelevant| irrelevant.again.as_ref())
            .filter(|again| number <= again.last);
        again.is_some_and(|again| again.numbers.binary_search(&number).is_err())
    }

    /// Passes over the samples that need not be received again.
    pub(super) fn mark_confirmed(&mut self) {
        let Some(again) = self.irrelevant.as_mut().and_then(|irrelevant| irrelevant.again.take()) else { return };
        let mut after = self.next;
        for number in again.numbers.iter().copied().chain([again.last.next()]) {
            if number < after {
                continue;
            }
            // Where there is no room to note the others, more samples are received again.
            self.mark_irrelevant(after, number.previous());
            after = number.next();
        }
        self.irrelevant.get_or_default().again = Some(again);
    }
}

impl Reader {
    /// Asks a matched reliable writer for a HEARTBEAT.
    pub(crate) fn ask_for_heartbeat(&mut self, writer: Guid) {
        let Some(index) = self.find(writer) else { return };
        if let Some(proxy) = self.writers.get_mut(index).filter(|proxy| proxy.info.reliable) {
            proxy.owes_question = true;
            self.list_owing(index);
        }
    }

    /// The number that is to be delivered next of a matched writer.
    pub(crate) fn next_number(&self, writer: Guid) -> Option<SequenceNumber> {
        let index = *self.by_guid.get(&writer)?;
        self.writers.get(index).map(|proxy| proxy.next)
    }

    /// The greatest number of a sample of a matched writer that was delivered or waits for earlier ones.
    pub(crate) fn newest_received(&self, writer: Guid) -> Option<SequenceNumber> {
        let proxy = self.writers.get(*self.by_guid.get(&writer)?)?;
        let waiting = proxy.out_of_order.keys().next_back().copied().max(proxy.reassembly.newest());
        waiting.max(Some(proxy.next.previous()))
    }

    /// Receives these samples again, whose numbers ascend, and all after `last`, also those that wait: they may be
    /// forged. All others up to `last` are there. Accepts the next HEARTBEAT regardless of its count.
    pub(crate) fn receive_again(&mut self, writer: Guid, numbers: &[SequenceNumber], last: SequenceNumber) {
        let Some(index) = self.find(writer) else { return };
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let numbers: Vec<SequenceNumber> = numbers.iter().copied().filter(|number| *number <= last).collect();
        proxy.go_back(numbers.first().copied().unwrap_or(last.next()));
        proxy.release(&mut self.pool);
        proxy.out_of_order_bytes = 0;
        if last > SequenceNumber::ZERO {
            proxy.irrelevant.get_or_default().again = Some(Again { numbers, last });
        }
        proxy.mark_confirmed();
        proxy.skip_irrelevant();
        proxy.trust_skip();
        self.update_memory_charge(index);
    }

    /// All samples of a matched writer up to the last one delivered were received, or never will be.
    pub(crate) fn confirm_received(&mut self, writer: Guid) {
        let Some(index) = self.find(writer) else { return };
        if let Some(proxy) = self.writers.get_mut(index) {
            proxy.trust_skip();
            proxy.irrelevant.as_mut().into_iter().for_each(|irrelevant| irrelevant.again = None);
        }
    }
}
