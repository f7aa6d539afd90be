//! Safetensors files: a JSON header that says where each tensor lies, checked whole before a byte of data is read.
//!
//! Format: 8 bytes of header length, the header, then data that the tensors cover without gap or overlap. Not here:
//! files that belong together (`hub`), what the names mean (`names`).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::file::ModelFile;
use super::{Bytes, Tensor};
use crate::error::{Error, Result};
use crate::tensor::DType;

/// Longest header believed: some 100 000 tensors, more than any published shard has.
const HEADER_BYTES_MAX: u64 = 1 << 24;
/// Bytes before the header: its length.
const PREFIX: u64 = 8;
/// Dimensions believed.
const DIMENSIONS_MAX: usize = 8;

/// One tensor as the header gives it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    /// Outermost first.
    shape: Vec<usize>,
    /// First byte and one past the last, from the start of the data.
    data_offsets: [u64; 2],
}

/// The header's entries in file order, so that a name that occurs twice is seen.
struct Header(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Header, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<HashMap<String, String>>()?;
            } else {
                entries.push((name, map.next_value()?));
            }
        }
        Ok(Header(entries))
    }
}

struct Placed {
    name: String,
    dtype: DType,
    shape: Vec<usize>, // innermost first
    start: u64,
    len: usize,
}

/// An open safetensors file.
pub struct Safetensors {
    file: ModelFile,
    tensors: Vec<Placed>,
}

impl Safetensors {
    /// Reads and checks the header of `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = ModelFile::open(path)?;
        let mut prefix = [0; PREFIX as usize];
        prefix.copy_from_slice(&file.read_at(0, PREFIX as usize)?);
        let header_len = u64::from_le_bytes(prefix);
        if header_len > HEADER_BYTES_MAX || header_len > file.len() - PREFIX {
            let what = format!(
                "a header of {header_len} bytes in a file of {}; at most {HEADER_BYTES_MAX} are believed",
                file.len()
            );
            return Err(file.malformed(0, what));
        }
        let header = file.read_at(PREFIX, header_len as usize)?;
        let Header(entries) = serde_json::from_slice(&header).map_err(|source| Error::Json {
            path: path.to_owned(),
            source,
        })?;
        let data = PREFIX + header_len;
        let data_len = file.len() - data;
        let tensors = entries
            .into_iter()
            .map(|(name, entry)| place(&file, name, entry, data));
        let tensors: Vec<Placed> = tensors.collect::<Result<_>>()?;
        check_cover(&tensors, data, data_len).map_err(|what| file.malformed(PREFIX, what))?;
        Ok(Self { file, tensors })
    }

    /// Names in file order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|tensor| tensor.name.as_str())
    }

    /// The tensor at `index` of the names, read.
    pub fn tensor(&self, index: usize) -> Result<Tensor<'_>> {
        let Placed {
            name,
            dtype,
            shape,
            start,
            len,
        } = &self.tensors[index];
        Ok(Tensor {
            name: name.clone(),
            dtype: *dtype,
            shape: shape.clone(),
            bytes: Bytes::InFile {
                file: &self.file,
                start: *start,
                len: *len,
            },
        })
    }
}

/// One entry with its type understood and its bytes agreeing with type and shape.
fn place(file: &ModelFile, name: String, entry: Entry, data: u64) -> Result<Placed> {
    let Entry {
        dtype,
        mut shape,
        data_offsets: [begin, end],
    } = entry;
    let dtype = match dtype.as_str() {
        "F32" => DType::F32,
        "F16" => DType::F16,
        "BF16" => DType::BF16,
        _ => {
            let tensor = name;
            return Err(Error::UnsupportedType { tensor, dtype });
        }
    };
    let product = |n: u64, &d: &usize| n.checked_mul(d as u64);
    let bytes = shape.iter().try_fold(dtype.block_bytes() as u64, product);
    let len = end.checked_sub(begin);
    if shape.len() > DIMENSIONS_MAX || bytes.is_none() || bytes != len {
        shape.truncate(DIMENSIONS_MAX + 1);
        let what = format!(
            "tensor `{name}`: {dtype} of shape {shape:?} at bytes {begin} to {end} of the data: these disagree"
        );
        return Err(file.malformed(PREFIX, what));
    }
    shape.reverse();
    Ok(Placed {
        name,
        dtype,
        shape,
        start: data.saturating_add(begin),
        len: len.map_or(0, |len| len as usize),
    })
}

/// That names are unique and that the tensors cover the data once, from its first byte to its last.
fn check_cover(tensors: &[Placed], data: u64, data_len: u64) -> std::result::Result<(), String> {
    let mut names = HashSet::new();
    if let Some(twice) = tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
        return Err(format!("tensor `{}` occurs twice", twice.name));
    }
    let mut spans: Vec<(u64, u64, &str)> = tensors
        .iter()
        .map(|tensor| (tensor.start - data, tensor.len as u64, tensor.name.as_str()))
        .collect();
    spans.sort_unstable();
    let mut covered = 0_u64;
    for (begin, len, name) in spans {
        if begin != covered {
            let kind = if begin < covered {
                "overlaps"
            } else {
                "leaves a gap after"
            };
            return Err(format!(
                "tensor `{name}` begins at byte {begin} of the data and {kind} what ends at {covered}"
            ));
        }
        covered = covered.saturating_add(len);
    }
    if covered != data_len {
        return Err(format!(
            "the tensors cover {covered} bytes; the data has {data_len}"
        ));
    }
    Ok(())
}
