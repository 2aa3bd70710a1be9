//! What operators see of a client: its card, and its answers to their questions.

use std::time::Duration;

use leasehold::{Client, ClientBuilder};
use leasehold_proto::operate::{self, Answer, Audience, Body, Cards, Question, RequestId};
use leasehold_proto::{Call, Reply};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_store::url::ServerUrl;
use leasehold_testkit::fleets::Cluster;
use leasehold_testkit::servers::RedisServer;

use crate::support::{SOON, eventually, ms, pace, soon};

/// An operator of the clients with one key prefix.
struct Operator {
    store: Redis,
    audience: Audience,
}

impl Operator {
    async fn of(url: &str, prefix: &str) -> Self {
        let url = ServerUrl::parse(url).unwrap();
        let audience = Audience::new(prefix, url.database());
        Self { store: Redis::connect(&url, ConnectOptions::default()).await.unwrap(), audience }
    }

    async fn run(&self, call: Call) -> Reply {
        self.store.run(call, SOON).await.unwrap()
    }

    async fn cards(&self) -> Cards {
        operate::read_cards(&self.run(operate::cards(&self.audience, 0)).await).unwrap()
    }

    /// Asks a question, and returns the answers of all that listen.
    async fn ask(&self, question: &Question) -> Vec<Answer> {
        let request = RequestId::from_random(rand());
        let asked = self.run(operate::ask(&self.audience, request, question)).await;
        let listening = operate::read_asked(&asked).unwrap().listening.unwrap() as usize;
        let (mut answers, mut pace) = (Vec::new(), pace(ms(5)));
        while answers.len() < listening {
            pace.tick().await;
            let texts = self.run(operate::collect(request)).await;
            answers.extend(operate::read_collected(&texts).unwrap().into_iter().map(Option::unwrap));
        }
        answers
    }

    /// Asks the one client that there is.
    async fn ask_one(&self, question: &Question) -> Body {
        let mut answers = soon("the answer", self.ask(question)).await;
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0).body
    }

    /// Waits until this many clients listen.
    async fn until_seen(&self, clients: usize) {
        let seen = async {
            let mut pace = pace(ms(5));
            while self.listeners().await != clients {
                pace.tick().await;
            }
        };
        if tokio::time::timeout(SOON, seen).await.is_err() {
            panic!("{} clients are seen in place of {clients}", self.listeners().await);
        }
    }

    async fn listeners(&self) -> usize {
        let request = RequestId::from_random(rand());
        let asked = self.run(operate::ask(&self.audience, request, &Question::Unknown)).await;
        operate::read_asked(&asked).unwrap().listening.unwrap() as usize
    }
}

fn rand() -> [u8; 16] {
    use leasehold_store::Runtime;
    leasehold_store::tokio_runtime::TokioRuntime.random()
}

/// A client that is visible soon, because it renews often.
fn renewing() -> ClientBuilder {
    Client::builder().watchdog(ms(300)).client_name("orders")
}

#[tokio::test]
async fn a_client_with_short_holds_stays_unseen_and_sends_nothing_for_operators() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).await.unwrap();
    for number in 0..200 {
        client.lock(format!("order:{}", number % 7)).lock().await.unwrap().release().await.unwrap();
    }
    assert_eq!(server.cli(&["KEYS", "leasehold_client*"]), "");
    assert_eq!(server.cli(&["PUBSUB", "CHANNELS"]), "");
    assert!(!server.cli(&["INFO", "commandstats"]).contains("zadd"));
    let names = server.cli(&["CLIENT", "LIST"]);
    assert!(names.contains(&format!("@{}", client.id())), "{names}");
}

