//! Descriptions of names by their servers.

use futures_util::{StreamExt, TryStreamExt, stream};
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

    /// Describes these keys. A key that is no name of a lock is left out.
    pub(super) async fn describe_all<'a>(
        &self,
        rows: &Rows,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<Object>, Failure> {
        let names = keys.into_iter().filter_map(|key| Name::raw_redisson(key).ok());
        let described = names.map(|name| async move {
            let hint = rows.names.get(name.as_str()).and_then(Row::hint);
            let found = self.describe(&name, hint).await?;
            Ok::<_, Failure>(object(&name, &self.prefix, self.node(&name), &found, rows))
        });
        stream::iter(described).buffered(AT_ONCE).try_collect().await
    }
}
