//! The memory of one page: `[layers][kv_heads][K: head_dim x 64, V: 64 x head_dim]`, in each element type.
//!
//! A page of type q8_0 has bytes in this order, and beside them scales, `[layers][kv_heads][K, V: ceil(head_dim / 32) x 64]`:
//! one per 32 dimensions and slot. Not here: references and lengths (`pool`).

use std::ops::Range;

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use crate::kernels::scalar::quantize::round_block;
use crate::tensor::dtype::BLOCK;
use crate::tensor::{Arena, Buffer, KvType, LayerView, PAGE_POSITIONS, Quants};

/// Sizes that fix a page's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Layers of the model.
    pub layers: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Dimensions per head.
    pub head_dim: usize,
}

impl KvShape {
    /// Elements of the keys, or the values, of one head of one layer.
    fn half_head(self) -> usize {
        self.head_dim * PAGE_POSITIONS
    }

    fn layer_elements(self) -> usize {
        2 * self.kv_heads * self.half_head()
    }

    fn page_elements(self) -> usize {
        self.layers * self.layer_elements()
    }

    /// Elements of one position.
    fn row_elements(self) -> usize {
        self.page_elements() / PAGE_POSITIONS
    }

    /// Scales of the keys, or the values, of one head of one layer, where the type has scales.
    fn half_head_scales(self) -> usize {
        self.head_dim.div_ceil(BLOCK) * PAGE_POSITIONS
    }

    fn layer_scales(self) -> usize {
        2 * self.kv_heads * self.half_head_scales()
    }

    /// Bytes of one position.
    pub fn position_bytes(self, element: KvType) -> usize {
        2 * self.layers * self.kv_heads * element.row_bytes(self.head_dim)
    }

    /// Bytes of one page.
    pub fn page_bytes(self, element: KvType) -> u64 {
        (self.position_bytes(element) * PAGE_POSITIONS) as u64
    }
}

/// The elements of one page.
pub(super) enum Elements {
    F32(Buffer<f32>),
    F16(Buffer<u16>),
    Q8_0 {
        bytes: Buffer<i8>,
        scales: Buffer<u16>,
    },
}

impl Elements {
    pub(super) fn zeroed(arena: &Arena, shape: KvShape, element: KvType) -> Self {
        match element {
            KvType::F32 => Self::F32(arena.zeroed(shape.page_elements())),
            KvType::F16 => Self::F16(arena.zeroed(shape.page_elements())),
            KvType::Q8_0 => Self::Q8_0 {
                bytes: arena.zeroed(shape.page_elements()),
                scales: arena.zeroed(shape.layers * shape.layer_scales()),
            },
        }
    }

    /// No elements at all, to stand in while a page's own are elsewhere.
    pub(super) fn empty() -> Self {
        Self::F32(Buffer::zeroed(0))
    }

    /// Fills it with what spoils every answer it gets into.
    pub(super) fn poison(&mut self) {
        match self {
            Self::F32(data) => data.fill(f32::NAN),
            Self::F16(data) => data.fill(f16::NAN.to_bits()),
            Self::Q8_0 { scales, .. } => scales.fill(f16::NAN.to_bits()),
        }
    }

    /// Keys and values of one layer and slot, widened; none of rounded ones, which would be rounded twice.
    pub(super) fn row(
        &self,
        shape: KvShape,
        layer: usize,
        slot: usize,
    ) -> Option<(Vec<f32>, Vec<f32>)> {
        match self {
            Self::F32(data) => Some(row(data, shape, layer, slot, |value| value)),
            Self::F16(data) => Some(row(data, shape, layer, slot, |bits| {
                f16::from_bits(bits).to_f32()
            })),
            Self::Q8_0 { .. } => None,
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::F32(data) => data.fill(0.0),
            Self::F16(data) => data.fill(0),
            Self::Q8_0 { bytes, scales } => {
                bytes.fill(0);
                scales.fill(0);
            }
        }
    }

