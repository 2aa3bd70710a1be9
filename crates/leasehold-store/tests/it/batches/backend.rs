//! The servers on which calls in batches and alone are compared: two real ones, or two embedded ones behind streams.

#[cfg(feature = "listener")]
use std::sync::Arc;
#[cfg(feature = "listener")]
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_store::redis::Redis;
use leasehold_testkit::servers::RedisServer;

#[cfg(feature = "listener")]
use self::served::Served;

/// A server with the store's protocol.
pub(super) enum Backend {
    Real(RedisServer),
    #[cfg(feature = "listener")]
    Embedded {
        server: Served,
        /// The number of script calls that the server has received.
        scripts: Arc<AtomicU64>,
    },
}

impl Backend {
    fn real() -> Self {
        Self::Real(RedisServer::start())
    }

    #[cfg(feature = "listener")]
    fn embedded() -> Self {
        let scripts = Arc::new(AtomicU64::new(0));
        let server = Served::observed_by({
            let scripts = Arc::clone(&scripts);
            move |name| {
                scripts.fetch_add(u64::from(name.starts_with(b"EVAL")), Ordering::Relaxed);
            }
        });
        Self::Embedded { server, scripts }
    }

    /// Returns the pairs of servers to compare, each with the choice of RESP3, which the embedded server does not speak.
    pub(super) fn pairs() -> Vec<(bool, [Self; 2])> {
        let real = [false, true].map(|resp3| (resp3, [Self::real(), Self::real()]));
        let pairs = real.into_iter();
        #[cfg(feature = "listener")]
        let pairs = pairs.chain([(true, [Self::embedded(), Self::embedded()])]);
        pairs.collect()
    }

    pub(super) async fn connect(&self, rows: usize, resp3: bool) -> Redis {
        match self {
            Self::Real(server) => super::connect(server, rows, resp3).await,
            #[cfg(feature = "listener")]
            Self::Embedded { server, .. } => {
                let mut options = super::options(rows, resp3);
                options.dialer = Some(Arc::new(server.clone()));
                super::open("redis://embedded.invalid", options).await
            }
        }
    }

    /// Executes a command of the test itself, and returns the reply as redis-cli prints it.
    pub(super) fn execute(&self, words: &[&str]) -> String {
        match self {
            Self::Real(server) => server.cli(words),
            #[cfg(feature = "listener")]
            Self::Embedded { server, .. } => server.execute(words),
        }
    }

    /// Returns the number of script calls that the server has received.
    pub(super) fn scripts_run(&self) -> u64 {
        match self {
            Self::Real(server) => super::scripts_run(server),
            #[cfg(feature = "listener")]
            Self::Embedded { scripts, .. } => scripts.load(Ordering::Relaxed),
        }
    }
}

/// The embedded server behind streams in memory.
#[cfg(feature = "listener")]
mod served {
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use leasehold_store::embedded::{Server, serve};
    use leasehold_store::redis::{Dial, Socket};
    use leasehold_store::url::Address;
    use tokio::io::duplex;

    use crate::contract::{text, unix_ms};

    /// A transport whose streams all lead to one embedded server.
    #[derive(Clone, Debug)]
    pub(in crate::batches) struct Served(Arc<Server>);

    impl Served {
        /// Creates a server. The callback gets the name of each command.
        pub(super) fn observed_by(observe: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
            Self(Arc::new(Server::new(unix_ms).observed_by(move |words, _| observe(&words[0]))))
        }

        pub(super) fn execute(&self, words: &[&str]) -> String {
            text(self.0.execute(words))
        }
    }

    impl Dial for Served {
        fn dial<'a>(
            &'a self,
            _: &'a Address,
            _: Duration,
        ) -> Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>> {
            Box::pin(async {
                let (near, far) = duplex(1 << 16);
                tokio::spawn(serve(far, Arc::clone(&self.0)));
                Ok(Socket::new(near))
            })
        }
    }
}
