//! run.json: figures from the traces beside the facts of model, build and machine.
//!
//! Not here: computing a figure (`workloads::summary`) or gathering a fact (`machine`,
//! `build_facts`).

use workloads::envelope::ResolvedEnvelope;
use workloads::record::{
    BuildRecord, Instrument, MachineRecord, ModelRecord, RUN_SCHEMA, RunRecord, SettingsRecord,
    Sitting,
};
use workloads::summary::{self, ArmTrace};

use super::Traced;
use crate::error::Error;
use crate::models::Located;

/// What the record says beside its figures.
pub(super) struct Facts {
    pub(super) model: Located,
    pub(super) build: BuildRecord,
    pub(super) machine: MachineRecord,
    /// Sittings before this one, of a run that was interrupted.
    pub(super) earlier: Vec<Sitting>,
    pub(super) sitting: Sitting,
    pub(super) instrument: Instrument,
}

/// The whole record.
pub(super) fn assemble(
    envelope: &ResolvedEnvelope,
    facts: Facts,
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
            score: trace.score.as_deref(),
        })
        .collect();
    let mut summary = summary::summarise(envelope, &lines).map_err(refused)?;
    check_model(&facts.model, &summary.model_sha256)?;
    facts.instrument.mark_arms(&mut summary.arms);
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
            numbers: None,
        },
        requested: SettingsRecord {
            mode: envelope.mode.clone(),
            kernels: envelope.run.kernels.clone(),
            threads: envelope.run.threads,
        },
        effective: summary.effective,
        build: facts.build,
        machine: facts.machine,
        sittings: facts.earlier.into_iter().chain([facts.sitting]).collect(),
        order: summary.order,
        arms: summary.arms,
        ratios: summary.ratios,
        identity: summary.identity,
        verdict: summary.verdict,
        cells: None,
        instrument: Some(facts.instrument),
    })
}

/// The arms loaded the file that was registered.
pub(super) fn check_model(model: &Located, found: &str) -> Result<(), Error> {
    match &model.sha256 {
        Some(expected) if expected != found => Err(Error::WrongDigest {
            what: format!("the cached file of model {}", model.name),
            expected: expected.clone(),
            found: found.to_owned(),
            next: format!("`harness model verify {}` says more", model.name),
        }),
        _ => Ok(()),
    }
}
