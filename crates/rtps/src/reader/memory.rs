//! The memory that readers hold outside their caches, bounded for each reader and for each remote participant.

use crate::history::WriterSlot;
use crate::payload::BufferPool;
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::wire::DataFrag;

use super::Reader;

impl Reader {
    /// Makes room for `bytes` of the sample `number` by evicting the newest samples of the writer that holds most. The
    /// reader requests evicted samples again, or counts them as lost if the writer is best effort. `false` if only
    /// writers remain that would hold less than this one, or samples that their writers do not retransmit.
    pub(super) fn make_room(&mut self, index: usize, number: SequenceNumber, bytes: usize) -> bool {
        self.give_back(index, bytes);
        loop {
            let Some(asking) = self.writers.get(index) else { return false };
            let is_account_full = !asking.info.memory.has_room_for(bytes);
            let is_reader_full =
                self.held_bytes > 0 && self.held_bytes.saturating_add(bytes) > self.config.memory_per_reader;
            if !is_account_full && !is_reader_full {
                return true;
            }
            let (slot, prefix) = (asking.slot, asking.info.guid.prefix);
            let would_hold = asking.held_bytes().saturating_add(bytes);
            let others = self.writers.iter().filter(|w| {
                w.slot != slot
                    && w.held_bytes() > would_hold
                    && (!is_account_full || w.info.guid.prefix == prefix)
                    && w.has_evictable()
            });
            let victim = others.max_by_key(|w| w.held_bytes()).map_or(slot, |w| w.slot);
            if !self.evict_waiting(victim, if victim == slot { number } else { SequenceNumber::ZERO }) {
                self.counters.memory_limited += 1;
                return false;
            }
        }
    }

    /// A participant that holds more than its fair part of a full account gives two of its newest samples back for the
    /// room of one, so that others find room by and by.
    fn give_back(&mut self, index: usize, bytes: usize) {
        let Some(asking) = self.writers.get(index) else { return };
        let memory = &asking.info.memory;
        if !memory.has_room_for(bytes) && memory.exceeds_fair_part() {
            // The sample that is next in order stays, because delivery goes on with it.
            let (slot, next) = (asking.slot, asking.next);
            for _ in 0..2 {
                self.evict_waiting(slot, next);
            }
        }
    }

    fn evict_waiting(&mut self, slot: WriterSlot, after: SequenceNumber) -> bool {
        let Some(index) = self.writers.iter().position(|w| w.slot == slot) else { return false };
        let Some(victim) = self.writers.get_mut(index) else { return false };
        let is_given_up = victim.evict_one(after, &mut self.pool);
        self.counters.memory_limited += u64::from(is_given_up);
        self.update_memory_charge(index);
        self.file_timer(index);
        is_given_up
    }

    /// Makes room for the buffer of a sample of which this fragment arrives first.
    pub(super) fn make_room_to_reassemble(&mut self, now: Instant, index: usize, frag: &DataFrag<'_>) -> bool {
        let number = frag.sequence_number;
        let bytes = BufferPool::buffer_len(frag.sample_size as usize);
        while !self.make_room(index, number, bytes) {
            let Some(proxy) = self.writers.get_mut(index) else { return false };
            if !proxy.reassembly.give_way(number, now, &mut self.pool) {
                return false;
            }
            self.update_memory_charge(index);
        }
        true
    }

    /// Discards samples whose fragments no longer arrive.
    pub(super) fn give_up_idle(&mut self, now: Instant, index: usize) {
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let last = proxy.announced.newest();
        self.counters.reassemblies_given_up += proxy.reassembly.forget_given_up(last, now, &mut self.pool) as u64;
        self.update_memory_charge(index);
    }

    /// Discards samples under reassembly that their writer has not written according to its HEARTBEAT, and the gaps
    /// that they have shown.
    pub(super) fn give_up_denied(&mut self, now: Instant, index: usize, last: SequenceNumber) {
        let Some(proxy) = self.writers.get_mut(index) else { return };
        self.counters.reassemblies_given_up += proxy.reassembly.forget_denied(last, now, &mut self.pool) as u64;
        proxy.deny_shown(last, now);
        self.update_memory_charge(index);
    }

