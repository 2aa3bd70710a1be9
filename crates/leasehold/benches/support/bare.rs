//! The bare client: redis-rs, its multiplexed connection, and the calls that a lock would send.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::reentrant::{REENTRANT, SCRIPTS};
use leasehold_proto::{Call, CallArgs, ClientId, Lease, Name, WireOwner};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, IntoConnectionInfo, Value};

/// The library's default lease.
const LEASE: Duration = Duration::from_secs(30);

/// Connects as the library does: no delay in sending, no short queue. Unlike the library, it has no timeout.
pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let info = url.into_connection_info().unwrap();
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(1 << 16);
    let client = redis::Client::open(info).unwrap();
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    for script in SCRIPTS {
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(script.source()).to_owned();
        load.exec_async(&mut connection).await.unwrap();
    }
    connection
}

/// One task's lock, without the library.
pub(crate) struct BareLock {
    connection: MultiplexedConnection,
    acquire: Call,
    release: Call,
}

impl BareLock {
    pub(crate) fn new(connection: MultiplexedConnection, name: &str, task: u32) -> Self {
        let subject = Subject::new(&Name::new(name).unwrap(), &REENTRANT);
        let owner = WireOwner::new(ClientId::from_random([7; 16]), u64::from(task) + 1);
        let args = CallArgs::new(&subject, owner, Lease::new(LEASE).unwrap());
        Self { acquire: (REENTRANT.acquire)(&args), release: (REENTRANT.release)(&args.count(0)), connection }
    }

    /// Makes the two round trips of a lock.
    pub(crate) async fn acquire_and_release(&mut self) {
        self.acquire().await;
        assert_eq!(run(&mut self.connection, &self.release).await, Value::Int(1));
    }

    /// Makes one round trip. Every acquire but the first sets the same state again, which is the same work for the
    /// server.
    pub(crate) async fn acquire(&mut self) {
        assert_eq!(run(&mut self.connection, &self.acquire).await, Value::Nil);
    }
}

async fn run(connection: &mut MultiplexedConnection, call: &Call) -> Value {
    let mut command = redis::cmd("EVALSHA");
    command.arg(call.script().sha1()).arg(call.key_count());
    for key in call.keys() {
        command.arg(key);
    }
    for argument in call.args() {
        command.arg(argument);
    }
    command.query_async(connection).await.unwrap()
}

/// Makes two round trips without work for the server.
pub(crate) async fn ping_twice(connection: &mut MultiplexedConnection) {
    for _ in 0..2 {
        redis::cmd("PING").exec_async(&mut *connection).await.unwrap();
    }
}
