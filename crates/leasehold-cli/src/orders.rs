//! The orders that the watcher executes at the end of the lease, and their form on the pipe.
//!
//! Invariant: a line carries all orders, so the last line read is valid. Times come from [`boot`], which is the same
//! clock for both processes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::clock::boot;

/// The signals to the command's group, each with its time. Newer orders replace them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// SIGSTOP: the command is suspended with its wrapper, and no part of it may go on.
    pub(crate) stop: Option<Duration>,
    /// SIGTERM, and SIGCONT so that a stopped command receives it.
    pub(crate) term: Option<Duration>,
    /// SIGKILL.
    pub(crate) kill: Option<Duration>,
}

/// A group with the orders for it, which are one line on the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) group: i32,
    pub(crate) orders: Orders,
}

/// The watcher's memory.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    group: Option<Pid>,
    orders: Orders,
    /// True if SIGTERM was sent. The command then has its grace and no more.
    acted: bool,
}

impl Watched {
    /// Takes new orders. They do not prolong a grace that runs already, because the wrapper cannot know of it.
    pub(crate) fn receive(&mut self, message: Message) {
        // Numbers up to one do not name a group in kill(2).
        self.group = (message.group > 1).then(|| Pid::from_raw(message.group));
        let running = self.orders.kill.filter(|_| self.acted);
        self.orders = message.orders;
        self.orders.kill = match (running, message.orders.kill) {
            (Some(running), Some(kill)) => Some(running.min(kill)),
            (running, kill) => running.or(kill),
        };
    }

    /// Returns the time of the next order.
    pub(crate) fn next(&self) -> Option<Duration> {
        let Orders { stop, term, kill } = self.orders;
        [stop, term, kill].into_iter().flatten().min()
    }

    /// Executes the orders that are due.
    pub(crate) fn execute_due(&mut self) {
        let now = boot();
        let due = |moment: &mut Option<Duration>| moment.take_if(|moment| *moment <= now).is_some();
        if due(&mut self.orders.stop) {
            self.send(Signal::SIGSTOP);
        }
        if due(&mut self.orders.term) {
            self.acted = true;
            self.send(Signal::SIGTERM);
            self.send(Signal::SIGCONT);
        }
        if due(&mut self.orders.kill) {
            self.send(Signal::SIGKILL);
        }
    }

    /// Ends the command at once, because the wrapper is gone.
    pub(crate) fn end(&self) {
        self.send(Signal::SIGKILL);
    }

    fn send(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = killpg(group, signal);
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.group)?;
        let Orders { stop, term, kill } = self.orders;
        for moment in [stop, term, kill] {
            match moment {
                Some(moment) => write!(f, " {}", moment.as_nanos())?,
                None => f.write_str(" -")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Message {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let mut words = line.split(' ');
        let group = words.next().and_then(|word| word.parse().ok()).ok_or(())?;
        let mut moment = || match words.next() {
            Some("-") => Ok(None),
            Some(nanos) => nanos.parse().map(|nanos| Some(Duration::from_nanos(nanos))).map_err(drop),
            None => Err(()),
        };
        let orders = Orders { stop: moment()?, term: moment()?, kill: moment()? };
        Ok(Self { group, orders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_encoded_message_decodes_to_itself() {
        for orders in [
            Orders::default(),
            Orders { stop: Some(SECOND), ..Orders::default() },
            Orders { term: Some(3 * SECOND), kill: Some(8 * SECOND), ..Orders::default() },
        ] {
            let message = Message { group: 4711, orders };
            assert_eq!(message.to_string().parse(), Ok(message));
        }
        for line in ["", "x", "7", "7 - -", "7 - - soon"] {
            assert_eq!(line.parse::<Message>(), Err(()), "{line:?}");
        }
    }

    /// Returns a watcher of no group at all, so that its signals hit no process.
    fn watched(orders: Orders) -> Watched {
        let mut watched = Watched::default();
        watched.receive(Message { group: 0, orders });
        watched
    }

    #[test]
    fn due_orders_run_once_and_later_orders_wait() {
        let later = boot() + 3600 * SECOND;
        let mut watched = watched(Orders { term: Some(SECOND), kill: Some(later), ..Orders::default() });
        assert_eq!(watched.next(), Some(SECOND));
        watched.execute_due();
        assert!(watched.acted);
        assert_eq!(watched.next(), Some(later));
        watched.execute_due();
        assert_eq!(watched.next(), Some(later), "its moment has not come");
    }

    #[test]
    fn a_later_message_moves_the_deadline_but_not_a_running_grace_period() {
        let orders = |term, kill| Orders { term: Some(term), kill: Some(kill), ..Orders::default() };
        let later = boot() + 3600 * SECOND;
        let mut watched = watched(orders(later, 2 * later));
        watched.receive(Message { group: 0, orders: orders(3 * later, 4 * later) });
        assert_eq!((watched.next(), watched.orders.kill), (Some(3 * later), Some(4 * later)));
        watched.receive(Message { group: 0, orders: orders(SECOND, later) });
        watched.execute_due();
        watched.receive(Message { group: 0, orders: Orders { kill: Some(2 * later), ..Orders::default() } });
        assert_eq!(watched.next(), Some(later));
        watched.receive(Message { group: 0, orders: Orders::default() });
        assert_eq!(watched.next(), Some(later));
    }
}
