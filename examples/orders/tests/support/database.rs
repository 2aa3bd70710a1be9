//! The two kinds of database, and the queries of the tests.
//!
//! Invariant: each test has a database of its own. All tests of the process share one PostgreSQL server, which its
//! script stops when the process ends. Without PostgreSQL the tests fail.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AnyPool, Row};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) struct Database {
    url: String,
    runtime: Runtime,
    pool: AnyPool,
    _folder: Option<TempDir>,
}

impl Database {
    /// A new database on a server that `database.sh` starts, and installs if it is missing.
    pub(crate) fn on_postgresql() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let server = Self::at(postgresql().to_owned(), None);
        server.runtime.block_on(async {
            sqlx::raw_sql(&format!("CREATE DATABASE {name}")).execute(&server.pool).await.unwrap();
        });
        Self::at(server.url.replace("/postgres?", &format!("/{name}?")), None)
    }

    /// A database in a new file.
    pub(crate) fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("orders.db").display());
        Self::at(url, Some(folder))
    }

    fn at(url: String, folder: Option<TempDir>) -> Self {
        sqlx::any::install_default_drivers();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pool = runtime.block_on(AnyPool::connect(&url)).unwrap();
        Self { url, runtime, pool, _folder: folder }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Counts the rows of a table that meet a condition.
    pub(crate) fn count(&self, table: &str, condition: &str) -> i64 {
        let question = format!("SELECT COUNT(*) FROM {table} WHERE {condition}");
        self.runtime
            .block_on(async { sqlx::query(&question).fetch_one(&self.pool).await?.try_get(0) })
            .unwrap_or_else(|error| panic!("{question}: {error}"))
    }

    /// The token and state of each accepted write of an order, oldest first.
    pub(crate) fn history(&self, order: i64) -> Vec<(i64, String)> {
        let question = format!("SELECT token, state FROM events WHERE order_id = {order} ORDER BY number");
        let rows = self.runtime.block_on(sqlx::query(&question).fetch_all(&self.pool)).unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

/// The address of the one PostgreSQL server of this process.
fn postgresql() -> &'static str {
    /// Never dropped, because the end of this process closes the script's standard input, and the script stops.
    static SERVER: OnceLock<(Child, String)> = OnceLock::new();
    let (_, url) = SERVER.get_or_init(|| {
        let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/database.sh"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(
            url.starts_with("postgres://"),
            "database.sh started no PostgreSQL, see above for the reason"
        );
        (script, url)
    });
    url
}
