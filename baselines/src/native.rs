//! Our own engine as an arm: which options an arm's name means, and a warm-up that leaves nothing cached.
//!
//! Not here: how the engine caches or batches (`engine`).

use std::path::Path;

use engine::{
    Admission, CachePolicy, Engine, EngineOptions, Eviction, KernelChoice, KvSnapshot, KvType,
    Mode, Model, NullSink, OnQuarantine, Request, Scope, Sink,
};
use workloads::arm::Cache;
use workloads::envelope::{self, AdmissionOrder, KvDtype, ResolvedCells, Run};
use workloads::trace::{KvNode, KvTombstone, Settings};

use crate::arm::{Arm, Kv, Quarantined, Report};
use crate::fleet::session_name;
use crate::{ArmJob, CellJob, Error};

/// Prompt and answer of the warm-up: enough to run every kernel of both phases once.
const WARMUP_PROMPT: usize = 8;
const WARMUP_DECODE: usize = 2;

/// The engine, loaded for one arm.
pub(crate) struct Native {
    engine: Engine,
    options: EngineOptions,
}

impl Native {
    /// Loads the job's model with the options of its arm.
    pub(crate) fn load(job: &ArmJob) -> Result<Self, Error> {
        Self::with_options(job, options(job)?)
    }

    /// Loads the job's model with the options of its arm of engine work.
    pub(crate) fn load_cell(job: &CellJob, shared_attention: bool) -> Result<Self, Error> {
        let options = cell_options(&job.envelope, shared_attention)?;
        Self::around(
            open_model(job.model_path.as_deref(), &job.envelope.model)?,
            options,
        )
    }

    /// Loads the job's model with options of the caller's.
    fn with_options(job: &ArmJob, options: EngineOptions) -> Result<Self, Error> {
        Self::around(
            open_model(job.model_path.as_deref(), &job.envelope.model)?,
            options,
        )
    }

    fn around(model: Model, options: EngineOptions) -> Result<Self, Error> {
        Ok(Self {
            engine: Engine::new(model, &options)?,
            options,
        })
    }

    /// Generates a little, then hands the same model to an engine that has seen nothing: code, weights
    /// and allocator are warm, threads and cache are new. Only one model is ever in memory, so that
    /// peaks hold.
    pub(crate) fn warmed_up(mut self) -> Result<Self, Error> {
        let prompt: Vec<u32> = self
            .model()
            .ordinary_ids()
            .cycle()
            .take(WARMUP_PROMPT)
            .collect();
        let decode_max = WARMUP_DECODE;
        self.submit(Request {
            id: 0,
            session: 0,
            prompt,
            decode_max,
            ignore_eos: true,
            ..Request::default()
        })?;
        while self.step(&mut NullSink)? {}
        Self::around(self.engine.into_model(), self.options)
    }

    /// The model it answers with.
    pub(crate) fn model(&self) -> &Model {
        self.engine.model()
    }

    /// The settings it really runs with; `mode` is the word for its mode.
    pub(crate) fn settings(&self, mode: &str) -> Settings {
        let cache = match self.options.cache {
            CachePolicy::None => Cache::None,
            CachePolicy::Session => Cache::Session,
            CachePolicy::Shared => Cache::Shared,
        };
        Settings {
            cache: cache.word().to_owned(),
            batched: self.options.batched,
            shared_attention: self.options.shared_attention,
            mode: mode.to_owned(),
            kernels: self.engine.kernels().to_owned(),
            threads: self.engine.threads(),
            kv_dtype: self.engine.kv_dtype().to_owned(),
            page_positions: engine::PAGE_POSITIONS,
            chunk_tokens: self.options.chunk_tokens,
            kv_pages: self.options.kv_pages,
            eviction: self.options.eviction.to_string(),
            admission: stated(self.options.admission),
            greedy: true,
        }
    }
}

impl Arm for Native {
    fn submit(&mut self, request: Request) -> Result<(), Error> {
        Ok(self.engine.submit(request)?)
    }

    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, Error> {
        Ok(self.engine.step(sink)?)
    }

    fn report(&self) -> Report {
        let kv_bytes_peak = self.engine.kv_bytes_peak();
        Report {
            counters: self.engine.counters(),
            kv_bytes_peak,
        }
    }

