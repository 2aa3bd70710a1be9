//! Reads a configuration from a file; a variable and the program override it.
//!
//! `cargo run -p leasehold --all-features --example config`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use leasehold::config::Config;

const FILE: &str = r#"
url = "memory://"
key_prefix = "shop:"
watchdog = "10s"

[fair_lock]
max_hold = "5m"
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("leasehold-example-{}.toml", std::process::id()));
    std::fs::write(&path, FILE)?;
    let config = Config::builder()
        .file(&path)
        .variables([("LEASEHOLD_FAIR_LOCK__MAX_HOLD", "1h30m")]) // a program calls `.environment()`
        .timeout(Duration::from_secs(2))
        .build();
    std::fs::remove_file(&path)?;
    let config = config?;
    println!("{config}");

    let client = config.connect().await?;
    let guard = client.fair_lock("till").lock().await?;
    println!("{} is held for another {:?}", guard.name(), guard.remaining());
    guard.release().await?;

    // The error names the two values that contradict each other.
    if let Err(error) = Config::builder().url("memory://").watchdog(Duration::from_secs(1)).build() {
        println!("refused: {error}");
    }
    Ok(())
}
