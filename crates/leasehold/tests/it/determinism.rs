//! The virtual server of the users' tests. Every run is the same, and the server works on executors of every kind.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use leasehold::LostReason;
use leasehold::testing::Server;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Runs four tasks with a client each, which acquire a lock in every way while the network fails, and records the
/// events.
async fn history(server: &Server, local: &tokio::task::LocalSet) -> Vec<String> {
    let log = Rc::new(RefCell::new(Vec::new()));
    for number in 0..4_u32 {
        let (server, log) = (server.clone(), Rc::clone(&log));
        local.spawn_local(async move {
            let note =
                |what: String| log.borrow_mut().push(format!("{:?} {number} {what}", server.elapsed()));
            let client = server.client().await.unwrap();
            for round in 0..5 {
                let lock = client.lock("job");
                let outcome = match (number + round) % 3 {
                    0 => lock.watchdog(2 * SECOND).lock().await.map(Some),
                    1 => lock.try_lock_for(4 * SECOND).await,
                    _ => lock.lease(2 * SECOND).try_lock().await,
                };
                match outcome {
                    Ok(Some(guard)) => {
                        note(format!("has it as {}", guard.wire_owner()));
                        tokio::select! {
                            biased;
                            reason = guard.lost() => note(format!("lost it, {reason}")),
                            () = server.sleep(3 * SECOND) => note("done".to_owned()),
                        }
                        note(format!("{:?}", guard.release().await));
                    }
                    Ok(None) => note("not now".to_owned()),
                    Err(error) => note(format!("{error:?}")),
                }
                server.sleep(SECOND / 2).await;
            }
            note("ended".to_owned());
        });
    }
    local
        .run_until(async {
            server.advance(5 * SECOND).await;
            server.lose_replies(true);
            server.advance(2 * SECOND).await;
            server.drop_connection();
            server.lose_replies(false);
            server.advance(4 * SECOND).await;
            server.delete("job");
            server.advance(3 * SECOND).await;
            server.set_reachable(false);
            server.advance(SECOND).await;
            server.set_reachable(true);
            server.advance(HOUR).await;
        })
        .await;
    log.take()
}

#[tokio::test]
async fn two_hundred_runs_of_a_race_have_one_history() {
    let first = history(&Server::new(), &tokio::task::LocalSet::new()).await;
    for what in ["has it as", "not now", "done", "ended", "lost it", "may or may not be acquired", "NotHeld"]
    {
        assert!(first.iter().any(|line| line.contains(what)), "{what} is in none of {first:#?}");
    }
    for run in 1..200 {
        let next = history(&Server::new(), &tokio::task::LocalSet::new()).await;
        assert_eq!(next, first, "run {run}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_on_several_threads_exclude_each_other() {
    for _ in 0..20 {
        let server = Server::new();
        let inside = Arc::new(Mutex::new((0, 0)));
        let tasks: Vec<_> = (0..8_u32)
            .map(|number| {
                let (server, inside) = (server.clone(), Arc::clone(&inside));
                tokio::spawn(async move {
                    let client = server.client().await.unwrap();
                    for _ in 0..5 {
                        let guard = client.lock("job").lock().await.unwrap();
                        inside.lock().unwrap().0 += 1;
                        assert_eq!(inside.lock().unwrap().0, 1, "{number} is not alone");
                        tokio::task::yield_now().await;
                        inside.lock().unwrap().0 -= 1;
                        inside.lock().unwrap().1 += 1;
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*inside.lock().unwrap(), (0, 40));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn time_waits_for_tasks_on_several_threads() {
    for _ in 0..20 {
        let server = Server::new();
        let tasks: Vec<_> = (0..6_u32)
            .map(|number| {
                let server = server.clone();
                tokio::spawn(async move {
                    let client = server.client().await.unwrap();
                    let lock = client.lock("job").lease(10 * SECOND);
                    for round in 0..4 {
                        // The client undoes a grant that its task does not claim within a third of the lease, so the
                        // tasks must be prompt.
                        let guard = lock.try_lock_for(HOUR).await.unwrap().expect("a turn within the hour");
                        assert!(guard.is_held(), "{number} in round {round}");
                        server.sleep(SECOND).await;
                        drop(guard);
                    }
                })
            })
            .collect();
        while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
            server.advance(SECOND).await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(server.elapsed() < HOUR, "{:?}", server.elapsed());
    }
}

#[test]
fn no_runtime_is_needed() {
    block_on(async {
        let server = Server::new();
        let guard = server.client().await.unwrap().lock("job").lease(SECOND).lock().await.unwrap();
        server.advance(SECOND).await;
        assert_eq!(guard.lost().await, LostReason::Expired);
    });
}

/// A minimal executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}
