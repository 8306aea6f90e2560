//! Begins and ends attacks.

use std::net::SocketAddr;

use peregrine_rtps::id::{DomainId, Guid};
use peregrine_rtps::locator::Ports;

use super::forge::{self, Known, Victims};
use super::kind::{Forgery, Kind};
use super::limits::CLOCK_STEP_S;
use super::plan::Attack;
use super::stage::Stage;
use super::trace::Excuse;
use crate::network::{Cut, CutId, Datagram, NodeId};
use crate::world::{FIRST_NETWORK, SECOND_NETWORK, address};

/// Forged messages of one attack.
const FORGED_MAX: u32 = 20;
/// Copies of one datagram in a flood.
const FLOOD_COPIES: u32 = 1_000;
/// A host without a participant, from which forged messages come.
const STRANGER: NodeId = NodeId(200);

/// An attack under way.
pub(super) struct Active {
    pub(super) plan: Attack,
    cuts: Vec<CutId>,
    /// The node stood still or did not run already, so that the attack does nothing.
    is_idle: bool,
    /// The pair in whose name messages are forged.
    victims: Option<(Guid, Guid)>,
    sent: u32,
}

impl Stage {
    pub(super) fn begin_attack(&mut self, plan: Attack) -> Active {
        let (node, other) = (NodeId(plan.node), NodeId(plan.other));
        let mut active = Active { plan, cuts: Vec::new(), is_idle: false, victims: None, sent: 0 };
        let mut cut = |stage: &mut Self, cut| active.cuts.push(stage.world.network().cut(cut));
        let ports = Ports::of(DomainId(0));
        match plan.kind {
            Kind::MulticastOutage => {
                cut(self, Cut { port: ports.metatraffic_multicast(), ..Cut::default() });
            }
            Kind::DirectionOutage | Kind::Forget => {
                cut(self, Cut { from: Some(node), to: Some(other), ..Cut::default() });
            }
            Kind::RouteOutage => {
                let network = if plan.variant.is_multiple_of(2) { FIRST_NETWORK } else { SECOND_NETWORK };
                cut(self, Cut { network: Some(network), ..Cut::default() });
            }
            Kind::PortOutage => {
                let port =
                    if plan.variant.is_multiple_of(2) { ports.user_unicast(0) } else { ports.metatraffic_unicast(0) };
                cut(self, Cut { to: Some(other), port, ..Cut::default() });
            }
            Kind::Isolation => {
                cut(self, Cut { from: Some(node), ..Cut::default() });
                cut(self, Cut { to: Some(node), ..Cut::default() });
            }
            Kind::Stop | Kind::Suspend | Kind::Crash | Kind::Goodbye => {
                active.is_idle = !self.paused.insert(node);
                if !active.is_idle {
                    self.pause(plan.kind, node);
                }
            }
            Kind::ClockStep => self.world.step_wall(node, step_ns(plan.variant)),
            Kind::SlowReader => _ = self.lazy.insert(node),
            Kind::SilentReader => _ = self.world.silence(node, true),
            Kind::Forge => active.victims = self.choose_victims(&plan),
            Kind::Flood => drop(self.world.record()),
        }
        active
    }

    fn pause(&mut self, kind: Kind, node: NodeId) {
        match kind {
            Kind::Crash => self.world.crash(node),
            Kind::Goodbye => self.world.leave(node),
            _ => return self.world.freeze(node),
        }
        self.remove(node);
    }

    /// A pair of a writer and a reader on different nodes, of the writers or readers of the attacked node if possible.
    /// With a node that imitates another implementation, one that the forged messages do not harm for good.
    fn choose_victims(&mut self, plan: &Attack) -> Option<(Guid, Guid)> {
        let node = NodeId(plan.node);
        let node_of = |endpoints: &std::collections::BTreeMap<Guid, super::stage::Endpoint>, guid: &Guid| {
            endpoints.get(guid).map(|endpoint| endpoint.node)
        };
        let apart: Vec<(Guid, Guid)> = self.trace.pairs.keys().copied().collect();
        let apart = apart.into_iter().filter_map(|(writer, reader)| {
            let (at_writer, at_reader) = (node_of(&self.writers, &writer)?, node_of(&self.readers, &reader)?);
            let imitates = (self.imitates(at_writer), self.imitates(at_reader));
            if self.plan.difference.is_some_and(|difference| plan.forgery.harms_for_good(difference, imitates)) {
                return None;
            }
            let is_preferred = if plan.variant.is_multiple_of(2) { imitates.0 } else { imitates.1 };
            let concerns = at_writer == node || at_reader == node;
            (at_writer != at_reader).then_some((concerns, is_preferred, writer, reader))
        });
        let (_, _, writer, reader) = apart.max()?;
        let pair = self.trace.pairs.get_mut(&(writer, reader))?;
        pair.excuse = Some(Excuse::Forged);
        Some((writer, reader))
    }

    /// Whether the node behaves like another implementation.
    fn imitates(&self, node: NodeId) -> bool {
        self.plan.difference.is_some() && node.0 + 1 == self.plan.nodes
    }

