//! Calls that count once they are on disk. `cargo x valkey` runs this on a server that has `WAITAOF`.

use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_store::{Confirm, Confirmation, Store};
use leasehold_testkit::servers::RedisServer;

use crate::common::{LIMIT, SET, call, error_chain};
use crate::confirmed::{WITHIN, commands};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_on_disk_needs_a_server_that_can_say_so() {
    let server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let has_it = server.cli(&["COMMAND", "INFO", "WAITAOF"]).contains("waitaof");
    let terms = Confirmation::new(Confirm::AtLeast(0), WITHIN).fsync(true);
    let connected = async |server: &RedisServer| {
        let options = ConnectOptions::default().confirmation(terms);
        Redis::connect(&server.url().parse().unwrap(), options).await
    };
    let without = RedisServer::with(&["--appendonly", "no"]);
    let refused = error_chain(&connected(&without).await.unwrap_err());
    if has_it {
        connected(&server).await.unwrap().run(call(&SET, "key", 1), LIMIT).await.unwrap();
        assert_eq!(commands(&server, "waitaof"), 2, "one to connect, and one for the call");
        assert!(refused.contains("appendonly yes"), "{refused}");
    } else {
        let told = error_chain(&connected(&server).await.unwrap_err());
        assert!(told.contains("has no WAITAOF") && refused.contains("has no WAITAOF"), "{told}");
    }
}
