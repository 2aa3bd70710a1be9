//! Names: the key on the server.

use leasehold::error::{AcquireErrorKind, NameError};
use leasehold::{Client, Name, RunError, locked};

use crate::support::{Fixture, connect, on_both};

on_both! {
    async {
        values_of_arguments_and_fields_go_into_the_name,
        methods_put_their_own_fields_into_the_name,
        a_name_may_be_any_expression,
        a_name_variable_stays_usable_in_the_body,
        an_invalid_name_is_an_error_of_the_call,
        values_are_inserted_unchanged,
    }
}

struct Item {
    sku: String,
    size: (u8, char),
}

/// The names of all keys.
fn keys(server: &Fixture) -> String {
    server.cli(&["KEYS", "*"])
}

#[locked(name = "order:{order_id:04}:{item.sku}:{item.size.0}{item.size.1}:{N}:{left}", client = client)]
async fn full<const N: usize>(
    client: &Client,
    server: &Fixture,
    order_id: u64,
    item: Item,
    (left, _): (bool, bool),
) -> Result<(String, Item), RunError> {
    Ok((keys(server), item))
}

async fn values_of_arguments_and_fields_go_into_the_name(server: Fixture) {
    let client = connect(&server).await;
    let item = Item { sku: "shoe".to_owned(), size: (42, 'w') };
    let (keys, item) = full::<3>(&client, &server, 7, item, (true, false)).await.unwrap();
    assert_eq!(keys, "order:0007:shoe:42w:3:true");
    assert_eq!(item.sku, "shoe", "the body has its arguments");
}

struct Shop {
    id: u32,
    locks: Client,
}

impl Shop {
    #[locked(name = "shop:{self.id}:{r#type}", client = self.locks)]
    async fn keys(&self, server: &Fixture, r#type: &str) -> Result<String, RunError> {
        assert_eq!(r#type, "stock");
        Ok(keys(server))
    }

    fn lock_name(&self) -> String {
        format!("shop-{}", self.id)
    }

    #[locked(name = self.lock_name(), client = self.locks)]
    async fn keys_by_method(&self, server: &Fixture) -> Result<String, RunError> {
        Ok(keys(server))
    }

    #[locked(name = Name::with_hash_tag("shops", &self.lock_name())?, client = self.locks)]
    async fn keys_with_tag(&self, server: &Fixture) -> Result<String, RunError> {
        Ok(keys(server))
    }
}

async fn methods_put_their_own_fields_into_the_name(server: Fixture) {
    let shop = Shop { id: 9, locks: connect(&server).await };
    assert_eq!(shop.keys(&server, "stock").await.as_deref(), Ok("shop:9:stock"));
}

async fn a_name_may_be_any_expression(server: Fixture) {
    let shop = Shop { id: 9, locks: connect(&server).await };
    assert_eq!(shop.keys_by_method(&server).await.as_deref(), Ok("shop-9"));
    assert_eq!(shop.keys_with_tag(&server).await.as_deref(), Ok("{shops}shop-9"));
}

#[locked(name = name, client = client)]
async fn by_text(client: &Client, server: &Fixture, name: String) -> Result<(String, String), RunError> {
    Ok((keys(server), name))
}

const NIGHTLY: &str = "nightly";

#[locked(name = NIGHTLY, client = client)]
async fn by_constant(client: &Client, server: &Fixture) -> Result<String, RunError> {
    Ok(keys(server))
}

async fn a_name_variable_stays_usable_in_the_body(server: Fixture) {
    let client = connect(&server).await;
    let (keys, name) = by_text(&client, &server, "a job".to_owned()).await.unwrap();
    assert_eq!((keys.as_str(), name.as_str()), ("a job", "a job"));
    assert_eq!(by_constant(&client, &server).await.as_deref(), Ok("nightly"));
}

#[locked(name = "user:{name}", client = client)]
async fn of_user(client: &Client, server: &Fixture, name: &str) -> Result<String, RunError> {
    Ok(keys(server))
}

#[locked(name = Name::with_hash_tag(tag, "job")?, client = client)]
async fn of_tag(client: &Client, server: &Fixture, tag: &str) -> Result<String, RunError> {
    Ok(keys(server))
}

async fn an_invalid_name_is_an_error_of_the_call(server: Fixture) {
    let client = connect(&server).await;
    let refused = |outcome: Result<String, RunError>, name: &str, rule: &str| {
        let Err(RunError::Acquire(refused)) = outcome else { panic!("{outcome:?}") };
        let AcquireErrorKind::Name(error) = &refused.kind else { panic!("{refused:?}") };
        assert!(error.to_string().starts_with(rule), "{error}");
        assert_eq!(&*refused.subject.name, name);
    };
    refused(of_user(&client, &server, "a{b}").await, "user:a{b}", "the name has a brace at byte 6");
    let error = "the name has a control character ('\\n') at byte 5";
    refused(of_user(&client, &server, "\n").await, "user:\n", error);
    let cut = format!("user:{}...", "x".repeat(75));
    refused(of_user(&client, &server, &"x".repeat(512)).await, &cut, "the name of 517 bytes");
    let tagless = of_tag(&client, &server, "").await;
    assert!(matches!(tagless, Err(RunError::Name(NameError::Empty))), "{tagless:?}");
}

#[locked(name = "{one}:{other}", client = client)]
async fn pair(client: &Client, server: &Fixture, one: &str, other: &str) -> Result<String, RunError> {
    Ok(keys(server))
}

async fn values_are_inserted_unchanged(server: Fixture) {
    let client = connect(&server).await;
    let (one, other) = (pair(&client, &server, "a:b", "c").await, pair(&client, &server, "a", "b:c").await);
    assert_eq!(one, other, "a separator in a value makes two names equal");
}