    /// Sends forged or copied messages of attacks that consist of these.
    pub(super) fn go_on_attacking(&mut self, active: &mut Active) {
        match active.plan.kind {
            Kind::Forge => self.forge(active),
            Kind::Flood if active.sent == 0 => {
                let recorded = self.world.record();
                let others: Vec<&Datagram> = recorded.iter().filter(|d| d.from != d.to && d.from != STRANGER).collect();
                if others.is_empty() {
                    return;
                }
                let datagram = others[self.rng.usize(0..others.len())].clone();
                for _ in 0..FLOOD_COPIES {
                    let now = self.now();
                    self.world.network().send(now, datagram.clone());
                }
                active.sent = FLOOD_COPIES;
                self.world.end_record();
            }
            _ => {}
        }
    }

    fn forge(&mut self, active: &mut Active) {
        let Some((writer, reader)) = active.victims.filter(|_| active.sent < FORGED_MAX) else { return };
        let forgery = active.plan.forgery;
        let nodes = (self.writers.get(&writer).map(|w| w.node), self.readers.get(&reader).map(|r| r.node));
        let (Some(at_writer), Some(at_reader)) = nodes else { return };
        let last = self.trace.written.get(&writer).copied().unwrap_or(0);
        let (next_bytes, fragment_bytes) = (self.next_bytes(writer), self.fragment_bytes(writer));
        let victims = Victims { writer, reader, last, next_bytes, fragment_bytes };
        if forgery.is_credible_fragment() {
            self.imitated.insert((writer, last + 1));
        }
        let Some(member) = self.world.member(at_writer) else { return };
        let topic = self.writers.get(&writer).map_or(0, |w| w.topic);
        let mut announced = member.participant.data();
        announced.vendor = self.world.vendor_of(at_writer);
        let (from, to) = if forgery.is_for_writer() { (at_reader, at_writer) } else { (at_writer, at_reader) };
        let (wall, vendor) = (self.world.wall(), self.world.vendor_of(from));
        let known = Known { announced, topic: format!("topic{topic}"), wall, vendor };
        let bytes = forge::message(forgery, &victims, &known, active.sent, &mut self.rng);
        active.sent += 1;
        self.trace.datagrams.has_garbage |= forgery == Forgery::Garbage;
        self.trace.forged_with_vendors += u64::from(self.imitates(from) || self.imitates(to));
        let from = if active.plan.from_right_address { from } else { STRANGER };
        let source = SocketAddr::new(address(from, FIRST_NETWORK), 7411);
        let port = if forgery.is_of_discovery() { 7410 } else { 7411 };
        let now = self.now();
        self.world.network().send(now, Datagram { from, source, to, port, bytes });
    }

    pub(super) fn end_attack(&mut self, active: Active) {
        let Active { plan, cuts, is_idle, sent, .. } = active;
        let (node, other) = (NodeId(plan.node), NodeId(plan.other));
        let lost: u64 = cuts.into_iter().map(|cut| self.world.network().end_cut(cut)).sum();
        let effect = match plan.kind {
            _ if is_idle => 0,
            Kind::MulticastOutage | Kind::DirectionOutage | Kind::RouteOutage | Kind::PortOutage | Kind::Isolation => {
                lost
            }
            Kind::Stop | Kind::Suspend => self.wake(plan, node),
            Kind::Crash | Kind::Goodbye => {
                self.paused.remove(&node);
                self.populate(node);
                1
            }
            Kind::Forget => self.forgot(other, node),
            // Samples with a source timestamp that is off are counted when they are taken.
            Kind::ClockStep => {
                self.world.step_wall(node, -step_ns(plan.variant));
                0
            }
            Kind::SlowReader => {
                self.lazy.remove(&node);
                let member = self.world.member(node);
                member.map_or(0, |member| member.readers.values().map(|reader| reader.cache().len() as u64).sum())
            }
            Kind::SilentReader => self.world.silence(node, false),
            Kind::Forge | Kind::Flood => {
                self.world.end_record();
                u64::from(sent)
            }
        };
        self.note_effect(plan.kind, effect);
    }

    /// A node goes on. Returns how many datagrams came meanwhile.
    fn wake(&mut self, plan: Attack, node: NodeId) -> u64 {
        self.paused.remove(&node);
        if plan.kind == Kind::Suspend {
            self.world.forgo_standstill(node);
        }
        // The control thread and the threads that receive may each be first.
        let arrivals =
            if plan.variant.is_multiple_of(2) { self.world.thaw(node) } else { self.world.thaw_timers_first(node) };
        self.trace.datagrams.overflowed += arrivals.lost;
        arrivals.waited + arrivals.lost
    }

    /// Whether one node has lost the other by its lease, and is still known to it.
    fn forgot(&self, at: NodeId, of: NodeId) -> u64 {
        let prefix = |node| self.world.member(node).map(|member| member.participant.prefix());
        let (Some(of_prefix), Some(at_prefix)) = (prefix(of), prefix(at)) else { return 0 };
        let is_known = self.world.member(of).is_some_and(|m| m.participant.remote_participant(&at_prefix).is_some());
        u64::from(is_known && self.forgotten.contains(&(at, of_prefix)))
    }
}

/// Steps forward and back, of an hour and of a day.
const fn step_ns(variant: u8) -> i64 {
    let hour_ns = (CLOCK_STEP_S * 1_000_000_000) as i64;
    match variant % 4 {
        0 => hour_ns,
        1 => -hour_ns,
        2 => 24 * hour_ns,
        _ => -24 * hour_ns,
    }
}
