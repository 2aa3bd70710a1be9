//! Interleavings of threads around the engine's lock. Users and the driver are stopped at every point where they can
//! meet.
//!
//! Invariant: the client is the real client, from its public methods to the driver's loop. Only the store, the clock
//! and the threads are replaced (`world`), and the locks and the counter of the shared state (`crate::sync`). `cargo x
//! interleave` runs them.
//!
//! # How it works
//! [`shuttle`] runs each scenario on many schedules from fixed seeds: half of them random, half by priorities that
//! change a few times (PCT). No timer is due unless a scenario moves the clock, so only a wake-up makes progress. A
//! lost wake-up leaves a thread that waits forever, which shuttle reports as a deadlock, with the schedule.
//!
//! # Defects that it finds
//! Each row is a line that was broken on purpose, with the schedule of the quickest scenario that failed. The number is
//! the seed of a random schedule, or of a schedule by priority if the row says so:
//!
//! | defect | found in schedule |
//! |---|---|
//! | no notification when commands are added | 1 |
//! | no notification for an earlier timer | 351 |
//! | no notification when the client has ended | 1 |
//! | the driver stays *awake* when it takes its commands | 1 |
//! | the driver takes its commands, and stops being awake in a second lock | 31 |
//! | a fired alarm counts as a set alarm | 1, by priority |
//! | a waker is not registered, or not woken | 1 |
//! | a ticket does not read again when it is woken while it reads | 44 |
//! | a ticket reads, and then registers its waker | 1, by priority |
//! | a wait for a loss reads, and then registers its waker | 222, by priority |
//! | a dropped ticket does not cancel | 1 |
//! | a dropped guard does not release | 2 |
//! | the last handle does not close | 1 |

mod world;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use leasehold_proto::engine::LostReason;
use leasehold_testkit::interleavings::{self, at_once};
use shuttle::future::block_on;
use shuttle::thread;

use crate::client::Client;
use crate::error::{AcquireError, AcquireErrorKind, InspectError, InspectErrorKind};
use crate::lock::guard::Guard;
use world::{World, any_below, poll_and_drop};

/// The number of schedules of each kind, unless `LEASEHOLD_SCHEDULES` is set. The slowest defect in the head of this
/// file needs 351.
const SCHEDULES: usize = 6_000;

fn explore(scenario: fn()) {
    interleavings::explore(SCHEDULES, scenario);
}

/// Polls a future once. Returns true if it waits.
fn begin<F: Future>(mut future: Pin<&mut F>) -> bool {
    block_on(poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())))
}

/// Ends a hold by a drop or by a release.
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
fn every_waiter_is_served_one_at_a_time_and_every_hold_is_released() {
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
fn a_wait_dropped_at_any_poll_blocks_no_waiter() {
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
                        // A release can be dropped at any poll, too.
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
fn messages_alone_hand_a_lock_over_between_clients() {
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
fn holds_of_one_owner_start_and_end_concurrently() {
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
fn a_close_at_any_moment_ends_every_wait() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        let (holder, waiter, closer) = (client.clone(), client.clone(), client);
        at_once(vec![
            Box::new(move || match block_on(holder.lock("job").lock()) {
                Ok(guard) => assert_eq!(block_on(guard.lost()), LostReason::Closed),
                Err(error) => assert_eq!(error, AcquireErrorKind::Closed),
            }),
            Box::new(move || match block_on(waiter.lock("job").lock()) {
                Ok(guard) => drop(block_on(guard.release())),
                Err(error) => assert_eq!(error, AcquireErrorKind::Closed),
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
fn dropping_the_last_handle_ends_the_driver_at_any_moment() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        let (inspector, holder) = (client.clone(), client.clone());
        at_once(vec![
            Box::new(move || match poll_and_drop(any_below(4), inspector.lock("job").is_locked()) {
                None | Some(Ok(_) | Err(InspectError { kind: InspectErrorKind::Closed, .. })) => {}
                Some(Err(error)) => panic!("an inspect ended with {error}"),
            }),
            Box::new(move || {
                let guard = block_on(holder.lock("job").lock()).expect("the server grants");
                drop(holder);
                // The guard may be the last user of the client here, and it is still held.
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
fn a_deadline_before_the_drivers_next_timer_is_met() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        // The renewal of this hold is due after ten seconds, and the driver sleeps until then.
        let guard = block_on(client.lock("job").lock()).expect("the server grants");
        let lock = client.lock("job");
        let mut first = Box::pin(async move { lock.lock().await });
        assert!(begin(first.as_mut()), "another owner holds it");
        let (clock, hurried) = (world.clone(), client.lock("job"));
        at_once(vec![Box::new(move || {
            // The second waiter of the queue sets a timer, and gives the driver no call.
            let mut wait = pin!(hurried.try_lock_for(Duration::from_secs(2)));
            assert!(begin(wait.as_mut()), "another owner holds it");
            // Time passes from here on, but the renewal is not due.
            let clock = thread::spawn(move || (0..9).for_each(|_| clock.pass(Duration::from_secs(1))));
            // A store error is possible while the first waiter's attempt after its subscription is in flight.
            assert!(matches!(
                block_on(wait),
                Ok(None) | Err(AcquireError { kind: AcquireErrorKind::Store(_), .. })
            ));
            clock.join().expect("time passes");
        })]);
        drop((first, guard, client));
        world.check_that_all_is_over();
    });
}

#[test]
fn a_grant_lost_before_its_first_poll_is_reported() {
    explore(|| {
        let world = World::default();
        let client = world.connect();
        let owner = client.owner();
        let lock = client.lock("job").owned_by(&owner).lease(Duration::from_secs(3));
        let guard = block_on(lock.lock()).expect("the server grants");
        // The acquire re-enters, and may not be polled again before the end.
        let mut again = Box::pin(async move { lock.lock().await });
        assert!(begin(again.as_mut()), "an attempt is sent");
        let clock = world.clone();
        at_once(vec![
            Box::new(move || (0..4).for_each(|_| clock.pass(Duration::from_secs(1)))),
            Box::new(move || match block_on(again) {
                Ok(guard) => drop(guard),
                Err(error) => assert!(matches!(error.kind, AcquireErrorKind::Lost(_)), "{error:?}"),
            }),
        ]);
        drop((guard, client));
        // A hold that is lost by the client's clock stays until the server's clock ends it.
        world.pass(Duration::from_secs(3));
        world.check_that_all_is_over();
    });
}
