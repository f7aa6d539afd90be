//! What must not change an answer: the factors, their levels, and one combination of them.
//!
//! Not here: running a combination (`subject`), choosing which are run (`covering`).

use engine::KernelChoice;
use engine::kernels::Kernels;

use super::subject::PROMPT_LEN;

/// Names of the factors, in the order of [`Factors::labels`].
pub(super) const NAMES: [&str; 6] = ["hit", "batch", "chunk", "threads", "kernels", "sharing"];

/// The levels of each factor, the plainest path first.
pub(super) struct Factors {
    hits: Vec<usize>,
    batches: Vec<usize>,
    chunks: Vec<usize>,
    threads: Vec<usize>,
    kernels: Vec<KernelChoice>,
    shared_attention: Vec<bool>,
}

/// One way to compute the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combination {
    /// Positions of the prompt found in the cache.
    pub(super) hit: usize,
    /// Requests that decode together.
    pub(super) batch: usize,
    /// Prompt positions per step.
    pub(super) chunk: usize,
    /// Engine threads.
    pub(super) threads: usize,
    /// Kernel set.
    pub(super) kernels: KernelChoice,
    /// Whether requests attend common pages together.
    pub(super) shared_attention: bool,
}

impl Factors {
    /// Every level there is on this machine.
    pub(super) fn all() -> Self {
        let mut kernels = vec![KernelChoice::Scalar];
        kernels.extend(
            [KernelChoice::Avx2, KernelChoice::Avx512]
                .into_iter()
                .filter(|it| Kernels::choose(*it).is_ok()),
        );
        Self {
            hits: vec![0, 1, 63, 64, 65, 128, PROMPT_LEN - 1, PROMPT_LEN],
            batches: vec![1, 2, 7, 16],
            chunks: vec![1, 16, 64, 512],
            threads: vec![1, 2, 3],
            kernels,
            shared_attention: vec![false, true],
        }
    }

    /// Every hit length; of batch and chunk the ends and one between, so that 24 runs cover all pairs.
    pub(super) fn fewer() -> Self {
        let mut fewer = Self {
            batches: vec![1, 7, 16],
            chunks: vec![1, 64, 512],
            ..Self::all()
        };
        // An array takes the first level where it has the choice: let that be the fast one.
        fewer.kernels.reverse();
        fewer
    }

    /// How many levels each factor has.
    pub(super) fn sizes(&self) -> [usize; 6] {
        self.labels().map(|labels| labels.len())
    }

    /// The combination at these level indexes.
    pub(super) fn at(&self, levels: &[usize]) -> Combination {
        Combination {
            hit: self.hits[levels[0]],
            batch: self.batches[levels[1]],
            chunk: self.chunks[levels[2]],
            threads: self.threads[levels[3]],
            kernels: self.kernels[levels[4]],
            shared_attention: self.shared_attention[levels[5]],
        }
    }

    /// Every level in words.
    pub(super) fn labels(&self) -> [Vec<String>; 6] {
        let numbers = |levels: &[usize]| levels.iter().map(ToString::to_string).collect();
        let kernels = self.kernels.iter().map(ToString::to_string).collect();
        let hits = self.hits.iter().map(|hit| hit_in_words(*hit)).collect();
        let [batches, chunks, threads] =
            [&self.batches, &self.chunks, &self.threads].map(|it| numbers(it));
        let sharing = self.shared_attention.iter();
        let sharing = sharing.map(|it| sharing_in_words(*it).to_owned());
        [hits, batches, chunks, threads, kernels, sharing.collect()]
    }
}

fn hit_in_words(hit: usize) -> String {
    match hit {
        0 => "cold".to_owned(),
        PROMPT_LEN => format!("all {hit}"),
        other if other == PROMPT_LEN - 1 => format!("all but one, {hit}"),
        other => other.to_string(),
    }
}

fn sharing_in_words(shared: bool) -> &'static str {
    if shared { "shared pages" } else { "none" }
}

impl std::fmt::Display for Combination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            hit,
            batch,
            chunk,
            threads,
            kernels,
            shared_attention,
        } = *self;
        let hit = hit_in_words(hit);
        let sharing = sharing_in_words(shared_attention);
        write!(
            f,
            "hit {hit}; batch {batch}; chunk {chunk}; threads {threads}; kernels {kernels}; sharing {sharing}"
        )
    }
}
