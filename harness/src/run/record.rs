//! run.json: figures from the traces beside the facts of model, build and machine.
//!
//! Not here: computing a figure (`workloads::summary`) or gathering a fact (`machine`,
//! `build_facts`).

use workloads::envelope::ResolvedEnvelope;
use workloads::record::{
    BuildRecord, MachineRecord, ModelRecord, RUN_SCHEMA, RunRecord, SettingsRecord, Sitting,
};
use workloads::summary::{self, ArmTrace};

use super::Traced;
use crate::error::Error;
use crate::models::Located;

/// What the record says beside its figures.
pub(super) struct Facts<'a> {
    pub(super) model: &'a Located,
    pub(super) build: BuildRecord,
    pub(super) machine: MachineRecord,
    pub(super) sitting: Sitting,
}

/// The whole record.
pub(super) fn assemble(
    envelope: &ResolvedEnvelope,
    facts: Facts<'_>,
    traces: &[Traced<'_>],
) -> Result<RunRecord, Error> {
    let refused = |source| Error::Envelope {
        file: envelope.name.clone(),
        source,
    };
    let lines: Vec<ArmTrace<'_>> = traces
        .iter()
        .map(|trace| ArmTrace {
            arm: trace.arm,
            rep: trace.rep,
            lines: &trace.lines,
        })
        .collect();
    let summary = summary::summarise(envelope, &lines).map_err(refused)?;
    if let Some(expected) = facts
        .model
        .sha256
        .as_ref()
        .filter(|it| **it != summary.model_sha256)
    {
        return Err(Error::WrongDigest {
            what: format!("the cached file of model {}", facts.model.name),
            expected: expected.clone(),
            found: summary.model_sha256,
            next: format!("`harness model verify {}` says more", facts.model.name),
        });
    }
    let envelope_sha256 = envelope
        .sha256()
        .map_err(|error| Error::Usage(format!("envelope.json: {error}")))?;
    Ok(RunRecord {
        schema: RUN_SCHEMA.to_owned(),
        envelope: envelope.name.clone(),
        envelope_sha256,
        complete: summary.complete,
        model: ModelRecord {
            name: facts.model.name.clone(),
            sha256: summary.model_sha256,
            tokenizer_sha256: summary.tokenizer_sha256,
            label: facts.model.label.clone(),
        },
        requested: SettingsRecord {
            mode: envelope.mode.clone(),
            kernels: envelope.run.kernels.clone(),
            threads: envelope.run.threads,
        },
        effective: summary.effective,
        build: facts.build,
        machine: facts.machine,
        sittings: vec![facts.sitting],
        order: summary.order,
        arms: summary.arms,
        ratios: summary.ratios,
        identity: summary.identity,
        verdict: summary.verdict,
    })
}
