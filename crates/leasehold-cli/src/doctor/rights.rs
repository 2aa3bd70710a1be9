//! Finds the rights that a user lacks, with `ACL DRYRUN` over the rules of a minimal user.

use leasehold_store::redis::wire::Answer;

use super::facts::{Known, Rights};

/// The largest number of arguments to try for a command. `ACL DRYRUN` refuses a wrong number of them.
const ARGUMENTS_MAX: usize = 6;

/// The questions about one rule, any of which may have the right number of arguments.
#[derive(Debug)]
pub(crate) struct Question {
    rule: String,
    commands: Vec<Vec<String>>,
}

/// Returns the questions about the rules, which are in the notation of `ACL SETUSER`.
pub(crate) fn questions(rules: &str) -> Vec<Question> {
    let words: Vec<&str> = rules.split_whitespace().collect();
    let sample = |sign| words.iter().find_map(|word| word.strip_prefix(sign)).map(sampled);
    let (key, channel) = (sample('~').unwrap_or_default(), sample('&').unwrap_or_default());
    let runs_scripts = words.contains(&"+eval");
    let publish = if words.contains(&"+spublish") { "spublish" } else { "publish" };
    let of_rule = |word: &&str| {
        let commands = match word.split_at_checked(1)? {
            ("+", command) => of_command(command, &key, &channel),
            // Every user may run scripts, and not every one may delete.
            ("~", pattern) if runs_scripts => vec![words_of(&["eval", "", "1", &sampled(pattern)])],
            ("~", pattern) => vec![words_of(&["del", &sampled(pattern)])],
            ("&", pattern) => vec![words_of(&[publish, &sampled(pattern), ""])],
            _ => return None,
        };
        Some(Question { rule: (*word).to_owned(), commands })
    };
    words.iter().filter_map(of_rule).collect()
}

/// Returns the question about one command on a key of the rules.
pub(crate) fn question(command: &str, rules: &str) -> Vec<Question> {
    let key = rules.split_whitespace().find(|word| word.starts_with('~')).unwrap_or_default();
    questions(&format!("+{command} {key}")).into_iter().take(1).collect()
}

/// Returns a name that matches the pattern.
fn sampled(pattern: &str) -> String {
    let mut sample = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => sample.extend(letters.next()),
            '*' => sample.push_str("doctor"),
            letter => sample.push(letter),
        }
    }
    sample
}

fn of_command(command: &str, key: &str, channel: &str) -> Vec<Vec<String>> {
    let name: Vec<&str> = command.split('|').collect();
    let argument = match command {
        "eval" | "evalsha" => return vec![words_of(&[command, "", "1", key])],
        _ if command.ends_with("publish") || command.ends_with("subscribe") => channel,
        _ => key,
    };
    let with = |count| words_of(&[name.as_slice(), &vec![argument; count]].concat());
    (0..=ARGUMENTS_MAX).map(with).collect()
}

fn words_of(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns all commands to ask as this user.
pub(crate) fn commands<'a>(user: &'a str, questions: &'a [Question]) -> Vec<Vec<&'a str>> {
    let commands = questions.iter().flat_map(|question| &question.commands);
    let dry = |words: &'a Vec<String>| {
        ["acl", "dryrun", user].into_iter().chain(words.iter().map(String::as_str)).collect()
    };
    commands.map(dry).collect()
}

/// The beginnings of rules of locks without which every promise still holds.
const OPTIONAL: [&str; 3] = ["+pubsub|", "+client|caching", "+client|tracking"];

/// Reads the answers to [`commands`]. `needed` are the rules without which a lock does not work as it should.
pub(crate) fn read(user: &str, questions: &[Question], needed: &str, answers: Vec<Answer>) -> Known<Rights> {
    let mut answers = answers.into_iter();
    let mut missing = Vec::new();
    for question in questions {
        let own: Vec<_> = answers.by_ref().take(question.commands.len()).collect();
        if own.iter().any(|answer| matches!(answer, Answer::Error(text) if text.starts_with("NOPERM"))) {
            return Known::Denied;
        }
        match is_allowed(&own) {
            Some(true) => {}
            Some(false) => missing.push(question.rule.clone()),
            None => return Known::Missing,
        }
    }
    let is_needed = |rule: &str| needed.split_whitespace().any(|needed| needed == rule);
    let is_optional =
        |rule: &&String| OPTIONAL.iter().any(|beginning| rule.starts_with(beginning)) || !is_needed(rule);
    let optional = missing.iter().filter(is_optional).cloned().collect();
    Known::Answered(Rights { user: user.to_owned(), missing, optional })
}

/// Reads the answers to one question: true if any form of the command is allowed, and `None` if the server has no such
/// command.
pub(crate) fn is_allowed(answers: &[Answer]) -> Option<bool> {
    let says =
        |is: fn(&str) -> bool| answers.iter().any(|answer| matches!(answer, Answer::Text(text) if is(text)));
    match (says(|text| text == "OK"), says(|text| text.contains("no permissions"))) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Answer {
        Answer::Text(text.to_owned())
    }

    #[test]
    fn a_rule_is_missing_if_no_form_of_it_is_allowed() {
        let questions = questions("resetkeys -@all +evalsha ~app:* &c:{app:*}");
        let rules: Vec<_> = questions.iter().map(|question| question.rule.as_str()).collect();
        assert_eq!(rules, ["+evalsha", "~app:*", "&c:{app:*}"]);
        let asked = commands("me", &questions);
        assert_eq!(asked[0], ["acl", "dryrun", "me", "evalsha", "", "1", "app:doctor"]);
        assert_eq!(asked[2], ["acl", "dryrun", "me", "publish", "c:{app:doctor}", ""]);
        let refused = "User me has no permissions to access the 'app:doctor' key";
        let answers = || vec![text("OK"), text(refused), text("OK")];
        let read = |needed| read("me", &questions, needed, answers()).answered().unwrap().clone();
        assert_eq!((read("~app:*").missing, read("~app:*").optional.len()), (vec!["~app:*".to_owned()], 0));
        assert_eq!(read("+evalsha").optional, ["~app:*"], "only operators miss it");
    }

    #[test]
    fn a_command_that_the_server_does_not_have_is_neither_allowed_nor_refused() {
        let question = question("delifeq", "resetkeys -@all +get ~app:* ~other:*");
        let asked = commands("me", &question);
        assert!(
            asked.contains(&vec!["acl", "dryrun", "me", "delifeq", "app:doctor", "app:doctor"]),
            "{asked:?}"
        );
        let arity = || Answer::Error("ERR wrong number of arguments for 'delifeq' command".to_owned());
        let refused = "User me has no permissions to run the 'delifeq' command";
        assert_eq!(is_allowed(&[arity(), text("OK"), arity()]), Some(true));
        assert_eq!(is_allowed(&[arity(), text(refused)]), Some(false));
        assert_eq!(is_allowed(&[Answer::Error("ERR Command 'delifeq' not found".to_owned())]), None);
    }

    #[test]
    fn no_rights_to_ask_and_no_such_command_are_told_apart() {
        let questions = questions("+evalsha");
        let error = |text: &str| vec![Answer::Error(text.to_owned())];
        assert_eq!(read("me", &questions, "", error("NOPERM no")), Known::Denied);
        assert_eq!(read("me", &questions, "", error("ERR unknown subcommand")), Known::Missing);
    }
}
