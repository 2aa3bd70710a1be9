//! Interleavings of threads around the engine's lock: users and the driver, stopped at every place where they can meet.
//!
//! Invariant: the client is the real one, from its public methods to the driver's loop. Only the store, the clock and
//! the threads are replaced (`world`), and the locks and the counter of the shared state (`crate::sync`).
//! Called by: `cargo x interleave`.
//!
//! # How it works
//! [`shuttle`] runs each scenario on many schedules, half of them random and half by priorities that change a few times
//! (PCT), from fixed seeds. No timer is due unless a scenario moves the clock, so nothing but a wake-up goes on: one
//! that is lost leaves a thread that waits for ever, which shuttle reports as a deadlock, with the schedule.

mod world;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use leasehold_proto::engine::LostReason;
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use shuttle::{Config, Runner};

use crate::client::Client;
use crate::error::{AcquireError, InspectError};
use crate::guard::Guard;
use world::{World, any_below, poll_and_drop};

const SEED: u64 = 20;
/// How often priorities change in a schedule of the second kind, at most.
const CHANGES: usize = 3;
/// Schedules of each kind, unless `LEASEHOLD_SCHEDULES` says otherwise.
const SCHEDULES: usize = 6_000;

#[expect(clippy::print_stdout, reason = "how much was tried belongs to the result")]
fn explore(scenario: fn()) {
    let given = std::env::var("LEASEHOLD_SCHEDULES").ok().and_then(|number| number.parse().ok());
    let schedules = given.unwrap_or(SCHEDULES);
    let mut config = Config::new();
    config.stack_size = 0x4_0000;
    // That atomics are explored as if they were all sequentially consistent.
    config.silence_warnings = true;
    let random = RandomScheduler::new_from_seed(SEED, schedules);
    let run = Runner::new(random, config.clone()).run(scenario);
    let by_priority = PctScheduler::new_from_seed(SEED, CHANGES, schedules);
    let run = run + Runner::new(by_priority, config).run(scenario);
    println!("{run} schedules");
}

/// Runs these at the same time, until all have ended.
fn at_once(users: Vec<Box<dyn FnOnce() + Send>>) {
    let users: Vec<_> = users.into_iter().map(thread::spawn).collect();
    for user in users {
        user.join().expect("a user's thread ends without a panic");
    }
}

/// Ends a hold in one of the two ways.
fn give_back(guard: Guard) {
    if any_below(2) == 0 {
        drop(guard);
    } else {
        block_on(guard.release()).expect("the server answers");
    }
}

fn take_and_give_back(world: &World, client: &Client) {
    let guard = block_on(client.lock("job").lock()).expect("the server grants");
    assert!(guard.is_held());
    world.work_alone();
    give_back(guard);
}

#[test]
fn every_waiter_is_served_one_at_a_time_and_all_is_given_back() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        let user = |_| -> Box<dyn FnOnce() + Send> {
            let (world, client) = (world.clone(), client.clone());
            Box::new(move || take_and_give_back(&world, &client))
        };
        at_once((0..3).map(user).collect());
        drop(client);
        world.check_that_all_is_over();
    });
}

#[test]
fn a_wait_that_is_dropped_at_any_poll_blocks_nobody() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        let user = |number| -> Box<dyn FnOnce() + Send> {
            let (world, client) = (world.clone(), client.clone());
            Box::new(move || match number {
                0 => take_and_give_back(&world, &client),
                _ => {
                    let waited = poll_and_drop(any_below(4), client.lock("job").lock());
                    if let Some(guard) = waited {
                        let guard = guard.expect("the server grants");
                        world.work_alone();
                        // A release, too, can be dropped at any poll.
                        drop(poll_and_drop(any_below(3), guard.release()));
                    }
                }
            })
        };
        at_once((0..3).map(user).collect());
        drop(client);
        world.check_that_all_is_over();
    });
}