#[tokio::test]
async fn a_client_shows_its_process_its_holds_and_its_waits() {
    let server = RedisServer::start();
    let operator = Operator::of(&server.url(), "shop:").await;
    let builder = renewing().key_prefix("shop:").label("version", "1.2");
    let client = builder.connect(&server.url()).await.unwrap();
    let held = client.fenced_lock("report").note("first").lock().await.unwrap();
    held.note("import\nof today");
    operator.until_seen(1).await;
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = client.fenced_lock("report");
            tokio::spawn(async move { drop(lock.lock().await) })
        })
        .collect();
    eventually("the waiters", || client.waits().count() == 3).await;

    let who = operator.ask_one(&Question::Who).await;
    let card = who.card.as_ref().unwrap();
    assert_eq!(
        (card.name.as_str(), card.pid, card.label("version")),
        ("orders", std::process::id(), Some("1.2"))
    );
    assert_eq!(card.client.to_string(), client.id());
    assert!(!card.host.is_empty() && card.library.starts_with("leasehold "));
    let totals = who.totals.unwrap();
    assert_eq!((totals.holds, totals.waits), (1, 3));
    let [hold] = who.held.as_slice() else { panic!("{who:?}") };
    assert_eq!((hold.name.as_str(), hold.kind.as_str()), ("shop:report", "fenced lock"));
    assert_eq!((&hold.owner, hold.token), (&held.wire_owner().to_string(), Some(held.token())));
    assert_eq!(hold.note, "import of today");
    assert!(hold.is_renewed && hold.left_ms.unwrap() <= 300 && hold.held_ms < 60_000);
    let [wait] = who.waiting.as_slice() else { panic!("{who:?}") };
    assert_eq!((wait.name.as_str(), wait.tasks), ("shop:report", 3));

    let of = |name: &str| Some(name.to_owned());
    for (question, holds, waits) in [
        (Question::Holds { after: 0, name: None }, 1, 0),
        (Question::Holds { after: 0, name: of("shop:report") }, 1, 0),
        (Question::Holds { after: 0, name: of("report") }, 0, 0),
        (Question::Waits { after: 0, name: of("shop:report") }, 0, 1),
        (Question::Waits { after: 0, name: of("report") }, 0, 0),
    ] {
        let body = operator.ask_one(&question).await;
        assert_eq!((body.held.len(), body.waiting.len(), body.next), (holds, waits, None), "{question:?}");
    }
    drop(held);
    for waiter in waiters {
        soon("a waiter", waiter).await.unwrap();
    }
}

#[tokio::test]
async fn a_wait_a_renewal_or_a_long_lease_makes_a_client_visible() {
    let server = RedisServer::start();
    let operator = Operator::of(&server.url(), "").await;
    let long = Client::connect(&server.url()).await.unwrap();
    let _short = long.lock("short").lease(ms(9_000)).lock().await.unwrap();
    assert_eq!(operator.listeners().await, 0);
    let held = long.lock("long").lease(Duration::from_secs(10)).lock().await.unwrap();
    operator.until_seen(1).await;
    let waiting = Client::connect(&server.url()).await.unwrap();
    let waiter = {
        let lock = waiting.lock("long");
        tokio::spawn(async move { drop(lock.lock().await) })
    };
    operator.until_seen(2).await;
    assert_eq!(operator.cards().await.registered.len(), 2);
    held.release().await.unwrap();
    waiter.await.unwrap();
}

#[tokio::test]
async fn a_client_that_closes_or_is_dropped_takes_its_card_along() {
    let server = RedisServer::start();
    let operator = Operator::of(&server.url(), "").await;
    for closes in [true, false] {
        let client = renewing().connect(&server.url()).await.unwrap();
        let guard = client.lock("job").lock().await.unwrap();
        operator.until_seen(1).await;
        assert_eq!(operator.cards().await.registered[0].card.client.to_string(), client.id());
        drop(guard);
        if closes {
            client.close().await;
            assert_eq!(server.cli(&["EXISTS", "leasehold_clients:{}"]), "0");
        } else {
            drop(client);
            eventually("the card to go", || server.cli(&["EXISTS", "leasehold_clients:{}"]) == "0").await;
        }
    }
}

