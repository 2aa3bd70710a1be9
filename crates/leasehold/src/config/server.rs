//! The servers and the login.
//!
//! Invariant: a configuration names its servers in one way, and the parts fit together. The result is URLs, and only if
//! a URL can express everything that was set. No back end connects without a login or a certificate that was set.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use super::checks::Checked;
use super::error::{ConfigError, Disagreement};
use super::fields::{SERVERS, is_within};
use super::raw::{Raw, Tls};
use super::secret::Secret;
use crate::client::connect::check_url;
use crate::error::UrlError;

/// The servers to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// One server, by a URL that may have a password.
    One(Secret),
    /// The servers of a quorum, by their URLs.
    Quorum(Vec<Secret>),
}

/// A user and a password.
struct Login {
    user: Option<String>,
    password: Option<Secret>,
}

impl Checked<'_> {
    /// Returns the servers.
    pub(super) fn servers(&self) -> Result<Servers, ConfigError> {
        let ways: Vec<&str> =
            SERVERS.into_iter().filter(|way| self.layer.keys().any(|key| is_within(key, way))).collect();
        let first =
            |way: &str| self.layer.keys().find(|key| is_within(key, way)).cloned().unwrap_or_default();
        match ways[..] {
            [] => Err(ConfigError::Missing {
                key: "url".into(),
                why: "say where the server is, by `url`, [standalone], [sentinel], [cluster] or [quorum]",
            }),
            [one] => self.servers_of(one),
            [one, other, ..] => Err(self.disagree(&first(one), &first(other), Disagreement::Either)),
        }
    }

    fn servers_of(&self, way: &str) -> Result<Servers, ConfigError> {
        let Raw { url, standalone, sentinel, cluster, quorum, .. } = self.raw;
        if let Some(url) = url {
            self.check_url("url", url.expose())?;
            return Ok(Servers::One(url.clone()));
        }
        if let Some(server) = standalone {
            if server.address.is_empty() {
                return Err(missing("standalone.address", "it says where the server is"));
            }
            let login = self.login(way, &server.user, &server.password, &server.password_file)?;
            self.tls(way, &server.tls, &server.address)?;
            let url = self.url_of("standalone.address", &server.address, &login, server.database)?;
            self.not_encrypted(way, &server.tls)?;
            return Ok(Servers::One(url));
        }
        if let Some(servers) = sentinel {
            if servers.master.as_deref().unwrap_or_default().is_empty() {
                return Err(missing("sentinel.master", "sentinels know servers by name"));
            }
            self.login(way, &servers.user, &servers.password, &servers.password_file)?;
            let own = (&servers.sentinel_user, &servers.sentinel_password, &servers.sentinel_password_file);
            self.login("sentinel.sentinel", own.0, own.1, own.2)?;
            self.addresses(way, &servers.tls)?;
            return Err(self.not_supported("sentinel.addresses", "Sentinel"));
        }
        if let Some(servers) = cluster {
            self.login(way, &servers.user, &servers.password, &servers.password_file)?;
            self.addresses(way, &servers.tls)?;
            return Err(self.not_supported("cluster.addresses", "Redis Cluster"));
        }
        let quorum = quorum.as_ref().expect("a way that was found is one of these");
        let login = self.login(way, &quorum.user, &quorum.password, &quorum.password_file)?;
        let urls = match (quorum.addresses.is_empty(), quorum.urls.is_empty()) {
            (true, true) => return Err(missing("quorum.addresses", "a majority needs servers")),
            (false, false) => {
                return Err(self.disagree("quorum.addresses", "quorum.urls", Disagreement::Either));
            }
            (true, false) => {
                quorum.urls.iter().try_for_each(|url| self.check_url("quorum.urls", url.expose()))?;
                self.only_for_addresses()?;
                quorum.urls.clone()
            }
            (false, true) => {
                self.addresses(way, &quorum.tls)?;
                let url =
                    |address: &String| self.url_of("quorum.addresses", address, &login, quorum.database);
                quorum.addresses.iter().map(url).collect::<Result<_, _>>()?
            }
        };
        self.no_server_twice(&urls)?;
        self.not_encrypted(way, &quorum.tls)?;
        Ok(Servers::Quorum(urls))
    }

    /// Refuses TLS, because no back end has TLS and a connection without it would send the password in the clear.
    fn not_encrypted(&self, section: &str, tls: &Tls) -> Result<(), ConfigError> {
        if !tls.is_on() {
            return Ok(());
        }
        let keys =
            ["enabled", "ca_file", "cert_file", "key_file"].map(|name| format!("{section}.tls.{name}"));
        let set = keys.iter().find(|key| self.layer.contains_key(*key)).unwrap_or(&keys[0]);
        Err(self.not_supported(set, "TLS"))
    }

    fn not_supported(&self, key: &str, what: &'static str) -> ConfigError {
        ConfigError::NotSupported { origin: self.origin(key), key: key.to_owned(), what }
    }

    /// Refuses settings that URLs carry themselves: login, database and TLS.
    fn only_for_addresses(&self) -> Result<(), ConfigError> {
        let is_one = |key: &&String| {
            ["quorum.user", "quorum.password", "quorum.password_file", "quorum.tls"]
                .iter()
                .any(|way| is_within(key, way))
                || (*key == "quorum.database" && self.origin(key) != super::Origin::Default)
        };
        match self.layer.keys().find(is_one) {
            None => Ok(()),
            Some(key) => {
                let instead = "a URL says that itself; write it there, or `addresses` instead of `urls`";
                Err(self.disagree(key, "quorum.urls", Disagreement::NotUsed { instead }))
            }
        }
    }

    /// Refuses a server that is named twice, because with two votes it would count as two servers of the quorum.
    fn no_server_twice(&self, urls: &[Secret]) -> Result<(), ConfigError> {
        let own = urls.iter().filter(|url| url.expose() != "memory://");
        let mut seen = BTreeSet::new();
        if own.clone().all(|url| seen.insert(place(url.expose()))) {
            return Ok(());
        }
        let key = if self.list("quorum.urls").is_some() { "quorum.urls" } else { "quorum.addresses" };
        Err(self.wrong(key, "servers that are different: one that is named twice would have two votes"))
    }

    /// Checks that a section has addresses, and that each is valid.
    fn addresses(&self, way: &str, tls: &Tls) -> Result<(), ConfigError> {
        let key = format!("{way}.addresses");
        let addresses = self.list(&key).unwrap_or_default();
        if addresses.is_empty() {
            return Err(missing(&key, "it says where the servers are"));
        }
        for address in addresses {
            self.tls(way, tls, address)?;
            self.url_of(&key, address, &Login { user: None, password: None }, 0)?;
        }
        Ok(())
    }

    fn check_url(&self, key: &str, url: &str) -> Result<(), ConfigError> {
        check_url(url).map_err(|source| match source {
            UrlError::NotBuiltIn { scheme: "rediss", .. } => self.not_supported(key, "TLS"),
            UrlError::NotBuiltIn { scheme: "redis+sentinel", .. } => self.not_supported(key, "Sentinel"),
            UrlError::NotBuiltIn { scheme: "redis+cluster", .. } => self.not_supported(key, "Redis Cluster"),
            source => ConfigError::Url { origin: self.origin(key), key: key.to_owned(), source },
        })
    }

    /// Returns the URL of an address: `host`, `host:port` or the absolute path of a socket.
    fn url_of(&self, key: &str, address: &str, login: &Login, database: u32) -> Result<Secret, ConfigError> {
        let user = encoded(login.user.as_deref().unwrap_or_default());
        let password = login.password.as_ref().map(|password| encoded(password.expose()));
        let url = if address.starts_with('/') {
            let login = password.map(|password| format!("&user={user}&pass={password}")).unwrap_or_default();
            let path: Vec<String> = address.split('/').map(encoded).collect();
            format!("unix://{}?db={database}{login}", path.join("/"))
        } else if address.is_empty() || address.contains(['/', '@', '?', '#', ',']) {
            return Err(
                self.wrong(key, "an address, such as \"redis.example.org:6379\" or \"/run/redis.sock\"")
            );
        } else {
            let login = password.map(|password| format!("{user}:{password}@")).unwrap_or_default();
            format!("redis://{login}{address}/{database}")
        };
        self.check_url(key, &url)?;
        Ok(Secret::new(url))
    }

    /// Returns the login, with the password of the file if there is one. `section` is the beginning of the keys, up to
    /// a dot or an underscore.
    fn login(
        &self,
        section: &str,
        user: &Option<String>,
        password: &Option<Secret>,
        file: &Option<PathBuf>,
    ) -> Result<Login, ConfigError> {
        let between = if section.contains('.') { '_' } else { '.' };
        let key = |name: &str| format!("{section}{between}{name}");
        let password = match (password, file) {
            (Some(_), Some(_)) => {
                return Err(self.disagree(&key("password"), &key("password_file"), Disagreement::Either));
            }
            (Some(password), None) => Some(password.clone()),
            (None, Some(path)) => {
                let (key, origin) = (key("password_file"), self.origin(&key("password_file")));
                let text = fs::read_to_string(path).map_err(|source| ConfigError::NamedFile {
                    origin,
                    key: key.clone(),
                    source,
                })?;
                Some(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
            }
            (None, None) => None,
        };
        if password.as_ref().is_some_and(|password| password.expose().is_empty()) {
            let key = if file.is_some() { key("password_file") } else { key("password") };
            return Err(self.wrong(&key, "a password that is not empty; leave it out when there is none"));
        }
        if user.is_some() && password.is_none() {
            return Err(missing(&key("password"), "a user needs one, or a password_file"));
        }
        Ok(Login { user: user.clone(), password })
    }

    fn tls(&self, section: &str, tls: &Tls, address: &str) -> Result<(), ConfigError> {
        let key = |name: &str| format!("{section}.tls.{name}");
        match (&tls.cert_file, &tls.key_file) {
            (Some(_), None) => return Err(missing(&key("key_file"), "a certificate needs its key")),
            (None, Some(_)) => return Err(missing(&key("cert_file"), "a key needs its certificate")),
            _ => {}
        }
        let named = tls.files().next().map(|(name, _)| key(name));
        if let Some(named) = &named
            && !tls.is_on()
        {
            let instead = "files are for TLS; switch it on or leave them out";
            return Err(self.disagree(&key("enabled"), named, Disagreement::NotUsed { instead }));
        }
        if tls.is_on() && address.starts_with('/') {
            let own = named.unwrap_or_else(|| key("enabled"));
            let place = if section == "standalone" { "address" } else { "addresses" };
            let instead = "a socket in the file system has no TLS; leave it out";
            let place = format!("{section}.{place}");
            return Err(self.disagree(&own, &place, Disagreement::NotUsed { instead }));
        }
        for (name, path) in tls.files() {
            let (key, origin) = (key(name), self.origin(&key(name)));
            fs::File::open(path).map_err(|source| ConfigError::NamedFile { origin, key, source })?;
        }
        Ok(())
    }
}

