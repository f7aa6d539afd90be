//! The page primitive of `fast` mode over bytes: four dimensions, or four positions, a lane.
//!
//! `vpdpbusd` multiplies unsigned by signed bytes, four to a 32-bit lane. Keys enter as k + 128 (their top bit flipped), and
//! the surplus, 128 times the known sum of the query, is taken off before they are added. Rounded weights have no sign.
//! What a lane multiplies must lie together: rows are interleaved by fours once per page, which leaves columns in the
//! order of `in_order`'s transposition; scores and outputs are put back in order one query at a time. Not here: which pages.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::attend::{LANES, LINE_BYTES, QUERIES_MAX, REGISTERS, slots, tile_of, weigh};
use crate::kernels::scalar::attend_fast::WEIGHT_LEVELS;
use crate::kernels::scalar::quantize::factors;
use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::QUAD;
use crate::tensor::{PAGE_POSITIONS, PartialsMut, Quants, RoundedRows, Span};

/// Queries whose scores are all there before the first value is read.
const QUERIES_TOGETHER: usize = 24;
/// Rows of four dimensions in a block.
const BLOCK_QUADS: usize = BLOCK / QUAD;
/// Rows of four positions in a page.
const PAGE_QUADS: usize = PAGE_POSITIONS / QUAD;
/// Columns of a strip of values.
const STRIP: usize = REGISTERS * LANES;
/// Blocks of dimensions that a strip reaches into.
const BLOCKS: usize = STRIP / BLOCK;
/// The lanes of interleaved columns that belong to the second block of a strip.
const SECOND: __mmask16 = 0xff00;

/// Four rows of sixty-four bytes, interleaved.
type Interleaved = [__m512i; REGISTERS];

