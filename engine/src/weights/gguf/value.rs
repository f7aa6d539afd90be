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
    /// Values of one type, still in the file.
    Array(Array),
}

/// Where an array lies in the file. Its bounds are checked; its elements are decoded when asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// GGUF type number of the elements.
    pub(super) element: u32,
    pub(super) len: usize,
    /// First byte of the first element.
    pub(super) start: u64,
}

impl Array {
    /// Its number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
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
