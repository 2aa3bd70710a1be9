//! Finds out which servers a configuration names, and the login for them.
//!
//! Invariant: a configuration names its servers in one way only. A login that was set is always used.

use std::fs;
use std::path::Path;

use leasehold_store::url::{Address, Credentials, Server, ServerUrl, Servers as Topology};

use super::checks::{Checked, source};
use super::error::{ConfigError, Conflict};
use super::layer::is_within;
use super::schema::{Cluster, Quorum, SERVERS, Sentinel, Standalone, Tls};
use super::value::{Secret, Url};
use crate::error::UrlError;

/// The servers to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// One server.
    One(Server),
    /// The servers of a quorum.
    Quorum(Vec<Server>),
}

/// The expected value of a password.
const NOT_EMPTY: &str = "a password that is not empty; leave it out if there is none";

impl Checked<'_> {
    /// Returns the servers.
    pub(super) fn servers(&self) -> Result<Servers, ConfigError> {
        let first = |way: &str| self.sources.keys().find(|key| is_within(key, way));
        let named: Vec<(&str, &String)> =
            SERVERS.into_iter().filter_map(|way| Some((way, first(way)?))).collect();
        if let [(_, one), (_, other), ..] = named[..] {
            return Err(self.conflict(one, other, Conflict::Either));
        }
        match (&self.settings.url, &named[..]) {
            (Some(url), _) => {
                let server = self.parsed("url", url)?;
                self.tls_of_urls(("tls", &self.settings.tls), ("url", std::slice::from_ref(&server)))?;
                Ok(Servers::One(server))
            }
            (None, [(_, server)]) if self.settings.tls != Tls::default() => {
                let set = self.sources.keys().find(|key| is_within(key, "tls"));
                let instead = "the section `tls` only applies to `url`; put it into the section of the servers, such \
                               as `cluster.tls`";
                Err(self.conflict(set.map_or("tls", String::as_str), server, Conflict::NotUsed { instead }))
            }
            (None, [("standalone", _)]) => self.standalone(&self.settings.standalone).map(Servers::One),
            (None, [("sentinel", _)]) => self.sentinel(&self.settings.sentinel).map(Servers::One),
            (None, [("cluster", _)]) => self.cluster(&self.settings.cluster).map(Servers::One),
            (None, [("quorum", _)]) => self.quorum_servers(&self.settings.quorum).map(Servers::Quorum),
            _ => {
                let why = "the client does not know its server; set `url`, [standalone], [sentinel], [cluster] or [quorum]";
                Err(missing("url", why))
            }
        }
    }

    fn standalone(&self, server: &Standalone) -> Result<Server, ConfigError> {
        let Some(address) = server.address.as_deref().filter(|address| !address.is_empty()) else {
            return Err(missing("standalone.address", "set the server's address"));
        };
        let login =
            self.login("standalone", "", (&server.user, &server.password, server.password_file.as_deref()))?;
        let tls = self.tls("standalone.tls", &server.tls)?;
        self.at("standalone.address", address, login, (tls, server.database))
    }

    fn sentinel(&self, fleet: &Sentinel) -> Result<Server, ConfigError> {
        let key = "sentinel.addresses";
        let why = "list the addresses of the sentinels";
        let sentinels = self.list(key, fleet.addresses.as_deref(), why, Address::sentinel)?;
        let Some(service) = fleet.master.clone().filter(|master| !master.is_empty()) else {
            return Err(missing("sentinel.master", "name the service that the sentinels watch"));
        };
        let login = (&fleet.user, &fleet.password, fleet.password_file.as_deref());
        let login = self.login("sentinel", "", login)?;
        let tls = self.tls("sentinel.tls", &fleet.tls)?;
        self.tls("sentinel.sentinel_tls", &fleet.sentinel_tls)?;
        let own = (&fleet.sentinel_user, &fleet.sentinel_password, fleet.sentinel_password_file.as_deref());
        let credentials = self.login("sentinel", "sentinel_", own)?;
        let url = ServerUrl::new(Topology::Sentinel { sentinels, service, credentials });
        let url = url.credentials(login).encrypted(tls).in_database(fleet.database.unwrap_or_default());
        self.served(key, url)
    }

    fn cluster(&self, cluster: &Cluster) -> Result<Server, ConfigError> {
        let key = "cluster.addresses";
        let why = "list the addresses of some cluster nodes";
        let seeds = self.list(key, cluster.addresses.as_deref(), why, Address::server)?;
        let login =
            self.login("cluster", "", (&cluster.user, &cluster.password, cluster.password_file.as_deref()))?;
        let tls = self.tls("cluster.tls", &cluster.tls)?;
        let url = ServerUrl::new(Topology::Cluster { seeds }).credentials(login).encrypted(tls);
        self.served(key, url)
    }

    /// Returns the addresses of a fleet.
    fn list(
        &self,
        key: &str,
        addresses: Option<&[String]>,
        why: &'static str,
        read: impl Fn(&str) -> Result<Address, UrlError>,
    ) -> Result<Vec<Address>, ConfigError> {
        let addresses = addresses.unwrap_or_default();
        if addresses.is_empty() {
            return Err(missing(key, why));
        }
        let is_host = |address: &String| is_host(address);
        if !addresses.iter().all(is_host) {
            return Err(self.wrong(key, "a list of addresses, such as [\"redis-1.example.org:6379\"]"));
        }
        let read = |address: &String| read(address).map_err(|cause| self.refused(key, cause));
        addresses.iter().map(read).collect()
    }

    /// Checks a section of TLS. Returns true if it encrypts.
    fn tls(&self, section: &str, tls: &Tls) -> Result<bool, ConfigError> {
        let key = |name: &str| format!("{section}.{name}");
        if *tls == Tls::default() || tls.enabled == Some(false) {
            return Ok(false);
        }
        let set = self.sources.keys().find(|set| is_within(set, section));
        if cfg!(not(any(feature = "tls-ring", feature = "tls-aws-lc"))) {
            return Err(self.not_supported(set.map_or(section, String::as_str), "TLS"));
        }
        match (&tls.certificate_file, &tls.key_file) {
            (Some(_), None) => Err(missing(&key("key_file"), "a certificate needs its key")),
            (None, Some(_)) => Err(missing(&key("certificate_file"), "a key needs its certificate")),
            _ => Ok(true),
        }
    }

    fn quorum_servers(&self, quorum: &Quorum) -> Result<Vec<Server>, ConfigError> {
        let login =
            self.login("quorum", "", (&quorum.user, &quorum.password, quorum.password_file.as_deref()))?;
        let tls = self.tls("quorum.tls", &quorum.tls)?;
        let addresses = quorum.addresses.as_deref().unwrap_or_default();
        let urls = quorum.urls.as_deref().unwrap_or_default();
        let (key, servers) = match (addresses, urls) {
            ([], []) => return Err(missing("quorum.addresses", "list the addresses of the servers")),
            ([], urls) => {
                let key = "quorum.urls";
                let servers = urls.iter().map(|url| self.parsed(key, url)).collect::<Result<Vec<_>, _>>()?;
                self.only_for_addresses()?;
                self.tls_of_urls(("quorum.tls", &quorum.tls), (key, &servers))?;
                (key, servers)
            }
            (addresses, []) => {
                let key = "quorum.addresses";
                let at = |address: &String| self.at(key, address, login.clone(), (tls, quorum.database));
                (key, addresses.iter().map(at).collect::<Result<_, _>>()?)
            }
            _ => return Err(self.conflict("quorum.addresses", "quorum.urls", Conflict::Either)),
        };
        // A server that is named twice would have two votes.
        let is_twice = |at: usize| servers[..at].iter().any(|earlier| is_same(earlier, &servers[at]));
        if !(1..servers.len()).any(is_twice) {
            return Ok(servers);
        }
        Err(self.wrong(key, "different servers, because one that is named twice would have two votes"))
    }

    /// Checks a section of TLS beside URLs, which say themselves whether to encrypt.
    fn tls_of_urls(
        &self,
        (section, tls): (&str, &Tls),
        (key, servers): (&str, &[Server]),
    ) -> Result<(), ConfigError> {
        let switch = format!("{section}.enabled");
        if self.sources.contains_key(&switch) {
            let instead = "the URL decides this by its scheme, such as `rediss`; leave it out";
            return Err(self.conflict(&switch, key, Conflict::NotUsed { instead }));
        }
        if self.tls(section, tls)? && !servers.iter().any(Server::is_encrypted) {
            let set = self.sources.keys().find(|key| is_within(key, section));
            let instead = "no URL is encrypted; write `rediss` in place of `redis`, or leave the section out";
            return Err(self.conflict(
                set.map_or(section, String::as_str),
                key,
                Conflict::NotUsed { instead },
            ));
        }
        Ok(())
    }

    /// Refuses settings that URLs carry themselves.
    fn only_for_addresses(&self) -> Result<(), ConfigError> {
        let keys = ["database", "user", "password", "password_file"].map(|name| format!("quorum.{name}"));
        match keys.iter().find(|key| self.sources.contains_key(*key)) {
            None => Ok(()),
            Some(key) => {
                let instead =
                    "URLs contain this themselves; write it there, or use `addresses` instead of `urls`";
                Err(self.conflict(key, "quorum.urls", Conflict::NotUsed { instead }))
            }
        }
    }

    fn not_supported(&self, key: &str, what: &'static str) -> ConfigError {
        ConfigError::NotSupported { set_by: source(self.sources, key), key: key.to_owned(), what }
    }

    fn parsed(&self, key: &str, url: &Url) -> Result<Server, ConfigError> {
        url.expose().parse().map_err(|cause| self.refused(key, cause))
    }

    /// Returns the server if this build has its store.
    fn served(&self, key: &str, url: ServerUrl) -> Result<Server, ConfigError> {
        Server::try_from(url).map_err(|cause| self.refused(key, cause))
    }

    fn refused(&self, key: &str, cause: UrlError) -> ConfigError {
        match cause {
            UrlError::NotBuiltIn { scheme: "rediss" | "rediss+sentinel" | "rediss+cluster", .. } => {
                self.not_supported(key, "TLS")
            }
            cause => ConfigError::Url { set_by: source(self.sources, key), key: key.to_owned(), cause },
        }
    }

    /// Returns the server at `host`, `host:port` or the absolute path of a socket.
    fn at(
        &self,
        key: &str,
        address: &str,
        login: Option<Credentials>,
        (tls, database): (bool, Option<u32>),
    ) -> Result<Server, ConfigError> {
        let is_socket = address.starts_with('/');
        if is_socket && tls {
            return Err(self.wrong(key, "a host when TLS is on, because a socket is not encrypted"));
        }
        if !is_socket && !is_host(address) {
            let expected = "an address, such as \"redis.example.org:6379\" or \"/run/redis.sock\"";
            return Err(self.wrong(key, expected));
        }
        let address = Address::server(address).map_err(|cause| self.refused(key, cause))?;
        let url = ServerUrl::new(Topology::One(address)).credentials(login).encrypted(tls);
        self.served(key, url.in_database(database.unwrap_or_default()))
    }

    /// Returns the login of a section. Each connection reads the password of a file, so that one is checked and left out.
    fn login(
        &self,
        section: &str,
        prefix: &str,
        (user, password, file): (&Option<String>, &Option<Secret>, Option<&Path>),
    ) -> Result<Option<Credentials>, ConfigError> {
        let key = |name: &str| format!("{section}.{prefix}{name}");
        let (of_text, of_file) = (key("password"), key("password_file"));
        let (key, password) = match (password, file) {
            (Some(_), Some(_)) => return Err(self.conflict(&of_text, &of_file, Conflict::Either)),
            (Some(password), None) => (of_text, Some(password.clone())),
            (None, Some(path)) => match fs::read_to_string(path) {
                Ok(text) => (of_file, Some(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()))),
                Err(cause) => {
                    let set_by = source(self.sources, &of_file);
                    return Err(ConfigError::NamedFile { set_by, key: of_file, cause });
                }
            },
            (None, None) if user.is_some() => {
                return Err(missing(&of_text, "a user needs a password, or a `password_file`"));
            }
            (None, None) => (of_text, None),
        };
        if password.as_ref().is_some_and(|password| password.expose().is_empty()) {
            return Err(self.wrong(&key, NOT_EMPTY));
        }
        let login = |password: Secret| match user {
            Some(user) if !user.is_empty() => Credentials::new(user, password.expose()),
            _ => Credentials::password(password.expose()),
        };
        Ok(password.filter(|_| file.is_none()).map(login))
    }
}

