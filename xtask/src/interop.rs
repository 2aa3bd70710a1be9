//! The Java process that the interop tests drive: its requirements and its build.
//!
//! Invariant: a jar that this module returns is newer than all of its sources.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::apt::Machine;
use crate::shell::{root, run};

/// The oldest Java that can build the project.
const OLDEST: u32 = 17;
/// The packages of a JDK and of Maven on Debian and its derivatives.
pub(crate) const PACKAGES: [&str; 2] = ["openjdk-17-jdk-headless", "maven"];
const PROJECT: &str = "interop/redisson";
const JAR: &str = "target/redisson-peer.jar";

/// Names the program that this machine lacks to build and run the Java process, and the way to install it. Returns
/// `None` if all are present.
pub(crate) fn missing(machine: &impl Machine) -> Option<String> {
    let compiler = machine.output_of("javac", &["-version"]);
    let version = compiler.as_deref().and_then(major_version);
    let what = match version {
        Some(version) if version < OLDEST => format!("the JDK is Java {version}, and {OLDEST} is needed"),
        None => format!("no JDK is on PATH (javac, {OLDEST} or later)"),
        Some(_) if machine.output_of("java", &["-version"]).is_none() => "no java is on PATH".to_owned(),
        Some(_) if machine.output_of("mvn", &["--version"]).is_none() => {
            "no Maven is on PATH (mvn)".to_owned()
        }
        Some(_) => return None,
    };
    Some(format!("{what}; on Debian `apt-get install {}` brings all of it", PACKAGES.join(" ")))
}

/// Returns the class path of the program with a release of Redisson: the jar, built first when a source is newer, and
/// the libraries of that release, fetched when they are missing.
pub(crate) fn class_path(release: &str) -> Result<OsString> {
    let project = root()?.canonicalize()?.join(PROJECT);
    let jar = jar(&project)?;
    let libraries = project.join("target").join(format!("lib-{release}"));
    // The final name means a complete folder, because an interrupted download leaves only the `.partly` folder.
    if !libraries.is_dir() {
        let partly = project.join("target").join(format!("lib-{release}.partly"));
        let version = format!("-Dredisson.version={release}");
        let folder = format!("-DoutputDirectory={}", partly.display());
        let words = ["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", &version, &folder];
        run(Command::new("mvn").args(words).current_dir(&project))?;
        fs::rename(&partly, &libraries)?;
    }
    Ok(env::join_paths([jar, libraries.join("*")])?)
}

/// Returns the jar, built first when a source is newer.
fn jar(project: &Path) -> Result<PathBuf> {
    let jar = project.join(JAR);
    let built = fs::metadata(&jar).and_then(|jar| jar.modified()).ok();
    let changed = changed(&project.join("src"))?.max(changed(&project.join("pom.xml"))?);
    if built.is_none_or(|built| built < changed) {
        run(Command::new("mvn").args(["-q", "-B", "package"]).current_dir(project))?;
    }
    Ok(jar)
}

/// Returns the time of the last change of a file, or of the latest entry below a folder.
fn changed(path: &Path) -> Result<SystemTime> {
    let mut latest = fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .with_context(|| format!("cannot read {}", path.display()))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            latest = latest.max(changed(&entry?.path())?);
        }
    }
    Ok(latest)
}

/// Reads `javac 17.0.15` as 17, and `javac 1.8.0_402` as 8.
fn major_version(printed: &str) -> Option<u32> {
    let number = printed.split_whitespace().nth(1)?;
    let mut parts = number.split(['.', '-', '_']).map(str::parse);
    match parts.next()?.ok()? {
        1 => parts.next()?.ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    /// A machine whose compiler prints this version, with these other programs.
    struct FakeMachine(Option<&'static str>, &'static [&'static str]);

    impl Machine for FakeMachine {
        fn output_of(&self, program: &str, _arguments: &[&str]) -> Option<String> {
            match program {
                "javac" => self.0.map(str::to_owned),
                "id" => Some("0\n".to_owned()),
                other => self.1.contains(&other).then(String::new),
            }
        }

        fn run(&self, _words: &[&str]) -> Result<()> {
            bail!("this test installs nothing")
        }
    }

    #[test]
    fn missing_tools_are_named_with_their_packages() {
        let said = |compiler, programs| missing(&FakeMachine(compiler, programs)).unwrap();
        assert!(said(None, &["java", "mvn"]).contains("no JDK"));
        assert!(said(Some("javac 11.0.2"), &["java", "mvn"]).contains("Java 11, and 17 is needed"));
        assert!(said(Some("javac 17.0.15"), &["java"]).contains("no Maven"));
        assert!(said(None, &[]).contains("apt-get install openjdk-17-jdk-headless maven"));
        assert_eq!(missing(&FakeMachine(Some("javac 21"), &["java", "mvn"])), None);
    }

    #[test]
    fn old_and_new_version_formats_are_parsed() {
        assert_eq!(major_version("javac 17.0.15\n"), Some(17));
        assert_eq!(major_version("javac 1.8.0_402"), Some(8));
        assert_eq!(major_version("javac 22-ea"), Some(22));
        assert_eq!(major_version("usage"), None);
    }
}