#[tokio::test]
async fn a_client_without_a_hold_has_no_card_when_its_close_returns() {
    let server = RedisServer::start();
    let operator = Operator::of(&server.url(), "").await;
    for _ in 0..30 {
        let client = Client::connect(&server.url()).await.unwrap();
        client.lock("job").lease(Duration::from_secs(10)).lock().await.unwrap().release().await.unwrap();
        operator.until_seen(1).await;
        client.close().await;
        assert_eq!(server.cli(&["EXISTS", "leasehold_clients:{}"]), "0");
    }
}

#[tokio::test]
async fn a_hidden_client_and_one_of_another_prefix_are_not_seen() {
    let server = RedisServer::start();
    let operator = Operator::of(&server.url(), "shop:").await;
    let hidden = renewing().key_prefix("shop:").visible(false).connect(&server.url()).await.unwrap();
    let tenant = renewing().key_prefix("other:").connect(&server.url()).await.unwrap();
    let seen = renewing().key_prefix("shop:").connect(&server.url()).await.unwrap();
    let mut guards = Vec::new();
    for (number, client) in [&hidden, &tenant, &seen].into_iter().enumerate() {
        guards.push(client.lock(format!("job:{number}")).lock().await.unwrap());
    }
    operator.until_seen(1).await;
    Operator::of(&server.url(), "other:").await.until_seen(1).await;
    assert_eq!(operator.cards().await.registered.len(), 1);
    let names = server.cli(&["CLIENT", "LIST"]);
    assert!(names.contains("name=orders ") && !names.contains(&hidden.id()), "{names}");
}

#[tokio::test]
async fn clients_of_different_databases_do_not_meet() {
    let server = RedisServer::start();
    let mut seen = Vec::new();
    for database in [0, 3] {
        let url = format!("{}/{database}", server.url());
        let client = renewing().connect(&url).await.unwrap();
        let guard = client.lock("job").lock().await.unwrap();
        seen.push((Operator::of(&url, "").await, client, guard));
    }
    for (operator, client, _) in &seen {
        operator.until_seen(1).await;
        assert_eq!(soon("the answer", operator.ask(&Question::Who)).await[0].client.to_string(), client.id());
    }
}

#[tokio::test]
async fn a_client_without_the_rights_locks_and_stays_unseen() {
    let server = RedisServer::start();
    let rights = "on >pw resetkeys resetchannels -@all +@all ~job &redisson*";
    let words: Vec<_> = ["ACL", "SETUSER", "app"].into_iter().chain(rights.split(' ')).collect();
    assert_eq!(server.cli(&words), "OK");
    let client = renewing().connect(&server.url().replace("://", "://app:pw@")).await.unwrap();
    let guard = client.lock("job").lock().await.unwrap();
    let renewed = || server.cli(&["INFO", "commandstats"]).contains("cmdstat_pexpire:");
    eventually("renewals", renewed).await;
    let waiter = {
        let lock = client.lock("job");
        tokio::spawn(async move { lock.lock().await.unwrap() })
    };
    eventually("the waiter", || client.waits().count() == 1).await;
    let denied =
        || server.cli(&["INFO", "errorstats"]).contains("NOPERM") || !server.cli(&["ACL", "LOG"]).is_empty();
    eventually("the refusal", denied).await;
    let before = server.cli(&["ACL", "LOG"]).matches("count").count();
    drop(guard);
    soon("the waiter", waiter).await.unwrap().release().await.unwrap();
    assert_eq!(
        server.cli(&["ACL", "LOG"]).matches("count").count(),
        before,
        "one refusal, not one again and again"
    );
    assert_eq!(server.cli(&["EXISTS", "leasehold_clients:{}"]), "0");
}

