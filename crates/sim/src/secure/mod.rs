//! Participants with DDS Security: sessions with test identities, whose jobs the world runs after a virtual delay.
//!
//! [`identity`] issues the documents, once per process for each authority. [`member`] has the clock and the jobs of a
//! participant, whose session is connected with discovery as in the product. [`scenario`] plays worlds with faults,
//! restarts, replays and renewals, and judges them. [`forge`] makes the messages of an attacker without keys.
//!
//! Keys and signatures draw random bytes of the operating system. No decision depends on their values: GUIDs derive
//! from names and the seed, and the seed provides all other random bytes.

mod content;
pub mod forge;
pub mod identity;
pub mod member;
pub mod scenario;
