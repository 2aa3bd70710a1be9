//! Asks servers to describe names.

use futures_util::{StreamExt, stream};
use leasehold_proto::Name;
use leasehold_proto::operate::{Kind, describe, read_described};

use super::ask::strange;
use super::build::{Found, object};
use super::object::Object;
use super::rows::{Row, Rows};
use super::servers::Servers;
use crate::exit::Failure;

/// The names that are described at the same time.
const AT_ONCE: usize = 64;

impl Servers {
    pub(super) async fn describe(&self, key: &Name, hint: Option<Kind>) -> Result<Found, Failure> {
        let reply = self.run(describe(key)).await?;
        let described = read_described(&reply).ok_or_else(|| strange(&reply))?;
        let kind = described.kind(hint);
        Ok(Found { described, kind })
    }

    /// Describes these keys. A key that is no name of a lock is left out, and one that cannot be read is noted as missing.
    pub(super) async fn describe_all<'a>(
        &self,
        rows: &mut Rows,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Vec<Object> {
        let names = keys.into_iter().filter_map(|key| Name::raw_redisson(key).ok());
        let known = &*rows;
        let described = names.map(|name| async move {
            let described = self.describe_one(&name, known, None).await;
            described.map_err(|failure| (name, failure))
        });
        let described: Vec<_> = stream::iter(described).buffered(AT_ONCE).collect().await;
        let (mut objects, mut failures) = (Vec::new(), Vec::new());
        for one in described {
            match one {
                Ok(object) => objects.push(object),
                Err(failure) => failures.push(failure),
            }
        }
        if let Some((name, failure)) = failures.first() {
            let name = name.as_str();
            let name = name.strip_prefix(&self.prefix).unwrap_or(name);
            let more =
                if failures.len() > 1 { format!(" and {} more", failures.len() - 1) } else { String::new() };
            rows.miss(format!("{name:?}{more} could not be read: {:#}", failure.reason));
        }
        objects
    }

    /// Describes a key by its server and by what the clients say, or by what the operator says if they say nothing.
    pub(super) async fn describe_one(
        &self,
        name: &Name,
        rows: &Rows,
        said: Option<Kind>,
    ) -> Result<Object, Failure> {
        let hint = rows.names.get(name.as_str()).and_then(Row::hint).or(said);
        let found = self.describe(name, hint).await?;
        Ok(object(name, &self.prefix, self.node(name), &found, rows))
    }
}
