//! Tables for terminals.
//!
//! Invariant: a cell has no control character and no letter that changes the direction of text, so no name can control
//! the terminal. A table fits the terminal as long as its columns can shrink.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use rustix::termios::tcgetwinsize;

/// When to use colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// The form of the output: its width, and whether it has colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// The letters of a line, or `None` where lines have no end.
    pub(crate) width: Option<usize>,
    pub(crate) has_color: bool,
}

impl Style {
    /// Returns the style of stdout.
    pub(crate) fn of_stdout(color: Color) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let size = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
        let width = size.filter(|width| is_terminal && *width > 0);
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let has_color = match color {
            Color::Auto => is_terminal && !is_plain,
            Color::Always => true,
            Color::Never => false,
        };
        Self { width, has_color }
    }

    /// Returns the text in bold.
    pub(crate) fn bold(self, text: &str) -> String {
        self.painted("1", text)
    }

    /// Returns the text as a warning.
    pub(crate) fn warning(self, text: &str) -> String {
        self.painted("33", text)
    }

    fn painted(self, code: &str, text: &str) -> String {
        if self.has_color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// The letters to which it may shrink.
    pub(crate) least: usize,
    /// The column with the largest number goes first when the terminal is narrow. 0 stays.
    pub(crate) gives_way: u8,
    /// True for numbers and times, which end at the right.
    pub(crate) is_right: bool,
}

/// The letters between two columns.
const GAP: usize = 2;

/// Returns the table. Columns without any text are left out, and so are those that give way.
pub(crate) fn table(columns: &[Column], rows: &[Vec<String>], style: Style) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let natural = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(columns[column].title.len())
    };
    let has_text = |column: &usize| rows.is_empty() || rows.iter().any(|row| !row[*column].is_empty());
    let mut shown: Vec<(usize, usize)> =
        (0..columns.len()).filter(has_text).map(|column| (column, natural(column))).collect();
    if let Some(width) = style.width {
        fit(&mut shown, columns, width);
    }
    let mut text = String::new();
    let titles: Vec<_> = columns.iter().map(|column| column.title.to_owned()).collect();
    let header = line(&titles, &shown, columns);
    let _ = writeln!(text, "{}", style.bold(&header));
    for row in &rows {
        let _ = writeln!(text, "{}", line(row, &shown, columns));
    }
    text
}

/// Shrinks the columns, and leaves some out, until they fit.
fn fit(shown: &mut Vec<(usize, usize)>, columns: &[Column], width: usize) {
    let total = |shown: &[(usize, usize)]| {
        shown.iter().map(|(_, width)| width).sum::<usize>() + GAP * shown.len().saturating_sub(1)
    };
    loop {
        let excess = total(shown).saturating_sub(width);
        let slack: usize =
            shown.iter().map(|(column, width)| width.saturating_sub(columns[*column].least)).sum();
        if excess <= slack {
            break;
        }
        let next = shown.iter().enumerate().max_by_key(|(_, (column, _))| columns[*column].gives_way);
        match next {
            Some((place, (column, _))) if columns[*column].gives_way > 0 => _ = shown.remove(place),
            _ => break,
        }
    }
    while total(shown) > width {
        let spare = |(column, width): &(usize, usize)| width.saturating_sub(columns[*column].least);
        match shown.iter_mut().max_by_key(|column| spare(column)) {
            Some(column) if spare(column) > 0 => column.1 -= 1,
            _ => break,
        }
    }
}

fn line(cells: &[String], shown: &[(usize, usize)], columns: &[Column]) -> String {
    let mut text = String::new();
    for (place, (column, width)) in shown.iter().enumerate() {
        if place > 0 {
            text.push_str("  ");
        }
        let cell = cut(&cells[*column], *width);
        if columns[*column].is_right {
            let _ = write!(text, "{cell:>width$}");
        } else {
            let _ = write!(text, "{cell:width$}");
        }
    }
    text.trim_end().to_owned()
}

/// Returns at most this many letters. A cut text ends with an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Returns the text with control characters, line ends and invisible letters escaped.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        let is_invisible = matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if letter.is_control() || is_invisible {
            clean.extend(letter.escape_unicode());
        } else {
            clean.push(letter);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { title: "NAME", least: 8, gives_way: 0, is_right: false },
        Column { title: "KIND", least: 4, gives_way: 2, is_right: false },
        Column { title: "HELD", least: 4, gives_way: 0, is_right: true },
        Column { title: "NOTE", least: 4, gives_way: 3, is_right: false },
    ];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["order:42", "lock", "7m", ""]),
            row(["a-name-of-a-lock-that-is-long", "fair lock", "1.2s", "why"]),
        ]
    }

    fn drawn(width: Option<usize>) -> String {
        table(&COLUMNS, &rows(), Style { width, has_color: false })
    }

    #[test]
    fn a_table_has_the_width_of_its_cells() {
        let expected = "\
NAME                           KIND       HELD  NOTE
order:42                       lock         7m
a-name-of-a-lock-that-is-long  fair lock  1.2s  why
";
        assert_eq!(drawn(None), expected);
        assert_eq!(drawn(Some(80)), expected);
    }

    #[test]
    fn a_narrow_table_shortens_and_then_leaves_columns_out() {
        let narrow = drawn(Some(40));
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        assert!(narrow.contains("NOTE") && narrow.contains('…'), "{narrow}");
        let tiny = drawn(Some(14));
        assert_eq!(tiny, "NAME      HELD\norder:42    7m\na-name-…  1.2s\n");
        assert!(drawn(Some(1)).contains("order:42"), "a table has a least width");
    }

    #[test]
    fn a_hostile_cell_does_nothing_to_the_terminal() {
        assert_eq!(clean("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\\u{a}\\u{202e}b");
        let hostile = vec![vec!["\u{1b}]0;x\u{7}".to_owned(); 4]];
        let drawn = table(&COLUMNS, &hostile, Style { width: Some(60), has_color: false });
        assert!(!drawn.contains('\u{1b}') && !drawn.contains('\u{7}'), "{drawn}");
    }

    #[test]
    fn colors_are_a_choice() {
        let plain = Style { width: None, has_color: false };
        assert_eq!(plain.warning("x"), "x");
        assert_eq!(Style { has_color: true, ..plain }.warning("x"), "\u{1b}[33mx\u{1b}[0m");
    }
}
