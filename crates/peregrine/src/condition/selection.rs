//! Selection of the samples of a reader that satisfy a condition.

pub(crate) use sealed::Choose;

use crate::topic_type::TopicType;

/// A condition on samples, for [`DataReader::take_w_condition`](crate::DataReader::take_w_condition):
/// [`ReadCondition`](crate::ReadCondition) or [`QueryCondition`](crate::QueryCondition).
pub trait SampleCondition<T: TopicType>: Choose {}

mod sealed {
    use peregrine_rtps::history::{Peeked, Selector};
    use peregrine_rtps::id::{Guid, KeyHash};

    /// The part of a condition that a reader uses.
    pub trait Choose {
        /// The reader that the condition belongs to.
        fn reader(&self) -> Guid;

        fn selector(&self) -> Selector;

        /// The samples that satisfy the condition, of one instance if `instance` is given; `None` if the selector
        /// describes them completely.
        fn choose(&self, instance: Option<KeyHash>) -> Option<Vec<Peeked>>;
    }
}
