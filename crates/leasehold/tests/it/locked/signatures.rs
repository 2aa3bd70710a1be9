//! The shapes of functions. Each shape compiles, runs under its lock, and may move to another task.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;

use leasehold::{Client, RunError, locked};

use crate::support::{Fixture, connect, count, eventually, is_free, on_both, soon};

on_both! {
    async {
        arguments_of_every_shape_reach_the_body,
        receivers_of_every_shape_reach_the_body,
        methods_of_traits_are_locked,
        opaque_values_are_returned,
        borrowed_values_are_returned,
        boxed_values_are_returned,
        attributes_stay,
        stacked_locks_are_acquired_from_the_lowest_attribute_up,
        calls_can_be_spawned,
        functions_inside_functions_and_macros_are_locked,
    }
}

type Answer<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

struct Pair<A, B> {
    a: A,
    b: B,
}

#[locked(name = "job:{a}:{only}", client = client)]
#[allow(clippy::too_many_arguments, reason = "one of every shape")]
async fn shapes<'x, T, const N: usize>(
    client: &Client,
    Pair { a, b }: Pair<u8, &'x str>,
    [only, ..]: [char; 2],
    mut grown: Vec<T>,
    &copied: &u16,
    more: impl IntoIterator<Item = T>,
    array: [u8; N],
    (): (),
) -> Answer<(Vec<T>, &'x str, usize)>
where
    T: Send + Clone + 'x,
{
    grown.extend(more);
    grown.truncate(usize::from(copied) + usize::from(a));
    Ok((grown, b, array.len()))
}

async fn arguments_of_every_shape_reach_the_body(server: Fixture) {
    let client = connect(&server).await;
    let text = String::from("text");
    let pair = Pair { a: 1, b: text.as_str() };
    let outcome = shapes(&client, pair, ['x', 'y'], vec![1], &2, [2, 3, 4], [0; 5], ()).await.unwrap();
    assert_eq!(outcome, (vec![1, 2, 3], "text", 5));
    assert!(is_free(&server, "job:1:x"));
}

#[derive(Clone)]
struct Service {
    locks: Client,
    calls: u32,
}

impl Service {
    #[locked(name = "job:{self.calls}", client = self.locks)]
    pub(super) async fn by_reference(&self) -> Result<u32, RunError> {
        Ok(self.calls)
    }

    #[locked(name = "job", client = self.locks)]
    async fn by_mutable_reference(&mut self) -> Result<&mut u32, RunError> {
        self.calls += 1;
        Ok(&mut self.calls)
    }

    #[locked(name = "job", client = self.locks)]
    async fn by_value(mut self) -> Result<Self, RunError> {
        self.calls += 1;
        Ok(self)
    }

    #[locked(name = "job", client = self.locks)]
    async fn by_pointer(self: Arc<Self>) -> Result<Arc<Self>, RunError> {
        Ok(self)
    }

    #[locked(name = "job", client = self.locks)]
    async fn by_pin(self: Pin<&Self>) -> Result<u32, RunError> {
        Ok(self.calls)
    }

    #[locked(name = "job", client = locks)]
    async fn without(locks: Client) -> Result<Self, RunError> {
        Ok(Self { locks, calls: 0 })
    }
}

async fn receivers_of_every_shape_reach_the_body(server: Fixture) {
    let mut service = Service::without(connect(&server).await).await.unwrap();
    assert_eq!(service.by_reference().await, Ok(0));
    *service.by_mutable_reference().await.unwrap() += 1;
    let service = service.by_value().await.unwrap();
    assert_eq!(service.calls, 3);
    assert_eq!(Pin::new(&service).by_pin().await, Ok(3));
    assert_eq!(Arc::new(service).by_pointer().await.unwrap().calls, 3);
}

#[allow(async_fn_in_trait, reason = "of a test")]
trait Job {
    const NAME: &'static str;

    fn locks(&self) -> &Client;

    async fn work(&self) -> Result<u32, RunError>;

    #[locked(name = Self::NAME, client = self.locks())]
    async fn twice(&self) -> Result<u32, RunError> {
        Ok(self.work().await? + self.work().await?)
    }
}

impl Job for Service {
    const NAME: &'static str = "service";

    fn locks(&self) -> &Client {
        &self.locks
    }

    #[locked(name = Self::NAME, client = self.locks)]
    async fn work(&self) -> Result<u32, RunError> {
        Ok(self.calls)
    }
}

async fn methods_of_traits_are_locked(server: Fixture) {
    let service = Service { locks: connect(&server).await, calls: 4 };
    assert_eq!(soon("the method and what it calls", service.twice()).await, Ok(8));
}

#[locked(name = "job", client = client)]
async fn opaque(
    client: &Client,
    count: usize,
) -> Result<(impl Iterator<Item = usize> + use<>, impl Display + use<>), RunError> {
    if count == 0 {
        Err(leasehold::error::NotInstalled)?;
    }
    Ok(((0..count).map(|number| number * 2), "text"))
}

async fn opaque_values_are_returned(server: Fixture) {
    let client = connect(&server).await;
    let (numbers, text) = opaque(&client, 3).await.unwrap();
    assert_eq!((numbers.collect::<Vec<_>>(), text.to_string()), (vec![0, 2, 4], "text".to_owned()));
    assert!(opaque(&client, 0).await.is_err());
}

#[locked(name = "job", client = client)]
async fn longest<'a>(client: &Client, one: &'a str, other: &'a str) -> Result<&'a str, RunError> {
    Ok(if one.len() < other.len() { other } else { one })
}

async fn borrowed_values_are_returned(server: Fixture) {
    let client = connect(&server).await;
    let (one, other) = (String::from("one"), String::from("other"));
    assert_eq!(longest(&client, &one, &other).await, Ok("other"));
}

#[locked(name = "job", client = client)]
async fn boxed(client: &Client, long: bool) -> Result<Box<dyn Display + Send>, RunError> {
    if long {
        return Ok(Box::new("a text"));
    }
    Ok(Box::new(7))
}

#[locked(name = "job", client = client)]
async fn never(
    client: &Client,
) -> Result<std::convert::Infallible, Box<dyn std::error::Error + Send + Sync>> {
    Err("always")?
}

async fn boxed_values_are_returned(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(boxed(&client, true).await.unwrap().to_string(), "a text");
    assert_eq!(boxed(&client, false).await.unwrap().to_string(), "7");
    assert_eq!(never(&client).await.unwrap_err().to_string(), "always");
}

/// Documented.
#[locked(name = "job", client = client)]
#[must_use = "to see that attributes stay"]
#[allow(clippy::unused_async, reason = "to see that attributes stay")]
#[cfg(not(any()))]
#[inline]
async fn attributed(client: &Client, server: &Fixture) -> Result<u32, RunError> {
    #![allow(non_snake_case, reason = "inside a body")]
    let Counted = count(server, "job");
    Ok(Counted)
}

async fn attributes_stay(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(attributed(&client, &server).await, Ok(1));
}

#[locked(name = "inner", kind = fenced, fence = inner, client = client)]
#[locked(name = "outer", kind = fenced, fence = outer, client = client)]
async fn twice_locked(client: &Client, server: &Fixture) -> Result<(u64, u64, u32, u32), RunError> {
    Ok((inner, outer, count(server, "inner"), count(server, "outer")))
}

async fn stacked_locks_are_acquired_from_the_lowest_attribute_up(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(twice_locked(&client, &server).await, Ok((1, 1, 1, 1)));
    let guard = client.lock("inner").lock().await.unwrap();
    tokio::select! {
        _ = twice_locked(&client, &server) => unreachable!("the inner lock is held"),
        () = eventually("the outer lock to be taken", || !is_free(&server, "outer")) => {}
    }
    drop(guard);
    assert!(soon("both locks", twice_locked(&client, &server)).await.is_ok());
}

async fn calls_can_be_spawned(server: Fixture) {
    let service = Service { locks: connect(&server).await, calls: 5 };
    let spawned = {
        let mut service = service.clone();
        tokio::spawn(async move { service.by_mutable_reference().await.map(|calls| *calls) })
    };
    let other = {
        let service = service.clone();
        tokio::spawn(async move { service.by_reference().await })
    };
    assert_eq!(soon("a task", spawned).await.unwrap(), Ok(6));
    assert_eq!(soon("a task", other).await.unwrap(), Ok(5));
    let by_value = soon("a task", tokio::spawn(service.by_value())).await.unwrap();
    assert!(by_value.is_ok());
}

macro_rules! job {
    ($name:ident, $value:ident: $type:ty) => {
        #[locked(name = "macro:{value}", client = client)]
        async fn $name(client: &Client, value: u32, $value: $type) -> Result<($type, u32), RunError> {
            Ok(($value, value))
        }
    };
}

async fn functions_inside_functions_and_macros_are_locked(server: Fixture) {
    // Names that the expansion might use for itself.
    #[locked(name = "{name}:{section}:{entered}:{body}", wait = "5s", client = client)]
    async fn clashing(
        client: &Client,
        name: u8,
        section: u8,
        entered: u8,
        body: u8,
        value: u8,
        error: u8,
    ) -> Result<u8, RunError> {
        Ok(name + section + entered + body + value + error)
    }
    job!(by_macro, number: u64);
    let client = connect(&server).await;
    assert_eq!(clashing(&client, 1, 2, 3, 4, 5, 6).await, Ok(21));
    assert_eq!(by_macro(&client, 1, 2).await, Ok((2, 1)));
}
