//! Attention of whole batches: however pages are shared, cut and shared out, the bits of a plain walk over one row's pages.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Rounded, bits};
use engine::backend::{AttendRow, Cpu, Heads};
use engine::kernels::{Kernels, scalar};
use engine::tensor::{
    Activations, KvType, LayerView, Mode, PAGE_POSITIONS, PageView, Partials, PartialsMut, Span,
};
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
    mode: Mode,
    element: KvType,
    pages: usize,
    /// By sequence, indexes into `pages`.
    sequences: Vec<Vec<usize>>,
    /// Sequence, first position seen, own position.
    rows: Vec<(usize, usize, usize)>,
}

/// The pages of a case in memory, as the case's type.
enum Memory {
    F32(Vec<Vec<f32>>),
    F16(Vec<Vec<u16>>),
    Q8_0(Vec<Rounded>),
}

impl Memory {
    fn page(&self, page: usize) -> LayerView<'_> {
        match self {
            Self::F32(pages) => LayerView::F32(&pages[page]),
            Self::F16(pages) => LayerView::F16(&pages[page]),
            Self::Q8_0(pages) => LayerView::Q8_0(pages[page].view()),
        }
    }
}

impl Case {
    /// Of each page and head keys, then values.
    fn memory(&self) -> Memory {
        let pages = (0..self.pages).map(|page| numbers(page, 2 * HALF));
        let to_half = |x: &f32| f16::from_f32(*x).to_bits();
        match self.element {
            KvType::F32 => Memory::F32(pages.collect()),
            KvType::F16 => {
                let halves = pages.map(|page| page.iter().map(to_half).collect());
                Memory::F16(halves.collect())
            }
            KvType::Q8_0 => {
                let rounded = pages.map(|page| Rounded::layer(&page, HEADS.head_dim));
                Memory::Q8_0(rounded.collect())
            }
        }
    }

    /// What `cpu` answers, by row.
    fn ask(&self, cpu: &Cpu, memory: &Memory, queries: &[f32]) -> Vec<Vec<u32>> {
        let pages = |sequence: usize, index: usize| memory.page(self.sequences[sequence][index]);
        let row = |&(sequence, first, position): &(usize, usize, usize)| AttendRow {
            sequence,
            first,
            position,
        };
        let rows: Vec<AttendRow> = self.rows.iter().map(row).collect();
        let mut out = vec![f32::NAN; rows.len() * WIDTH];
        cpu.attend(queries, &rows, &pages, HEADS, &mut out);
        out.chunks_exact(WIDTH).map(bits).collect()
    }

    /// What a row's query head is answered by definition: its pages ascending, the reference's arithmetic, one division.
    fn walk(&self, memory: &Memory, row: usize, head: usize, query: &[f32]) -> Vec<f32> {
        let (sequence, first, position) = self.rows[row];
        let kernels = scalar::table();
        let mut sums = vec![0.0; Partials::elements(1, HEADS.head_dim)];
        for index in first / PAGE_POSITIONS..=position / PAGE_POSITIONS {
            let start = index * PAGE_POSITIONS;
            let seen = Span {
                first: first.saturating_sub(start),
                end: PAGE_POSITIONS.min(position + 1 - start),
            };
            let page = memory.page(self.sequences[sequence][index]);
            let page = page.head(head / (HEADS.query / HEADS.kv), HEADS.head_dim);
            let mut out = vec![f32::NAN; sums.len()];
            let partials = PartialsMut::of(&mut out, 1);
            let scale = 0.25; // 1 / sqrt(head_dim)
            match (self.mode, page) {
                (Mode::Fast, PageView::Q8_0 { k, v }) => {
                    let mut padded = [0.0; 32];
                    padded[..HEADS.head_dim].copy_from_slice(query);
                    let mut rounded = Activations::zeroed(1, 32);
                    (kernels.quantize)(&padded, &mut rounded);
                    (kernels.attend_fast)([k, v], None, rounded.view(), &[seen], scale, partials);
                }
                _ => (kernels.attend)(page, None, query, &[seen], scale, partials),
            }
            (kernels.merge)(PartialsMut::of(&mut sums, 1), Partials::of(&out, 1));
        }
        let sums = Partials::of(&sums, 1);
        sums.out.iter().map(|value| value / sums.sum[0]).collect()
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
    let mode = prop::sample::select(vec![Mode::Exact, Mode::Fast]);
    let numerics = (mode, prop::sample::select(KvType::ALL.to_vec()));
    (numerics, 0..12_usize, window, sequences).prop_map(|(numerics, common, window, shapes)| {
        let (mode, element) = numerics;
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
            mode,
            element,
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
        let memory = case.memory();
        let queries = numbers(999, case.rows.len() * WIDTH);
        let each = queries.chunks_exact(WIDTH).enumerate();
        let expected: Vec<Vec<u32>> = each.map(|(row, queries)| {
            let heads = queries.chunks_exact(HEADS.head_dim).enumerate();
            heads.flat_map(|(head, query)| bits(&case.walk(&memory, row, head, query))).collect()
        }).collect();
        for choice in common::kernel_sets() {
            let kernels = Kernels::choose(choice).unwrap();
            // Of work enough, eight rows or fewer are attended page by page apart whatever the threads; of more rows than
            // that, only where the threads are many.
            for threads in [1, 2, 9] {
                for shared in [false, true] {
                    let cpu = Cpu::new(kernels, threads, case.mode).unwrap().sharing_pages(shared);
                    let found = case.ask(&cpu, &memory, &queries);
                    prop_assert_eq!(&found, &expected, "{} {} {}", kernels.name, threads, shared);
                }
            }
        }
    }
}
