//! The arithmetic, once per instruction set, behind one table of functions.
//!
//! `scalar` defines the answer; every other folder gives the same bits or does not ship, and uses the same file names.
//! `avx512` holds what it does faster; the rest of its table is AVX2's.
//! Orders that the numeric contract fixes (audit them here): one accumulator per output with columns ascending
//! (`matmul`); exact integer
//! dots and one fma per block, blocks ascending (`matmul_fast`); per page scores with dimensions ascending, sum striped by position mod 8, values with keys ascending,
//! pages merged one by one (`attend`); with exact integer
//! dots in both halves (`attend_fast`); squares striped by index mod 8 (`norm`). Not here: threads, buffers' owners.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::tensor::{
    Activations, PackedMatrix, PageView, Partials, PartialsMut, Quants, RoundedRows, Span,
};

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod ceilings;
pub mod scalar;

/// Lanes of the striped sums in norms and softmax.
pub const STRIPES: usize = 8;

/// `out[n][16 * panels] = x[n][cols] * rows of the panels`.
pub type Matmul = fn(&PackedMatrix, Range<usize>, x: &[f32], out: &mut [f32]);
/// Rounds whole rows of inputs for [`MatmulFast`].
pub type Quantize = fn(x: &[f32], &mut Activations);
/// The product of [`Matmul`] in `fast` mode, for quantised matrices.
pub type MatmulFast = fn(&PackedMatrix, Range<usize>, x: &Activations, out: &mut [f32]);
/// Attention of `queries[m][head_dim]` over the slots `seen[m]` of one head's page.
/// `next` is the page it is likely to be called for next, which may be fetched meanwhile.
pub type Attend = fn(
    PageView<'_>,
    next: Option<PageView<'_>>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    PartialsMut<'_>,
);
/// [`Attend`] in `fast` mode, of rounded queries over keys and values of type q8_0.
pub type AttendFast = fn(
    [Quants<'_>; 2],
    next: Option<[Quants<'_>; 2]>,
    queries: RoundedRows<'_>,
    seen: &[Span],
    scale: f32,
    PartialsMut<'_>,
);
/// Adds the partial of a later page to what earlier pages gave.
pub type Merge = fn(into: PartialsMut<'_>, page: Partials<'_>);
/// `out = x / sqrt(mean(x^2) + epsilon) * weight`.
pub type RmsNorm = fn(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]);
/// Turns pairs of neighbours of `head[head_dim]` by `turns[head_dim / 2][2]`, cosines and sines.
pub type Rotate = fn(head: &mut [f32], turns: &[f32]);
/// `gate = silu(gate) * up`.
pub type SiluMul = fn(gate: &mut [f32], up: &[f32]);

/// One instruction set's functions.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// Name as recorded in results.
    pub name: &'static str,
    /// See [`Matmul`].
    pub matmul: Matmul,
    /// See [`Quantize`].
    pub quantize: Quantize,
    /// See [`MatmulFast`].
    pub matmul_fast: MatmulFast,
    /// See [`Attend`].
    pub attend: Attend,
    /// See [`AttendFast`].
    pub attend_fast: AttendFast,
    /// See [`Merge`].
    pub merge: Merge,
    /// See [`RmsNorm`].
    pub rms_norm: RmsNorm,
    /// See [`Rotate`].
    pub rotate: Rotate,
    /// See [`SiluMul`].
    pub silu_mul: SiluMul,
}

/// Which kernel set is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelChoice {
    /// The widest this CPU has.
    #[default]
    Auto,
    /// The reference.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 with its byte dot products, and AVX2's kernels where they are no slower.
    Avx512,
}

impl KernelChoice {
    /// Every choice, the wider the later.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Scalar, Self::Avx2, Self::Avx512];
}

impl Kernels {
    /// The table for `choice` on this CPU.
    pub fn choose(choice: KernelChoice) -> Result<Self> {
        let table = match choice {
            KernelChoice::Auto => avx512().or_else(avx2).or_else(|| Some(scalar::table())),
            KernelChoice::Scalar => Some(scalar::table()),
            KernelChoice::Avx2 => avx2(),
            KernelChoice::Avx512 => avx512(),
        };
        table.ok_or_else(|| Error::KernelsUnavailable(choice.to_string()))
    }
}

#[cfg(target_arch = "x86_64")]
fn avx2() -> Option<Kernels> {
    let detected = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    detected.then(avx2::table)
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> Option<Kernels> {
    let detected = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    // Its table holds AVX2's functions too.
    (detected && avx2().is_some()).then(avx512::table)
}

#[cfg(not(target_arch = "x86_64"))]
fn avx2() -> Option<Kernels> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn avx512() -> Option<Kernels> {
    None
}

impl std::fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        })
    }
}

impl std::str::FromStr for KernelChoice {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|choice| choice.to_string() == text)
            .ok_or_else(|| {
                format!("kernels `{text}` are unknown; use auto, scalar, avx2 or avx512")
            })
    }
}

/// Sums eight stripes in the one order every kernel uses.
#[inline]
pub fn sum_stripes(s: [f32; STRIPES]) -> f32 {
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}
