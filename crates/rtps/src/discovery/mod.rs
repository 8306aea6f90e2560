//! Discovery of participants and endpoints (RTPS 2.5 §8.5).

pub mod data;
