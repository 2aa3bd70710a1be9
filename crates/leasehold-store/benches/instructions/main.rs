//! The instructions of the wire for a call and for a batch of calls, counted by callgrind.
//!
//! `cargo x counts` compares them with its table. The counts do not depend on the load of the machine. A scene is built
//! and dropped outside of what is counted.
#![allow(missing_docs, reason = "the macros make public modules of what they count")]

mod scene;

use gungraun::prelude::*;

use scene::Scene;

#[library_benchmark(teardown = Scene::check)]
#[bench::uncontended(Scene::with_calls(1))]
fn call(mut scene: Scene) -> Scene {
    scene.submit();
    scene.says(b"$-1\r\n");
    scene
}

// The calls gather behind one that has no reply yet, and travel as one command when that reply comes.
#[library_benchmark(teardown = Scene::check)]
#[bench::sixteen_calls(Scene::with_calls(17))]
fn batch(mut scene: Scene) -> Scene {
    scene.batch();
    scene
}

library_benchmark_group!(name = wire, benchmarks = [call, batch]);

main!(library_benchmark_groups = wire);
