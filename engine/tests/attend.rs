//! Attention of whole batches: however pages are shared, cut and shared out, the bits of one row asking alone.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::bits;
use engine::backend::{AttendRow, Cpu, Heads};
use engine::kernels::{KernelChoice, Kernels, scalar};
use engine::tensor::{LayerView, Mode, PAGE_POSITIONS};
use half::f16;
use proptest::prelude::*;

const HEADS: Heads = Heads {
    query: 6,
    kv: 2,
    head_dim: 16,
};
const WIDTH: usize = HEADS.query * HEADS.head_dim;
/// Elements of the keys of a page, all KV heads.
const HALF: usize = HEADS.kv * HEADS.head_dim * PAGE_POSITIONS;

/// Sequences that hold `common` pages together and some of their own, and rows that ask them.
#[derive(Debug)]
struct Case {
    half: bool,
    pages: usize,
    /// By sequence, indexes into `pages`.
    sequences: Vec<Vec<usize>>,
    /// Sequence, first position seen, own position.
    rows: Vec<(usize, usize, usize)>,
}

impl Case {
    /// What `cpu` answers `rows`, by row.
    fn ask(&self, cpu: &Cpu, rows: &[(usize, usize, usize)], queries: &[f32]) -> Vec<Vec<u32>> {
        // Of each head keys, then values.
        let memory: Vec<Vec<f32>> = (0..self.pages)
            .map(|page| numbers(page, 2 * HALF))
            .collect();
        let to_half = |x: &f32| f16::from_f32(*x).to_bits();
        let halves = memory.iter().map(|page| page.iter().map(to_half));
        let halves: Vec<Vec<u16>> = halves.map(Iterator::collect).collect();
        let pages = |sequence: usize, index: usize| {
            let page = self.sequences[sequence][index];
            if self.half {
                LayerView::F16(&halves[page])
            } else {
                LayerView::F32(&memory[page])
            }
        };
        let row = |&(sequence, first, position): &(usize, usize, usize)| AttendRow {
            sequence,
            first,
            position,
        };
        let rows: Vec<AttendRow> = rows.iter().map(row).collect();
        let mut out = vec![f32::NAN; rows.len() * WIDTH];
        cpu.attend(queries, &rows, &pages, HEADS, &mut out);
        out.chunks_exact(WIDTH).map(bits).collect()
    }
}

/// Numbers between -2 and 2, different for each seed.
fn numbers(seed: usize, len: usize) -> Vec<f32> {
    let number = |i: usize| ((seed * 7919 + i * 104_729) % 4093) as f32 / 1023.0 - 2.0;
    (0..len).map(number).collect()
}

fn case() -> impl Strategy<Value = Case> {
    let sequence = (0..40_usize, 1..5_usize, 1..12_usize); // own pages, rows, how far before the end they stand
    let sequences = prop::collection::vec(sequence, 1..7);
    let window = prop_oneof![3 => Just(usize::MAX), 1 => 1..300_usize];
    (any::<bool>(), 0..12_usize, window, sequences).prop_map(|(half, common, window, shapes)| {
        let (mut count, mut rows, mut sequences) = (common, Vec::new(), Vec::new());
        for (sequence, (own, asking, before)) in shapes.into_iter().enumerate() {
            let own = own / 3 + usize::from(common == 0);
            let end = (common + own) * PAGE_POSITIONS - before;
            for position in end.saturating_sub(asking)..end {
                let first = (position + 1).saturating_sub(window);
                rows.push((sequence, first, position));
            }
            sequences.push((0..common).chain(count..count + own).collect());
            count += own;
        }
        Case {
            half,
            pages: count,
            sequences,
            rows,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_row_is_answered_alike_alone_and_among_others_whoever_shares_its_pages(case in case()) {
        let cpu = |kernels, threads, shared| Cpu::new(kernels, threads, Mode::Exact).unwrap().sharing_pages(shared);
        let alone = cpu(scalar::table(), 1, false);
        let queries = numbers(999, case.rows.len() * WIDTH);
        let each = case.rows.iter().zip(queries.chunks_exact(WIDTH));
        let expected: Vec<Vec<u32>> = each.flat_map(|(row, query)| case.ask(&alone, &[*row], query)).collect();
        for kernels in [scalar::table(), Kernels::choose(KernelChoice::Auto).unwrap()] {
            // Of two threads or more the pages of few rows are attended apart; of one never.
            for threads in [1, 2, 9] {
                for shared in [false, true] {
                    let found = case.ask(&cpu(kernels, threads, shared), &case.rows, &queries);
                    prop_assert_eq!(&found, &expected, "{} {} {}", kernels.name, threads, shared);
                }
            }
        }
    }
}