/// Fills `out` for the rounded queries over the slots `seen[m]` of one head's page of keys and values.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn attend_fast(
    page: [Quants<'_>; 2],
    next: Option<[Quants<'_>; 2]>,
    queries: RoundedRows<'_>,
    seen: &[Span],
    scale: f32,
    out: PartialsMut<'_>,
) {
    if seen.len() <= QUERIES_MAX {
        attend_page::<QUERIES_MAX>(page, next, queries, (seen, scale), out);
    } else {
        attend_page::<QUERIES_TOGETHER>(page, next, queries, (seen, scale), out);
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn attend_page<const TOGETHER: usize>(
    [k, v]: [Quants<'_>; 2],
    mut next: Option<[Quants<'_>; 2]>,
    queries: RoundedRows<'_>,
    (seen, scale): (&[Span], f32),
    mut out: PartialsMut<'_>,
) {
    let mut weights = [[0.0; PAGE_POSITIONS]; TOGETHER];
    for first in (0..seen.len()).step_by(TOGETHER) {
        let range = first..seen.len().min(first + TOGETHER);
        let weights = &mut weights[..range.len()];
        scores(
            k,
            next.map(|[k, _]| k),
            queries.rows(range.clone()),
            weights,
        );
        let (seen, out) = (&seen[range.clone()], out.queries(range));
        weigh(weights, seen, scale, (out.max, out.sum));
        outputs(v, next.map(|[_, v]| v), (weights, seen), out.out);
        next = None; // fetched once
    }
}

/// `scores[m][64]`, not yet scaled.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn scores(
    k: Quants<'_>,
    next: Option<Quants<'_>>,
    queries: RoundedRows<'_>,
    scores: &mut [[f32; PAGE_POSITIONS]],
) {
    let blocks = k.scales.len() / PAGE_POSITIONS;
    let head_dim = k.bytes.len() / PAGE_POSITIONS;
    let mut keys = MaybeUninit::uninit();
    for b in 0..blocks {
        fetch_scales(next, b * PAGE_POSITIONS);
        let rows = Rows {
            bytes: k.bytes,
            start: b * BLOCK * PAGE_POSITIONS,
            stride: PAGE_POSITIONS,
            count: BLOCK.min(head_dim - b * BLOCK), // behind them queries have zeros
            width: PAGE_POSITIONS,
            flipped: i8::MIN,
        };
        let mut block = KeyBlock {
            keys: rows.interleave(&mut keys),
            next,
            scales: in_order(widened(&k.scales[b * PAGE_POSITIONS..])),
            index: b,
            last: b + 1 == blocks,
        };
        let mut first = 0;
        while first < scores.len() {
            let tile = first..first + tile_of(scores.len() - first);
            let (queries, scores) = (queries.rows(tile.clone()), &mut scores[tile.clone()]);
            match tile.len() {
                1 => block.scores::<1>(queries, scores),
                2 => block.scores::<2>(queries, scores),
                3 => block.scores::<3>(queries, scores),
                4 => block.scores::<4>(queries, scores),
                5 => block.scores::<5>(queries, scores),
                _ => block.scores::<QUERIES_MAX>(queries, scores),
            }
            block.next = None; // fetched once
            first = tile.end;
        }
    }
}

/// Thirty-two dimensions of the keys of a page, positions interleaved.
struct KeyBlock<'a> {
    keys: &'a [Interleaved; BLOCK_QUADS],
    next: Option<Quants<'a>>,
    scales: [__m512; REGISTERS],
    /// Which block.
    index: usize,
    /// Whether no other follows.
    last: bool,
}

impl KeyBlock<'_> {
    /// Adds what this block gives to the scores of `Q` queries, positions interleaved until the last.
    #[inline(never)] // else the registers of one count spill for another
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn scores<const Q: usize>(
        &self,
        queries: RoundedRows<'_>,
        scores: &mut [[f32; PAGE_POSITIONS]],
    ) {
        let blocks = queries.cols / BLOCK;
        let rows = queries.quants.as_chunks::<BLOCK>().0;
        let mut quants = [&[0; BLOCK]; Q];
        let mut dots = [[_mm512_setzero_si512(); REGISTERS]; Q];
        for q in 0..Q {
            let at = q * blocks + self.index;
            quants[q] = &rows[at];
            dots[q] = [_mm512_set1_epi32(-(queries.sums[at] << 7)); REGISTERS];
        }
        for (quad, keys) in self.keys.iter().enumerate() {
            for i in 0..QUAD {
                fetch(
                    self.next,
                    (self.index * BLOCK + quad * QUAD + i) * PAGE_POSITIONS,
                );
            }
            for (dots, quants) in dots.iter_mut().zip(quants) {
                let [a, b, c, d] = quants.as_chunks::<QUAD>().0[quad];
                let x = i32::from_le_bytes([a as u8, b as u8, c as u8, d as u8]);
                let x = _mm512_set1_epi32(x);
                for (dot, keys) in dots.iter_mut().zip(keys) {
                    *dot = _mm512_dpbusd_epi32(*dot, *keys, x);
                }
            }
        }
        // Fixed counts, so that every register stays one.
        for (q, dots) in dots.iter().enumerate() {
            let x_scale = _mm512_set1_ps(queries.scales[q * blocks + self.index]);
            let mut sums = [_mm512_setzero_ps(); REGISTERS];
            if self.index > 0 {
                sums = registers(&scores[q]);
            }
            for r in 0..REGISTERS {
                let scale = _mm512_mul_ps(self.scales[r], x_scale);
                sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), scale, sums[r]);
            }
            if self.last {
                sums = in_order(sums);
            }
            let place = scores[q].as_mut_ptr();
            for (r, sum) in sums.iter().enumerate() {
                // SAFETY: the array has sixty-four elements.
                unsafe { _mm512_storeu_ps(place.add(r * LANES), *sum) };
            }
        }
    }
}

