//! Selection of samples for the application: which ones, in which order, with which ranks (DDS 1.4 §2.2.2.5.1).

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::{Cached, ReaderHistory, SampleInfo};
use crate::history::instance::{Instance, InstanceState, ViewState};
use crate::id::KeyHash;
use crate::payload::Payload;

/// Which samples to return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selector {
    /// Samples read before.
    pub read: bool,
    /// Samples not read before.
    pub not_read: bool,
    /// Instances in view state NEW.
    pub new: bool,
    /// Instances in view state NOT_NEW.
    pub not_new: bool,
    /// Instances that are alive.
    pub alive: bool,
    /// Disposed instances.
    pub disposed: bool,
    /// Instances without writers.
    pub no_writers: bool,
    /// Only this instance.
    pub instance: Option<KeyHash>,
    /// The greatest number of samples.
    pub max_samples: usize,
}

impl Selector {
    /// All samples.
    pub const ANY: Self = Self {
        read: true,
        not_read: true,
        new: true,
        not_new: true,
        alive: true,
        disposed: true,
        no_writers: true,
        instance: None,
        max_samples: usize::MAX,
    };

    /// All samples not read before.
    pub const NOT_READ: Self = Self { read: false, ..Self::ANY };

    pub(super) const fn wants_instance(&self, instance: &Instance) -> bool {
        let view = match instance.view {
            ViewState::New => self.new,
            ViewState::NotNew => self.not_new,
        };
        view && match instance.state {
            InstanceState::Alive => self.alive,
            InstanceState::NotAliveDisposed => self.disposed,
            InstanceState::NotAliveNoWriters => self.no_writers,
        }
    }

    const fn wants_sample(&self, sample: &Cached) -> bool {
        if sample.read { self.read } else { self.not_read }
    }
}

/// A sample returned to the application.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Its description.
    pub info: SampleInfo,
    /// Its bytes. Without `valid_data`: the serialized key, if known.
    pub payload: Payload,
}

/// A sample shown without a change of its state.
#[derive(Clone, Debug)]
pub struct Peeked {
    place: u32,
    /// The sample as [`ReaderHistory::select`] would return it.
    pub selected: Selected,
}

impl ReaderHistory {
    /// Appends the selected samples to `out`. With `take` removes them, otherwise marks them as read.
    pub fn select(&mut self, selector: &Selector, take: bool, out: &mut Vec<Selected>) {
        if take && self.take_fast(selector, out) {
            return;
        }
        self.flush_fast_queue();
        let mut picked = core::mem::take(&mut self.picked);
        picked.clear();
        self.pick(selector, &mut picked);
        self.hand_out_picked(&picked, take, out);
        self.picked = picked;
    }

    /// Appends to `out` what [`Self::select`] would return, without changing any state. The ranks are not set.
    pub fn peek(&mut self, selector: &Selector, out: &mut Vec<Peeked>) {
        self.flush_fast_queue();
        let mut picked = core::mem::take(&mut self.picked);
        picked.clear();
        self.pick(selector, &mut picked);
        out.extend(picked.iter().filter_map(|&(place, _)| {
            let sample = self.samples.get(place)?;
            let selected = Selected { info: self.info(sample)?, payload: sample.arrival.payload.clone() };
            Some(Peeked { place, selected })
        }));
        self.picked = picked;
    }

    /// Selects samples that [`Self::peek`] has shown, unless they have been removed since.
    pub fn select_peeked(&mut self, peeked: &[Peeked], take: bool, out: &mut Vec<Selected>) {
        self.flush_fast_queue();
        let mut picked = core::mem::take(&mut self.picked);
        picked.clear();
        picked.extend(peeked.iter().filter_map(|peeked| {
            let sample = self.samples.get(peeked.place)?;
            let (then, is) = (&peeked.selected.info, &sample.arrival);
            let is_same = then.writer == is.writer
                && then.sequence_number == is.sequence_number
                && then.reception_timestamp == is.reception_timestamp;
            is_same.then_some((peeked.place, sample.instance))
        }));
        self.hand_out_picked(&picked, take, out);
        self.picked = picked;
    }

    /// Whether [`Self::select`] would return a sample.
    #[must_use]
    pub fn has_any(&self, selector: &Selector) -> bool {
        if self.fast_queue_matches(selector) {
            return true;
        }
        if !selector.read && self.not_read == 0 {
            return false;
        }
        let mut found = false;
        self.walk(selector, |_, _| {
            found = true;
            ControlFlow::Break(())
        });
        found
    }

    /// The next known instance after `key`, in the order of keys, that has selected samples; the first one for `None`.
    #[must_use]
    pub fn next_instance(&self, key: Option<&KeyHash>, selector: &Selector) -> Option<KeyHash> {
        let of_fast_queue =
            self.instances.get(self.last_instance).filter(|_| !self.fast_queue.is_empty()).map(|i| i.key);
        let has_samples = |i: &&Instance| i.samples > 0 || Some(i.key) == of_fast_queue;
        let candidates = self.instances.slots.iter().flatten().filter(has_samples);
        let candidates = candidates.filter(|i| selector.wants_instance(i));
        let later = candidates.filter(|i| key.is_none_or(|k| i.key > *k));
        later.filter(|i| self.has_any(&Selector { instance: Some(i.key), ..*selector })).map(|i| i.key).min()
    }

