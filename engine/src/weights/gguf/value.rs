//! Metadata values as GGUF types them.

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any unsigned integer type.
    Unsigned(u64),
    /// Any signed integer type.
    Signed(i64),
    /// Either float type.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// Values of one type.
    Array(Vec<Value>),
}

impl Value {
    /// As an unsigned integer; a signed one that is not negative will do.
    pub fn as_usize(&self) -> Option<usize> {
        match *self {
            Self::Unsigned(n) => usize::try_from(n).ok(),
            Self::Signed(n) => usize::try_from(n).ok(),
            _ => None,
        }
    }

    /// As a single, if it is a float.
    pub fn as_f32(&self) -> Option<f32> {
        match *self {
            Self::Float(x) => Some(x as f32),
            _ => None,
        }
    }

    /// As text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unsigned(_) => "an unsigned integer",
            Self::Signed(_) => "a signed integer",
            Self::Float(_) => "a floating-point number",
            Self::Bool(_) => "a boolean",
            Self::Text(_) => "a string",
            Self::Array(_) => "an array",
        }
    }
}
