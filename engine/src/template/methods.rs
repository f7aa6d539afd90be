//! Python's methods on text, lists and objects, through `minijinja-contrib`, with what it leaves unbounded bounded.
//!
//! Not here: methods that change a value; transformers' sandbox forbids them too.

use minijinja::{Error, ErrorKind, State, Value};

/// Widest field `str.format` may be asked for; it is allocated before fuel is charged.
const WIDTH_DIGITS_MAX: usize = 4;

/// Calls `value.method(args)`.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let (Some(text), "format") = (value.as_str(), method) {
        let longest = text
            .split(|c: char| !c.is_ascii_digit())
            .map(str::len)
            .max();
        if longest > Some(WIDTH_DIGITS_MAX) {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!(
                    "str.format takes numbers of at most {WIDTH_DIGITS_MAX} digits in its text"
                ),
            ));
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// Whether Python could loop over `value`; the library also loops over none, as if it were empty.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}