#[test]
fn clients_hand_a_lock_over_by_messages_alone() {
    explore(|| {
        let world = World::default();
        let user = |_| -> Box<dyn FnOnce() + Send> {
            let world = world.clone();
            Box::new(move || {
                let client = world.connect();
                take_and_give_back(&world, &client);
            })
        };
        at_once((0..2).map(user).collect());
        world.check_that_all_is_over();
    });
}

#[test]
fn holds_of_one_owner_come_and_go_together() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        let owner = client.owner();
        let user = |_| -> Box<dyn FnOnce() + Send> {
            let lock = client.lock("job").owned_by(&owner);
            Box::new(move || {
                let waited = poll_and_drop(1 + any_below(4), lock.lock());
                if let Some(guard) = waited {
                    give_back(guard.expect("the server grants"));
                }
            })
        };
        let (elsewhere, other) = (world.clone(), client.clone());
        let mut users: Vec<_> = (0..2).map(user).collect();
        users.push(Box::new(move || drop(block_on(other.lock("job").lock()).map(|_| elsewhere.calls()))));
        at_once(users);
        drop((client, owner));
        world.check_that_all_is_over();
    });
}

#[test]
fn a_close_at_any_moment_leaves_nobody_waiting() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        let (holder, waiter, closer) = (client.clone(), client.clone(), client);
        at_once(vec![
            Box::new(move || match block_on(holder.lock("job").lock()) {
                Ok(guard) => assert_eq!(block_on(guard.lost()), LostReason::Closed),
                Err(error) => assert_eq!(error, AcquireError::Closed),
            }),
            Box::new(move || match block_on(waiter.lock("job").lock()) {
                Ok(guard) => drop(block_on(guard.release())),
                Err(error) => assert_eq!(error, AcquireError::Closed),
            }),
            Box::new(move || {
                if let Some(report) = poll_and_drop(any_below(4), closer.close()) {
                    assert_eq!(report.unconfirmed, 0);
                }
                assert_eq!(block_on(closer.close()).unconfirmed, 0);
            }),
        ]);
        world.check_that_all_is_over();
    });
}

#[test]
fn the_last_user_ends_the_driver_whatever_else_is_going_on() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        let (looker, keeper) = (client.clone(), client.clone());
        at_once(vec![
            Box::new(move || match poll_and_drop(any_below(4), looker.lock("job").is_locked()) {
                None | Some(Ok(_) | Err(InspectError::Closed)) => {}
                Some(Err(error)) => panic!("a look ended with {error}"),
            }),
            Box::new(move || {
                let guard = block_on(keeper.lock("job").lock()).expect("the server grants");
                drop(keeper);
                // It is the last user of the client, perhaps, and the guard lives.
                assert_eq!(poll_and_drop(1, guard.lost()), None);
                drop(guard);
            }),
            Box::new(move || drop(client)),
        ]);
        world.check_that_all_is_over();
    });
}

#[test]
fn a_connect_that_is_dropped_at_any_poll_leaves_no_driver() {
    explore(|| {
        let world = World::default();
        if let Some(client) = poll_and_drop(any_below(4), world.connecting()) {
            drop(client.expect("the server is always there"));
        }
        world.check_that_all_is_over();
    });
}

#[test]
fn a_deadline_before_what_the_driver_sleeps_for_is_kept() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        // Its renewal is due after ten seconds, and that is what the driver sleeps for.
        let guard = block_on(client.lock("job").lock()).expect("the server grants");
        let (clock, hurried) = (world.clone(), client.lock("job"));
        at_once(vec![Box::new(move || {
            let mut wait = pin!(hurried.try_lock_for(Duration::from_secs(2)));
            let begun = block_on(poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_pending())));
            assert!(begun, "it is somebody else's");
            // From here on time passes, but not so much that the renewal is due.
            let clock = thread::spawn(move || (0..9).for_each(|_| clock.pass(Duration::from_secs(1))));
            // It asks once when it listens, and the answer may still be on its way at the deadline.
            assert!(matches!(block_on(wait), Ok(None) | Err(AcquireError::Unknown { .. })));
            clock.join().expect("time passes");
        })]);
        drop((guard, client));
        world.check_that_all_is_over();
    });
}
