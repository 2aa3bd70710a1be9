//! Where the servers are, and how to log in.
//!
//! Invariant: one way of saying where the servers are, whose parts fit together; what comes out are URLs, and only of what
//! a URL can say all of, so that no back end of a later version connects without a login or a certificate that was set.
//! Called by: the configuration, when it is made and when it connects.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use super::checks::Checked;
use super::error::{ConfigError, Disagreement};
use super::fields::{SERVERS, is_within};
use super::raw::{Raw, Tls};
use super::secret::Secret;
use crate::connect::check_url;

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// At this URL, which may have a password.
    One(Secret),
    /// At these, of a quorum.
    Quorum(Vec<Secret>),
    /// What no version can connect to yet, with the scheme that its URLs would have. There are none of it: they would
    /// leave out what the sections say of logins and certificates. Whoever serves it reads the sections.
    Later(&'static str),
}

/// Who logs in.
struct Login {
    user: Option<String>,
    password: Option<Secret>,
}

impl Checked<'_> {
    /// Where the servers are.
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
            let url =
                self.url_of("standalone.address", &server.address, &login, server.database, &server.tls)?;
            return Ok(server.tls.served(Servers::One(url)));
        }
        if let Some(servers) = sentinel {
            if servers.master.as_deref().unwrap_or_default().is_empty() {
                return Err(missing("sentinel.master", "sentinels know servers by name"));
            }
            self.login(way, &servers.user, &servers.password, &servers.password_file)?;
            let own = (&servers.sentinel_user, &servers.sentinel_password, &servers.sentinel_password_file);
            self.login("sentinel.sentinel", own.0, own.1, own.2)?;
            self.addresses(way, &servers.tls)?;
            return Ok(Servers::Later("redis+sentinel"));
        }
        if let Some(servers) = cluster {
            self.login(way, &servers.user, &servers.password, &servers.password_file)?;
            self.addresses(way, &servers.tls)?;
            return Ok(Servers::Later("redis+cluster"));
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
                let url = |address: &String| {
                    self.url_of("quorum.addresses", address, &login, quorum.database, &quorum.tls)
                };
                quorum.addresses.iter().map(url).collect::<Result<_, _>>()?
            }
        };
        self.no_server_twice(&urls)?;
        Ok(quorum.tls.served(Servers::Quorum(urls)))
    }

    /// URLs say these themselves.
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

    /// One server with two votes would be a majority by itself.
    fn no_server_twice(&self, urls: &[Secret]) -> Result<(), ConfigError> {
        let own = urls.iter().filter(|url| url.expose() != "memory://");
        let mut seen = BTreeSet::new();
        if own.clone().all(|url| seen.insert(place(url.expose()))) {
            return Ok(());
        }
        let key = if self.list("quorum.urls").is_some() { "quorum.urls" } else { "quorum.addresses" };
        Err(self.wrong(key, "servers that are different: one that is named twice would have two votes"))
    }

    /// Whether a section has addresses, and nothing but these.
    fn addresses(&self, way: &str, tls: &Tls) -> Result<(), ConfigError> {
        let key = format!("{way}.addresses");
        let addresses = self.list(&key).unwrap_or_default();
        if addresses.is_empty() {
            return Err(missing(&key, "it says where the servers are"));
        }
        for address in addresses {
            self.tls(way, tls, address)?;
            self.url_of(&key, address, &Login { user: None, password: None }, 0, tls)?;
        }
        Ok(())
    }

    fn check_url(&self, key: &str, url: &str) -> Result<(), ConfigError> {
        let origin = || self.origin(key);
        check_url(url).map_err(|source| ConfigError::Url { origin: origin(), key: key.to_owned(), source })
    }

    /// The URL of an address: `host`, `host:port` or the absolute path of a socket.
    fn url_of(
        &self,
        key: &str,
        address: &str,
        login: &Login,
        database: u32,
        tls: &Tls,
    ) -> Result<Secret, ConfigError> {
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
            let scheme = if tls.is_on() { "rediss" } else { "redis" };
            let login = password.map(|password| format!("{user}:{password}@")).unwrap_or_default();
            format!("{scheme}://{login}{address}/{database}")
        };
        self.check_url(key, &url)?;
        Ok(Secret::new(url))
    }

    /// Reads the password, if it is in a file. `section` is the keys' beginning, up to a dot or an underscore.
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

impl Tls {
    /// These servers, if they are not to be asked for TLS: a URL does not name certificates.
    fn served(&self, servers: Servers) -> Servers {
        if self.is_on() { Servers::Later("rediss") } else { servers }
    }
}

fn missing(key: &str, why: &'static str) -> ConfigError {
    ConfigError::Missing { key: key.to_owned(), why }
}

/// What of a URL says which server it is.
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

/// Text as it may stand in any part of a URL.
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

    /// Of a section with a login, certificates and all.
    fn servers(section: &str, more: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Servers {
        let key = |name: &str| format!("{section}.{name}");
        let builder = Config::builder().set(&key("user"), "app").set(&key("password"), "hunter2");
        more(builder).build().unwrap_or_else(|error| panic!("{section}: {error}")).servers
    }

    #[test]
    fn there_is_no_url_of_what_a_url_cannot_say() {
        for (section, scheme) in [("sentinel", "redis+sentinel"), ("cluster", "redis+cluster")] {
            let more = |builder: ConfigBuilder| {
                let builder = builder.set(&format!("{section}.addresses"), ["a", "b"]);
                if section == "sentinel" { builder.set("sentinel.master", "m") } else { builder }
            };
            assert_eq!(servers(section, more), Servers::Later(scheme));
        }
        for tls in ["enabled", "ca_file"] {
            for section in ["standalone", "quorum"] {
                let more = |builder: ConfigBuilder| {
                    let key = format!("{section}.tls.{tls}");
                    let builder = match tls {
                        "enabled" => builder.set(&key, true),
                        _ => builder.set(&key, "/dev/null"),
                    };
                    match section {
                        "standalone" => builder.set("standalone.address", "a"),
                        _ => builder.set("quorum.addresses", ["a", "b", "c"]),
                    }
                };
                assert_eq!(servers(section, more), Servers::Later("rediss"), "{section}, {tls}");
            }
        }
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