    fn hand_out_picked(&mut self, picked: &[(u32, u32)], take: bool, out: &mut Vec<Selected>) {
        let first_out = out.len();
        for &(sample, _) in picked {
            if let Some(selected) = self.hand_out(sample, take) {
                out.push(selected);
            }
        }
        debug_assert_eq!(picked.len(), out.len() - first_out);
        self.rank(picked, out.get_mut(first_out..).unwrap_or(&mut []));
        for &(_, instance) in picked {
            if let Some(instance) = self.instances.get_mut(instance) {
                instance.view = ViewState::NotNew;
            }
            self.drop_idle_instance(instance);
        }
    }

    fn pick(&mut self, selector: &Selector, picked: &mut Vec<(u32, u32)>) {
        if selector.max_samples == 0 {
            return;
        }
        if self.config.topic_order || self.instances.len == 1 || selector.instance.is_some() {
            self.walk(selector, |index, sample| {
                picked.push((index, sample.instance));
                if picked.len() < selector.max_samples { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            return;
        }
        // Instance by instance, in the order of their first selected samples.
        self.visit += 1;
        let mut at = self.head;
        while let Some(sample) = at.and_then(|i| self.samples.get(i)) {
            at = sample.next;
            let instance = sample.instance;
            let Some(entry) = self.instances.get_mut(instance).filter(|i| i.visited != self.visit) else { continue };
            entry.visited = self.visit;
            if !selector.wants_instance(entry) {
                continue;
            }
            let mut of_instance = entry.head;
            while let Some(index) = of_instance {
                let Some(sample) = self.samples.get(index) else { break };
                of_instance = sample.next_of_instance;
                if selector.wants_sample(sample) {
                    picked.push((index, instance));
                    if picked.len() >= selector.max_samples {
                        return;
                    }
                }
            }
        }
    }

    /// Visits the selected samples in the order of the cache, or of one instance.
    fn walk(&self, selector: &Selector, mut visit: impl FnMut(u32, &Cached) -> ControlFlow<()>) {
        let of_one = selector.instance.map(|key| self.by_key.get(&key).and_then(|&i| self.instances.get(i)));
        let mut at = match of_one {
            None => self.head,
            Some(None) => return,
            Some(Some(instance)) => instance.head,
        };
        while let Some(index) = at {
            let Some(sample) = self.samples.get(index) else { return };
            at = if of_one.is_some() { sample.next_of_instance } else { sample.next };
            let wanted = selector.wants_sample(sample)
                && self.instances.get(sample.instance).is_some_and(|i| selector.wants_instance(i));
            if wanted && visit(index, sample).is_break() {
                return;
            }
        }
    }

    fn hand_out(&mut self, index: u32, take: bool) -> Option<Selected> {
        let info = self.samples.get(index).and_then(|s| self.info(s))?;
        let sample = self.samples.get_mut(index)?;
        let payload = if take {
            if self.config.by_source_timestamp
                && let Some(instance) = self.instances.get_mut(sample.instance)
            {
                instance.last_taken = instance.last_taken.max(Some(sample.arrival.stamp()));
            }
            self.unlink(index)?.0
        } else {
            self.not_read -= usize::from(!sample.read);
            sample.read = true;
            sample.arrival.payload.clone()
        };
        Some(Selected { info, payload })
    }

    /// The description, without the ranks within the collection.
    fn info(&self, sample: &Cached) -> Option<SampleInfo> {
        let instance = self.instances.get(sample.instance)?;
        let arrival = &sample.arrival;
        let generations = sample.disposed_generations.saturating_add(sample.no_writers_generations);
        Some(SampleInfo {
            read_before: sample.read,
            view_state: instance.view,
            instance_state: instance.state,
            instance: instance.key,
            writer: arrival.writer,
            sequence_number: arrival.sequence_number,
            source_timestamp: arrival.source_timestamp,
            reception_timestamp: arrival.reception_timestamp,
            disposed_generation_count: sample.disposed_generations,
            no_writers_generation_count: sample.no_writers_generations,
            sample_rank: 0,
            generation_rank: 0,
            absolute_generation_rank: instance.generations().saturating_sub(generations),
            valid_data: arrival.kind.is_alive(),
        })
    }

    /// Sets the ranks, from the end: the samples of an instance seen so far follow the current one.
    fn rank(&mut self, picked: &[(u32, u32)], collection: &mut [Selected]) {
        self.visit += 1;
        for (selected, &(_, instance)) in collection.iter_mut().zip(picked).rev() {
            let Some(instance) = self.instances.get_mut(instance) else { continue };
            let info = &mut selected.info;
            let generation = info.disposed_generation_count.saturating_add(info.no_writers_generation_count);
            if instance.visited != self.visit {
                instance.visited = self.visit;
                instance.ranked = 0;
                instance.newest_ranked = generation;
            }
            info.sample_rank = instance.ranked;
            info.generation_rank = instance.newest_ranked.saturating_sub(generation);
            instance.ranked += 1;
        }
    }
}