/// `out[m][head_dim]`, in the order of the dimensions.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn outputs(
    v: Quants<'_>,
    next: Option<Quants<'_>>,
    (weights, seen): (&[[f32; PAGE_POSITIONS]], &[Span]),
    out: &mut [f32],
) {
    let head_dim = v.bytes.len() / PAGE_POSITIONS;
    let (mut values, mut rounded) = (MaybeUninit::uninit(), [Weights::default(); QUERIES_MAX]);
    for b in 0..v.scales.len() / PAGE_POSITIONS {
        fetch_scales(next, b * PAGE_POSITIONS);
    }
    for first in (0..head_dim).step_by(STRIP) {
        let rows = Rows {
            bytes: v.bytes,
            start: first,
            stride: head_dim,
            count: PAGE_POSITIONS,
            width: STRIP.min(head_dim - first),
            flipped: 0,
        };
        let mut strip = Strip {
            values: rows.interleave(&mut values),
            next,
            scales: strip_scales(v, first / BLOCK),
            first,
            head_dim,
        };
        let mut first = 0;
        while first < seen.len() {
            let tile = first..first + tile_of(seen.len() - first);
            let each = weights[tile.clone()].iter().zip(&seen[tile.clone()]);
            for (rounded, (weights, seen)) in rounded.iter_mut().zip(each) {
                strip.round(weights, *seen, rounded);
            }
            let out = &mut out[tile.start * head_dim..tile.end * head_dim];
            match tile.len() {
                1 => strip.outputs::<1>(&rounded, out),
                2 => strip.outputs::<2>(&rounded, out),
                3 => strip.outputs::<3>(&rounded, out),
                4 => strip.outputs::<4>(&rounded, out),
                5 => strip.outputs::<5>(&rounded, out),
                _ => strip.outputs::<QUERIES_MAX>(&rounded, out),
            }
            strip.next = None; // fetched once
            first = tile.end;
        }
    }
}

/// Rounded weights of a query for the blocks of a strip, and their scales.
#[derive(Clone, Copy, Default)]
struct Weights {
    quads: [[[u8; QUAD]; PAGE_QUADS]; BLOCKS],
    scales: [f32; BLOCKS],
}

/// Up to sixty-four dimensions of the values of a page, dimensions interleaved.
struct Strip<'a> {
    values: &'a [Interleaved; PAGE_QUADS],
    next: Option<Quants<'a>>,
    /// Of each block, by position; of none behind the last dimension.
    scales: [[__m512; REGISTERS]; BLOCKS],
    first: usize,
    head_dim: usize,
}

