//! RTPS 2.5 as deterministic state machines.
//!
//! Time, randomness and bytes are inputs; bytes, events and the next deadline are outputs. This crate reads no clock,
//! opens no socket, starts no thread, takes no lock and requests no random numbers from the operating system. The crate
//! is `no_std`, so the compiler enforces this.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address_budget;
mod box_list;
mod by_guid;
mod compact;
mod count_filter;
pub mod deadline;
pub mod discovery;
mod event_queue;
pub mod history;
pub mod id;
pub mod limits;
pub mod locator;
pub mod memory_account;
pub mod min_tree;
#[cfg(test)]
mod pair;
pub mod participant;
pub mod payload;
pub mod protection;
pub mod qos;
mod rare;
pub mod reader;
pub mod receiver;
pub mod round_trip;
pub mod seq;
pub mod time;
pub mod transmit;
pub mod vendor;
pub mod wire;
pub mod writer;
