//! The headers of members: parameters in XCDR1 (XTypes 1.3 §7.4.1.2), EMHEADERs in XCDR2 (XTypes 1.3 §7.4.3.4.2).

/// The greatest member id that fits the short XCDR1 parameter header (XTypes 1.3 §7.4.1.2.1).
pub(crate) const MAX_SHORT_ID: u32 = 0x3eff;
pub(crate) const PID_EXTENDED: u16 = 0x3f01;
pub(crate) const PID_LIST_END: u16 = 0x3f02;
pub(crate) const PID_IGNORE: u16 = 0x3f03;
pub(crate) const PID_MASK: u16 = 0x3fff;
pub(crate) const PID_MUST_UNDERSTAND: u16 = 0x4000;
pub(crate) const LONG_MUST_UNDERSTAND: u32 = 0x4000_0000;
pub(crate) const MEMBER_ID_MASK: u32 = 0x0fff_ffff;
pub(crate) const EM_MUST_UNDERSTAND: u32 = 0x8000_0000;
