//! The instructions of the engine for each operation of a lock, counted by callgrind.
//!
//! `cargo x counts` compares them with its table. The counts do not depend on the load of the machine. A scene is
//! built and dropped outside of what is counted.
#![allow(missing_docs, reason = "the macros make public modules of what they count")]

mod scene;

use gungraun::prelude::*;

use scene::Scene;

#[library_benchmark(teardown = Scene::check)]
#[bench::uncontended(Scene::with_request().expects(1, 1))]
fn acquire(mut scene: Scene) -> Scene {
    scene.acquire();
    scene.settle();
    scene
}

#[library_benchmark(teardown = Scene::check)]
#[bench::uncontended(Scene::with_hold().expects(1, 1))]
fn release(mut scene: Scene) -> Scene {
    scene.release();
    scene.settle();
    scene
}

#[library_benchmark(teardown = Scene::check)]
#[bench::uncontended(Scene::with_request().expects(2, 2))]
#[bench::observed(Scene::with_request().observed().expects(2, 2))]
fn pair(mut scene: Scene) -> Scene {
    scene.acquire();
    scene.settle();
    scene.release();
    scene.settle();
    scene
}

#[library_benchmark(teardown = Scene::check)]
#[bench::one_hold(Scene::with_due_renewals(1).expects(1, 0))]
#[bench::hundred_holds(Scene::with_due_renewals(100).expects(100, 0))]
fn renewal(mut scene: Scene) -> Scene {
    scene.tick();
    scene.settle();
    scene
}

// A hold leaves the lane.
#[library_benchmark(teardown = Scene::check)]
#[bench::one_hold(Scene::with_hold().after_a_while().expects(0, 0))]
fn promotion(mut scene: Scene) -> Scene {
    scene.tick();
    scene
}

#[library_benchmark(teardown = Scene::check)]
#[bench::one_waiter(Scene::with_waiters(1).expects(0, 2))]
fn hand_off(mut scene: Scene) -> Scene {
    scene.release();
    scene.settle();
    scene
}

// A release and the acquire of the next waiter, after the time in which the hold passes on without a call.
#[library_benchmark(teardown = Scene::check)]
#[bench::one_waiter(Scene::with_waiters(1).after_hand_offs().expects(2, 2))]
#[bench::ten_thousand_waiters(Scene::with_waiters(10_000).after_hand_offs().expects(2, 2))]
fn hand_over(mut scene: Scene) -> Scene {
    scene.release();
    scene.settle();
    scene
}

library_benchmark_group!(
    name = engine,
    benchmarks = [acquire, release, pair, renewal, promotion, hand_off, hand_over]
);

main!(library_benchmark_groups = engine);
