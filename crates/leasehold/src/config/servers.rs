//! The servers and the login.
//!
//! Invariant: a configuration names its servers in one way. The result is URLs, and only if a URL can express everything
//! that was set. No store connects without a login that was set.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::checks::{Checked, source};
use super::error::{ConfigError, Conflict};
use super::layer::is_within;
use super::schema::{Cluster, Quorum, SERVERS, Sentinel, Standalone, Tls};
use super::value::{Secret, Url};
use crate::client::connect::{check_url, is_encrypted};
use crate::error::UrlError;

/// The servers to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// One server.
    One(Url),
    /// The servers of a quorum.
    Quorum(Vec<Url>),
}

/// A user and a password, encoded for a URL.
struct Login {
    user: String,
    password: Option<String>,
}

impl Login {
    /// Returns the part of a URL in front of the address.
    fn prefix(&self) -> String {
        let Self { user, password } = self;
        password.as_ref().map(|password| format!("{user}:{password}@")).unwrap_or_default()
    }
}

/// The expected value of a password.
const NOT_EMPTY: &str = "a password that is not empty; leave it out when there is none";

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
                self.check_url("url", url)?;
                self.tls_of_urls(("tls", &self.settings.tls), ("url", std::slice::from_ref(url)))?;
                Ok(Servers::One(url.clone()))
            }
            (None, [(_, server)]) if self.settings.tls != Tls::default() => {
                let set = self.sources.keys().find(|key| is_within(key, "tls"));
                let instead = "the section `tls` is for `url`; name it with the section of the servers, such as `cluster.tls`";
                Err(self.conflict(set.map_or("tls", String::as_str), server, Conflict::NotUsed { instead }))
            }
            (None, [("standalone", _)]) => self.standalone(&self.settings.standalone).map(Servers::One),
            (None, [("sentinel", _)]) => self.sentinel(&self.settings.sentinel).map(Servers::One),
            (None, [("cluster", _)]) => self.cluster(&self.settings.cluster).map(Servers::One),
            (None, [("quorum", _)]) => self.quorum_servers(&self.settings.quorum).map(Servers::Quorum),
            _ => {
                let why =
                    "say where the server is, by `url`, [standalone], [sentinel], [cluster] or [quorum]";
                Err(missing("url", why))
            }
        }
    }

    fn standalone(&self, server: &Standalone) -> Result<Url, ConfigError> {
        let Some(address) = server.address.as_deref().filter(|address| !address.is_empty()) else {
            return Err(missing("standalone.address", "it says where the server is"));
        };
        let login =
            self.login("standalone", "", (&server.user, &server.password, server.password_file.as_deref()))?;
        let tls = self.tls("standalone.tls", &server.tls)?;
        self.url_of("standalone.address", address, &login, (tls, server.database))
    }

    fn sentinel(&self, fleet: &Sentinel) -> Result<Url, ConfigError> {
        let addresses =
            self.list("sentinel.addresses", fleet.addresses.as_deref(), "it says where the sentinels are")?;
        let Some(master) = fleet.master.as_deref().filter(|master| !master.is_empty()) else {
            return Err(missing("sentinel.master", "it says which service of the sentinels has the locks"));
        };
        let login = (&fleet.user, &fleet.password, fleet.password_file.as_deref());
        let login = self.login("sentinel", "", login)?;
        let tls = self.tls("sentinel.tls", &fleet.tls)?;
        self.tls("sentinel.sentinel_tls", &fleet.sentinel_tls)?;
        let own = (&fleet.sentinel_user, &fleet.sentinel_password, fleet.sentinel_password_file.as_deref());
        let Login { user, password } = self.login("sentinel", "sentinel_", own)?;
        let own = password.map(|password| format!("?sentinel_username={user}&sentinel_password={password}"));
        let own = own.unwrap_or_default();
        let (master, database) = (encoded(master), fleet.database.unwrap_or_default());
        let url =
            format!("{}+sentinel://{}{addresses}/{master}/{database}{own}", scheme(tls), login.prefix());
        self.checked("sentinel.addresses", url)
    }

    fn cluster(&self, cluster: &Cluster) -> Result<Url, ConfigError> {
        let why = "it says where some nodes of the cluster are";
        let addresses = self.list("cluster.addresses", cluster.addresses.as_deref(), why)?;
        let login =
            self.login("cluster", "", (&cluster.user, &cluster.password, cluster.password_file.as_deref()))?;
        let tls = self.tls("cluster.tls", &cluster.tls)?;
        self.checked("cluster.addresses", format!("{}+cluster://{}{addresses}", scheme(tls), login.prefix()))
    }

    /// Returns the addresses of a fleet, joined for a URL.
    fn list(
        &self,
        key: &str,
        addresses: Option<&[String]>,
        why: &'static str,
    ) -> Result<String, ConfigError> {
        let addresses = addresses.unwrap_or_default();
        if addresses.is_empty() {
            return Err(missing(key, why));
        }
        match addresses.iter().all(|address| is_host(address)) {
            true => Ok(addresses.join(",")),
            false => Err(self.wrong(key, "a list of addresses, such as [\"redis-1.example.org:6379\"]")),
        }
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

    /// Returns the URL if it can be used.
    fn checked(&self, key: &str, url: String) -> Result<Url, ConfigError> {
        let url = Url::new(url);
        self.check_url(key, &url).map(|()| url)
    }

    fn quorum_servers(&self, quorum: &Quorum) -> Result<Vec<Url>, ConfigError> {
        let login =
            self.login("quorum", "", (&quorum.user, &quorum.password, quorum.password_file.as_deref()))?;
        let tls = self.tls("quorum.tls", &quorum.tls)?;
        let addresses = quorum.addresses.as_deref().unwrap_or_default();
        let urls = quorum.urls.as_deref().unwrap_or_default();
        let (key, servers) = match (addresses, urls) {
            ([], []) => return Err(missing("quorum.addresses", "a majority needs servers")),
            ([], urls) => {
                urls.iter().try_for_each(|url| self.check_url("quorum.urls", url))?;
                self.only_for_addresses()?;
                self.tls_of_urls(("quorum.tls", &quorum.tls), ("quorum.urls", urls))?;
                ("quorum.urls", urls.to_vec())
            }
            (addresses, []) => {
                let key = "quorum.addresses";
                let url = |address: &String| self.url_of(key, address, &login, (tls, quorum.database));
                (key, addresses.iter().map(url).collect::<Result<_, _>>()?)
            }
            _ => return Err(self.conflict("quorum.addresses", "quorum.urls", Conflict::Either)),
        };
        // A server that is named twice would have two votes. Each `memory://` is a server of its own.
        let mut seen = BTreeSet::new();
        let mut own = servers.iter().map(Url::expose).filter(|url| *url != "memory://");
        if own.all(|url| seen.insert(server_of(url))) {
            return Ok(servers);
        }
        Err(self.wrong(key, "servers that are different: one that is named twice would have two votes"))
    }

    /// Checks a section of TLS beside URLs, which say themselves whether to encrypt.
    fn tls_of_urls(
        &self,
        (section, tls): (&str, &Tls),
        (key, urls): (&str, &[Url]),
    ) -> Result<(), ConfigError> {
        let switch = format!("{section}.enabled");
        if self.sources.contains_key(&switch) {
            let instead = "a URL says that itself, by a scheme such as `rediss`";
            return Err(self.conflict(&switch, key, Conflict::NotUsed { instead }));
        }
        if self.tls(section, tls)? && !urls.iter().any(|url| is_encrypted(url.expose())) {
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
                let instead = "a URL says that itself; write it there, or `addresses` instead of `urls`";
                Err(self.conflict(key, "quorum.urls", Conflict::NotUsed { instead }))
            }
        }
    }

    fn not_supported(&self, key: &str, what: &'static str) -> ConfigError {
        ConfigError::NotSupported { set_by: source(self.sources, key), key: key.to_owned(), what }
    }

    fn check_url(&self, key: &str, url: &Url) -> Result<(), ConfigError> {
        check_url(url.expose()).map_err(|cause| match cause {
            UrlError::NotBuiltIn { scheme: "rediss" | "rediss+sentinel" | "rediss+cluster", .. } => {
                self.not_supported(key, "TLS")
            }
            cause => ConfigError::Url { set_by: source(self.sources, key), key: key.to_owned(), cause },
        })
    }

    /// Returns the URL of an address: `host`, `host:port` or the absolute path of a socket.
    fn url_of(
        &self,
        key: &str,
        address: &str,
        login: &Login,
        (tls, database): (bool, Option<u32>),
    ) -> Result<Url, ConfigError> {
        let (user, database) = (&login.user, database.unwrap_or_default());
        let url = if address.starts_with('/') && tls {
            return Err(self.wrong(key, "a host when TLS is on, because a socket is not encrypted"));
        } else if address.starts_with('/') {
            let login = login.password.as_ref().map(|password| format!("&user={user}&pass={password}"));
            let path: Vec<String> = address.split('/').map(encoded).collect();
            format!("unix://{}?db={database}{}", path.join("/"), login.unwrap_or_default())
        } else if !is_host(address) {
            let expected = "an address, such as \"redis.example.org:6379\" or \"/run/redis.sock\"";
            return Err(self.wrong(key, expected));
        } else {
            format!("{}://{}{address}/{database}", scheme(tls), login.prefix())
        };
        self.checked(key, url)
    }

    /// Returns the login of a section. Each connection reads the password of a file, so that one is checked and left out.
    fn login(
        &self,
        section: &str,
        prefix: &str,
        (user, password, file): (&Option<String>, &Option<Secret>, Option<&Path>),
    ) -> Result<Login, ConfigError> {
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
                return Err(missing(&of_text, "a user needs one, or a file with it"));
            }
            (None, None) => (of_text, None),
        };
        if password.as_ref().is_some_and(|password| password.expose().is_empty()) {
            return Err(self.wrong(&key, NOT_EMPTY));
        }
        let user = encoded(user.as_deref().unwrap_or_default());
        let password = password.filter(|_| file.is_none());
        Ok(Login { user, password: password.map(|password| encoded(password.expose())) })
    }
}

