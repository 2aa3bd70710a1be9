//! Traces of programs with locks, as an exporter of OpenTelemetry gets them.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test code")]

use std::collections::HashMap;
use std::future::Future;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use leasehold::Client;
use leasehold_testkit::wait::answered;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tracing::dispatcher::DefaultGuard;
use tracing::{Instrument, Level, debug_span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

const LIMIT: Duration = Duration::from_secs(20);

/// Sends the spans of this thread to an exporter of its own, as the setup of a service does.
fn exported() -> (InMemorySpanExporter, DefaultGuard) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let levels = Targets::new().with_default(LevelFilter::INFO).with_target("leasehold", Level::DEBUG);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("service")).with_filter(levels);
    (exporter, tracing_subscriber::registry().with(layer).set_default())
}

/// Returns the finished spans with this name.
fn named<'a>(spans: &'a [SpanData], name: &str) -> Vec<&'a SpanData> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    span.attributes.iter().find(|of| of.key.as_str() == key).map(|of| of.value.as_str().into_owned())
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, work).await.unwrap() })
}

/// Reserves stock under a lock, as a part of the caller's trace.
async fn reserve(State(client): State<Client>, headers: HeaderMap) {
    let carrier: HashMap<String, String> =
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let span = info_span!("reserve");
    span.set_parent(TraceContextPropagator::new().extract(&carrier)).unwrap();
    let work = async { client.lock("stock:7").lock().await.unwrap().release().await.unwrap() };
    work.instrument(span).await;
}

/// Posts to a service, with the context of the present span.
async fn call(port: u16) {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&tracing::Span::current().context(), &mut carrier);
    let parent = &carrier["traceparent"];
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: stock\r\ntraceparent: {parent}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn the_wait_for_a_lock_in_another_service_is_a_part_of_the_callers_trace() {
    let store = "memory://one-trace-over-two-services";
    let (ready, bound) = mpsc::channel();
    let (done, ended) = tokio::sync::oneshot::channel::<()>();
    let service = thread::spawn(move || {
        let (exporter, _default) = exported();
        run(async {
            let client = Client::connect(store).await.unwrap();
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            ready.send((listener.local_addr().unwrap().port(), client.clone())).unwrap();
            let router = Router::new().route("/", post(reserve)).with_state(client);
            let stop = async { drop(ended.await) };
            axum::serve(listener, router).with_graceful_shutdown(stop).await.unwrap();
        });
        // The exporter forgets its spans when its subscriber goes.
        exporter.get_finished_spans().unwrap()
    });
    let (port, other) = bound.recv_timeout(LIMIT).unwrap();
    let (caller, _default) = exported();
    run(async {
        // The lock is held when the request comes, so its acquire waits.
        let client = Client::connect(store).await.unwrap();
        let lock = client.lock("stock:7");
        let guard = lock.lock().await.unwrap();
        let ordered = call(port).instrument(info_span!("order"));
        let freed = async {
            answered(LIMIT, "the wait of the service", async || other.waits().next()).await;
            guard.release().await.unwrap();
        };
        tokio::join!(ordered, freed);
    });
    drop(done);
    let (caller, service) = (caller.get_finished_spans().unwrap(), service.join().unwrap());
    let [order] = &named(&caller, "order")[..] else { panic!("{caller:#?}") };
    let [reserve] = &named(&service, "reserve")[..] else { panic!("{service:#?}") };
    let [acquire] = &named(&service, "leasehold.acquire")[..] else { panic!("{service:#?}") };
    let trace = order.span_context.trace_id();
    assert_eq!([reserve, acquire].map(|span| span.span_context.trace_id()), [trace; 2]);
    assert_eq!(reserve.parent_span_id, order.span_context.span_id());
    assert_eq!(acquire.parent_span_id, reserve.span_context.span_id());
    assert_eq!(attribute(acquire, "lock.name").as_deref(), Some("stock:7"));
    assert_eq!(attribute(acquire, "lock.outcome").as_deref(), Some("acquired"));
    assert!(acquire.start_time >= reserve.start_time && acquire.end_time <= reserve.end_time);
}

#[test]
fn a_dropped_and_a_moved_acquire_stay_below_the_span_in_which_they_began() {
    let (exporter, _default) = exported();
    run(async {
        let client = Client::connect("memory://").await.unwrap();
        let guard = client.lock("job").lock().await.unwrap();
        let span = info_span!("dropped");
        let waiting = async {
            let lock = client.lock("job");
            tokio::time::timeout(Duration::from_millis(10), lock.lock()).await.map(drop).unwrap_err()
        };
        waiting.instrument(span).await;
        let mut moved = Box::pin({
            let client = client.clone();
            async move { client.lock("job").lock().await.map(drop) }
        });
        let begin = std::future::poll_fn(|cx| std::task::Poll::Ready(moved.as_mut().poll(cx).is_pending()));
        assert!(begin.instrument(info_span!("moved")).await, "the lock is held");
        let task = tokio::spawn(moved.instrument(debug_span!(target: "leasehold::test", "elsewhere")));
        guard.release().await.unwrap();
        task.await.unwrap().unwrap();
        client.lock("job").lock().await.unwrap().release().await.unwrap();
    });
    let spans = exporter.get_finished_spans().unwrap();
    let parent = |name: &str| named(&spans, name)[0].span_context.span_id();
    let mut told: Vec<_> = named(&spans, "leasehold.acquire")
        .iter()
        .map(|span| (span.parent_span_id, attribute(span, "lock.outcome")))
        .collect();
    let acquired = || Some("acquired".to_owned());
    let mut expected = vec![
        (SpanId::INVALID, acquired()),
        (SpanId::INVALID, acquired()),
        (parent("dropped"), None),
        (parent("moved"), acquired()),
    ];
    told.sort_by_key(|(parent, _)| parent.to_bytes());
    expected.sort_by_key(|(parent, _)| parent.to_bytes());
    assert_eq!(told, expected);
}
