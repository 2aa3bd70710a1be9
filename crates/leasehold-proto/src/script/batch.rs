//! The script of a batch: calls of one script, or of two, that travel as one command.
//!
//! Invariant: the text depends on the scripts, on their numbers of inputs, and on which arguments all rows share. No name,
//! owner or other value is in it.
//!
//! # How it works
//! The text of each script is a function. The inputs of a row are put into tables that all rows of a script use, by one
//! line with the places written out, because a loop over places and a closure for each row cost a server more than half of
//! what the commands of a short script cost. The arguments that all rows share stay in the tables.

use std::fmt::Write;

use crate::script::Script;

/// The text that begins the function of the first script.
const ROW: &str = include_str!("../../scripts/batch/row.lua");
/// The text that ends that function, and begins the function of the second script.
const OTHER: &str = include_str!("../../scripts/batch/other.lua");
/// The text that ends the last function, before the tables of inputs.
const ROWS: &str = include_str!("../../scripts/batch/rows.lua");
/// The text that begins the loop over the rows.
const EACH: &str = include_str!("../../scripts/batch/each.lua");
/// The text that ends the loop.
const REPLIES: &str = include_str!("../../scripts/batch/replies.lua");

/// One script of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchPart {
    /// The script, which does not run [alone](Script::is_alone).
    pub script: &'static Script,
    /// The number of keys of each row.
    pub keys: usize,
    /// The number of arguments of each row, at most [`BATCH_ARGS_MAX`].
    pub args: usize,
    /// The arguments that all rows share, the first one in the lowest bit.
    pub shared: u64,
}

/// The most arguments of a row.
pub const BATCH_ARGS_MAX: usize = 64;

impl BatchPart {
    /// Returns what two batches of one text have in common.
    #[must_use]
    pub fn key(&self) -> (&'static str, usize, usize, u64) {
        (self.script.sha1(), self.keys, self.args, self.shared)
    }

    fn shares(&self, index: usize) -> bool {
        self.shared >> index & 1 == 1
    }

    const fn shared_count(&self) -> usize {
        self.shared.count_ones() as usize
    }

    /// Writes the tables of inputs. The shared arguments begin behind `before` others.
    fn write_tables(&self, out: &mut String, digit: usize, before: usize) -> std::fmt::Result {
        let mut place = before;
        write!(out, "local keys{digit}, args{digit} = {{}}, {{")?;
        for index in 0..self.args {
            if self.shares(index) {
                place += 1;
                write!(out, "ARGV[{place}], ")?;
            } else {
                write!(out, "'', ")?;
            }
        }
        writeln!(out, "}}")
    }

    /// Writes the lines that fill the tables for a row and run it.
    fn write_row(&self, out: &mut String, digit: usize) -> std::fmt::Result {
        for place in 1..=self.keys {
            writeln!(out, "keys{digit}[{place}] = KEYS[key + {place}]")?;
        }
        let own = (0..self.args).filter(|index| !self.shares(*index)).map(|index| index + 1);
        let own: Vec<usize> = own.collect();
        for (from, place) in (1..).zip(&own) {
            writeln!(out, "args{digit}[{place}] = ARGV[arg + {from}]")?;
        }
        writeln!(out, "key, arg = key + {}, arg + {}", self.keys, own.len())?;
        writeln!(out, "ended, reply = pcall(run{digit}, keys{digit}, args{digit})")
    }
}

/// A script that runs several calls of one or two other scripts, each as a row. An error of a row is that row's reply.
///
/// KEYS are the keys of all rows. ARGV begins with a text of digits, which name the script of each row, 1 or 2. The number
/// of keys and a mask of the arguments follow for each script, then the arguments that all rows of a script share (1 in the
/// mask), and then the other arguments of each row. The reply is an array with the reply or the error of each row.
#[derive(Debug)]
pub struct Batch {
    source: String,
    sha1: String,
}

impl Batch {
    /// Creates the batch of a script, or of two scripts.
    #[must_use]
    pub fn of(first: BatchPart, second: Option<BatchPart>) -> Self {
        Self::with(text(first, second).expect("a text takes all that is written to it"))
    }

