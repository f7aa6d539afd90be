//! Where in the text of a JSON document a value stands: the line a finding names.
//!
//! The document has been parsed before, so this reads loosely. Not here: what the values are (`format`, `figures`).

/// The line, counted from 1, of the value at a path as `figures` spells it: `ratios[0].wall_low`. `None` if there is none.
pub(crate) fn line(text: &str, path: &str) -> Option<u64> {
    let mut scanner = Scanner {
        bytes: text.as_bytes(),
        at: 0,
        wanted: path,
    };
    let found = scanner.value("")?;
    let before = scanner.bytes[..found].split(|byte| *byte == b'\n');
    Some(before.count() as u64)
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    wanted: &'a str,
}

impl Scanner<'_> {
    /// Passes one value; where the wanted one starts, if it is this or within.
    fn value(&mut self, path: &str) -> Option<usize> {
        self.skip_blank();
        if path == self.wanted {
            return Some(self.at);
        }
        match self.peek() {
            b'{' => self.members(path, b'}'),
            b'[' => self.members(path, b']'),
            b'"' => {
                self.string();
                None
            }
            _ => {
                while !matches!(self.peek(), b',' | b']' | b'}' | b'\n' | 0) {
                    self.at += 1;
                }
                None
            }
        }
    }

    /// Passes the members of an object or the entries of an array.
    fn members(&mut self, path: &str, close: u8) -> Option<usize> {
        self.at += 1;
        for place in 0.. {
            self.skip_blank();
            if self.peek() == close || self.peek() == 0 {
                self.at += 1;
                return None;
            }
            let below = if close == b']' {
                format!("{path}[{place}]")
            } else {
                let key = self.string();
                self.skip_blank();
                self.at += 1; // the colon
                let dot = if path.is_empty() { "" } else { "." };
                format!("{path}{dot}{key}")
            };
            if let Some(found) = self.value(&below) {
                return Some(found);
            }
            self.skip_blank();
            if self.peek() == b',' {
                self.at += 1;
            }
        }
        None
    }

    /// Passes a string and gives what stands between its quotes.
    fn string(&mut self) -> String {
        self.at += 1;
        let start = self.at;
        while !matches!(self.peek(), b'"' | 0) {
            self.at += 1 + usize::from(self.peek() == b'\\');
        }
        let end = self.at.min(self.bytes.len());
        self.at = end + 1;
        String::from_utf8_lossy(&self.bytes[start.min(end)..end]).into_owned()
    }

    fn skip_blank(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// The byte to read; 0 at the end.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn every_value_is_found_on_its_line() {
        let text = "{\n \"a\": {\n  \"b\\\"]\": [1,\n   {\"c\": \"x}\"}, []],\n  \"d\": null\n },\n \"e\":\n  2\n}";
        for (path, expected) in [
            ("a", 2),
            ("a.b\\\"][0]", 3),
            ("a.b\\\"][1].c", 4),
            ("a.b\\\"][2]", 4),
            ("a.d", 5),
            ("e", 8),
        ] {
            assert_eq!(line(text, path), Some(expected), "{path}");
        }
        for path in ["f", "a.c", "e.a", "a.b\\\"][3]"] {
            assert_eq!(line(text, path), None, "{path}");
        }
        for cut in 0..text.len() {
            line(&text[..cut], "none"); // comes to an end
        }
    }
}
