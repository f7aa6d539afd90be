//! From bytes to a [`Gguf`]: header, metadata, tensor list, each bound checked with arithmetic that cannot wrap.

use std::collections::{HashMap, HashSet};

use super::cursor::Cursor;
use super::{Entry, Gguf, TensorInfo};
use crate::error::Result;
use crate::tensor::DType;
use crate::weights::file::ModelFile;

/// More tensors than any published model has.
const TENSORS_MAX: u64 = 1 << 15;
/// More keys than any published model has.
const KEYS_MAX: u64 = 1 << 12;
/// Dimensions ggml allows.
const DIMENSIONS_MAX: u32 = 4;
/// Longest dimension believed, far above any file and far below where the product with a block's bytes wraps.
const DIMENSION_MAX: u64 = 1 << 40;
/// Alignment of tensor data where the file does not say.
const ALIGNMENT_DEFAULT: u64 = 32;
/// Largest alignment believed.
const ALIGNMENT_MAX: u64 = 1 << 16;

pub(super) fn parse(file: ModelFile) -> Result<Gguf> {
    let mut cursor = Cursor::new(&file, 0);
    if cursor.take(4, "the magic")? != b"GGUF" {
        return cursor.fail_at(0, "this is not a GGUF file: it does not begin with `GGUF`");
    }
    let version = cursor.u32("the version")?;
    if !(2..=3).contains(&version) {
        return cursor.fail(format!(
            "GGUF version {version} is not supported; 2 and 3 are"
        ));
    }
    let tensor_count = cursor.count(TENSORS_MAX, "the tensor count")?;
    let key_count = cursor.count(KEYS_MAX, "the key count")?;
    let (keys, entries) = metadata(&mut cursor, key_count)?;
    let alignment = alignment(&cursor, &entries)?;
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        tensors.push(tensor_info(&mut cursor)?);
    }
    let list_end = cursor.offset;
    let data_start = list_end.next_multiple_of(alignment);
    place(&mut tensors, data_start, alignment, file.len())
        .or_else(|what| cursor.fail_at(list_end, what))?;
    let names = tensors.iter().enumerate();
    let index = names.map(|(i, info)| (info.name.clone(), i)).collect();
    Ok(Gguf {
        file,
        keys,
        entries,
        tensors,
        index,
    })
}

fn metadata(
    cursor: &mut Cursor<'_>,
    count: usize,
) -> Result<(Vec<String>, HashMap<String, Entry>)> {
    let (mut keys, mut entries) = (Vec::new(), HashMap::new());
    for _ in 0..count {
        let start = cursor.offset;
        let key = cursor.name("a metadata key")?;
        let value = cursor.value()?;
        let entry = Entry {
            value,
            bytes: start..cursor.offset,
        };
        if entries.insert(key.clone(), entry).is_some() {
            return cursor.fail_at(start, format!("key `{key}` occurs twice"));
        }
        keys.push(key);
    }
    Ok((keys, entries))
}

fn alignment(cursor: &Cursor<'_>, entries: &HashMap<String, Entry>) -> Result<u64> {
    let Some(entry) = entries.get("general.alignment") else {
        return Ok(ALIGNMENT_DEFAULT);
    };
    let found = match entry.value.as_usize().map(|n| n as u64) {
        Some(n) if n.is_power_of_two() && n <= ALIGNMENT_MAX => return Ok(n),
        Some(n) => n.to_string(),
        None => entry.value.kind().to_owned(),
    };
    cursor.fail(format!(
        "general.alignment is {found}; it must be a power of two up to {ALIGNMENT_MAX}"
    ))
}

/// One entry of the tensor list, `start` still relative to the data.
fn tensor_info(cursor: &mut Cursor<'_>) -> Result<TensorInfo> {
    let name = cursor.name("a tensor name")?;
    let dimensions = cursor.u32("a dimension count")?;
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        return cursor.fail(format!(
            "tensor `{name}` has {dimensions} dimensions; 1 to {DIMENSIONS_MAX} are allowed"
        ));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        let dimension = cursor.count(DIMENSION_MAX, "a dimension")?;
        if dimension == 0 {
            return cursor.fail(format!("tensor `{name}` has a dimension of 0"));
        }
        shape.push(dimension);
    }
    let type_number = cursor.u32("a tensor type")?;
    let start = cursor.u64("a tensor offset")?;
    Ok(TensorInfo {
        name,
        shape,
        type_number,
        start,
    })
}

/// Makes every `start` absolute and checks that tensors lie inside the file, aligned, named once, and apart.
fn place(
    tensors: &mut [TensorInfo],
    data_start: u64,
    alignment: u64,
    file_len: u64,
) -> std::result::Result<(), String> {
    let mut spans: Vec<(u64, u64, &str)> = Vec::new();
    let mut names = HashSet::new();
    if let Some(twice) = tensors.iter().find(|tensor| !names.insert(&*tensor.name)) {
        return Err(format!("tensor `{}` occurs twice", twice.name));
    }
    drop(names);
    for tensor in tensors.iter_mut() {
        let offset = tensor.start;
        if !offset.is_multiple_of(alignment) {
            let name = &tensor.name;
            return Err(format!(
                "tensor `{name}` begins at {offset}, which is not aligned to {alignment}"
            ));
        }
        let Some(start) = data_start
            .checked_add(offset)
            .filter(|start| *start <= file_len)
        else {
            return Err(format!(
                "tensor `{}` begins at {offset}, beyond the file's end",
                tensor.name
            ));
        };
        tensor.start = start;
    }
    for tensor in tensors.iter() {
        // A type we do not compute has no known size; loading it fails by name, so its end is not needed.
        let Some(dtype) = DType::from_gguf(tensor.type_number) else {
            continue;
        };
        let start = tensor.start;
        let Some(bytes) = byte_len(&tensor.shape, dtype) else {
            let TensorInfo { name, shape, .. } = tensor;
            return Err(format!(
                "tensor `{name}` of shape {shape:?} is not whole {dtype} blocks"
            ));
        };
        match start.checked_add(bytes) {
            Some(end) if end <= file_len => spans.push((start, end, &tensor.name)),
            _ => {
                let name = &tensor.name;
                return Err(format!(
                    "tensor `{name}` needs {bytes} bytes from byte {start}; the file has {file_len}"
                ));
            }
        }
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        if pair[0].1 > pair[1].0 {
            return Err(format!(
                "tensors `{}` and `{}` overlap",
                pair[0].2, pair[1].2
            ));
        }
    }
    Ok(())
}

/// Bytes of a tensor; none if the product wraps or the innermost dimension is no whole number of blocks.
fn byte_len(shape: &[usize], dtype: DType) -> Option<u64> {
    if !shape[0].is_multiple_of(dtype.block_elements()) {
        return None;
    }
    let elements = shape
        .iter()
        .try_fold(1_u64, |n, &d| n.checked_mul(d as u64))?;
    (elements / dtype.block_elements() as u64).checked_mul(dtype.block_bytes() as u64)
}
