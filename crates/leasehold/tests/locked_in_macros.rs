//! Literals that come through macros.
#![allow(missing_docs, dead_code, clippy::unwrap_used, clippy::disallowed_methods)]
#![cfg(feature = "macros")]
use leasehold::{Client, RunError, locked};
macro_rules! by_literal {
    ($f:ident, $name:literal, $wait:literal, $order:ident) => {
        #[locked(name = $name, wait = $wait, client = client)]
        async fn $f(client: &Client, $order: u32) -> Result<u32, RunError> {
            Ok($order)
        }
    };
}
macro_rules! by_expr {
    ($f:ident, $name:expr, $order:ident) => {
        #[locked(name = $name, client = client)]
        async fn $f(client: &Client, $order: u32) -> Result<u32, RunError> {
            Ok($order)
        }
    };
}
by_literal!(l1, "order:{order}", "1s", order);
by_expr!(e1, "order:{order}", order);
macro_rules! by_body { ($c:ident; $(#[$m:meta])* $v:vis fn $f:ident ($($a:ident : $t:ty),*) -> $r:ty $b:block) => {
    #[locked(name = "bb", client = $c)] $(#[$m])*
    $v async fn $f($($a: $t),*) -> $r $b
} }
by_body!(client; /** doc */ pub(crate) fn bb1(client: &Client, x: u8) -> Result<u8, RunError> { let _ = client; Ok(x) });
macro_rules! by_item {
    ($c:ident; $i:item) => {
        #[locked(name = "it", client = $c)]
        $i
    };
}
by_item!(client; async fn item(client: &Client) -> Result<u8, RunError> { Ok(1) });
macro_rules! choices {
    ($f:ident, $k:expr, $n:literal, $p:path, $l:expr, $c:ident) => {
        #[locked(name = "ch:{n}", kind = semaphore($n), wait = $l, on_busy = fallback($p), client = $c)]
        async fn $f($c: &Client, n: u8) -> Result<u8, RunError> {
            Ok(n)
        }
        #[locked(name = "cc:{n}", kind = $k, client = client)]
        async fn fenced_by_macro(client: &Client, n: u8) -> Result<u8, RunError> {
            Ok(n)
        }
    };
}
mod fb {
    pub(crate) async fn fb(_: &super::Client, n: u8) -> Result<u8, super::RunError> {
        Ok(n)
    }
}
choices!(chosen, fenced, 3, fb::fb, std::time::Duration::from_secs(1) * 2, client);
// What is given to the name, and to the function, by one macro.
macro_rules! lits { ($f:ident, $($x:ident: $t:ty),*; $name:literal) => {
    #[locked(name = $name, client = client)] async fn $f(client: &Client, $($x: $t),*) -> Result<(), RunError> { let _ = ($($x),*); Ok(()) } } }
lits!(many, a: u8, b: u8; "{a}:{b}");
#[tokio::test]
async fn all() {
    let client = Client::connect("memory://").await.unwrap();
    assert_eq!(l1(&client, 3).await, Ok(3));
    assert_eq!(e1(&client, 3).await, Ok(3));
}
