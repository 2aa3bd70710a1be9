//! The decisions of a seed before the run: processes, clocks, terms and faults.
//!
//! Invariant: the seed and the mode alone determine a plan. A fault can be left out without a change of the others, so
//! the fault list of a violation can be shrunk.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use crate::clock::Clock;
use crate::fault::{Fault, Kind};
use crate::mode::Mode;
use crate::primitive::Primitive;

/// The largest number of permits that a user requests at once.
pub(crate) const UNITS_MAX: u32 = 3;

/// The time without faults at the end of elections, in which observers must agree with the server.
const CALM: Duration = Duration::from_secs(25);

/// The length of the rush at the end of some runs: a few hundred sections.
const RUSH: Duration = Duration::from_millis(400);

/// The terms of the wire between the processes and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireTerms {
    /// True if the clients ask for RESP3.
    pub(crate) client_has_resp3: bool,
    /// True if the server speaks RESP3.
    pub(crate) server_has_resp3: bool,
    /// The most calls that travel as one command.
    pub(crate) batch_rows: usize,
    /// The number of commands in flight behind which calls gather.
    pub(crate) at_once: usize,
    /// True if the runtime of the users carries the command connections.
    pub(crate) lends: bool,
    /// The native commands that the server has.
    pub(crate) natives: Natives,
}

/// The native commands that stand in for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Natives {
    /// As Redis before 7.0.
    None,
    /// `SET` with `NX` and `GET`.
    Set,
    /// A compare-and-delete too.
    All,
}

impl WireTerms {
    fn of(seed: u64) -> Self {
        let mut rng = stream(seed, "wire");
        Self {
            client_has_resp3: rng.u8(0..4) != 0,
            server_has_resp3: rng.u8(0..3) != 0,
            batch_rows: *rng.choice(&[64, 64, 2, 1]).expect("one of several"),
            at_once: *rng.choice(&[8, 2, 1]).expect("one of several"),
            lends: stream(seed, "lends").u8(0..3) != 0,
            natives: *stream(seed, "natives")
                .choice(&[Natives::None, Natives::Set, Natives::All, Natives::All])
                .expect("one of several"),
        }
    }
}

/// The shape of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A master that sentinels name.
    Sentinel,
    /// Masters that share the slots.
    Cluster,
}

/// The replicas of each master of a fleet.
pub(crate) const REPLICAS: u32 = 2;

/// The calls that count once the replicas have acknowledged them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmed {
    None,
    /// All, by the policy of the client.
    OfClient,
    /// Those of each hold, by the policy of its acquire.
    OfHolds,
}

/// The terms of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FleetTerms {
    pub(crate) shape: Shape,
    pub(crate) confirmed: Confirmed,
}

impl FleetTerms {
    fn of(seed: u64) -> Self {
        let mut rng = stream(seed, "shape");
        let shape = if rng.bool() { Shape::Sentinel } else { Shape::Cluster };
        let confirmed = match rng.bool() {
            true if stream(seed, "policies").u8(0..3) == 0 => Confirmed::OfHolds,
            true => Confirmed::OfClient,
            false => Confirmed::None,
        };
        Self { shape, confirmed }
    }

    const fn confirms(self) -> bool {
        !matches!(self.confirmed, Confirmed::None)
    }

    const fn allows(self, kind: Kind) -> bool {
        match kind {
            Kind::Migration => matches!(self.shape, Shape::Cluster),
            Kind::ReplicasAway => self.confirms(),
            _ => true,
        }
    }
}

/// The parameters and faults of one simulated run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The seed that determines all other fields.
    pub(crate) seed: u64,
    /// The mode, which decides the simulated world.
    pub(crate) mode: Mode,
    /// The number of processes with a leasehold client.
    pub(crate) processes: usize,
    /// The number of tasks in each process that take locks.
    pub(crate) users: usize,
    /// The number of Redisson-like clients that write straight on the wire format.
    pub(crate) foreigners: usize,
    /// The names of the locks.
    pub(crate) names: Vec<Arc<str>>,
    /// The leases that acquires choose from.
    pub(crate) leases: Vec<Duration>,
    /// True if some holds have a minimum hold time.
    pub(crate) has_min_holds: bool,
    /// The timeout of one call.
    pub(crate) timeout: Duration,
    /// The longest sleep of a waiter.
    pub(crate) poll_interval: Duration,
    /// The time for which a hold passes on inside its client.
    pub(crate) hand_off: Duration,
    /// The longest pause between two actions of a user.
    pub(crate) think_max: Duration,
    /// The longest usual travel time of a message.
    pub(crate) latency_max: Duration,
    /// The terms of the wire.
    pub(crate) wire: WireTerms,
    /// The terms of the fleet, in the mode with one.
    pub(crate) fleet: Option<FleetTerms>,
    /// The faults, in the order of their start.
    pub(crate) faults: Vec<Fault>,
    /// The quiesce time, by which all faults have ended.
    pub(crate) quiesce_at: Duration,
    /// The time from which each user takes one thing without a pause, in some plans.
    pub(crate) rush_at: Option<Duration>,
    /// The time at which users stop taking locks.
    pub(crate) stop_at: Duration,
}