    fn quarantine(&mut self, ids: &[u32], start: usize) -> Result<Quarantined, Error> {
        let (scope, running) = (Scope::default(), OnQuarantine::Finish);
        let done = self.engine.quarantine(&scope, ids, start, running)?;
        Ok(Quarantined {
            pages: done.pages,
            running: done.running,
        })
    }

    fn kv(&self) -> Result<Kv, Error> {
        let KvSnapshot { nodes, tombstones } = self.engine.kv_snapshot();
        let node = |node: engine::KvNode| KvNode {
            id: node.id,
            parent: node.parent,
            positions: node.positions,
            session: usize::try_from(node.session).ok().map(session_name),
            hits: node.hits,
        };
        let tombstone = |it: engine::KvTombstone| KvTombstone {
            parent: it.parent,
            start: it.start,
            positions: it.positions,
        };
        Ok(Kv {
            nodes: nodes.into_iter().map(node).collect(),
            tombstones: tombstones.into_iter().map(tombstone).collect(),
        })
    }
}

/// The model at this path, or the synthetic one of this name.
pub(crate) fn open_model(path: Option<&Path>, name: &str) -> Result<Model, Error> {
    Ok(match path {
        Some(path) => Model::open(path)?,
        None => Model::synthetic(name)?,
    })
}

fn options(job: &ArmJob) -> Result<EngineOptions, Error> {
    let arm = workloads::arm::named(&job.arm)?;
    Ok(EngineOptions {
        cache: match arm.cache {
            Cache::None => CachePolicy::None,
            Cache::Session => CachePolicy::Session,
            Cache::Shared => CachePolicy::Shared,
        },
        batched: arm.batched,
        shared_attention: arm.shared_attention,
        ..fleet_options(&job.envelope.mode, &job.envelope.run)?
    })
}

fn cell_options(envelope: &ResolvedCells, shared_attention: bool) -> Result<EngineOptions, Error> {
    Ok(EngineOptions {
        shared_attention,
        ..fleet_options(&envelope.mode, &envelope.run)?
    })
}

/// To read a transcript once, as exactly as our model can.
pub(crate) fn scoring_options(run: &Run) -> Result<EngineOptions, Error> {
    Ok(EngineOptions {
        kv_type: None, // the mode's own
        ..fleet_options("exact", run)?
    })
}

/// One cache for everyone, everyone in every step, settings as the run asks.
fn fleet_options(mode: &str, run: &Run) -> Result<EngineOptions, Error> {
    Ok(EngineOptions {
        mode: mode.parse::<Mode>().map_err(Error::Mode)?,
        kv_type: run.kv_dtype.map(kv_type),
        kernels: run
            .kernels
            .parse::<KernelChoice>()
            .map_err(Error::Kernels)?,
        threads: run.threads,
        chunk_tokens: run.chunk_tokens,
        kv_pages: run.kv_pages,
        eviction: policy(run.eviction),
        admission: run.admission.map_or(Admission::FirstCome, admission),
        ..EngineOptions::default()
    })
}

fn kv_type(asked: KvDtype) -> KvType {
    match asked {
        KvDtype::F32 => KvType::F32,
        KvDtype::F16 => KvType::F16,
        KvDtype::Q8_0 => KvType::Q8_0,
    }
}

fn policy(asked: envelope::Eviction) -> Eviction {
    match asked {
        envelope::Eviction::Lru => Eviction::Lru,
        envelope::Eviction::Lfu => Eviction::Lfu,
        envelope::Eviction::Fifo => Eviction::Fifo,
        envelope::Eviction::Priority => Eviction::Priority,
        envelope::Eviction::Cost => Eviction::Cost,
    }
}

fn admission(asked: envelope::Admission) -> Admission {
    let AdmissionOrder::CacheAware = asked.order;
    let overtaken_max = asked.overtaken_max;
    Admission::CacheAware { overtaken_max }
}

/// As envelopes and traces state it; first come, first served is not stated.
fn stated(effective: Admission) -> Option<envelope::Admission> {
    let Admission::CacheAware { overtaken_max } = effective else {
        return None;
    };
    let order = AdmissionOrder::CacheAware;
    Some(envelope::Admission {
        order,
        overtaken_max,
    })
}

