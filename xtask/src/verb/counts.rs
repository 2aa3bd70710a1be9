//! `cargo x counts`: the instructions of the engine and the wire for each operation, compared with a table.
//!
//! Invariant: an operation without a row, a row without an operation and a count above its limit fail the verb. The
//! counts depend on the compiler and the features of the processor, and not on the load of the machine.

mod table;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::shell::{cargo, root, run as run_command};
use table::{Counts, Margin, Row};

/// The benchmarks: `benches/instructions` of each package, and that of the client once without observers and once with metrics.
const BENCHES: [&[&str]; 3] = [
    &["-p", "leasehold-proto", "-p", "leasehold-store"],
    &["-p", "leasehold", "--features", "unstable-store"],
    &["-p", "leasehold", "--features", "unstable-store,metrics"],
];
/// The file of the table.
const TABLE: &str = "xtask/counts.txt";
/// The C library copies memory with other instructions on each kind of processor, up to 14 % of a count. This leaves the
/// instructions that each x86-64 has.
const ENVIRONMENT: &str =
    "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-ERMS,-FSRM,-SSE4_1,-SSSE3,-AVX_Fast_Unaligned_Load";
/// The argument that writes the counts into the table.
const REFRESH: &str = "--refresh";

/// Counts the instructions, prints them beside their limits, and fails if one is above.
///
/// `cargo x counts --refresh` writes the counts into the table, for a change that is worth its instructions.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let refreshes = match arguments {
        [] => false,
        [refresh] if refresh == REFRESH => true,
        _ => bail!("this verb takes {REFRESH} or nothing"),
    };
    let counts = count()?;
    let tools = tools::versions()?;
    let path = root()?.join(TABLE);
    if refreshes {
        fs::write(&path, counts.to_text(&tools))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (expected, of_table) = Counts::parse(&text)?;
    let margin = Margin::between(&of_table, &tools);
    if margin == Margin::OtherTools {
        println!("the table was counted with {of_table}, and this is {tools}");
    }
    let rows = expected.compare(&counts, margin);
    println!("\n{}", table::HEADER);
    rows.iter().for_each(|row| println!("{row}"));
    let bad: Vec<&str> = rows.iter().filter(|row| row.is_bad()).map(Row::operation).collect();
    ensure!(
        bad.is_empty(),
        "not as in {TABLE}: {}; if a change is worth it, `cargo x counts {REFRESH}` writes the table",
        bad.join(", ")
    );
    Ok(())
}

/// Runs the benchmarks and returns the count of each operation.
fn count() -> Result<Counts> {
    tools::ensure_valgrind()?;
    let runner = tools::ensure_runner()?;
    let home = root()?.join("target/gungraun");
    // The results of earlier runs would be read as results of this one.
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("cannot remove {}", home.display()))?;
    }
    for packages in BENCHES {
        let mut bench = cargo(&["bench", "--locked", "--bench", "instructions"])?;
        bench.args(packages).env("GUNGRAUN_RUNNER", &runner).env("GUNGRAUN_HOME", &home);
        run_command(bench.env("GUNGRAUN_SAVE_SUMMARY", "json").env("GUNGRAUN_ENVS", ENVIRONMENT))?;
    }
    let mut counts = Counts::default();
    for path in summaries(&home)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let (operation, instructions) =
            read_summary(&text).with_context(|| format!("{} is no summary", path.display()))?;
        counts.add(operation, instructions)?;
    }
    Ok(counts)
}

/// Returns the files below a folder that gungraun writes, one for each operation.
fn summaries(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(summaries(&path)?);
        } else if path.ends_with("summary.json") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Reads the operation and its instructions.
fn read_summary(text: &str) -> Result<(String, u64)> {
    let summary: Value = serde_json::from_str(text)?;
    let word = |field: &str| summary[field].as_str().with_context(|| format!("no {field}"));
    let operation = format!("{} {} {}", word("group")?, word("function_name")?, word("id")?);
    let metrics = &summary["profiles"][0]["data"]["total"]["metrics"];
    let instructions = metrics["Ir"]["values"]["new"].as_u64().context("no instructions")?;
    Ok((operation, instructions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_its_operation_and_instructions() {
        let text = r#"{"group": "engine", "function_name": "acquire", "id": "uncontended", "profiles": [
            {"data": {"total": {"metrics": {"Ir": {"values": {"new": 1234, "old": 1}}}}}}]}"#;
        assert_eq!(read_summary(text).unwrap(), ("engine acquire uncontended".to_owned(), 1234));
        assert!(read_summary(&text.replace("Ir", "Dr")).is_err());
    }
}