impl Strip<'_> {
    /// Weights times the scales of each block of this strip, rounded to bytes.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn round(&self, weights: &[f32; PAGE_POSITIONS], seen: Span, rounded: &mut Weights) {
        let (weights, seen) = (registers(weights), slots(seen));
        for (b, scales) in self.scales.iter().enumerate() {
            let mut products = [_mm512_setzero_ps(); REGISTERS];
            let mut greatest = _mm512_setzero_si512();
            for r in 0..REGISTERS {
                // Where a slot is not seen its scale may be anything.
                let mask = (seen >> (r * LANES)) as __mmask16;
                products[r] = _mm512_maskz_mul_ps(mask, weights[r], scales[r]);
                greatest = _mm512_max_epu32(greatest, _mm512_castps_si512(products[r]));
            }
            let (inverse, scale) = factors(_mm512_reduce_max_epu32(greatest), WEIGHT_LEVELS);
            rounded.scales[b] = scale;
            let inverse = _mm512_set1_ps(inverse);
            let place = rounded.quads[b].as_mut_ptr();
            for (r, product) in products.iter().enumerate() {
                // Half to even, the default mode. Zero times what is not finite is no number, and becomes zero.
                let quants = _mm512_cvtps_epi32(_mm512_mul_ps(*product, inverse));
                // SAFETY: sixteen quads have room for four times sixteen bytes.
                unsafe {
                    let place = place.add(r * LANES / QUAD).cast();
                    _mm_storeu_si128(place, _mm512_cvtepi32_epi8(quants));
                }
            }
        }
    }

    /// The outputs of `Q` queries, `[Q][head_dim]`, in this strip.
    #[inline(never)] // else the registers of one count spill for another
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn outputs<const Q: usize>(&self, weights: &[Weights; QUERIES_MAX], out: &mut [f32]) {
        let mut dots = [[_mm512_setzero_si512(); REGISTERS]; Q];
        for (quad, values) in self.values.iter().enumerate() {
            for i in 0..QUAD {
                fetch(self.next, (quad * QUAD + i) * self.head_dim + self.first);
            }
            for (dots, Weights { quads, .. }) in dots.iter_mut().zip(weights) {
                let first = _mm512_set1_epi32(i32::from_le_bytes(quads[0][quad]));
                let second = i32::from_le_bytes(quads[1][quad]);
                let x = _mm512_mask_set1_epi32(first, SECOND, second);
                for (dot, values) in dots.iter_mut().zip(values) {
                    *dot = _mm512_dpbusd_epi32(*dot, x, *values);
                }
            }
        }
        let masks = self.masks();
        for (q, dots) in dots.iter().enumerate() {
            let [first, second] = weights[q].scales;
            let scale = _mm512_mask_mov_ps(_mm512_set1_ps(first), SECOND, _mm512_set1_ps(second));
            let mut sums = [_mm512_setzero_ps(); REGISTERS];
            for r in 0..REGISTERS {
                sums[r] = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[r]), scale);
            }
            let out = &mut out[q * self.head_dim + self.first..];
            assert!(out.len() >= STRIP.min(self.head_dim - self.first));
            for (r, sum) in in_order(sums).iter().enumerate() {
                let place = out.as_mut_ptr().wrapping_add(r * LANES);
                // SAFETY: the masks have a bit for each of the elements asserted.
                unsafe { _mm512_mask_storeu_ps(place, masks[r], *sum) };
            }
        }
    }

    /// A bit for each dimension of this strip.
    fn masks(&self) -> [__mmask16; REGISTERS] {
        let bits = u64::MAX.unbounded_shr(STRIP.saturating_sub(self.head_dim - self.first) as u32);
        [
            bits,
            bits >> LANES,
            bits >> (2 * LANES),
            bits >> (3 * LANES),
        ]
        .map(|bits| bits as __mmask16)
    }
}

/// Rows of up to sixty-four bytes.
struct Rows<'a> {
    bytes: &'a [i8],
    /// Where the first begins.
    start: usize,
    stride: usize,
    /// How many there are. The last stands for those behind it.
    count: usize,
    /// Bytes of a row; zeros stand behind them.
    width: usize,
    /// What every byte is to differ in.
    flipped: i8,
}

impl Rows<'_> {
    /// Interleaved by fours. The loops are written out: no closure of these instructions is inlined into a function
    /// without.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn interleave<const QUADS: usize>(
        self,
        room: &mut MaybeUninit<[Interleaved; QUADS]>,
    ) -> &[Interleaved; QUADS] {
        let last = self.start + (self.count - 1) * self.stride;
        assert!(last + self.width <= self.bytes.len());
        let mask = u64::MAX.unbounded_shr((STRIP - self.width) as u32);
        let flipped = _mm512_set1_epi8(self.flipped);
        for quad in 0..QUADS {
            let mut rows = [_mm512_setzero_si512(); QUAD];
            for (i, row) in rows.iter_mut().enumerate() {
                let place = (self.start + (quad * QUAD + i) * self.stride).min(last);
                // SAFETY: the mask has a bit for each byte of the row, which is no later than the one asserted.
                let bytes =
                    unsafe { _mm512_maskz_loadu_epi8(mask, self.bytes.as_ptr().add(place)) };
                *row = _mm512_xor_si512(bytes, flipped);
            }
            let place = room.as_mut_ptr().cast::<Interleaved>();
            // SAFETY: there is room for every quad.
            unsafe { place.add(quad).write(interleaved(rows)) };
        }
        // SAFETY: every quad was written.
        unsafe { room.assume_init_ref() }
    }
}

