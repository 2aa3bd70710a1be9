//! The rule that a folder of sources stays small enough to read its list of files.
//!
//! Invariant: only files directly in a folder count. A folder that is too long already has a ceiling, which may only
//! fall.

use std::collections::BTreeMap;

/// The most Rust files in one folder: one screen of a file tree. The engine's longest folder has 16.
const FILES_MAX: usize = 20;

/// The folders that were longer when the rule came, each with its present number of files.
const LONGER: [(&str, usize); 9] = [
    ("crates/leasehold-cli/src", 31),
    ("crates/leasehold-fleets/src", 22),
    ("crates/leasehold-proto/src", 26),
    ("crates/leasehold-proto/src/recipe", 23),
    ("crates/leasehold-sim/src", 25),
    ("crates/leasehold-sim/src/invariants", 29),
    ("crates/leasehold-store/src/embedded", 23),
    ("crates/leasehold-store/src/redis/wire", 37),
    ("crates/leasehold/src", 23),
];

/// Reports each folder of sources with too many files, and each ceiling that is higher than it has to be.
pub(super) fn long_folders(paths: &[String]) -> Vec<String> {
    judge(paths, &LONGER)
}

fn judge(paths: &[String], longer: &[(&str, usize)]) -> Vec<String> {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths.iter().filter(|path| path.ends_with(".rs")) {
        if let Some((folder, _)) = path.rsplit_once('/')
            && format!("{folder}/").contains("/src/")
        {
            *files.entry(folder).or_default() += 1;
        }
    }
    let ceiling = |folder: &str| longer.iter().find(|(name, _)| *name == folder).map(|(_, files)| *files);
    let long = files.iter().filter_map(|(folder, files)| {
        let most = ceiling(folder).unwrap_or(FILES_MAX);
        (*files > most).then(|| format!("{folder}: {files} files, {most} at most: make a folder in it"))
    });
    let shrunk = longer.iter().filter_map(|(folder, ceiling)| {
        let files = files.get(folder).copied().unwrap_or(0);
        let right = if files > FILES_MAX { files.to_string() } else { "none".to_owned() };
        (files < *ceiling).then(|| {
            format!("{folder}: {files} files, so its ceiling of {ceiling} falls to {right} (tidy/folders.rs)")
        })
    });
    long.chain(shrunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &str, count: usize) -> Vec<String> {
        (0..count).map(|file| format!("{folder}/f{file}.rs")).collect()
    }

    #[test]
    fn a_folder_of_sources_may_have_twenty_files() {
        assert_eq!(judge(&files("crates/x/src/a", 20), &[]), Vec::<String>::new());
        let found = judge(&files("crates/x/src/a", 21), &[]);
        assert_eq!(found, ["crates/x/src/a: 21 files, 20 at most: make a folder in it"]);
        assert_eq!(judge(&files("crates/x/tests/it", 50), &[]), Vec::<String>::new());
        let parts = [files("crates/x/src/a", 15), files("crates/x/src/a/b", 15)].concat();
        assert_eq!(judge(&parts, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_ceiling_may_only_fall() {
        let longer = [("crates/x/src", 25)];
        assert_eq!(judge(&files("crates/x/src", 25), &longer), Vec::<String>::new());
        assert_eq!(judge(&files("crates/x/src", 26), &longer).len(), 1);
        for (count, right) in [(24, "falls to 24"), (20, "falls to none"), (0, "falls to none")] {
            let found = judge(&files("crates/x/src", count), &longer);
            assert!(found.len() == 1 && found[0].contains(right), "{found:?}");
        }
    }
}
