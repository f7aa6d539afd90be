//! The page primitive: attention of some queries over one page, and the merge of pages in ascending order.
//!
//! A page gives (max, sum, out) that do not depend on who asks with it or what else is computed; merging page by page
//! therefore gives the same bits for prefill, decode and a prefix shared by many. Not here: which pages, which queries.

use super::exp::exp;
use super::stored::{multiplied, widened};
use crate::kernels::{STRIPES, sum_stripes};
use crate::tensor::{PAGE_POSITIONS, PageView, Partials, PartialsMut, Span};

/// Fills `out` for `queries[m][head_dim]` over the slots `seen[m]` of one head's page.
#[inline(always)]
pub(in crate::kernels) fn attend(
    page: PageView<'_>,
    _next: Option<PageView<'_>>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    mut out: PartialsMut<'_>,
) {
    match page {
        PageView::F32 { k, v } => attend_f32(k, v, queries, seen, scale, &mut out),
        PageView::F16 { k, v } => {
            attend_f32(&widened(k), &widened(v), queries, seen, scale, &mut out);
        }
        PageView::Q8_0 { k, v } => {
            let head_dim = k.bytes.len() / PAGE_POSITIONS;
            let key = |i| (i / PAGE_POSITIONS, i % PAGE_POSITIONS);
            let value = |i| (i % head_dim, i / head_dim);
            let (k, v) = (multiplied(k, key), multiplied(v, value));
            attend_f32(&k, &v, queries, seen, scale, &mut out);
        }
    }
}

#[inline(always)]
fn attend_f32(
    k: &[f32],
    v: &[f32],
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    out: &mut PartialsMut<'_>,
) {
    let head_dim = k.len() / PAGE_POSITIONS;
    out.clear();
    for (m, (query, &seen)) in queries.chunks_exact(head_dim).zip(seen).enumerate() {
        if seen.is_empty() {
            continue;
        }
        let mut scores = [0.0_f32; PAGE_POSITIONS];
        for (&q, keys) in query.iter().zip(k.chunks_exact(PAGE_POSITIONS)) {
            for (score, &key) in scores.iter_mut().zip(keys) {
                *score = q.mul_add(key, *score);
            }
        }
        (out.max[m], out.sum[m]) = weigh(&mut scores, seen, scale);
        let out_row = &mut out.out[m * head_dim..][..head_dim];
        for slot in seen.first..seen.end {
            for (o, &value) in out_row.iter_mut().zip(&v[slot * head_dim..]) {
                *o = scores[slot].mul_add(value, *o);
            }
        }
    }
}

/// Turns the scores of the slots seen into weights exp(score - max); gives the maximum and the striped sum.
#[inline(always)]
pub(super) fn weigh(scores: &mut [f32; PAGE_POSITIONS], seen: Span, scale: f32) -> (f32, f32) {
    let mut max = f32::NEG_INFINITY;
    for score in &mut scores[seen.first..seen.end] {
        *score *= scale;
        max = if *score > max { *score } else { max };
    }
    let mut stripes = [0.0_f32; STRIPES];
    for slot in seen.first..seen.end {
        scores[slot] = exp(scores[slot] - max);
        stripes[slot % STRIPES] += scores[slot];
    }
    // Plus zero: else the sign of a zero maximum would tell in which order the scores were compared.
    (max + 0.0, sum_stripes(stripes))
}

/// Adds the partial of the next page to what the pages before it gave.
#[inline(always)]
pub(in crate::kernels) fn merge(
    PartialsMut { max, sum, out }: PartialsMut<'_>,
    page: Partials<'_>,
) {
    let head_dim = out.len() / max.len();
    for (m, out) in out.chunks_exact_mut(head_dim).enumerate() {
        if page.sum[m] == 0.0 {
            continue; // the query sees nothing of this page
        }
        if sum[m] == 0.0 {
            // The first page with something to see is taken as it is.
            (max[m], sum[m]) = (page.max[m], page.sum[m]);
            out.copy_from_slice(&page.out[m * head_dim..][..head_dim]);
            continue;
        }
        let greatest = if page.max[m] > max[m] {
            page.max[m]
        } else {
            max[m]
        };
        let (old, new) = (exp(max[m] - greatest), exp(page.max[m] - greatest));
        max[m] = greatest;
        sum[m] = new.mul_add(page.sum[m], old * sum[m]);
        for (o, &value) in out.iter_mut().zip(&page.out[m * head_dim..][..head_dim]) {
            *o = new.mul_add(value, old * *o);
        }
    }
}
