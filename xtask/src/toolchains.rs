//! The builds of programs on other libraries, one for each language, with the versions that their lock files pin.
//!
//! Invariant: builds write below `target` alone. Tools that write beside their manifest work on a copy.

pub(crate) mod versions;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{output, root};

/// A language of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    Rust,
    Go,
    Java,
    Node,
    Python,
}

impl Language {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::Java => "Java",
            Self::Node => "Node",
            Self::Python => "Python",
        }
    }

    /// Returns the name of its folder below those of all languages.
    fn folder(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    /// Returns the packages of its tools on Debian and its derivatives.
    pub(crate) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["rustc", "cargo"],
            Self::Go => &["golang"],
            Self::Java => &["openjdk-17-jdk-headless", "maven"],
            Self::Node => &["nodejs", "npm"],
            Self::Python => &["python3", "python3-venv"],
        }
    }

    /// Returns a command for each of its tools. The first one prints the version of the language.
    fn tools(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Rust => &[&["rustc", "--version"], &["cargo", "--version"]],
            Self::Go => &[&["go", "version"]],
            Self::Java => &[&["java", "--version"], &["javac", "--version"], &["mvn", "--version"]],
            Self::Node => &[&["node", "--version"], &["npm", "--version"]],
            // A Python of Debian without python3-venv makes no environment.
            Self::Python => &[&["python3", "--version"], &["python3", "-c", "import ensurepip, venv"]],
        }
    }

    /// Returns true if all of its tools run.
    pub(crate) fn is_installed(self) -> bool {
        self.tools().iter().all(|words| output(Command::new(words[0]).args(&words[1..])).is_ok())
    }

    /// Returns the command that prints the version of its tool.
    pub(crate) fn version(self) -> Command {
        let words = self.tools()[0];
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    }
}

/// The folders of the sources and of the builds.
pub(crate) struct Workshop {
    pub(crate) root: PathBuf,
    /// The folder of everything that the verb makes.
    pub(crate) folder: PathBuf,
    /// The folder of the sources, from the root.
    sources: &'static str,
    profile: Profile,
}

/// The way in which Rust is built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Profile {
    /// Built in less time, for tests.
    Dev,
    Release,
}

impl Workshop {
    /// Opens the workshop for these sources. It makes everything in a folder below `target`.
    pub(crate) fn new(sources: &'static str, folder: &str, profile: Profile) -> Result<Self> {
        let root = root()?.canonicalize()?;
        let folder = root.join("target").join(folder);
        fs::create_dir_all(&folder)?;
        Ok(Self { root, folder, sources, profile })
    }

    /// Returns the folder of a language's sources.
    pub(crate) fn sources(&self, language: Language) -> PathBuf {
        self.root.join(self.sources).join(language.folder())
    }

    fn built(&self, language: Language) -> PathBuf {
        self.folder.join(language.folder())
    }

    /// Returns the short name of the commit, with a mark if files differ from it.
    pub(crate) fn commit(&self) -> Result<String> {
        let words = ["describe", "--always", "--dirty", "--exclude=*"];
        Ok(output(Command::new("git").args(words).current_dir(&self.root))?.trim().to_owned())
    }

    /// Builds all programs of a language.
    pub(crate) fn build(&self, language: Language) -> Result<()> {
        let (sources, built) = (self.sources(language), self.built(language));
        fs::create_dir_all(&built)?;
        let mut command = match language {
            Language::Rust => {
                let mut cargo = crate::shell::cargo(&["build", "--locked", "--quiet", "--profile"])?;
                cargo.arg(self.profile.name()).arg("--target-dir").arg(&built).current_dir(&sources);
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
        output(&mut command).map(drop).with_context(|| format!("the programs in {}", language.name()))
    }

    /// Returns the command that runs a program of a language: a main class in Java.
    pub(crate) fn command(&self, language: Language, program: &str) -> Command {
        let built = self.built(language);
        match language {
            Language::Rust => Command::new(built.join(self.profile.folder()).join(program)),
            Language::Go => Command::new(built.join(program)),
            Language::Java => {
                let mut java = Command::new("java");
                let mut path = OsString::from(built.join("target/*"));
                path.push(":");
                path.push(built.join("target/lib/*"));
                java.arg("-cp").arg(path).arg(program);
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

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
        }
    }

    /// Returns the folder of its programs.
    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
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