#[test]
fn a_client_answers_while_its_program_stands_still() {
    let server = RedisServer::start();
    let (url, runtime) =
        (server.url(), || tokio::runtime::Builder::new_current_thread().enable_all().build());
    let blocked = runtime().unwrap();
    let client = blocked.block_on(renewing().connect(&url)).unwrap();
    let _guard = blocked.block_on(client.lock("job").lock()).unwrap();
    // No task of the program runs from here on.
    runtime().unwrap().block_on(async {
        let operator = Operator::of(&url, "").await;
        operator.until_seen(1).await;
        let who = operator.ask_one(&Question::Who).await;
        assert_eq!(who.held[0].name, "job");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_holds_and_waiters_come_in_pages() {
    const HOLDS: usize = 1_500;
    const TASKS: usize = 20_000;
    let server = RedisServer::start();
    let operator = Operator::of(&server.url(), "").await;
    let client = Client::connect(&server.url()).await.unwrap();
    let locks = (0..HOLDS).map(|number| client.lock(format!("order:{number}")));
    let guards =
        futures_util::future::join_all(locks.map(|lock| async move { lock.lock().await.unwrap() })).await;
    let waiters: Vec<_> = (0..TASKS)
        .map(|_| {
            let lock = client.lock("order:0");
            tokio::spawn(async move { drop(lock.lock().await) })
        })
        .collect();
    eventually("the waiters", || client.waits().count() == TASKS).await;
    operator.until_seen(1).await;
    let who = operator.ask_one(&Question::Who).await;
    let totals = who.totals.unwrap();
    assert_eq!((totals.holds, totals.waits), (HOLDS as u64, TASKS as u64));
    assert_eq!((who.held.len(), who.waiting.len(), who.waiting[0].tasks as usize), (20, 1, TASKS));

    let (mut names, mut after, mut pages) = (std::collections::BTreeSet::new(), Some(0), 0);
    while let Some(cursor) = after {
        let body = operator.ask_one(&Question::Holds { after: cursor, name: None }).await;
        names.extend(body.held.into_iter().map(|row| row.name));
        (after, pages) = (body.next, pages + 1);
    }
    assert_eq!(names.len(), HOLDS);
    let (mut tasks, mut after) = (0, Some(0));
    while let Some(cursor) = after {
        let body = operator.ask_one(&Question::Waits { after: cursor, name: None }).await;
        tasks += body.waiting.iter().map(|row| row.tasks).sum::<u32>();
        after = body.next;
    }
    assert_eq!(tasks as usize, TASKS);
    println!("{HOLDS} holds in {pages} answers, {TASKS} waits");
    for waiter in waiters {
        waiter.abort();
    }
    drop(guards);
}

#[tokio::test]
async fn a_server_that_lost_everything_has_the_card_again() {
    let mut server = RedisServer::start();
    let client = renewing().timeout(ms(500)).connect(&server.url()).await.unwrap();
    let _guard = client.lock("job").lock().await.unwrap();
    Operator::of(&server.url(), "").await.until_seen(1).await;
    server.restart();
    let cards = || server.cli(&["ZCARD", "leasehold_clients:{}"]);
    eventually("the card", || cards() == "1").await;
}

#[tokio::test]
async fn clients_of_a_cluster_answer_on_the_node_of_their_channel() {
    let cluster = Cluster::start(3, 0);
    let operator = Operator::of(&cluster.url(), "").await;
    let clients = [
        renewing().connect(&cluster.url()).await.unwrap(),
        renewing().connect(&cluster.url()).await.unwrap(),
    ];
    let mut guards = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        guards.push(client.lock(format!("job:{number}")).lock().await.unwrap());
    }
    operator.until_seen(2).await;
    let answers = soon("both answers", operator.ask(&Question::Who)).await;
    let ids: std::collections::BTreeSet<_> = answers.iter().map(|answer| answer.client.to_string()).collect();
    assert_eq!(ids, clients.iter().map(Client::id).collect());
}