/// The scales of the blocks from `first` on that a strip reaches into.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn strip_scales(v: Quants<'_>, first: usize) -> [[__m512; REGISTERS]; BLOCKS] {
    let mut wide = [[_mm512_setzero_ps(); REGISTERS]; BLOCKS];
    let scales = v.scales.chunks_exact(PAGE_POSITIONS).skip(first);
    for (wide, scales) in wide.iter_mut().zip(scales) {
        *wide = widened(scales);
    }
    wide
}

/// Asks for the line at `place` of what is read next. Into the second-level cache: the first has no room for it.
#[inline]
#[target_feature(enable = "avx512f")]
fn fetch(next: Option<Quants<'_>>, place: usize) {
    if let Some(next) = next {
        _mm_prefetch::<_MM_HINT_T1>(next.bytes.as_ptr().wrapping_add(place));
    }
}

/// Asks for the scales of a block at `place`.
#[inline]
#[target_feature(enable = "avx512f")]
fn fetch_scales(next: Option<Quants<'_>>, place: usize) {
    if let Some(next) = next {
        for line in 0..PAGE_POSITIONS * size_of::<u16>() / LINE_BYTES {
            let place = next.scales.as_ptr().wrapping_add(place).cast::<i8>();
            _mm_prefetch::<_MM_HINT_T1>(place.wrapping_add(line * LINE_BYTES));
        }
    }
}

/// Four rows, the four bytes of a column side by side: register r has of every run of sixteen columns the r-th four.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleaved([a, b, c, d]: [__m512i; QUAD]) -> Interleaved {
    let low = [_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d)];
    let high = [_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d)];
    [
        _mm512_unpacklo_epi16(low[0], low[1]),
        _mm512_unpackhi_epi16(low[0], low[1]),
        _mm512_unpacklo_epi16(high[0], high[1]),
        _mm512_unpackhi_epi16(high[0], high[1]),
    ]
}

/// Sixty-four numbers in the order of [`interleaved`] put in order, or numbers in order in that one: fours transposed.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_order([a, b, c, d]: [__m512; REGISTERS]) -> [__m512; REGISTERS] {
    const LOW: i32 = 0b01_00_01_00;
    const HIGH: i32 = 0b11_10_11_10;
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let low = [
        _mm512_shuffle_f32x4::<LOW>(a, b),
        _mm512_shuffle_f32x4::<LOW>(c, d),
    ];
    let high = [
        _mm512_shuffle_f32x4::<HIGH>(a, b),
        _mm512_shuffle_f32x4::<HIGH>(c, d),
    ];
    [
        _mm512_shuffle_f32x4::<EVEN>(low[0], low[1]),
        _mm512_shuffle_f32x4::<ODD>(low[0], low[1]),
        _mm512_shuffle_f32x4::<EVEN>(high[0], high[1]),
        _mm512_shuffle_f32x4::<ODD>(high[0], high[1]),
    ]
}

/// Sixty-four numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn registers(numbers: &[f32; PAGE_POSITIONS]) -> [__m512; REGISTERS] {
    let place = numbers.as_ptr();
    let mut registers = [_mm512_setzero_ps(); REGISTERS];
    for (r, register) in registers.iter_mut().enumerate() {
        // SAFETY: the array has sixty-four elements.
        *register = unsafe { _mm512_loadu_ps(place.add(r * LANES)) };
    }
    registers
}

/// Sixty-four halves as singles; the slice has as many.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,f16c")]
fn widened(bits: &[u16]) -> [__m512; REGISTERS] {
    assert!(bits.len() >= PAGE_POSITIONS);
    let place = bits.as_ptr();
    let mut registers = [_mm512_setzero_ps(); REGISTERS];
    for (r, register) in registers.iter_mut().enumerate() {
        // SAFETY: the slice has sixty-four elements.
        *register = unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(place.add(r * LANES).cast())) };
    }
    registers
}
