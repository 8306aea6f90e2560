//! `perftest run PLAN`: campaigns, whose cases differ in rate, size, number of subscribers, policies, places and middleware.

pub mod placement;