    /// Writes keys and values, `[kv_heads][head_dim]` each, of one layer and slot, rounded to the element type.
    pub(super) fn write(
        &mut self,
        shape: KvShape,
        layer: usize,
        slot: usize,
        row: (&[f32], &[f32]),
    ) {
        let size = shape.layer_elements();
        let range = layer * size..(layer + 1) * size;
        match self {
            Self::F32(data) => write(&mut data[range], slot, row, shape.head_dim),
            Self::F16(data) => {
                let [k, v] = [row.0, row.1].map(rounded);
                write(&mut data[range], slot, (&k, &v), shape.head_dim);
            }
            Self::Q8_0 { bytes, scales } => {
                let [k, v] = [row.0, row.1].map(|row| quantized(row, shape.head_dim));
                write(&mut bytes[range], slot, (&k.0, &v.0), shape.head_dim);
                let size = shape.layer_scales();
                let scales = &mut scales[layer * size..(layer + 1) * size];
                write_scales(scales, slot, (&k.1, &v.1), shape.head_dim.div_ceil(BLOCK));
            }
        }
    }

    /// Copies the first `len` slots of every layer from `source`, a page of the same type.
    pub(super) fn copy_head(&mut self, shape: KvShape, source: &Self, len: usize) {
        match (self, source) {
            (Self::F32(to), Self::F32(from)) => copy_head(to, from, shape, len),
            (Self::F16(to), Self::F16(from)) => copy_head(to, from, shape, len),
            (
                Self::Q8_0 { bytes, scales },
                Self::Q8_0 {
                    bytes: from,
                    scales: from_scales,
                },
            ) => {
                copy_head(bytes, from, shape, len);
                copy_lanes(scales, from_scales, len);
            }
            _ => debug_assert!(false, "the pages of a pool have one element type"),
        }
    }

    /// Keys and values of one layer.
    #[inline]
    pub(super) fn layer(&self, shape: KvShape, layer: usize) -> LayerView<'_> {
        let size = shape.layer_elements();
        let range = layer * size..(layer + 1) * size;
        match self {
            Self::F32(data) => LayerView::F32(&data[range]),
            Self::F16(data) => LayerView::F16(&data[range]),
            Self::Q8_0 { bytes, scales } => {
                let size = shape.layer_scales();
                LayerView::Q8_0(Quants {
                    bytes: &bytes[range],
                    scales: &scales[layer * size..(layer + 1) * size],
                })
            }
        }
    }

    /// Appends the first `len` slots to `bytes`: little-endian, in the order of memory, rows of 64 lanes cut to `len`.
    pub(super) fn save(&self, shape: KvShape, len: usize, bytes: &mut Vec<u8>) {
        match self {
            Self::F32(data) => save(data, slots(shape, len), bytes, f32::to_le_bytes),
            Self::F16(data) => save(data, slots(shape, len), bytes, u16::to_le_bytes),
            Self::Q8_0 {
                bytes: data,
                scales,
            } => {
                save(data, slots(shape, len), bytes, i8::to_le_bytes);
                save(scales, lanes(scales, len), bytes, u16::to_le_bytes);
            }
        }
    }

    /// Fills the first `len` slots from what [`Self::save`] made of them in a page of the same type.
    pub(super) fn load(&mut self, shape: KvShape, len: usize, bytes: &[u8]) {
        match self {
            Self::F32(data) => load(data, slots(shape, len), bytes, f32::from_le_bytes),
            Self::F16(data) => load(data, slots(shape, len), bytes, u16::from_le_bytes),
            Self::Q8_0 {
                bytes: data,
                scales,
            } => {
                let (quants, rest) = bytes.split_at(len * shape.row_elements());
                load(data, slots(shape, len), quants, i8::from_le_bytes);
                let runs = lanes(scales, len);
                load(scales, runs, rest, u16::from_le_bytes);
            }
        }
    }

    pub(super) fn bits(&self) -> Vec<u32> {
        match self {
            Self::F32(data) => data.iter().map(|x| x.to_bits()).collect(),
            Self::F16(data) => data.iter().map(|bits| u32::from(*bits)).collect(),
            Self::Q8_0 { bytes, scales } => {
                let bytes = bytes.iter().map(|byte| u32::from(byte.cast_unsigned()));
                bytes.chain(scales.iter().copied().map(u32::from)).collect()
            }
        }
    }

    /// Makes one element `value`, as near as the type can; in a type of blocks the others of its block change with it.
    pub(super) fn poke(&mut self, shape: KvShape, index: usize, value: f32) {
        match self {
            Self::F32(data) => data[index] = value,
            Self::F16(data) => data[index] = f16::from_f32(value).to_bits(),
            Self::Q8_0 { bytes, scales } => {
                let (half, within) = (index / shape.half_head(), index % shape.half_head());
                let (dim, slot) = match half % 2 {
                    0 => (within / PAGE_POSITIONS, within % PAGE_POSITIONS),
                    _ => (within % shape.head_dim, within / shape.head_dim),
                };
                let block = half * shape.half_head_scales() + dim / BLOCK * PAGE_POSITIONS;
                bytes[index] = i8::MAX;
                scales[block + slot] = f16::from_f32(value / f32::from(i8::MAX)).to_bits();
            }
        }
    }
}

