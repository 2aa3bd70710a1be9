//! The builds of the contenders, one for each language.
//!
//! Invariant: builds write below `target/peers` alone. Tools that write beside their manifest work on a copy.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{output, root};

/// A language of contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Language {
    Rust,
    Go,
    Java,
    Node,
    Python,
}

impl Language {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::Java => "Java",
            Self::Node => "Node",
            Self::Python => "Python",
        }
    }

    /// Returns the name of its folder below `bench/peers`.
    fn folder(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    /// Returns the command that prints the version of its tool.
    pub(super) fn version(self) -> Command {
        let (program, argument) = match self {
            Self::Rust => ("rustc", "--version"),
            Self::Go => ("go", "version"),
            Self::Java => ("java", "--version"),
            Self::Node => ("node", "--version"),
            Self::Python => ("python3", "--version"),
        };
        let mut command = Command::new(program);
        command.arg(argument);
        command
    }
}

/// The folders of the sources and of the builds.
pub(super) struct Workshop {
    pub(super) root: PathBuf,
    /// The folder of everything that the verb makes.
    pub(super) folder: PathBuf,
}

impl Workshop {
    pub(super) fn new() -> Result<Self> {
        let root = root()?.canonicalize()?;
        let folder = root.join("target/peers");
        fs::create_dir_all(&folder)?;
        Ok(Self { root, folder })
    }

    /// Returns the folder of a language's sources.
    pub(super) fn sources(&self, language: Language) -> PathBuf {
        self.root.join("bench/peers").join(language.folder())
    }

    fn built(&self, language: Language) -> PathBuf {
        self.folder.join(language.folder())
    }

    /// Returns the short name of the commit, with a mark if files differ from it.
    pub(super) fn commit(&self) -> Result<String> {
        let words = ["describe", "--always", "--dirty", "--exclude=*"];
        Ok(output(Command::new("git").args(words).current_dir(&self.root))?.trim().to_owned())
    }

    /// Builds all contenders of a language.
    pub(super) fn build(&self, language: Language) -> Result<()> {
        let (sources, built) = (self.sources(language), self.built(language));
        fs::create_dir_all(&built)?;
        let mut command = match language {
            Language::Rust => {
                let mut cargo = crate::shell::cargo(&["build", "--release", "--locked", "--quiet"])?;
                cargo.arg("--target-dir").arg(&built).current_dir(&sources);
                cargo
            }
            Language::Go => {
                let mut go = Command::new("go");
                let folder = slashed(&built);
                go.args(["build", "-mod=readonly", "-o"]).arg(folder).arg("./...").current_dir(&sources);
                go
            }
            Language::Java => {
                copy(&sources, &built)?;
                let mut maven = Command::new("mvn");
                maven.args(["-q", "-B", "package"]).current_dir(&built);
                maven
            }
            Language::Node => {
                copy(&sources, &built)?;
                let mut npm = Command::new("npm");
                npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&built);
                npm
            }
            Language::Python => {
                output(Command::new("python3").args(["-m", "venv"]).arg(&built))?;
                let mut pip = Command::new(python(&built));
                pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
                pip.args(["--require-hashes", "-r"]).arg(sources.join("requirements.txt"));
                pip
            }
        };
        output(&mut command).map(drop).with_context(|| format!("the {} contenders", language.name()))
    }

    /// Returns the command that runs a program of a language.
    pub(super) fn command(&self, language: Language, program: &str) -> Command {
        let built = self.built(language);
        match language {
            Language::Rust => Command::new(built.join("release").join(program)),
            Language::Go => Command::new(built.join(program)),
            Language::Java => {
                let mut java = Command::new("java");
                let mut path = OsString::from(built.join("target/redisson-contender.jar"));
                path.push(":");
                path.push(built.join("target/lib/*"));
                java.arg("-cp").arg(path).arg("leasehold.peers.Main");
                java
            }
            Language::Node => {
                let mut node = Command::new("node");
                node.arg(built.join(program));
                node
            }
            Language::Python => {
                let mut interpreter = Command::new(python(&built));
                // The sources stay where they are, and get no folder of compiled files.
                interpreter.arg("-B").arg(self.sources(language).join(program));
                interpreter
            }
        }
    }
}

fn python(built: &Path) -> PathBuf {
    built.join("bin/python")
}

/// Returns a path that names a folder, because `go build` takes another path for the name of a program.
fn slashed(folder: &Path) -> OsString {
    let mut path = OsString::from(folder);
    path.push("/");
    path
}

/// Copies the files of a folder over those of another.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
