//! Locks that count once they are on disk. `cargo x valkey` runs this on a server that has `WAITAOF`.

use std::time::Duration;

use leasehold::{Client, Confirm};
use leasehold_proto::recipe::grants::{Names, Place, Primitive, rules, rules_of_confirmed};
use leasehold_testkit::servers::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_rights_for_it_gets_locks_that_are_on_disk() {
    let server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    if !server.cli(&["COMMAND", "INFO", "WAITAOF"]).contains("waitaof") {
        println!("not tested: this server has no WAITAOF, which came with Redis 7.2; see `cargo x valkey`");
        return;
    }
    let lock = Primitive::named("lock").unwrap();
    let rules = rules(Place::Standalone, &[Names::all()], &[lock]);
    let line = format!("ACL SETUSER app reset on >PASSWORD {rules} {}", rules_of_confirmed(false, true));
    assert_eq!(server.cli(&line.split(' ').collect::<Vec<_>>()), "OK");
    let url = format!("redis://app:PASSWORD@127.0.0.1:{}", server.port());
    let builder = Client::builder().fsync(true).replicas_within(Duration::from_secs(3));
    let client = builder.connect(&url).await.unwrap();
    let waits = || server.commandstats().get("waitaof").copied().unwrap_or_default();
    assert_eq!(waits(), 1, "the connect");
    client.lock("on disk").lock().await.unwrap().release().await.unwrap();
    assert_eq!(waits(), 2);
    client.lock("in memory").replicas(Confirm::None).lock().await.unwrap().release().await.unwrap();
    assert_eq!(waits(), 2, "the lock has turned the confirmation off");
}
