//! What templates call that the library leaves unlike Python, or unbounded: methods, tests, values as text.
//!
//! Not here: methods that change a value; transformers' sandbox forbids them too.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Output, State, Value};

use super::{DEPTH_MAX, OUTPUT_BYTES_MAX};

/// Widest field `str.format` may be asked for; it is allocated before steps are charged.
const WIDTH_DIGITS_MAX: usize = 4;

/// Calls `value.method(args)`, a method of Python's on text, lists or objects.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if matches!(method, "format" | "join") {
        args.iter()
            .try_for_each(|value| pay_for_text(state, value))?;
    }
    if let (Some(text), "format") = (value.as_str(), method) {
        let numbers = text.split(|c: char| !c.is_ascii_digit());
        if numbers.map(str::len).max() > Some(WIDTH_DIGITS_MAX) {
            return fail(format!(
                "str.format takes numbers of at most {WIDTH_DIGITS_MAX} digits in its text"
            ));
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// Whether Python could loop over `value`; the library also loops over none, as if it were empty.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// `{{ value }}`.
pub(super) fn print(
    output: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    pay_for_text(state, value)?;
    minijinja::escape_formatter(output, state, value)
}

/// `value|string`.
pub(super) fn string(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    pay_for_text(state, value)?;
    minijinja::filters::string(state, value)
}

/// Charges for the text of a container before it is made: one list can occur in it many times, or hold itself.
fn pay_for_text(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.as_object().is_none() {
        return Ok(());
    }
    match weight(value) {
        Some(bytes) => state.consume_fuel(bytes as u64 / 64),
        None => fail(format!(
            "text of a value is at most {OUTPUT_BYTES_MAX} bytes and {DEPTH_MAX} containers deep"
        )),
    }
}

fn fail<T>(what: String) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, what))
}

/// Roughly the bytes of `value` as text; none beyond what may be written.
pub(super) fn weight(value: &Value) -> Option<usize> {
    let mut bytes = 0;
    weigh(value, 0, &mut bytes).then_some(bytes)
}

/// Adds the bytes of `value`, and says whether they are still within limits.
fn weigh(value: &Value, depth: usize, bytes: &mut usize) -> bool {
    *bytes += 4 + value.as_str().map_or(0, str::len);
    if depth > DEPTH_MAX || *bytes > OUTPUT_BYTES_MAX {
        return false;
    }
    let mut items = value.try_iter().into_iter().flatten();
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => items.all(|item| weigh(&item, depth + 1, bytes)),
        ValueKind::Map => items.all(|key| {
            let item = value.get_item(&key).unwrap_or_default();
            weigh(&key, depth + 1, bytes) && weigh(&item, depth + 1, bytes)
        }),
        _ => true,
    }
}
