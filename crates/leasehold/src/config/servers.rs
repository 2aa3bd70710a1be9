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
use super::schema::{Quorum, RESERVED, SERVERS, Standalone};
use super::value::{Secret, Url};
use crate::client::connect::check_url;
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

impl Checked<'_> {
    /// Returns the servers.
    pub(super) fn servers(&self) -> Result<Servers, ConfigError> {
        let first = |way: &str| self.sources.keys().find(|key| is_within(key, way));
        let named: Vec<(&str, &String)> =
            SERVERS.into_iter().filter_map(|way| Some((way, first(way)?))).collect();
        if let [(_, one), (_, other), ..] = named[..] {
            return Err(self.conflict(one, other, Conflict::Either));
        }
        let reserved = RESERVED.into_iter().find_map(|(section, what)| Some((first(section)?, what)));
        if let Some((key, what)) = reserved {
            return Err(self.not_supported(key, what));
        }
        match (&self.settings.url, &named[..]) {
            (Some(url), _) => self.check_url("url", url).map(|()| Servers::One(url.clone())),
            (None, [("standalone", _)]) => self.standalone(&self.settings.standalone).map(Servers::One),
            (None, [("quorum", _)]) => self.quorum_servers(&self.settings.quorum).map(Servers::Quorum),
            _ => Err(missing("url", "say where the server is, by `url`, [standalone] or [quorum]")),
        }
    }

    fn standalone(&self, server: &Standalone) -> Result<Url, ConfigError> {
        let Some(address) = server.address.as_deref().filter(|address| !address.is_empty()) else {
            return Err(missing("standalone.address", "it says where the server is"));
        };
        let login =
            self.login("standalone", (&server.user, &server.password, server.password_file.as_deref()))?;
        self.url_of("standalone.address", address, &login, server.database)
    }

    fn quorum_servers(&self, quorum: &Quorum) -> Result<Vec<Url>, ConfigError> {
        let login =
            self.login("quorum", (&quorum.user, &quorum.password, quorum.password_file.as_deref()))?;
        let addresses = quorum.addresses.as_deref().unwrap_or_default();
        let urls = quorum.urls.as_deref().unwrap_or_default();
        let (key, servers) = match (addresses, urls) {
            ([], []) => return Err(missing("quorum.addresses", "a majority needs servers")),
            ([], urls) => {
                urls.iter().try_for_each(|url| self.check_url("quorum.urls", url))?;
                self.only_for_addresses()?;
                ("quorum.urls", urls.to_vec())
            }
            (addresses, []) => {
                let key = "quorum.addresses";
                let url = |address: &String| self.url_of(key, address, &login, quorum.database);
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
        database: Option<u32>,
    ) -> Result<Url, ConfigError> {
        let (user, database) = (&login.user, database.unwrap_or_default());
        let url = if address.starts_with('/') {
            let login = login.password.as_ref().map(|password| format!("&user={user}&pass={password}"));
            let path: Vec<String> = address.split('/').map(encoded).collect();
            format!("unix://{}?db={database}{}", path.join("/"), login.unwrap_or_default())
        } else if address.is_empty() || address.contains(['/', '@', '?', '#', ',']) {
            let expected = "an address, such as \"redis.example.org:6379\" or \"/run/redis.sock\"";
            return Err(self.wrong(key, expected));
        } else {
            let login = login.password.as_ref().map(|password| format!("{user}:{password}@"));
            format!("redis://{}{address}/{database}", login.unwrap_or_default())
        };
        let url = Url::new(url);
        self.check_url(key, &url).map(|()| url)
    }

    /// Returns the login of a section, with the password of the file if there is one.
    fn login(
        &self,
        section: &str,
        (user, password, file): (&Option<String>, &Option<Secret>, Option<&Path>),
    ) -> Result<Login, ConfigError> {
        let (of_text, of_file) = (format!("{section}.password"), format!("{section}.password_file"));
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
                return Err(missing(&of_text, "a user needs one, or a password_file"));
            }
            (None, None) => (of_text, None),
        };
        if password.as_ref().is_some_and(|password| password.expose().is_empty()) {
            return Err(self.wrong(&key, "a password that is not empty; leave it out when there is none"));
        }
        let user = encoded(user.as_deref().unwrap_or_default());
        Ok(Login { user, password: password.map(|password| encoded(password.expose())) })
    }
}

fn missing(key: &str, why: &'static str) -> ConfigError {
    ConfigError::Missing { key: key.to_owned(), why }
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

    #[test]
    fn a_url_says_all_of_a_server() {
        let one = servers("standalone", |builder| {
            builder.set("standalone.address", "a:1").set("standalone.database", 3)
        });
        assert_eq!(one, Servers::One(Url::new("redis://app:hunter2@a:1/3".into())));
        let many = servers("quorum", |builder| {
            builder.set("quorum.addresses", ["a", "/s"]).set("quorum.database", 3)
        });
        let urls = ["redis://app:hunter2@a/3", "unix:///s?db=3&user=app&pass=hunter2"];
        assert_eq!(many, Servers::Quorum(urls.map(|url| Url::new(url.into())).to_vec()));
    }
}
