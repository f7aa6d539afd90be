//! Plain text tables and the way numbers look in them. Not here: JSON, which carries numbers
//! unformatted.

use std::fmt::Write as _;

/// Columns of running text that a terminal shows whole.
pub const COLUMNS: usize = 110;

/// Rows of cells under a header; the first column is set left, the others right.
pub struct Table {
    rows: Vec<Vec<String>>,
    left: usize,
    words_last: bool,
}

impl Table {
    /// A table with these column names.
    pub fn new(header: &[&str]) -> Self {
        Self {
            rows: vec![header.iter().map(|&name| name.to_owned()).collect()],
            left: 1,
            words_last: false,
        }
    }

    /// Sets the first `columns` columns left instead of only the first.
    #[must_use]
    pub fn left(mut self, columns: usize) -> Self {
        self.left = columns;
        self
    }

    /// Sets the last column left too, for words.
    #[must_use]
    pub fn words_last(mut self) -> Self {
        self.words_last = true;
        self
    }

    /// Adds a row; it has as many cells as the header.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as lines, two blanks between columns, a rule under the header.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                let width = widths[column];
                let words = self.words_last && column + 1 == columns;
                // Writing to a String cannot fail.
                let _ = if column < self.left || words {
                    write!(line, "{gap}{cell:<width$}")
                } else {
                    write!(line, "{gap}{cell:>width$}")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
                text.push_str(&rules.join("  "));
                text.push('\n');
            }
        }
        text
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {} |", cells.join(" | "));
            if index == 0 {
                let words = |column: usize| self.words_last && column + 1 == columns;
                let left = |column| column < self.left || words(column);
                let rules = (0..columns).map(|it| if left(it) { " --- |" } else { " ---: |" });
                let _ = writeln!(text, "|{}", rules.collect::<String>());
            }
        }
        text
    }
}

/// `1234567` as `1 234 567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1 arm`, `5 arms`, `3 processes`.
pub fn counted(count: usize, thing: &str) -> String {
    let ending = match (count, thing.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {thing}{ending}")
}

/// A duration with the unit that suits its size.
pub fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        0..1_000_000 => format!("{:.0} µs", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", seconds * 1e3),
        1_000_000_000..120_000_000_000 => format!("{seconds:.2} s"),
        _ => format!(
            "{} min {:02} s",
            (seconds / 60.0) as u64,
            (seconds % 60.0) as u64
        ),
    }
}

/// A duration nobody should read to the digit.
pub fn rough_duration(nanoseconds: u64) -> String {
    match nanoseconds.div_ceil(1_000_000_000) {
        0 | 1 => "a second".to_owned(),
        seconds @ 2..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// A size with the unit that suits it.
pub fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x10_0000 => (0x400, "KiB"),
        0x10_0000..0x4000_0000 => (0x10_0000, "MiB"),
        _ => (0x4000_0000, "GiB"),
    };
    format!("{:.1} {name}", bytes as f64 / f64::from(unit))
}

/// Words in lines of at most so many columns; a longer word has a line of its own.
pub fn folded(words: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// An optional cell: a missing value is a dash, never a zero.
pub fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let mut table = Table::new(&["arm", "tokens"]);
        table.row(["naive", "1 320"]);
        table.row(["agent-kv", "9"]);
        assert_eq!(
            table.render(),
            "arm       tokens\n--------  ------\nnaive      1 320\nagent-kv       9\n"
        );
    }

    #[test]
    fn as_markdown_columns_keep_their_side_and_no_cell_ends_early() {
        let mut table = Table::new(&["arm", "tokens", "note"]).words_last();
        table.row(["a|b", "9", "yes"]);
        assert_eq!(
            table.markdown(),
            "| arm | tokens | note |\n| --- | ---: | --- |\n| a\\|b | 9 | yes |\n"
        );
    }

    #[test]
    fn words_are_folded_between_words_and_never_lost() {
        assert_eq!(folded("one two three", 7), ["one two", "three"]);
        assert_eq!(folded(" a  b\nc ", 80), ["a b c"]);
        assert_eq!(folded("longer ones stay", 3), ["longer", "ones", "stay"]);
        assert_eq!(folded("", 3), [""]);
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_100_000), "1 100 000");
        assert_eq!(grouped(u64::MAX), "18 446 744 073 709 551 615");
    }

    #[test]
    fn sizes_pick_their_unit() {
        assert_eq!(size(512), "0.5 KiB");
        assert_eq!(size(3 << 20), "3.0 MiB");
        assert_eq!(size(5 << 29), "2.5 GiB");
    }

    #[test]
    fn durations_pick_their_unit() {
        assert_eq!(duration(1_500), "2 µs");
        assert_eq!(duration(12_340_000), "12.3 ms");
        assert_eq!(duration(61_000_000_000), "61.00 s");
        assert_eq!(duration(125_000_000_000), "2 min 05 s");
    }
}