#[cfg(test)]
mod tests {
    //! That the cache is really read: what matching off, or one changed value in a page, does to the answers.

    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::*;
    use crate::Servers;
    use crate::drive::Session;
    use crate::recorder::Recorder;
    use workloads::envelope::{Envelope, Overrides};
    use workloads::session::SessionPlan;
    use workloads::trace::{Body, Line};

    /// Per request (agent, turn): output ids and the hash of the last logits.
    type Answers = BTreeMap<(usize, usize), (Vec<u32>, String)>;

    /// Overwrites one value of a page of session 0 before its third turn.
    struct Meddled {
        native: Native,
        page: usize,
    }

    impl Arm for Meddled {
        fn submit(&mut self, request: Request) -> Result<(), Error> {
            if (request.session, request.prompt.len()) == (0, THIRD_PROMPT) {
                assert!(self.native.engine.poke_session(0, self.page, 0, 9.0));
            }
            self.native.submit(request)
        }
        fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, Error> {
            self.native.step(sink)
        }
        fn report(&self) -> Report {
            self.native.report()
        }
        fn quarantine(&mut self, ids: &[u32], start: usize) -> Result<Quarantined, Error> {
            self.native.quarantine(ids, start)
        }
        fn kv(&self) -> Result<Kv, Error> {
            self.native.kv()
        }
    }

    /// Prefix, and two answers and results of `smoke`.
    const THIRD_PROMPT: usize = 100 + 2 * (8 + 12);

    fn job(arm: &str) -> ArmJob {
        let smoke = Envelope::named("smoke").unwrap();
        let envelope = smoke.resolve(&Overrides::default(), 1).unwrap();
        ArmJob {
            envelope,
            arm: arm.to_owned(),
            rep: 0,
            model_path: None,
            perturbed: false,
            servers: Servers::default(),
        }
    }

    fn answers(arm: &mut dyn Arm) -> Answers {
        let workload = job("fused").envelope.workload;
        let plan = SessionPlan::new(&workload, 0..255).unwrap();
        let (now, mut out) = (Cell::new(0), Vec::new());
        let clock = || now.replace(now.get() + 1);
        let mut recorder = Recorder::new(&mut out, &clock);
        let session = Session {
            plan,
            workload,
            batched: true,
        };
        session.drive(arm, &mut recorder).unwrap();
        let lines = String::from_utf8(out).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str::<Line>(line).unwrap().body);
        let mut names = BTreeMap::new();
        let mut answers = Answers::new();
        for line in lines {
            match line {
                Body::Request {
                    id, agent, turn, ..
                } => {
                    names.insert(id, (agent, turn));
                }
                Body::Finish {
                    request,
                    ids,
                    logits_sha256,
                    ..
                } => {
                    answers.insert(names[&request], (ids, logits_sha256));
                }
                _ => {}
            }
        }
        answers
    }

    #[test]
    fn fused_without_matching_computes_what_naive_does_and_answers_the_same() {
        let job = job("fused");
        let mut fused = Native::load(&job).unwrap();
        let unmatched = EngineOptions {
            cache: CachePolicy::None,
            ..options(&job).unwrap()
        };
        let mut unmatched = Native::with_options(&job, unmatched).unwrap();
        assert_eq!(answers(&mut fused), answers(&mut unmatched));
        let shape = job.envelope.workload.shape();
        let naive = workloads::oracle::counts(workloads::arm::named("naive").unwrap(), &shape);
        let computed = |native: &Native| native.report().counters.prefill_tokens_computed;
        assert_eq!(computed(&unmatched), naive.unwrap().prefill_tokens_computed);
        assert!(computed(&fused) < computed(&unmatched));
    }

    #[test]
    fn a_changed_value_in_a_shared_page_changes_all_agents_and_in_an_own_page_only_its_agent() {
        let job = job("fused");
        let expected = answers(&mut Native::load(&job).unwrap());
        // Page 0 holds 64 positions of the prefix for everyone; page 1 ends with each agent's own first result.
        for (page, shared) in [(0, true), (1, false)] {
            let mut meddled = Meddled {
                native: Native::load(&job).unwrap(),
                page,
            };
            let found = answers(&mut meddled);
            for ((agent, turn), (_, hash)) in &found {
                let differs = *hash != expected[&(*agent, *turn)].1;
                if *turn > 1 {
                    assert_eq!(
                        differs,
                        shared || *agent == 0,
                        "page {page}, agent {agent}, turn {turn}"
                    );
                }
            }
        }
    }
}
