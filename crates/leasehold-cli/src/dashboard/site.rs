//! The answers to requests.
//!
//! Invariant: the host is checked before anything else, and the token before anything that has data. Without
//! `--allow-release` there is no route that changes anything.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

use super::access::{Access, Refusal};
use super::feed::event;
use super::reader::Reader;
use super::{metrics, page};

/// The most viewers at a time.
const STREAMS: usize = 50;
/// The most other requests at a time.
const REQUESTS: usize = 16;
/// The longest body of a request.
const BODY_MAX: usize = 64 << 10;
/// The longest time between two events, so that a viewer notices a dead connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// What every request needs.
pub(super) struct Site {
    pub(super) access: Access,
    pub(super) reader: Arc<Reader>,
    pub(super) may_release: bool,
    pub(super) has_metrics: bool,
    streams: Arc<Semaphore>,
    requests: Semaphore,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    name: String,
    owner: String,
}

impl Site {
    pub(super) fn new(access: Access, reader: Arc<Reader>, (may_release, has_metrics): (bool, bool)) -> Self {
        let (streams, requests) = (Arc::new(Semaphore::new(STREAMS)), Semaphore::new(REQUESTS));
        Self { access, reader, may_release, has_metrics, streams, requests }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let mut response = match self.route(request).await {
            Ok(response) => response,
            Err(Refusal { status, text }) => reply(status, "text/plain; charset=utf-8", text),
        };
        page::secure(response.headers_mut());
        response
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (parts, body) = request.into_parts();
        self.access.check_host(&parts.headers)?;
        if let Some(file) = page::file(parts.uri.path()).filter(|_| parts.method == Method::GET) {
            return Ok(reply(StatusCode::OK, file.kind, file.text));
        }
        self.access.check_token(&parts.headers)?;
        if (&parts.method, parts.uri.path()) == (&Method::GET, "/api/1/events") {
            let free = Arc::clone(&self.streams).try_acquire_owned();
            let permit = free.map_err(|_| busy("too many viewers"))?;
            return Ok(events(self.reader.whole(), self.reader.subscribe(), permit));
        }
        let _permit = self.requests.try_acquire().map_err(|_| busy("too many requests at once"))?;
        match (&parts.method, parts.uri.path()) {
            (&Method::GET, "/api/1/state") => {
                self.reader.refresh().await;
                Ok(json(self.reader.whole()))
            }
            (&Method::GET, "/api/1/object") => self.object(&parts).await,
            (&Method::POST, "/api/1/release") if self.may_release => self.release(&parts, body).await,
            (&Method::GET, "/metrics") if self.has_metrics => {
                self.reader.refresh().await;
                // Old values would look like a fleet in which nothing changes.
                if self.reader.with_feed(|feed| feed.problem().is_some()) {
                    return Err(busy("the servers do not answer"));
                }
                let text = self.reader.with_feed(|feed| metrics::text(feed.objects()));
                Ok(reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
            }
            _ => Err(Refusal { status: StatusCode::NOT_FOUND, text: "not found" }),
        }
    }

    async fn object(&self, parts: &Parts) -> Result<Response<Body>, Refusal> {
        let bad = Refusal { status: StatusCode::BAD_REQUEST, text: "a name is missing" };
        let query = parts.uri.query().unwrap_or_default();
        let name = query.strip_prefix("name=").and_then(decoded).ok_or(bad)?;
        Ok(match self.reader.object(&name).await {
            Ok(text) => json(text),
            Err(why) => reply(StatusCode::BAD_GATEWAY, "text/plain; charset=utf-8", why),
        })
    }

    async fn release(&self, parts: &Parts, body: Incoming) -> Result<Response<Body>, Refusal> {
        Access::check_change(parts)?;
        let bad = |text| Refusal { status: StatusCode::BAD_REQUEST, text };
        let body = Limited::new(body, BODY_MAX).collect().await.map_err(|_| bad("the body is too long"))?;
        let release: Release = serde_json::from_slice(&body.to_bytes())
            .map_err(|_| bad("a release needs a `name` and an `owner`"))?;
        Ok(match self.reader.release(&release.name, &release.owner).await {
            Ok(outcome) => json(serde_json::json!({ "outcome": outcome }).to_string()),
            Err(why) => reply(StatusCode::BAD_GATEWAY, "text/plain; charset=utf-8", why),
        })
    }
}

const fn busy(text: &'static str) -> Refusal {
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, text }
}

fn reply(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn json(text: String) -> Response<Body> {
    reply(StatusCode::OK, "application/json", text)
}

/// Returns the stream of a viewer: everything once, and then each message. A viewer that is too far behind is closed, and
/// its page connects again.
fn events(
    whole: String,
    messages: broadcast::Receiver<Bytes>,
    permit: OwnedSemaphorePermit,
) -> Response<Body> {
    let first = Some(event(&whole));
    let stream = stream::unfold((first, messages, permit), async |(first, mut messages, permit)| {
        let next = match first {
            Some(first) => first,
            None => tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => message,
                    Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
                },
                () = crate::clock::reached(Some(crate::clock::after(KEEP_ALIVE))) => Bytes::from_static(b": alive\n\n"),
            },
        };
        Some((Ok::<_, Infallible>(Frame::data(next)), (None, messages, permit)))
    });
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// Decodes a value of a query.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_query_is_decoded_or_refused() {
        assert_eq!(decoded("order%3A42+a%C3%BC").as_deref(), Some("order:42 aü"));
        for wrong in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
