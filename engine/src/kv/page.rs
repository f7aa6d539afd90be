//! The memory of one page: `[layers][kv_heads][K: head_dim x 64, V: 64 x head_dim]`, in either element type.
//!
//! Not here: references and lengths (`pool`).

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use crate::tensor::{Arena, Buffer, KvType, LayerView, PAGE_POSITIONS};

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

    /// Bytes of one page.
    pub fn page_bytes(self, element: KvType) -> u64 {
        (self.page_elements() * element.bytes()) as u64
    }
}

/// The elements of one page.
pub(super) enum Elements {
    F32(Buffer<f32>),
    F16(Buffer<u16>),
}

impl Elements {
    pub(super) fn zeroed(arena: &Arena, shape: KvShape, element: KvType) -> Self {
        match element {
            KvType::F32 => Self::F32(arena.zeroed(shape.page_elements())),
            KvType::F16 => Self::F16(arena.zeroed(shape.page_elements())),
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
        }
    }

    /// Keys and values of one layer and slot, widened.
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
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::F32(data) => data.fill(0.0),
            Self::F16(data) => data.fill(0),
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
        match self {
            Self::F32(data) => write(data, shape, layer, slot, row),
            Self::F16(data) => {
                let [k, v] = [row.0, row.1].map(rounded);
                write(data, shape, layer, slot, (&k, &v));
            }
        }
    }

    /// Copies the first `len` slots of every layer from `source`, a page of the same type.
    pub(super) fn copy_head(&mut self, shape: KvShape, source: &Self, len: usize) {
        match (self, source) {
            (Self::F32(to), Self::F32(from)) => copy_head(to, from, shape, len),
            (Self::F16(to), Self::F16(from)) => copy_head(to, from, shape, len),
            _ => debug_assert!(false, "the pages of a pool have one element type"),
        }
    }

    /// Keys and values of one layer.
    pub(super) fn layer(&self, shape: KvShape, layer: usize) -> LayerView<'_> {
        let size = shape.layer_elements();
        let range = layer * size..(layer + 1) * size;
        match self {
            Self::F32(data) => LayerView::F32(&data[range]),
            Self::F16(data) => LayerView::F16(&data[range]),
        }
    }

    pub(super) fn bits(&self) -> Vec<u32> {
        match self {
            Self::F32(data) => data.iter().map(|x| x.to_bits()).collect(),
            Self::F16(data) => data.iter().map(|bits| u32::from(*bits)).collect(),
        }
    }

    pub(super) fn poke(&mut self, index: usize, value: f32) {
        match self {
            Self::F32(data) => data[index] = value,
            Self::F16(data) => data[index] = f16::from_f32(value).to_bits(),
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

fn write<T: Copy>(data: &mut [T], shape: KvShape, layer: usize, slot: usize, (k, v): (&[T], &[T])) {
    let (size, dim) = (shape.layer_elements(), shape.head_dim);
    let heads = data[layer * size..(layer + 1) * size].chunks_exact_mut(2 * shape.half_head());
    for ((k, v), head) in k.chunks_exact(dim).zip(v.chunks_exact(dim)).zip(heads) {
        let (keys, values) = head.split_at_mut(shape.half_head());
        for (&k, lanes) in k.iter().zip(keys.chunks_exact_mut(PAGE_POSITIONS)) {
            lanes[slot] = k;
        }
        values[slot * dim..][..dim].copy_from_slice(v);
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
        let rows = from[..half].chunks_exact(PAGE_POSITIONS);
        for (from, to) in rows.zip(keys.chunks_exact_mut(PAGE_POSITIONS)) {
            to[..len].copy_from_slice(&from[..len]);
        }
        let kept = len * shape.head_dim;
        values[..kept].copy_from_slice(&from[half..half + kept]);
    }
}