    /// Reads the text of a batch, or returns `None` for another text.
    #[must_use]
    pub fn read(source: &str) -> Option<Self> {
        scripts(source).map(|_| Self::with(source.to_owned()))
    }

    fn with(source: String) -> Self {
        let sha1 = sha1_smol::Sha1::from(&source).hexdigest();
        Self { source, sha1 }
    }

    /// Returns the text of the script, as the client sends it.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the script's SHA-1 in lower-case hex, for EVALSHA.
    #[must_use]
    pub fn sha1(&self) -> &str {
        &self.sha1
    }

    /// Returns the texts of its scripts, in the order of their digits.
    #[must_use]
    pub fn scripts(&self) -> Option<(&str, Option<&str>)> {
        scripts(&self.source)
    }
}

fn scripts(source: &str) -> Option<(&str, Option<&str>)> {
    let (functions, _) = source.strip_prefix(ROW)?.split_once(ROWS)?;
    let (first, second) = functions.split_once(OTHER).unzip();
    Some((first.unwrap_or(functions), second))
}

fn text(first: BatchPart, second: Option<BatchPart>) -> Result<String, std::fmt::Error> {
    let mut out = format!("{ROW}{}", first.script.source());
    if let Some(second) = &second {
        write!(out, "{OTHER}{}", second.script.source())?;
    }
    out.push_str(ROWS);
    let heads = 1 + 2 * (1 + usize::from(second.is_some()));
    first.write_tables(&mut out, 1, heads)?;
    let mut before = heads + first.shared_count();
    if let Some(second) = &second {
        second.write_tables(&mut out, 2, before)?;
        before += second.shared_count();
    }
    writeln!(out, "local arg = {before}")?;
    out.push_str(EACH);
    if let Some(second) = &second {
        writeln!(out, "if byte(order, row) == 50 then")?;
        second.write_row(&mut out, 2)?;
        writeln!(out, "else")?;
        first.write_row(&mut out, 1)?;
        writeln!(out, "end")?;
    } else {
        first.write_row(&mut out, 1)?;
    }
    out.push_str(REPLIES);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Verb;

    static TAKE: Script = Script::new(Verb::Acquire, "return KEYS[1]\n");
    static LEAVE: Script = Script::new(Verb::Release, "return ARGV[2]\n");

    #[test]
    fn the_inputs_of_each_row_have_their_places_written_out() {
        let take = BatchPart { script: &TAKE, keys: 2, args: 2, shared: 0b10 };
        let leave = BatchPart { script: &LEAVE, keys: 1, args: 3, shared: 0b001 };
        let batch = Batch::of(take, Some(leave));
        assert_eq!(batch.scripts(), Some((TAKE.source(), Some(LEAVE.source()))));
        let tables = "local keys1, args1 = {}, {'', ARGV[6], }\n\
            local keys2, args2 = {}, {ARGV[7], '', '', }\nlocal arg = 7\n";
        let leaves = "if byte(order, row) == 50 then\nkeys2[1] = KEYS[key + 1]\nargs2[2] = ARGV[arg + 1]\n\
            args2[3] = ARGV[arg + 2]\nkey, arg = key + 1, arg + 2\nended, reply = pcall(run2, keys2, args2)\nelse\n";
        for part in [tables, leaves, "args1[1] = ARGV[arg + 1]\nkey, arg = key + 2, arg + 1\n"] {
            assert!(batch.source().contains(part), "{part} is not in {}", batch.source());
        }
    }

    #[test]
    fn a_batch_of_one_script_asks_for_no_digit() {
        let batch = Batch::of(BatchPart { script: &TAKE, keys: 1, args: 0, shared: 0 }, None);
        assert!(!batch.source().contains("== 50"));
        assert_eq!(Batch::read(batch.source()).unwrap().scripts(), Some((TAKE.source(), None)));
        assert!(Batch::read(TAKE.source()).is_none());
    }
}
