//! Reading values of a Rust type.

use std::time::Duration;

use peregrine_rtps::history::{Selected, Selector};
use peregrine_xtypes::{DdsType, decode_key_holder};

use super::{DataReader, Sample};
use crate::InstanceHandle;
use crate::condition::SampleCondition;
use crate::driver::base::user_code::run_user_code;
use crate::error::{BadParameter, Error};
use crate::topic_type::instance_of;

impl<T: DdsType> DataReader<T> {
    /// Takes all samples of the reader, read or unread.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`]. A sample whose bytes are not a value of this type does not
    /// fail the call: see [`Sample::error`].
    pub fn take(&self) -> Result<Vec<Sample<T>>, Error> {
        self.take_selected(&Selector::ANY)
    }

    /// Reads all samples of the reader. The samples stay in the reader.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn read(&self) -> Result<Vec<Sample<T>>, Error> {
        self.read_selected(&Selector::ANY)
    }

    /// Takes the next unread sample; `None` if there is none.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn take_next(&self) -> Result<Option<Sample<T>>, Error> {
        Ok(self.decode_one(self.inner.collect(&Selector { max_samples: 1, ..Selector::NOT_READ }, true)?))
    }

    /// Reads the next unread sample, which stays in the reader; `None` if there is none.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn read_next(&self) -> Result<Option<Sample<T>>, Error> {
        Ok(self.decode_one(self.inner.collect(&Selector { max_samples: 1, ..Selector::NOT_READ }, false)?))
    }

    /// Takes the selected samples.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn take_selected(&self, selector: &Selector) -> Result<Vec<Sample<T>>, Error> {
        Ok(self.decode_all(self.inner.collect(selector, true)?))
    }

    /// Reads the selected samples. The samples stay in the reader.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn read_selected(&self, selector: &Selector) -> Result<Vec<Sample<T>>, Error> {
        Ok(self.decode_all(self.inner.collect(selector, false)?))
    }

    /// Takes the selected samples of one instance.
    ///
    /// # Errors
    /// See [`Self::take`]; [`Error::BadParameter`] if the reader does not know the instance.
    pub fn take_instance(&self, instance: InstanceHandle, selector: &Selector) -> Result<Vec<Sample<T>>, Error> {
        self.take_selected(&self.of_instance(instance, selector)?)
    }

    /// Reads the selected samples of one instance.
    ///
    /// # Errors
    /// See [`Self::take_instance`].
    pub fn read_instance(&self, instance: InstanceHandle, selector: &Selector) -> Result<Vec<Sample<T>>, Error> {
        self.read_selected(&self.of_instance(instance, selector)?)
    }

    /// Takes the selected samples of the next instance that has any: the first instance after `previous` in the order
    /// of handles, or the first of all. The reader need not know `previous` any more. Returns an empty list if there is
    /// no such instance.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn take_next_instance(
        &self,
        previous: Option<InstanceHandle>,
        selector: &Selector,
    ) -> Result<Vec<Sample<T>>, Error> {
        match self.next_instance(previous, selector)? {
            Some(next) => self.take_selected(&next),
            None => Ok(Vec::new()),
        }
    }

    /// Reads the selected samples of the next instance that has any; see [`Self::take_next_instance`].
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn read_next_instance(
        &self,
        previous: Option<InstanceHandle>,
        selector: &Selector,
    ) -> Result<Vec<Sample<T>>, Error> {
        match self.next_instance(previous, selector)? {
            Some(next) => self.read_selected(&next),
            None => Ok(Vec::new()),
        }
    }

    /// Takes at most `max_samples` of the samples that make a condition of this reader true.
    ///
    /// # Errors
    /// See [`Self::take`]; [`Error::PreconditionNotMet`] if the condition belongs to another reader.
    pub fn take_w_condition<C: SampleCondition<T>>(
        &self,
        condition: &C,
        max_samples: usize,
    ) -> Result<Vec<Sample<T>>, Error> {
        self.inner.select_w_condition(condition, None, max_samples, true).map(|found| self.decode_all(found))
    }

    /// Reads at most `max_samples` of the samples that make a condition of this reader true.
    ///
    /// # Errors
    /// See [`Self::take_w_condition`].
    pub fn read_w_condition<C: SampleCondition<T>>(
        &self,
        condition: &C,
        max_samples: usize,
    ) -> Result<Vec<Sample<T>>, Error> {
        self.inner.select_w_condition(condition, None, max_samples, false).map(|found| self.decode_all(found))
    }

    /// Takes samples of the next instance that makes a condition of this reader true; see
    /// [`Self::take_next_instance`].
    ///
    /// # Errors
    /// See [`Self::take_w_condition`].
    pub fn take_next_instance_w_condition<C: SampleCondition<T>>(
        &self,
        previous: Option<InstanceHandle>,
        condition: &C,
        max_samples: usize,
    ) -> Result<Vec<Sample<T>>, Error> {
        let Some(next) = self.inner.next_instance_w_condition(previous, condition)? else { return Ok(Vec::new()) };
        self.inner.select_w_condition(condition, Some(next), max_samples, true).map(|found| self.decode_all(found))
    }

    /// Reads samples of the next instance that makes a condition of this reader true; see
    /// [`Self::take_next_instance`].
    ///
    /// # Errors
    /// See [`Self::take_w_condition`].
    pub fn read_next_instance_w_condition<C: SampleCondition<T>>(
        &self,
        previous: Option<InstanceHandle>,
        condition: &C,
        max_samples: usize,
    ) -> Result<Vec<Sample<T>>, Error> {
        let Some(next) = self.inner.next_instance_w_condition(previous, condition)? else { return Ok(Vec::new()) };
        self.inner.select_w_condition(condition, Some(next), max_samples, false).map(|found| self.decode_all(found))
    }

    /// The key of an instance, in a value whose other members have their defaults.
    ///
    /// # Errors
    /// [`Error::BadParameter`] if the reader does not know the instance or has not received its key;
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn get_key_value(&self, instance: InstanceHandle) -> Result<T, Error> {
        let state = self.inner.open_enabled()?;
        let key = state.reader.cache().key_of(&instance).map(<[u8]>::to_vec);
        drop(state);
        let key = key.ok_or(BadParameter::UnknownInstance(instance))?;
        Ok(run_user_code(|| decode_key_holder(&key))?)
    }

    /// The handle of the instance with the key of `key_holder`; `None` if the reader does not know the instance or is
    /// deleted.
    #[must_use]
    pub fn lookup_instance(&self, key_holder: &T) -> Option<InstanceHandle> {
        let instance = instance_of(key_holder);
        self.inner.open().ok()?.reader.cache().knows(&instance).then_some(instance)
    }

    /// Waits for a sample and takes it.
    ///
    /// # Errors
    /// [`Timeout::NoData`](crate::error::Timeout::NoData); see [`Self::take`].
    pub fn wait_and_take(&self, timeout: Duration) -> Result<Sample<T>, Error> {
        self.wait_for_data(timeout)?;
        let taken = self.take_selected(&Selector { max_samples: 1, ..Selector::ANY })?.pop();
        // Another thread may have taken the sample.
        taken.ok_or_else(|| self.inner.no_data(timeout))
    }

    fn of_instance(&self, instance: InstanceHandle, selector: &Selector) -> Result<Selector, Error> {
        if !self.inner.open_enabled()?.reader.cache().knows(&instance) {
            return Err(BadParameter::UnknownInstance(instance).into());
        }
        Ok(Selector { instance: Some(instance), ..*selector })
    }

    fn next_instance(&self, previous: Option<InstanceHandle>, selector: &Selector) -> Result<Option<Selector>, Error> {
        let next = self.inner.open_enabled()?.reader.cache().next_instance(previous.as_ref(), selector);
        Ok(next.map(|instance| Selector { instance: Some(instance), ..*selector }))
    }

    fn decode_all(&self, selected: Vec<Selected>) -> Vec<Sample<T>> {
        if selected.is_empty() {
            self.inner.core.give_back(selected);
            return Vec::new();
        }
        self.decode_some(selected)
    }

    /// Not inlined: values of a large type need stack in this function, and a call without samples must not need that
    /// stack.
    #[inline(never)]
    fn decode_some(&self, selected: Vec<Selected>) -> Vec<Sample<T>> {
        let samples: Vec<Sample<T>> = selected.iter().map(Sample::decode).collect();
        self.decoded(selected, &samples);
        samples
    }

    /// Decodes at most one sample, without allocating a collection.
    fn decode_one(&self, selected: Vec<Selected>) -> Option<Sample<T>> {
        let sample = selected.first().map(Sample::decode);
        self.decoded(selected, sample.as_slice());
        sample
    }

    fn decoded(&self, selected: Vec<Selected>, samples: &[Sample<T>]) {
        self.inner.core.give_back(selected);
        let undecodable = samples.iter().filter(|s| s.error().is_some()).count() as u64;
        if undecodable > 0 {
            self.inner.core.lock().undecodable += undecodable;
        }
    }
}