/// Bits of the nearest halves, ties to even.
fn rounded(values: &[f32]) -> Vec<u16> {
    let mut bits = vec![0; values.len()];
    bits.reinterpret_cast_mut::<f16>()
        .convert_from_f32_slice(values);
    bits
}

/// Bytes `[kv_heads][head_dim]` and bits of scales `[kv_heads][ceil(head_dim / 32)]` of `values[kv_heads][head_dim]`.
///
/// The scale is rounded to half precision, the bytes are not adapted to it. Where it rounds to zero the block is zero.
/// Where it leaves the range the block is poisoned, as one that is not finite is: with an infinite scale a score could be
/// minus infinity, which no logit shows.
fn quantized(values: &[f32], head_dim: usize) -> (Vec<i8>, Vec<u16>) {
    let mut bytes = vec![0; values.len()];
    let mut scales = Vec::with_capacity(values.len().div_ceil(BLOCK));
    for (values, bytes) in values
        .chunks_exact(head_dim)
        .zip(bytes.chunks_exact_mut(head_dim))
    {
        for (values, bytes) in values.chunks(BLOCK).zip(bytes.chunks_mut(BLOCK)) {
            let scale = f16::from_f32(round_block(values, bytes));
            let usable = scale.is_finite() && scale != f16::ZERO;
            if !usable {
                bytes.fill(0);
            }
            let scale = if scale.is_finite() { scale } else { f16::NAN };
            scales.push(scale.to_bits());
        }
    }
    (bytes, scales)
}

/// Writes a row of each head of `layer[kv_heads][K: head_dim x 64, V: 64 x head_dim]`.
fn write<T: Copy>(layer: &mut [T], slot: usize, (k, v): (&[T], &[T]), head_dim: usize) {
    let half = head_dim * PAGE_POSITIONS;
    let rows = k.chunks_exact(head_dim).zip(v.chunks_exact(head_dim));
    for ((k, v), head) in rows.zip(layer.chunks_exact_mut(2 * half)) {
        let (keys, values) = head.split_at_mut(half);
        write_lane(keys, slot, k);
        values[slot * head_dim..][..head_dim].copy_from_slice(v);
    }
}

/// Writes a row of each head of `layer[kv_heads][K, V: blocks x 64]`.
fn write_scales(layer: &mut [u16], slot: usize, (k, v): (&[u16], &[u16]), blocks: usize) {
    let half = blocks * PAGE_POSITIONS;
    let rows = k.chunks_exact(blocks).zip(v.chunks_exact(blocks));
    for ((k, v), head) in rows.zip(layer.chunks_exact_mut(2 * half)) {
        let (keys, values) = head.split_at_mut(half);
        write_lane(keys, slot, k);
        write_lane(values, slot, v);
    }
}

