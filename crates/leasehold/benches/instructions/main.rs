//! The instructions of a client for an acquire and a release, from the call to the store and back, counted by callgrind.
//!
//! `cargo x counts` compares them with its table, once without observers and once with the feature `metrics` and a recorder.
//! The counts do not depend on the load of the machine. A scene is built and dropped outside of what is counted.
#![allow(missing_docs, reason = "the macros make public modules of what they count")]

mod scene;

use gungraun::prelude::*;

use scene::Scene;

#[library_benchmark]
#[bench::uncontended(Scene::new())]
fn pair(scene: Scene) -> Scene {
    scene.pair("order:42");
    scene
}

#[cfg(not(feature = "metrics"))]
library_benchmark_group!(name = client, benchmarks = [pair]);
#[cfg(feature = "metrics")]
library_benchmark_group!(name = client_with_metrics, benchmarks = [pair]);

#[cfg(not(feature = "metrics"))]
main!(library_benchmark_groups = client);
#[cfg(feature = "metrics")]
main!(library_benchmark_groups = client_with_metrics);
