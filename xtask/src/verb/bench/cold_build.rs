//! `cargo x bench build`: a cold debug build of a minimal user's project, and the crates in its tree.
//!
//! Invariant: the project is new each time and has a target folder of its own, so nothing is built before. Its lock file is
//! that of this repository.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell;

/// The clock ticks of a second in `/proc`, which Linux fixes for programs.
const TICKS: f64 = 100.0;

const PROGRAM: &str = r#"#[tokio::main]
async fn main() -> Result<(), leasehold::Error> {
    let client = leasehold::Client::connect("redis://127.0.0.1:6379").await?;
    client.lock("order:42").run(async |_guard| ()).await?;
    Ok(())
}
"#;

/// Builds the project, and prints the crates, the processor time, and the time.
pub(crate) fn run() -> Result<()> {
    let root = shell::root()?.canonicalize()?;
    let project = root.join("target/bench/cold-build");
    if project.exists() {
        fs::remove_dir_all(&project)?;
    }
    write(&root, &project)?;
    let crates = crates(&project)?;
    shell::output(shell::cargo(&["fetch"])?.current_dir(&project))?;
    let (began, before) = (Instant::now(), cpu_of_children()?);
    let target = project.join("target");
    shell::run(shell::cargo(&["build", "--offline"])?.current_dir(&project).env("CARGO_TARGET_DIR", target))?;
    let (took, cpu) = (began.elapsed(), cpu_of_children()? - before);
    println!("crates in the tree besides the program's own: {crates}");
    println!("cold debug build: {cpu:.1} s of processor time, {:.1} s", took.as_secs_f64());
    Ok(())
}

fn write(root: &Path, project: &Path) -> Result<()> {
    fs::create_dir_all(project.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"minimal\"\nedition = \"2024\"\n\n[dependencies]\nleasehold = {{ path = {:?} }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[workspace]\n",
        root.join("crates/leasehold"),
    );
    fs::write(project.join("Cargo.toml"), manifest)?;
    fs::write(project.join("src/main.rs"), PROGRAM)?;
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock"))?;
    Ok(())
}

/// Returns the number of crates that the project builds besides its own.
fn crates(project: &Path) -> Result<usize> {
    let arguments = ["tree", "--prefix", "none", "--edges", "normal,build", "--no-dedupe", "--format", "{p}"];
    let tree = shell::output(shell::cargo(&arguments)?.current_dir(project))?;
    let mut crates: Vec<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    crates.sort_unstable();
    crates.dedup();
    Ok(crates.len() - 1)
}

/// Returns the processor seconds of all programs that this one has run to their end, with those that they ran.
fn cpu_of_children() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("the processor time needs Linux")?;
    let after_name = stat.rsplit_once(')').context("a line of /proc/self/stat has a name")?.1;
    // The fields 16 and 17, of which the third comes first here.
    let ticks = after_name.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS)
}