/// Writes one lane of `data[row.len()][64]`.
fn write_lane<T: Copy>(data: &mut [T], slot: usize, row: &[T]) {
    for (&x, lanes) in row.iter().zip(data.chunks_exact_mut(PAGE_POSITIONS)) {
        lanes[slot] = x;
    }
}

fn row<T: Copy>(
    data: &[T],
    shape: KvShape,
    layer: usize,
    slot: usize,
    widened: impl Fn(T) -> f32,
) -> (Vec<f32>, Vec<f32>) {
    let (size, dim) = (shape.layer_elements(), shape.head_dim);
    let (mut k, mut v) = (Vec::new(), Vec::new());
    for head in data[layer * size..(layer + 1) * size].chunks_exact(2 * shape.half_head()) {
        let (keys, values) = head.split_at(shape.half_head());
        k.extend(
            keys.chunks_exact(PAGE_POSITIONS)
                .map(|lanes| widened(lanes[slot])),
        );
        v.extend(
            values[slot * dim..][..dim]
                .iter()
                .map(|value| widened(*value)),
        );
    }
    (k, v)
}

fn copy_head<T: Copy>(to: &mut [T], from: &[T], shape: KvShape, len: usize) {
    let half = shape.half_head();
    for (from, to) in from
        .chunks_exact((2 * half).max(1))
        .zip(to.chunks_exact_mut((2 * half).max(1)))
    {
        let (keys, values) = to.split_at_mut(half);
        copy_lanes(keys, &from[..half], len);
        let kept = len * shape.head_dim;
        values[..kept].copy_from_slice(&from[half..half + kept]);
    }
}

/// Where the first `len` slots' keys and values stand among the elements of a page, in runs.
fn slots(shape: KvShape, len: usize) -> impl Iterator<Item = Range<usize>> {
    let half = shape.half_head();
    let heads = (0..shape.page_elements()).step_by((2 * half).max(1));
    heads.flat_map(move |head| {
        let keys = (head..head + half).step_by(PAGE_POSITIONS);
        let values = head + half..head + half + len * shape.head_dim;
        keys.map(move |row| row..row + len)
            .chain(std::iter::once(values))
    })
}

/// Where the first `len` lanes stand in rows of 64.
fn lanes<T>(rows: &[T], len: usize) -> impl Iterator<Item = Range<usize>> + use<T> {
    let rows = (0..rows.len()).step_by(PAGE_POSITIONS);
    rows.map(move |row| row..row + len)
}

fn save<T: Copy, const BYTES: usize>(
    data: &[T],
    runs: impl Iterator<Item = Range<usize>>,
    bytes: &mut Vec<u8>,
    to_bytes: impl Fn(T) -> [u8; BYTES] + Copy,
) {
    for run in runs {
        bytes.extend(data[run].iter().copied().flat_map(to_bytes));
    }
}

fn load<T, const BYTES: usize>(
    data: &mut [T],
    runs: impl Iterator<Item = Range<usize>>,
    bytes: &[u8],
    from_bytes: impl Fn([u8; BYTES]) -> T,
) {
    let (mut elements, _) = bytes.as_chunks::<BYTES>();
    for run in runs {
        let (here, rest) = elements.split_at(run.len());
        for (to, from) in data[run].iter_mut().zip(here) {
            *to = from_bytes(*from);
        }
        elements = rest;
    }
}

/// Copies the first `len` lanes of rows of 64.
fn copy_lanes<T: Copy>(to: &mut [T], from: &[T], len: usize) {
    let rows = from.chunks_exact(PAGE_POSITIONS);
    for (from, to) in rows.zip(to.chunks_exact_mut(PAGE_POSITIONS)) {
        to[..len].copy_from_slice(&from[..len]);
    }
}