    /// Charges to the accounts the bytes that the reader holds for one writer.
    pub(super) fn update_memory_charge(&mut self, index: usize) {
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let held = proxy.held_bytes();
        let charged = core::mem::replace(&mut proxy.charged, held);
        if held != charged {
            proxy.info.memory.recharge(charged, held);
            let before = self.held_bytes;
            self.held_bytes = before.saturating_sub(charged).saturating_add(held);
            debug_assert!(
                held < charged || before == 0 || self.held_bytes <= self.config.memory_per_reader,
                "the reader admits {} bytes, more than its memory",
                self.held_bytes
            );
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for proxy in self.writers.iter() {
            proxy.info.memory.recharge(proxy.charged, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::HistoryKind;
    use crate::id::{EntityId, Guid, GuidPrefix};
    use crate::memory_account::{MemoryAccount, PeerAccounts};
    use crate::pair::{PLAIN, matched_writer, reader_guid};
    use crate::reader::{MatchedWriter, ReaderConfig, Reception};
    use crate::seq::FragmentNumber;
    use crate::time::Timestamp;
    use crate::wire::{Data, Payload};
    use std::sync::Arc;
    use std::vec;

    const PER_READER: usize = 100_000;
    /// In a buffer of 16 KiB.
    const SAMPLE: u32 = 10_000;
    const RX: Reception<'static> =
        Reception { now: Instant(1), wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE };

    fn guid(participant: u8, writer: u32) -> Guid {
        Guid::new(GuidPrefix([participant; 12]), EntityId::user_writer(writer, false))
    }

    fn reader(writers: &[(Guid, Arc<MemoryAccount>)], reliable: bool) -> Reader {
        let mut config = ReaderConfig::new(reader_guid(0));
        config.reliable = reliable;
        config.wants_history = true;
        config.cache.history = HistoryKind::KeepAll;
        config.memory_per_writer = 80_000;
        config.memory_per_reader = PER_READER;
        let mut reader = Reader::new(config);
        for (guid, memory) in writers {
            let writer = MatchedWriter { reliable, memory: Arc::clone(memory), ..matched_writer(*guid) };
            assert!(reader.match_writer(Instant(0), writer));
        }
        reader
    }

    fn fragment(reader: &mut Reader, from: Guid, number: i64, fragment: u32) {
        let frag = DataFrag {
            reader: reader_guid(0).entity,
            writer: from.entity,
            sequence_number: SequenceNumber(number),
            starting: FragmentNumber(fragment),
            count: 1,
            fragment_size: 5000,
            sample_size: SAMPLE,
            inline_qos: None,
            is_key: false,
            non_standard_payload: false,
            payload: &[0; 5000],
        };
        reader.handle_data_frag(&RX, from, PLAIN, &frag);
    }

    fn whole(reader: &mut Reader, from: Guid, number: i64) {
        let data = Data {
            reader: reader_guid(0).entity,
            writer: from.entity,
            sequence_number: SequenceNumber(number),
            inline_qos: None,
            payload: Payload::Data(&[0; 5000]),
            non_standard_payload: false,
        };
        reader.handle_data(&RX, from, PLAIN, &data);
    }

    #[test]
    fn memory_of_many_writers_is_bounded_per_reader() {
        for reliable in [true, false] {
            let writers: vec::Vec<_> =
                (0..50).map(|n| (guid(n, 1), Arc::new(MemoryAccount::new(usize::MAX)))).collect();
            let mut reader = reader(&writers, reliable);
            for number in 2..12 {
                for (writer, _) in &writers {
                    fragment(&mut reader, *writer, number, 1);
                    if reliable {
                        whole(&mut reader, *writer, number + 100);
                    }
                    assert!(reader.waiting().bytes <= PER_READER, "{:?}", reader.waiting());
                    let charged: usize = writers.iter().map(|(_, memory)| memory.held_bytes()).sum();
                    assert_eq!(charged, reader.waiting().bytes);
                }
            }
            assert!(reader.counters().memory_limited > 0);
            // All memory is released.
            for (writer, memory) in &writers {
                reader.unmatch_writer(Instant(2), Timestamp::INVALID, *writer);
                assert_eq!(memory.held_bytes(), 0);
            }
            assert_eq!(reader.held_bytes, 0);
        }
    }

    #[test]
    fn memory_of_one_participant_is_bounded_over_all_readers() {
        let memory = Arc::new(MemoryAccount::new(60_000));
        let writers: vec::Vec<_> = (0..4).map(|n| (guid(1, n), Arc::clone(&memory))).collect();
        let mut readers: vec::Vec<_> = (0..3).map(|_| reader(&writers, true)).collect();
        for number in 2..20 {
            for reader in &mut readers {
                for (writer, _) in &writers {
                    fragment(reader, *writer, number, 1);
                    assert!(memory.held_bytes() <= 60_000);
                }
            }
        }
        let held: usize = readers.iter().map(|r| r.waiting().bytes).sum();
        assert_eq!(memory.held_bytes(), held);
        assert!(readers.iter().all(|r| r.counters().memory_limited > 0));
        drop(readers);
        assert_eq!(memory.held_bytes(), 0);
    }

    #[test]
    fn newcomer_finds_room_and_the_greedy_participant_gives_back() {
        let accounts = PeerAccounts::new(4 << 20, Arc::default());
        let of_address = || Arc::new(MemoryAccount::of_address(Arc::clone(&accounts.incomplete)));
        let of_participant = |address| Arc::new(MemoryAccount::below(address, usize::MAX));
        let (greedy, newcomer) = (of_participant(of_address()), of_participant(of_address()));
        let writers: vec::Vec<_> = (0..100).map(|n| (guid(1, n), Arc::clone(&greedy))).collect();
        // One reader for each writer, so that the limits of readers do not matter.
        let mut readers: vec::Vec<_> =
            writers.iter().map(|writer| reader(core::slice::from_ref(writer), true)).collect();
        let mut fill = |numbers: core::ops::Range<i64>| {
            for number in numbers {
                for (reader, (writer, _)) in readers.iter_mut().zip(&writers) {
                    fragment(reader, *writer, number, 1);
                }
            }
        };
        fill(2..6);
        let full = accounts.all.held_bytes();
        assert!(full > 3 << 20 && full <= 4 << 20, "{full}");
        // A quarter of the account is for incomplete samples, half of it for fair parts, and there are two holders.
        let mut other = reader(&[(guid(2, 1), Arc::clone(&newcomer))], true);
        let part = (4 << 20) / 4 / 2 / 2;
        (2..30).for_each(|number| fragment(&mut other, guid(2, 1), number, 1));
        assert_eq!(other.waiting().bytes, 5 * 16_384, "up to the limit of the writer");
        assert!(newcomer.held_bytes() <= part);
        (1..=2).for_each(|n| fragment(&mut other, guid(2, 1), 1, n));
        assert_eq!(other.counters().samples, 1);
        let before = greedy.held_bytes();
        fill(6..8);
        assert!(greedy.held_bytes() < before, "{before}");
    }

    #[test]
    fn next_sample_evicts_later_ones() {
        let (greedy, modest) = (guid(1, 1), guid(2, 1));
        let account = || Arc::new(MemoryAccount::new(usize::MAX));
        let mut reader = reader(&[(greedy, account()), (modest, account())], true);
        (2..6).for_each(|number| fragment(&mut reader, greedy, number, 1));
        (2..4).for_each(|number| fragment(&mut reader, modest, number, 1));
        assert_eq!(reader.waiting().bytes, 6 * 16_384);
        // The newest samples of the other writer are evicted first, then those of this writer.
        (1..=2).for_each(|n| fragment(&mut reader, modest, 1, n));
        assert_eq!(reader.counters().samples, 1);
        assert!(reader.counters().memory_limited > 0);
        (1..=2).for_each(|n| fragment(&mut reader, greedy, 1, n));
        assert_eq!(reader.counters().samples, 2);
        // The reader accepts the evicted samples when they arrive again.
        for number in 2..6 {
            (1..=2).for_each(|n| fragment(&mut reader, greedy, number, n));
        }
        (2..4).for_each(|number| (1..=2).for_each(|n| fragment(&mut reader, modest, number, n)));
        assert_eq!(reader.counters().samples, 8);
        assert_eq!(reader.held_bytes, 0);
    }
}
