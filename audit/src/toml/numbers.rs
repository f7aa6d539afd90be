//! Numbers: those this reader knows, and those it only knows that TOML has.
//!
//! Not here: where a number may stand (the parent module).

use serde_json::Value;

/// A whole number in its plain spelling.
pub(super) fn whole(text: &str) -> Option<Value> {
    let digits = without_separators(text)?;
    let plain = digits == "0" || !digits.trim_start_matches('-').starts_with(['0', '+']);
    if let Ok(number) = digits.parse::<u64>() {
        return plain.then(|| number.into());
    }
    let number = digits.parse::<i64>().ok()?;
    plain.then(|| number.into())
}

/// A number without its underscores, each of which must stand between two digits.
fn without_separators(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('_').collect();
    let between = |pair: &[&str]| {
        pair[0].ends_with(|c: char| c.is_ascii_hexdigit())
            && pair[1].starts_with(|c: char| c.is_ascii_hexdigit())
    };
    parts.windows(2).all(between).then(|| parts.concat())
}

/// Whether TOML has such a number or date, though this reader has not.
pub(super) fn is_spelled_otherwise(text: &str) -> bool {
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let begins = |mark: char, digits: usize| {
        let parts: Vec<&str> = text.split(mark).take(2).collect();
        parts.len() == 2 && parts[0].len() == digits && parts.into_iter().all(all_digits)
    };
    if begins('-', 4) || begins(':', 2) {
        return true;
    }
    let Some(number) = without_separators(text) else {
        return false;
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = number.strip_prefix(prefix) {
            return !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        }
    }
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(&number);
    if matches!(unsigned, "inf" | "nan" | "0") {
        return true;
    }
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let leading = before.len() > 1 && before.starts_with('0');
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    [before, after, exponent].into_iter().all(all_digits) && !leading
}
