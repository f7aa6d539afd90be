//! The names a mistyped name may have meant. Not here: what the names stand for.

/// Names of `known` within a third of the word's length in edits, nearest first.
pub fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let allowed = word.chars().count().div_ceil(3).max(1);
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .map(|name| (edits(word, name), name))
        .filter(|&(distance, name)| distance <= allowed || name.starts_with(word))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

/// "did you mean ...?" or, with nothing near, all there is.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let close = near(word, known.clone());
    if close.is_empty() {
        format!(
            "known: {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        )
    } else {
        format!("did you mean {}?", close.join(" or "))
    }
}

/// Insertions, deletions and replacements that turn one word into the other.
fn edits(from: &str, to: &str) -> usize {
    let target: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=target.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, &wanted) in target.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[target.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        let known = ["smoke", "session-small"];
        assert_eq!(near("smok", known), ["smoke"]);
        assert_eq!(near("sesion-small", known), ["session-small"]);
        assert_eq!(near("session", known), ["session-small"]);
        assert!(near("", known).len() <= 2);
    }

    #[test]
    fn a_strange_word_gets_the_whole_list() {
        assert_eq!(
            suggestion("zzzzzzzz", ["smoke", "fused"]),
            "known: smoke, fused"
        );
    }

    #[test]
    fn distance_is_symmetric_and_zero_only_for_equals() {
        let words = ["", "a", "fused", "fuzed", "naive", "agent-kv"];
        for from in words {
            for to in words {
                assert_eq!(edits(from, to), edits(to, from));
                assert_eq!(edits(from, to) == 0, from == to);
            }
        }
    }
}
