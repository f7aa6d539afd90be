//! The page primitive: attention of some queries over one page, and the merge of pages in ascending order.
//!
//! A page gives (max, sum, out) that do not depend on who asks with it or what else is computed; merging page by page
//! therefore gives the same bits for prefill, decode and a prefix shared by many. Not here: which pages, which queries.

use super::exp::exp;
use crate::kernels::{STRIPES, sum_stripes};
use crate::tensor::{PAGE_POSITIONS, PageView, Partials};

/// Fills `out` for `queries[m][head_dim]` over the first `visible[m]` positions of one head's page.
#[inline(always)]
pub(in crate::kernels) fn attend(
    page: PageView<'_>,
    queries: &[f32],
    visible: &[usize],
    scale: f32,
    out: &mut Partials,
) {
    let head_dim = page.k.len() / PAGE_POSITIONS;
    out.reset(visible.len(), head_dim);
    for (m, (query, &visible)) in queries.chunks_exact(head_dim).zip(visible).enumerate() {
        if visible == 0 {
            continue;
        }
        let mut scores = [0.0_f32; PAGE_POSITIONS];
        for (&q, keys) in query.iter().zip(page.k.chunks_exact(PAGE_POSITIONS)) {
            for (score, &key) in scores.iter_mut().zip(keys) {
                *score = q.mul_add(key, *score);
            }
        }
        let scores = &mut scores[..visible];
        let mut max = f32::NEG_INFINITY;
        for score in scores.iter_mut() {
            *score *= scale;
            max = if *score > max { *score } else { max };
        }
        let mut stripes = [0.0_f32; STRIPES];
        let out_row = &mut out.out[m * head_dim..][..head_dim];
        for (position, score) in scores.iter().enumerate() {
            let weight = exp(score - max);
            stripes[position % STRIPES] += weight;
            for (o, &value) in out_row
                .iter_mut()
                .zip(&page.v[position * head_dim..][..head_dim])
            {
                *o = weight.mul_add(value, *o);
            }
        }
        out.max[m] = max;
        out.sum[m] = sum_stripes(stripes);
    }
}

/// Adds the partial of the next page to what the pages before it gave.
#[inline(always)]
pub(in crate::kernels) fn merge(into: &mut Partials, page: &Partials) {
    let head_dim = into.out.len() / into.max.len();
    for (m, out) in into.out.chunks_exact_mut(head_dim).enumerate() {
        if page.sum[m] == 0.0 {
            continue; // the query sees nothing of this page
        }
        let max = if page.max[m] > into.max[m] {
            page.max[m]
        } else {
            into.max[m]
        };
        let (old, new) = (exp(into.max[m] - max), exp(page.max[m] - max));
        into.max[m] = max;
        into.sum[m] = new.mul_add(page.sum[m], old * into.sum[m]);
        for (o, &value) in out.iter_mut().zip(&page.out[m * head_dim..][..head_dim]) {
            *o = new.mul_add(value, old * *o);
        }
    }
}
