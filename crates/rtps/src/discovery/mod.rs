//! How participants and endpoints find each other (RTPS 2.5 §8.5).

pub mod data;