fn missing(key: &str, why: &'static str) -> ConfigError {
    ConfigError::Missing { key: key.to_owned(), why }
}

const fn scheme(tls: bool) -> &'static str {
    if tls { "rediss" } else { "redis" }
}

/// Returns true if the text may be `host` or `host:port`, and ends no part of a URL.
fn is_host(address: &str) -> bool {
    !address.is_empty() && !address.contains(['/', '@', '?', '#', ','])
}

/// Returns the part of a URL that identifies the server.
fn server_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let rest = rest.split('?').next().unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    if !scheme.starts_with("redis") && !scheme.starts_with("valkey") {
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
            assert_eq!(one, Servers::One(Url::new(url.into())));
        }
    }

    #[test]
    fn a_url_says_all_of_a_server() {
        let one = servers("standalone", |builder| {
            builder.set("standalone.address", "a:1").set("standalone.database", 3)
        });
        assert_eq!(one, Servers::One(Url::new("redis://app:hunter2@a:1/3".into())));
        let fleet = servers("sentinel", |builder| {
            let builder = builder.set("sentinel.addresses", ["a", "[::1]:1"]).set("sentinel.master", "m/1");
            let builder = builder.set("sentinel.database", 3).set("sentinel.sentinel_user", "eye");
            builder.set("sentinel.sentinel_password", "p@ss")
        });
        let url =
            "redis+sentinel://app:hunter2@a,[::1]:1/m%2F1/3?sentinel_username=eye&sentinel_password=p%40ss";
        assert_eq!(fleet, Servers::One(Url::new(url.into())));
        let cluster = servers("cluster", |builder| builder.set("cluster.addresses", ["a", "b:7"]));
        assert_eq!(cluster, Servers::One(Url::new("redis+cluster://app:hunter2@a,b:7".into())));
        let many = servers("quorum", |builder| {
            builder.set("quorum.addresses", ["a", "/s"]).set("quorum.database", 3)
        });
        let urls = ["redis://app:hunter2@a/3", "unix:///s?db=3&user=app&pass=hunter2"];
        assert_eq!(many, Servers::Quorum(urls.map(|url| Url::new(url.into())).to_vec()));
    }
}
