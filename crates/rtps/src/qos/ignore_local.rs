//! Endpoints near each other that do not match by the choice of the application.

use core::fmt;

use crate::wire::{ParameterId, ParameterListWriter, ValueError, ValueReader};

/// Which endpoints an endpoint does not match although topics and policies would allow it. The choice of either side
/// counts for both. It is no policy of DDS; routers and bridges need it to ignore samples of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum IgnoreLocal {
    /// None: the endpoint matches every endpoint that fits.
    #[default]
    None,
    /// Endpoints of the same participant.
    Participant,
    /// Endpoints of all participants of the same process.
    Process,
}

impl IgnoreLocal {
    /// Of other vendors the parameter may be anything, and so may values that later versions add: these are no reason
    /// to ignore an endpoint.
    pub(crate) fn read(value: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        Ok(match value.u32()? {
            1 => Self::Participant,
            2 => Self::Process,
            _ => Self::None,
        })
    }

    pub(crate) fn append_unless_default(self, list: &mut ParameterListWriter<'_>) {
        let number = match self {
            Self::None => return,
            Self::Participant => 1,
            Self::Process => 2,
        };
        list.parameter(ParameterId::PEREGRINE_IGNORE_LOCAL, |value| value.u32(number));
    }
}

impl fmt::Display for IgnoreLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "NONE",
            Self::Participant => "PARTICIPANT",
            Self::Process => "PROCESS",
        })
    }
}