fn missing(key: &str, why: &'static str) -> ConfigError {
    ConfigError::Missing { key: key.to_owned(), why }
}

/// Returns the part of a URL that identifies the server.
fn place(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let rest = rest.split('?').next().unwrap_or_default();
    if !scheme.to_ascii_lowercase().starts_with("redis") {
        return format!("{scheme}://{rest}");
    }
    let server = rest.rsplit_once('@').map_or(rest, |(_, server)| server);
    let server = server.split('/').next().unwrap_or_default();
    server.strip_suffix(":6379").unwrap_or(server).to_lowercase()
}

/// Encodes text for any part of a URL.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut url, byte| {
        match byte {
            b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => url.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => drop(write!(url, "%{byte:02X}")),
        }
        url
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigBuilder};
    use super::*;

    /// Returns the servers of a section that has a login.
    fn servers(section: &str, more: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Servers {
        let key = |name: &str| format!("{section}.{name}");
        let builder = Config::builder().set(&key("user"), "app").set(&key("password"), "hunter2");
        more(builder).build().unwrap_or_else(|error| panic!("{section}: {error}")).servers
    }

    #[test]
    fn a_url_says_all_of_a_server_that_is_not_encrypted() {
        let one = servers("standalone", |builder| {
            builder.set("standalone.address", "a:1").set("standalone.database", 3)
        });
        assert_eq!(one, Servers::One(Secret::new("redis://app:hunter2@a:1/3".into())));
        let many = servers("quorum", |builder| {
            builder.set("quorum.addresses", ["a", "/s"]).set("quorum.database", 3)
        });
        let urls = ["redis://app:hunter2@a/3", "unix:///s?db=3&user=app&pass=hunter2"];
        assert_eq!(many, Servers::Quorum(urls.map(|url| Secret::new(url.into())).to_vec()));
    }
}
