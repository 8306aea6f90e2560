//! Which samples of a reader satisfy a condition.

pub(crate) use sealed::Choose;

use crate::topic_type::TopicType;

/// A condition whose samples [`DataReader::take_w_condition`](crate::DataReader::take_w_condition) hands out:
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

        /// The samples, of one instance if one is given; `None` if the selector describes them completely.
        fn choose(&self, instance: Option<KeyHash>) -> Option<Vec<Peeked>>;
    }
}
