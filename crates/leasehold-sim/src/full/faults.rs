//! The faults of the full mode: their effects at the beginning and at the end.
//!
//! Invariant: lasting effects always follow from the active faults. A fault never sets or clears an effect by itself.

use std::sync::PoisonError;
use std::time::Duration;

use super::active_faults::{Link, loses, takes_the_server_down};
use super::hosts::{HOST, PROCESS};
use super::{World, usual_latency};
use crate::fault::{Fault, Kind};
use crate::history::Event;
use crate::primitive::{Primitive, delete};
use crate::schedule::{Action, replicated_at};

/// The longest travel time of a message in a slow network.
const SLOW: Duration = Duration::from_secs(1);

fn name_of(process: usize) -> String {
    format!("{PROCESS}{process}")
}

impl World {
    pub(super) fn carry_through(&mut self, action: &Action) {
        match *action {
            Action::Replicate => self.server.replicate(),
            Action::Begin(index) => {
                let fault = self.plan.faults[index].clone();
                self.recorder
                    .record(self.truth.now(), Event::Fault { index, kind: fault.kind, begins: true });
                self.active_faults.active.push(index);
                self.strike(&fault);
                self.carry_out();
            }
            Action::End(index) => {
                self.active_faults.active.retain(|known| *known != index);
                self.carry_out();
                self.recorder.record(
                    self.truth.now(),
                    Event::Fault { index, kind: self.plan.faults[index].kind, begins: false },
                );
            }
        }
    }

    /// Carries out the immediate part of a fault.
    fn strike(&mut self, fault: &Fault) {
        match fault.kind {
            Kind::Reset if loses(fault) => self.environment.process(fault.process).reset_streams(),
            Kind::Reset => self.server.reset(fault.process),
            Kind::Restart | Kind::RestartEmpty | Kind::Failover => self.take_server_down(fault),
            Kind::ForgetScripts => self.server.with_database(|database, _| database.forget_scripts()),
            Kind::ServerClockForward => self.server.jump(fault.jump_ns()),
            Kind::ServerClockBack => self.server.jump(-fault.jump_ns()),
            Kind::ClockForward => {
                if let Some(clock) = self.active_faults.clocks.get(fault.process) {
                    clock.jump(fault.jump_ns());
                }
            }
            Kind::Delete => {
                let command = delete(&fault.name);
                self.server.with_database(|database, now_ms| database.execute(now_ms, &command));
            }
            Kind::ForceRelease => {
                Primitive::force_release(&fault.name).iter().for_each(|call| self.server.operate(call));
            }
            _ => {}
        }
    }

    fn take_server_down(&mut self, fault: &Fault) {
        if self.active_faults.server_is_up {
            self.active_faults.server_is_up = false;
            self.sim.crash(HOST);
        }
        self.server.crash(fault.kind != Kind::RestartEmpty);
        if fault.kind == Kind::Failover {
            self.server.fail_over(replicated_at(fault));
        }
    }

    /// Applies the effects of the active faults to the world.
    fn carry_out(&mut self) {
        let active_faults = &self.active_faults;
        let any = |which: fn(Kind) -> bool| active_faults.faults().any(|fault| which(fault.kind));
        let down = any(takes_the_server_down);
        self.server.running.set(!any(|kind| kind == Kind::ServerFreeze));
        self.server.set_condition(active_faults.condition());
        match any(|kind| kind == Kind::Refuse) {
            true => self.server.refuse(),
            false => self.server.admit(),
        }
        if !down && !self.active_faults.server_is_up {
            self.active_faults.server_is_up = true;
            self.server.begin();
            self.sim.bounce(HOST);
        }
        for process in 0..self.active_faults.up.len() {
            self.carry_out_for(process);
        }
    }

    fn carry_out_for(&mut self, number: usize) {
        let ours = number < self.plan.processes;
        let active_faults = &self.active_faults;
        let hit = |kind: Kind| active_faults.hits(number, |fault| fault.kind == kind);
        let (up, paused) = (!(ours && hit(Kind::Crash)), ours && hit(Kind::Pause));
        let starved = ours && hit(Kind::Starve);
        let stalls = |kind| active_faults.hits(number, |fault| fault.kind == kind && !loses(fault));
        let open = (!stalls(Kind::RequestsStall), !stalls(Kind::RepliesStall));
        let (deaf, slow, drops) = (hit(Kind::MessagesLost), hit(Kind::Slow), hit(Kind::DropFutures));
        let link = active_faults.link_of(number);

        self.set_up(number, up);
        self.set_paused(number, up && paused, up && starved);
        self.set_link(number, link);
        let process = self.environment.process(number);
        process.requests.set(open.0);
        process.replies.set(open.1);
        self.server.set_deaf(number, deaf);
        let latency = if slow { SLOW } else { usual_latency(&self.plan) };
        self.sim.set_link_max_message_latency(name_of(number), HOST, latency);
        let mut dropping = self.environment.dropping.lock().unwrap_or_else(PoisonError::into_inner);
        if drops {
            dropping.insert(number)
        } else {
            dropping.remove(&number)
        };
    }

    fn set_up(&mut self, number: usize, up: bool) {
        let was_up = std::mem::replace(&mut self.active_faults.up[number], up);
        if was_up && !up {
            self.recorder.kill(self.truth.now(), number);
            let process = self.environment.process(number);
            process.kill();
            self.sim.crash(name_of(number));
            process.bury();
            self.server.reset(number);
        } else if up && !was_up {
            self.sim.bounce(name_of(number));
        }
    }

    fn set_paused(&mut self, number: usize, paused: bool, starved: bool) {
        let held_up = paused || starved;
        if std::mem::replace(&mut self.active_faults.held_up[number], held_up) != held_up {
            self.recorder.pause(self.truth.now(), number, held_up);
        }
        let process = self.environment.process(number);
        process.running.set(!paused);
        process.polled.set(!starved);
    }

    fn set_link(&mut self, number: usize, link: Link) {
        let process = name_of(number);
        let old = std::mem::replace(&mut self.active_faults.links[number], link);
        if old == link {
            return;
        }
        // Held messages arrive now. A stream that lost bytes is of no use any more, so it is reset.
        self.sim.release(process.as_str(), HOST);
        if !matches!(old, Link::Healthy | Link::Held) {
            self.server.reset(number);
            self.environment.process(number).reset_streams();
        }
        match link {
            Link::Healthy => {}
            Link::Cut => self.sim.partition(process, HOST),
            Link::Held => self.sim.hold(process, HOST),
            Link::RequestsLost => self.sim.partition_oneway(process, HOST),
            Link::RepliesLost => self.sim.partition_oneway(HOST, process),
        }
    }
}
