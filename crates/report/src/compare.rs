//! Whether two alternatives differ.

mod conditions;
mod ratio;
mod records;

pub use self::conditions::Conditions;
pub(crate) use self::conditions::varying;
pub(crate) use self::ratio::short_percent;
pub use self::ratio::{Block, CONFIDENCE, EQUIVALENCE, FEWEST_BLOCKS, FEWEST_REPETITIONS, Interval, Ratio, Verdict};
pub use self::records::{Compared, Metric, Pairing, compare, render};
pub(crate) use self::records::{multiplicity, verdict_text};
