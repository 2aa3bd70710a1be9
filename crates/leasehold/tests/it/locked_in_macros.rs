//! Functions under a lock that macros generate. A macro's argument has the same meaning as written text.

use std::time::Duration;

use leasehold::{Client, RunError, locked};

macro_rules! with_literals {
    ($function:ident, $name:literal, $wait:literal, $order:ident) => {
        #[locked(name = $name, wait = $wait, client = client)]
        async fn $function(client: &Client, $order: u32) -> Result<u32, RunError> {
            Ok($order)
        }
    };
}

macro_rules! with_expressions {
    ($function:ident, $name:expr, $wait:expr, $kind:expr, $order:ident) => {
        #[locked(name = $name, wait = $wait, kind = $kind, client = client)]
        async fn $function(client: &Client, $order: u32) -> Result<u32, RunError> {
            Ok($order)
        }
    };
}

macro_rules! with_a_body {
    ($client:ident; $(#[$meta:meta])* $visibility:vis fn $function:ident ($($argument:ident : $kind:ty),*) -> $output:ty $body:block) => {
        #[locked(name = "body", client = $client)]
        $(#[$meta])*
        $visibility async fn $function($($argument: $kind),*) -> $output $body
    };
}

macro_rules! with_an_item {
    ($client:ident; $item:item) => {
        #[locked(name = "item", client = $client)]
        $item
    };
}

macro_rules! with_a_path {
    ($function:ident, $most:literal, $instead:path, $client:ident) => {
        #[locked(name = "{n}", kind = semaphore($most), wait = "0s", on_busy = fallback($instead), client = $client)]
        async fn $function($client: &Client, n: u8) -> Result<u8, RunError> {
            Ok(n)
        }
    };
}

mod elsewhere {
    pub(crate) async fn instead(_: &super::Client, n: u8) -> Result<u8, super::RunError> {
        Ok(n + 100)
    }
}

with_literals!(literals, "order:{order}", "1s", order);
with_expressions!(expressions, "order:{order}", Duration::from_millis(500) * 2, fenced, order);
with_a_body!(client; /** Kept. */ pub(crate) fn body(client: &Client, x: u8) -> Result<bool, RunError> {
    Ok(client.lock("body").is_locked().await.is_ok_and(|locked| locked) && x == 3)
});
with_an_item!(client; async fn item(client: &Client) -> Result<bool, RunError> {
    Ok(client.lock("item").is_locked().await.is_ok_and(|locked| locked))
});
with_a_path!(path, 1, elsewhere::instead, client);

#[tokio::test]
async fn tokens_from_a_macro_work_like_written_ones() {
    let client = Client::connect("memory://").await.unwrap();
    assert_eq!(literals(&client, 3).await, Ok(3));
    assert_eq!(expressions(&client, 3).await, Ok(3));
    assert_eq!(body(&client, 3).await, Ok(true));
    assert_eq!(item(&client).await, Ok(true));
    assert_eq!(path(&client, 3).await, Ok(3));
    let permit = client.expirable_semaphore("3").acquire().await.unwrap();
    assert_eq!(path(&client, 3).await, Ok(103), "what is called instead");
    permit.release().await.unwrap();

    let guard = client.lock("order:3").lock().await.unwrap();
    let refused = literals(&client, 3).await;
    let second = Duration::from_secs(1);
    assert!(
        matches!(refused, Err(RunError::Busy { wait, .. }) if wait == second),
        "the name has the argument in it"
    );
    drop(guard);
}
