//! The committed inputs, each run once, without libFuzzer: what was found stays found.

use std::fs;
use std::path::Path;

#[test]
fn every_committed_input_breaks_nothing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in leasehold_fuzz::TARGETS {
        let inputs = fs::read_dir(corpus.join(name)).expect("every target has committed inputs");
        let mut run = 0;
        for input in inputs {
            let path = input.expect("the folder can be read").path();
            println!("{}", path.display());
            target(&fs::read(&path).expect("the input can be read"));
            run += 1;
        }
        assert!(run > 0, "{name} has no inputs");
    }
}