impl Plan {
    /// Creates the plan of a seed.
    #[must_use]
    pub(crate) fn from_seed(seed: u64, mode: Mode) -> Self {
        let mut rng = stream(seed, "plan");
        let ms = Duration::from_millis;
        let leases: &[u64] = match (mode, rng.u8(0..3)) {
            // A node counts once it has been up for the longest lease, and it reports its uptime in whole seconds.
            (Mode::Quorum, _) => &[1_500, 3_000],
            (Mode::Election, _) => &[900, 2_500],
            (Mode::Single | Mode::Fleet, 0) => &[250, 900, 2_500],
            (Mode::Single | Mode::Fleet, 1) => &[1_000, 4_000, 10_000],
            (Mode::Single | Mode::Fleet, _) => &[5_000, 30_000],
        };
        let leases: Vec<_> = leases.iter().copied().map(ms).collect();
        let quiesce_at = leases[0] * rng.u32(3..12) + ms(500);
        let mut plan = Self {
            seed,
            mode,
            processes: rng.usize(1..=3),
            users: rng.usize(1..=3),
            foreigners: rng.usize(0..=1),
            names: choose_names(seed),
            timeout: ms(rng.u64(200..3_000)),
            poll_interval: ms(*rng.choice(&[250, 1_000, 1_000, 20_000]).expect("one of several")),
            hand_off: hand_off_of(seed, leases[0]),
            think_max: leases[0] / rng.u32(1..=4),
            has_min_holds: matches!(mode, Mode::Single | Mode::Fleet) && stream(seed, "rests").u8(0..4) == 0,
            latency_max: Duration::from_micros(*rng.choice(&[200, 1_000, 5_000]).expect("one of several")),
            wire: WireTerms::of(seed),
            fleet: (mode == Mode::Fleet).then(|| FleetTerms::of(seed)),
            leases,
            faults: Vec::new(),
            quiesce_at,
            rush_at: None,
            stop_at: quiesce_at + ms(3_000),
        };
        if mode == Mode::Single && stream(seed, "rush").u8(0..3) == 0 {
            plan.rush_at = Some(plan.stop_at - RUSH);
        }
        if mode == Mode::Quorum {
            let (grows_up, timeout) = (plan.longest_lease() + ms(2_000), ms(rng.u64(100..600)));
            plan.names = vec![Arc::from("redlock-0")];
            (plan.foreigners, plan.timeout) = (0, timeout);
            (plan.processes, plan.users) = (plan.processes.max(2), plan.users.min(2));
            (plan.quiesce_at, plan.stop_at) = (plan.quiesce_at + grows_up, plan.stop_at + grows_up * 2);
        }
        if mode == Mode::Election {
            plan.names = vec![Arc::from("election-0")];
            (plan.processes, plan.poll_interval) = (plan.processes.max(2), plan.poll_interval.min(ms(1_000)));
            plan.stop_at += CALM;
        }
        if matches!(mode, Mode::Single | Mode::Fleet) {
            plan.names.extend(choose_plain(seed));
        }
        if let Some(fleet) = plan.fleet {
            plan.foreigners = 0;
            if fleet.confirmed == Confirmed::OfHolds {
                // The permits of a semaphore are set by the client, whose calls no replica confirms.
                plan.names.retain(|name| Primitive::of(name).is_lock());
                if plan.names.is_empty() {
                    plan.names.push(Arc::from("lock-0"));
                }
            }
            if fleet.shape == Shape::Cluster {
                plan.keep_one_lock();
            }
        }
        plan.faults = plan.choose_faults();
        plan
    }

    /// Leaves out all locks but one. A lock of several names needs them all on one server.
    fn keep_one_lock(&mut self) {
        let mut locks = 0;
        self.names.retain(|name| {
            let is_lock = Primitive::of(name).is_lock();
            locks += usize::from(is_lock);
            !is_lock || locks == 1
        });
    }

    /// Returns true if a fault breaks an assumption of promise M. A failover breaks none if the replica that takes over
    /// has acknowledged what counts. A former master without its replicas then grants nothing that counts.
    #[must_use]
    pub(crate) fn is_breach(&self, kind: Kind) -> bool {
        kind.breaks_assumptions() && !(kind.promotes_stale() && self.confirms())
    }

    /// Returns true if calls count once the replicas have acknowledged them.
    #[must_use]
    pub(crate) fn confirms(&self) -> bool {
        self.fleet.is_some_and(FleetTerms::confirms)
    }

