//! Every method of the semaphores and the latch, each checked against the state on the server.

use std::thread;
use std::time::Duration;

use leasehold::ReleaseOutcome;
use leasehold::blocking::{Guard, Permits};
use leasehold::error::WaitErrorKind;
use leasehold::lock::Remaining;

use crate::blocking::{eventually, joined, server_and_client};
use crate::support::{SOON, is_free, ms};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_semaphore_counts() {
    let (server, client) = server_and_client();
    let left = || server.cli(&["GET", "seats"]);
    let seats = client.semaphore("seats");
    assert!(seats.try_set_permits(5).unwrap());
    assert!(!seats.try_set_permits(6).unwrap(), "there are five");
    let one = seats.acquire().unwrap();
    let two = seats.acquire_many(2).unwrap();
    assert_eq!((left(), seats.available()), ("2".into(), Ok(2)), "a thread takes permit after permit");
    assert!(seats.try_acquire_many(3).unwrap().is_none());
    assert!(seats.try_acquire_many_for(3, ms(300)).unwrap().is_none());
    let more = [seats.try_acquire().unwrap().unwrap(), seats.try_acquire_for(SOON).unwrap().unwrap()];
    assert_eq!(left(), "0");
    assert!(more.iter().all(Guard::is_held));
    drop(more);
    eventually("the drops", || left() == "2");
    assert_eq!(seats.try_acquire_many(2).unwrap().unwrap().release(), Ok(ReleaseOutcome::Released));
    assert_eq!(seats.try_acquire_many_for(2, SOON).unwrap().unwrap().release(), Ok(ReleaseOutcome::Released));
    assert_eq!((one.release(), two.release()), (Ok(ReleaseOutcome::Released), Ok(ReleaseOutcome::Released)));
    assert_eq!(seats.add_permits(3), Ok(8));
    assert_eq!(seats.drain(), Ok(8));
    assert_eq!(seats.release(1), Ok(1));
    assert_eq!(left(), "1");
    assert!(client.semaphore("today").try_set_permits_for(5, MINUTE).unwrap());
    assert!(server.cli(&["PTTL", "today"]).parse::<i64>().unwrap() > 50_000);
}

#[test]
fn a_released_permit_wakes_the_waiting_thread() {
    let (server, client) = server_and_client();
    let seats = client.semaphore("seats").fifo();
    seats.try_set_permits(1).unwrap();
    let permit = seats.acquire().unwrap();
    let waiting = seats.clone();
    let waiter = thread::spawn(move || waiting.acquire().unwrap().release());
    eventually("the waiter to stand in line", || server.cli(&["DBSIZE"]).parse::<u32>().unwrap() > 1);
    permit.release().unwrap();
    assert_eq!(joined(waiter), Ok(ReleaseOutcome::Released));
    assert_eq!(seats.available(), Ok(1));
}

#[test]
fn an_expirable_semaphore_counts() {
    let (_server, client) = server_and_client();
    let seats = client.expirable_semaphore("seats").max_hold(10 * MINUTE).max_renewals(100);
    assert!(seats.try_set_permits(5).unwrap());
    assert_eq!(seats.set_permits(4), Ok(4));
    assert_eq!(seats.add_permits(2), Ok(6));
    let one = seats.acquire().unwrap();
    let two = seats.clone().watchdog(MINUTE).acquire_many(2).unwrap();
    assert_eq!((one.count(), two.count(), two.ids().len()), (1, 2, 2));
    assert!(two.is_held() && two.remaining() > ms(40_000));
    assert_eq!((seats.available(), seats.acquired(), seats.permits()), (Ok(3), Ok(3), Ok(6)));
    assert!(seats.try_acquire_many(4).unwrap().is_none());
    assert!(seats.try_acquire_many_for(4, ms(300)).unwrap().is_none());
    let more = [seats.try_acquire().unwrap().unwrap(), seats.try_acquire_for(SOON).unwrap().unwrap()];
    assert_eq!(seats.acquired(), Ok(5));
    for permits in [one, two].into_iter().chain(more) {
        assert_eq!(Permits::from(leasehold::Permits::from(permits)).release(), Ok(ReleaseOutcome::Released));
    }
    assert_eq!(seats.acquired(), Ok(0));
}

#[test]
fn permits_are_handed_over_by_their_ids() {
    let (_server, client) = server_and_client();
    let seats = client.expirable_semaphore("seats").lease(MINUTE);
    seats.try_set_permits(3).unwrap();
    let ids = seats.try_acquire_many(2).unwrap().unwrap().detach();
    assert!(matches!(seats.lease_of(ids[0]), Ok(Some(Remaining::For(left))) if left <= MINUTE));
    assert!(seats.update_lease(ids[0], 10 * MINUTE).unwrap());
    assert!(matches!(seats.lease_of(ids[0]), Ok(Some(Remaining::For(left))) if left > MINUTE));
    assert!(seats.release_ids(&ids).unwrap());
    assert!(!seats.release_ids(&ids).unwrap(), "they are returned");
    assert_eq!(seats.lease_of(ids[0]), Ok(None));
    seats.min_hold(MINUTE).try_acquire_many_for(3, SOON).unwrap().unwrap().release().unwrap();
    assert_eq!(client.expirable_semaphore("seats").acquired(), Ok(3), "for a minute");
}

#[test]
fn a_counted_down_latch_releases_its_threads() {
    let (server, client) = server_and_client();
    let latch = client.count_down_latch("latch");
    assert!(latch.try_set_count(2).unwrap());
    assert!(!latch.try_set_count(3).unwrap());
    let waiting = latch.clone();
    let waiter = thread::spawn(move || waiting.wait());
    assert!(!latch.wait_for(ms(300)).unwrap());
    assert_eq!(latch.count_down(), Ok(1));
    assert_eq!(latch.count(), Ok(1));
    assert_eq!(latch.count_down(), Ok(0));
    assert_eq!(joined(waiter), Ok(()));
    assert!(latch.wait_for(SOON).unwrap() && is_free(&server, "latch"));

    latch.try_set_count(1).unwrap();
    let waiting = latch.clone();
    let waiter = thread::spawn(move || waiting.wait());
    let listens = || server.cli(&["PUBSUB", "CHANNELS"]).contains("latch");
    eventually("the waiter to listen", listens);
    assert!(latch.delete().unwrap());
    assert!(!latch.delete().unwrap());
    assert_eq!(joined(waiter).map_err(|error| error.kind), Err(WaitErrorKind::Deleted));
}
