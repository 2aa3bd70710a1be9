//! The growth of the engine's times with the number of its waiters and holds.

use std::time::Duration;

use leasehold_proto::engine::Event;
use leasehold_proto::recipe::read_write::READ_LOCK;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Reply, Verb};

use crate::harness::{Harness, request, subject};

const MANY: u64 = 10_000;
/// The number of rounds, of which the fastest counts, because a busy machine makes the others slower.
const ROUNDS: u32 = 1_000;

/// Prints the times of an operation, and asserts that many others make it at most so many times slower than one.
#[allow(clippy::print_stdout, reason = "a test prints the figures that it compares")]
fn grows_at_most(times: f64, operation: &str, among: &str, time: fn(u64) -> Duration) {
    let least = time(1);
    println!("{operation} among 1 {among}: {least:?}");
    for others in [10, 1_000, 20_000] {
        println!("{operation} among {others} {among}: {:?}", time(others));
    }
    let most = time(MANY);
    println!("{operation} among {MANY} {among}: {most:?}");
    assert!(most.as_secs_f64() <= times * least.as_secs_f64(), "{most:?} is too long after {least:?}");
}

/// Returns the time of the fastest round.
fn fastest(round: impl FnMut() -> Duration) -> Duration {
    std::iter::repeat_with(round).take(ROUNDS as usize).min().expect("there are rounds")
}

/// Returns the engine's time of one hand-over to the next of this many local waiters.
fn hand_over(waiters: u64) -> Duration {
    let lock = subject("lock", &REENTRANT);
    let mut harness = Harness::new(waiters as usize);
    let mut hold = harness.hold(request(&lock, 0));
    for owner in 1..=waiters {
        harness.acquire(request(&lock, owner));
    }
    let mut next = waiters;
    // The attempts that came before the release are refused.
    let mut held = true;
    let mut reply = |verb| match verb {
        Verb::Acquire if held => Reply::Int(60_000),
        Verb::Acquire => {
            held = true;
            Reply::Nil
        }
        _ => {
            held = false;
            Reply::Int(1)
        }
    };
    harness.answer_all(&mut reply);
    fastest(|| {
        harness.reset();
        let report = harness.release(hold);
        let granted = loop {
            harness.answer_all(&mut reply);
            let woken = harness.woken.pop_front().expect("the next waiter is served");
            if woken == report {
                harness.step(Event::Claim(report));
            } else {
                break woken;
            }
        };
        hold = harness.claim(granted);
        while let Some(woken) = harness.woken.pop_front() {
            assert_eq!(woken, report, "one waiter is served");
            harness.step(Event::Claim(report));
        }
        let time = harness.count.time;
        next += 1;
        harness.acquire(request(&lock, next));
        harness.answer_all(&mut reply);
        time
    })
}

#[test]
fn a_hand_over_takes_as_long_with_many_waiters() {
    grows_at_most(2.0, "a hand-over", "waiters", hand_over);
}

/// Returns the engine's time of an acquire and a release of a read lock of which the client has this many read holds.
fn read(holds: u64) -> Duration {
    let lock = subject("lock", &READ_LOCK);
    let mut harness = Harness::new(16);
    for owner in 1..=holds {
        harness.hold(request(&lock, owner));
    }
    fastest(|| {
        harness.reset();
        let hold = harness.hold(request(&lock, 0));
        harness.free(hold);
        harness.count.time
    })
}

#[test]
fn a_reader_takes_as_long_among_many_readers() {
    grows_at_most(2.0, "a reader", "readers", read);
}

/// Returns the engine's time of the cancellation of the last of this many waiters.
fn cancel(waiters: u64) -> Duration {
    let lock = subject("lock", &REENTRANT);
    let mut harness = Harness::new(waiters as usize);
    harness.refuse(waiters, |owner| request(&lock, owner));
    fastest(|| {
        let last = harness.acquire(request(&lock, waiters));
        harness.reset();
        harness.step(Event::Cancel(last));
        harness.count.time
    })
}

#[test]
fn a_waiter_leaves_as_fast_among_many_waiters() {
    // What a cancellation touches fits into the cache among few waiters only.
    grows_at_most(8.0, "a cancellation", "waiters", cancel);
}