    /// Chooses the faults. Each seed has its own subset of the kinds, so that common faults do not hide rare faults.
    fn choose_faults(&self) -> Vec<Fault> {
        let mut rng = stream(self.seed, "faults");
        let mut kinds = Kind::all(self.mode);
        kinds.retain(|kind| self.fleet.is_none_or(|fleet| fleet.allows(*kind)));
        kinds.retain(|kind| self.wire.lends || !kind.is_of_the_callers_runtime());
        rng.shuffle(&mut kinds);
        kinds.truncate(rng.usize(0..=5));
        let count = if kinds.is_empty() { 0 } else { rng.usize(1..=8) };
        let mut faults: Vec<_> = (0..count)
            .map(|_| {
                let kind = *rng.choice(&kinds).expect("there are kinds");
                let begins = self.quiesce_at.mul_f64(rng.f64() * 0.9);
                let longest =
                    (self.quiesce_at - begins).min(self.longest_lease() * 2).min(Duration::from_secs(15));
                let part = if kind.is_instant() { 0.0 } else { rng.f64() * rng.f64() };
                let lasts = longest.mul_f64(part).max(Duration::from_millis(1));
                let process = rng.usize(0..self.processes + self.foreigners);
                let name = Arc::clone(rng.choice(&self.names).expect("there are names"));
                Fault {
                    kind,
                    begins,
                    lasts: lasts.min(self.quiesce_at - begins),
                    process,
                    name,
                    chance: rng.u64(..),
                }
            })
            .collect();
        if rng.u8(0..6) == 0 {
            faults.extend((0..self.processes).map(|process| self.deaf(process)));
        }
        faults.sort_by_key(|fault| fault.begins);
        faults
    }

    /// Creates a fault in which a process receives no wake-up until the quiesce time, so that its waiters live by
    /// polling.
    fn deaf(&self, process: usize) -> Fault {
        let (name, lasts) = (Arc::clone(&self.names[0]), self.quiesce_at);
        Fault { kind: Kind::MessagesLost, begins: Duration::ZERO, lasts, process, name, chance: 0 }
    }

    /// Returns the longest minimum hold time.
    #[must_use]
    pub(crate) fn longest_min_hold(&self) -> Duration {
        if self.has_min_holds { self.longest_lease() * 3 / 2 } else { Duration::ZERO }
    }

    /// Returns the longest lease of the plan.
    #[must_use]
    pub(crate) fn longest_lease(&self) -> Duration {
        self.leases.iter().copied().max().unwrap_or_default()
    }

    /// Returns the clock of a process. The rate of each clock differs from the true rate by less than half of the
    /// drift, so two clocks differ by at most the drift.
    #[must_use]
    pub(crate) fn clock_of(&self, process: usize) -> Clock {
        let mut rng = stream(self.seed, "clock");
        for _ in 0..process {
            rng.u64(..);
        }
        let mut rng = Rng::with_seed(rng.u64(..));
        Clock::new(Duration::from_secs(rng.u64(1_000..1_000_000)), rng.i64(-4_950..=4_950))
    }

    /// Returns the server's clock.
    #[must_use]
    pub(crate) fn server_clock(&self) -> Clock {
        self.clock_of(usize::from(u8::MAX))
    }
}

/// Chooses the bound of the hand-off: none, shorter than most sections, the default, as long as many sections, or longer
/// than the run.
fn hand_off_of(seed: u64, lease: Duration) -> Duration {
    let default = Duration::from_millis(2);
    let bounds = [Duration::ZERO, default / 10, default, lease / 4, lease * 2, Duration::from_secs(3_600)];
    *stream(seed, "hand-off").choice(&bounds).expect("one of several")
}

/// Chooses one to three names of any primitives, sometimes several locks to be acquired together.
fn choose_names(seed: u64) -> Vec<Arc<str>> {
    let mut rng = stream(seed, "names");
    let count = rng.usize(1..=3);
    let together = rng.u8(0..6) == 0;
    let tagged = rng.bool();
    let name = |index: usize| {
        let primitive = if together && index < 2 {
            *rng.choice(&[Primitive::Lock, Primitive::Lock, Primitive::Fair, Primitive::Fenced])
                .expect("some")
        } else {
            *rng.choice(&CHOICE).expect("some")
        };
        let word = primitive.word();
        // A latch has no hash tag.
        let tagged = tagged && together && primitive != Primitive::Latch;
        Arc::from(if tagged { format!("{{{word}}}-{index}") } else { format!("{word}-{index}") })
    };
    (0..if together { count.max(2) } else { count }).map(name).collect()
}

/// Chooses the plain locks of half of the plans: one, one with tokens, or two that can be acquired in one step.
fn choose_plain(seed: u64) -> Vec<Arc<str>> {
    let names: &[&str] = match stream(seed, "plain").u8(0..8) {
        0 | 1 => &["plain-7"],
        2 => &["plainfenced-7"],
        3 => &["{plain}-7", "{plain}-8"],
        _ => &[],
    };
    names.iter().copied().map(Arc::from).collect()
}

/// The primitives that names are chosen from. The common primitives appear more often.
const CHOICE: [Primitive; 14] = [
    Primitive::Lock,
    Primitive::Lock,
    Primitive::Fair,
    Primitive::Fair,
    Primitive::Fenced,
    Primitive::Hybrid,
    Primitive::Spin,
    Primitive::ReadWrite,
    Primitive::ReadWrite,
    Primitive::ReadWrite,
    Primitive::Semaphore,
    Primitive::Fifo,
    Primitive::Permits,
    Primitive::Latch,
];

/// Returns the random numbers for one purpose, so that more draws for one purpose do not change another.
#[must_use]
pub(crate) fn stream(seed: u64, purpose: &str) -> Rng {
    let salt = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt)
}