fn missing(key: &str, why: &'static str) -> ConfigError {
    ConfigError::Missing { key: key.to_owned(), why }
}

/// Returns true if the text may be `host` or `host:port`, and ends no part of a URL.
fn is_host(address: &str) -> bool {
    !address.is_empty() && !address.contains(['/', '@', '?', '#', ','])
}

/// Returns true if both are one server, whatever its login and database. Each `memory://` is a server of its own.
fn is_same(one: &Server, other: &Server) -> bool {
    match (one, other) {
        (Server::Memory(one), Server::Memory(other)) => one.is_some() && one == other,
        (Server::Redis(one), Server::Redis(other)) => one.is_at(other),
        _ => false,
    }
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

    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[test]
    fn a_key_of_the_section_switches_encryption_on() {
        for (section, url) in [
            ("standalone", "rediss://app:hunter2@a/0"),
            ("sentinel", "rediss+sentinel://app:hunter2@a/m/0"),
            ("cluster", "rediss+cluster://app:hunter2@a"),
        ] {
            let one = servers(section, |builder| {
                let builder = builder.set(&format!("{section}.tls.server_name"), "s");
                match section {
                    "standalone" => builder.set("standalone.address", "a"),
                    "sentinel" => builder.set("sentinel.addresses", ["a"]).set("sentinel.master", "m"),
                    _ => builder.set("cluster.addresses", ["a"]),
                }
            });
            assert_eq!(one, Servers::One(url.parse().unwrap()));
        }
    }

    #[test]
    fn a_section_is_the_server_of_its_url() {
        let one = servers("standalone", |builder| {
            builder.set("standalone.address", "a:1").set("standalone.database", 3)
        });
        assert_eq!(one, Servers::One("redis://app:hunter2@a:1/3".parse().unwrap()));
        let fleet = servers("sentinel", |builder| {
            let builder = builder.set("sentinel.addresses", ["a", "[::1]:1"]).set("sentinel.master", "m/1");
            let builder = builder.set("sentinel.database", 3).set("sentinel.sentinel_user", "eye");
            builder.set("sentinel.sentinel_password", "p@ss")
        });
        let url =
            "redis+sentinel://app:hunter2@a,[::1]:1/m%2F1/3?sentinel_username=eye&sentinel_password=p%40ss";
        assert_eq!(fleet, Servers::One(url.parse().unwrap()));
        let cluster = servers("cluster", |builder| builder.set("cluster.addresses", ["a", "b:7"]));
        assert_eq!(cluster, Servers::One("redis+cluster://app:hunter2@a,b:7".parse().unwrap()));
        let many = servers("quorum", |builder| {
            builder.set("quorum.addresses", ["a", "/s"]).set("quorum.database", 3)
        });
        let urls = ["redis://app:hunter2@a/3", "unix:///s?db=3&user=app&pass=hunter2"];
        assert_eq!(many, Servers::Quorum(urls.map(|url| url.parse().unwrap()).to_vec()));
    }
}
