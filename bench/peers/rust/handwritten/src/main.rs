//! The lock that teams write by hand on redis-rs: `SET NX PX`, and a script that compares and deletes.
//!
//! A waiter polls every millisecond. A hold that outlives its lease has a task that renews it every third of the lease.

use std::time::Duration;

use anyhow::{Result, ensure};
use contender::{Kind, Peer, Request, Workload, serve};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script, cmd};

const POLL: Duration = Duration::from_millis(1);

struct Handwritten {
    connection: MultiplexedConnection,
    release: Script,
    renew: Script,
}

impl Peer for Handwritten {
    fn refusal(workload: &Workload) -> Option<String> {
        (workload.kind != Kind::Lock).then(|| "it has the plain lock alone".to_owned())
    }

    async fn connect(url: &str, _workload: &Workload) -> Result<Self> {
        // A response timeout counts from the send, and thousands of waiters send at once.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(Self {
            connection: Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?,
            release: Script::new(
                "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
            ),
            renew: Script::new(
                "if redis.call('get', KEYS[1]) == ARGV[1] then \
                 return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0",
            ),
        })
    }

    async fn section<T: Send>(&self, request: &Request, body: impl Future<Output = T> + Send) -> Result<T> {
        let mut connection = self.connection.clone();
        let token = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let lease = u64::try_from(request.lease.as_millis())?;
        let mut set = cmd("SET");
        set.arg(&request.name).arg(&token).arg("NX").arg("PX").arg(lease);
        while !set.query_async::<bool>(&mut connection).await? {
            tokio::time::sleep(POLL).await;
        }
        let value =
            if request.renewed { self.renewed(request, &token, lease, body).await } else { body.await };
        let released: i64 = self.release.key(&request.name).arg(&token).invoke_async(&mut connection).await?;
        ensure!(released == 1, "the lock was lost before its release");
        Ok(value)
    }
}

impl Handwritten {
    /// Polls the body to its end, with a task beside it that renews the lease.
    async fn renewed<T>(
        &self,
        request: &Request,
        token: &str,
        lease: u64,
        body: impl Future<Output = T>,
    ) -> T {
        let (mut connection, script) = (self.connection.clone(), self.renew.clone());
        let (name, token, third) = (request.name.clone(), token.to_owned(), request.lease / 3);
        let renewal = tokio::spawn(async move {
            loop {
                tokio::time::sleep(third).await;
                let mut call = script.key(&name);
                // A renewal that fails is sent again after a third of the lease.
                let _: Result<i64, _> = call.arg(&token).arg(lease).invoke_async(&mut connection).await;
            }
        });
        let value = body.await;
        renewal.abort();
        value
    }
}

fn main() -> Result<()> {
    serve::<Handwritten>()
}
