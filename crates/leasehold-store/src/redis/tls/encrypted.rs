//! A dialer that adds TLS to another dialer's streams.
//!
//! Invariant: a returned stream has completed its handshake within the dial's time limit. The dialer below knows
//! nothing about encryption.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::options::Tls;
use crate::redis::socket::{Dial, Socket};
use crate::redis::tls_alert::explain;
use crate::redis::tls_fault::TlsFault;
use crate::tokio_runtime::{after, off_thread, until};
use crate::url::Address;

/// A dialer that encrypts the streams of another dialer.
#[derive(Debug)]
pub(crate) struct Encrypted {
    under: Arc<dyn Dial>,
    tls: Arc<Tls>,
}

impl Encrypted {
    pub(crate) fn new(under: Arc<dyn Dial>, tls: Tls) -> Self {
        Self { under, tls: Arc::new(tls) }
    }

    async fn dial_within(&self, address: &Address, limit: Duration) -> io::Result<Socket> {
        // The wire gives the dial up at its limit, so the handshake, whose end has a reason to tell, ends before.
        let end = after(limit - limit / 20);
        let tls = Arc::clone(&self.tls);
        let configuration = off_thread(move || tls.configuration()).await??;
        let name = self.tls.name_of(address)?;
        let socket = self.under.dial(address, limit).await?;
        let connector = TlsConnector::from(Arc::new(configuration));
        match until(end, connector.connect(name, socket.into_transport())).await {
            Some(Ok(stream)) => Ok(Socket::encrypted(stream)),
            Some(Err(error)) => Err(explain(error)),
            None => Err(TlsFault::Silent.into()),
        }
    }
}

impl Tls {
    /// Returns the name that the certificate of this server must have.
    fn name_of(&self, address: &Address) -> Result<ServerName<'static>, TlsFault> {
        let name = match (&self.server_name, address) {
            (Some(name), _) => &**name,
            (None, Address::Tcp { host, .. }) => host,
            (None, Address::Unix { .. }) => return Err(TlsFault::Name),
        };
        ServerName::try_from(name.to_owned()).map_err(|_| TlsFault::Name)
    }
}

impl Dial for Encrypted {
    fn dial<'a>(&'a self, address: &'a Address, limit: Duration) -> BoxFuture<'a, io::Result<Socket>> {
        self.dial_within(address, limit).boxed()
    }

    fn seed(&self) -> u64 {
        self.under.seed()
    }
}
