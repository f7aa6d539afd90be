//! Forged attestations over an honest run: what is signed, by whom, and whether it is of this run.
//!
//! Not here: keys that an auditor may not use (the test `attest`), which no finding is about.

use std::fs;
use std::path::Path;

use audit::{Checks, Finding, Layer, Report, audit_attested_with};
use serde_json::{Value, json};

use crate::fixture::attested::{
    PAYLOAD_TYPE, Place, envelope, keyid, signature, signer, statement, stranger,
};

/// One row.
pub(crate) struct Attested {
    pub(crate) name: &'static str,
    /// A part of what the finding must say.
    pub(crate) word: &'static str,
    lie: Lie,
}

enum Lie {
    /// Another statement, signed by the key.
    Stated(fn(&mut Value)),
    /// Another text of it, signed by the key.
    Worded(fn(String) -> String),
    /// The envelope changed after signing.
    Enveloped(fn(&mut Value)),
    /// The file as written, changed.
    Written(fn(String) -> String),
    /// Anything else.
    Told(fn(&Place)),
}

/// Makes the run and its forged attestation below `root`.
pub(crate) fn make(row: &Attested, root: &Path) {
    let place = Place::with_run(root);
    let sign = |payload: &str| place.write(&envelope(payload, PAYLOAD_TYPE, &signer()));
    let mut honest = statement(&place.run);
    match row.lie {
        Lie::Stated(tell) => {
            tell(&mut honest);
            sign(&honest.to_string());
        }
        Lie::Worded(tell) => sign(&tell(honest.to_string())),
        Lie::Enveloped(tell) => {
            let mut signed = envelope(&honest.to_string(), PAYLOAD_TYPE, &signer());
            tell(&mut signed);
            place.write(&signed);
        }
        Lie::Written(tell) => {
            place.attest();
            let text = fs::read_to_string(&place.attestation).unwrap();
            fs::write(&place.attestation, tell(text)).unwrap();
        }
        Lie::Told(tell) => {
            place.attest();
            tell(&place);
        }
    }
}

/// An audit of what `make` made.
pub(crate) fn audited(root: &Path, checks: Checks) -> Report {
    let place = Place::new(root);
    audit_attested_with(&place.run, &place.key, None, checks).unwrap()
}

/// Whether the audit names the lie.
pub(crate) fn given_away(row: &Attested, report: &Report) -> bool {
    let named = |it: &Finding| {
        it.layer == Layer::Attestation
            && it.file == "run.intoto.json"
            && it.message.contains(row.word)
    };
    report.exit_code() == 4 && report.findings.iter().any(named)
}

const fn row(name: &'static str, word: &'static str, lie: Lie) -> Attested {
    Attested { name, word, lie }
}

/// Every lie about who says what of which run.
pub(crate) static ROWS: &[Attested] = &[
    row(
        "no attestation",
        "there is no attestation: whoever made the run types `harness attest DIR --key KEY.pem`",
        Lie::Told(|place| fs::remove_file(&place.attestation).unwrap()),
    ),
    row(
        "a list for an envelope",
        "is no DSSE envelope",
        Lie::Written(|_| "[]".to_owned()),
    ),
    row(
        "an envelope cut short",
        "is no DSSE envelope: EOF",
        Lie::Written(|text| text[..text.len() - 40].to_owned()),
    ),
    row(
        "an envelope with two payloads",
        "key \"payload\" is stated twice",
        Lie::Written(|text| text.replacen('{', "{\"payload\":\"e30=\",", 1)),
    ),
    row(
        "an envelope without signatures' field",
        "missing field `signatures`",
        Lie::Enveloped(|it| drop(it.as_object_mut().unwrap().remove("signatures"))),
    ),
    row(
        "another type, signed",
        "payloadType is \"application/json\"",
        Lie::Told(|place| {
            let statement = statement(&place.run).to_string();
            place.write(&envelope(&statement, "application/json", &signer()));
        }),
    ),
    row(
        "another type, not signed",
        "the signature does not verify",
        Lie::Enveloped(|it| it["payloadType"] = json!("application/json")),
    ),
    row(
        "a payload that is no base64",
        "payload is no base64: it begins \"{}\"",
        Lie::Enveloped(|it| it["payload"] = json!("{}")),
    ),
    row(
        "signed by somebody else",
        "no signature is by the key that was given",
        Lie::Told(|place| {
            let statement = statement(&place.run).to_string();
            place.write(&envelope(&statement, PAYLOAD_TYPE, &stranger()));
        }),
    ),
    row(
        "signed by nobody",
        "no signature is by the key that was given",
        Lie::Enveloped(|it| it["signatures"] = json!([])),
    ),
    row(
        "somebody else's signature under the key's name",
        "the signature does not verify",
        Lie::Told(|place| {
            let statement = statement(&place.run).to_string();
            let mut signed = envelope(&statement, PAYLOAD_TYPE, &stranger());
            signed["signatures"][0]["keyid"] = json!(keyid(&signer()));
            place.write(&signed);
        }),
    ),
    row(
        "the signature of another statement",
        "the signature does not verify",
        Lie::Enveloped(|it| it["signatures"] = json!([signature("{}", PAYLOAD_TYPE, &signer())])),
    ),
    row(
        "a signature without its last bytes",
        "the signature does not verify",
        Lie::Enveloped(|it| it["signatures"][0]["sig"] = json!("AAAA")),
    ),
    row(
        "a payload that is no JSON, signed",
        "its payload is no JSON to rely on",
        Lie::Worded(|text| text[..text.len() - 1].to_owned()),
    ),
    row(
        "a statement with two subjects' fields, signed",
        "key \"subject\" is stated twice",
        Lie::Worded(|text| text.replacen('{', "{\"subject\":[],", 1)),
    ),
    row(
        "another kind of statement",
        "_type of its payload is",
        Lie::Stated(|it| it["_type"] = json!("https://in-toto.io/Statement/v0.1")),
    ),
    row(
        "another kind of predicate",
        "predicateType of its payload is",
        Lie::Stated(|it| it["predicateType"] = json!("https://slsa.dev/provenance/v0.2")),
    ),
    row(
        "a subject that the run has not",
        "\"trace/best.jsonl\", is no file of the run",
        Lie::Stated(|it| {
            let more =
                json!({ "name": "trace/best.jsonl", "digest": { "sha256": "00".repeat(32) } });
            it["subject"].as_array_mut().unwrap().push(more);
        }),
    ),
    row(
        "a subject stated twice",
        "\"run.json\", is no file of the run, or stands there before",
        Lie::Stated(|it| {
            let subjects = it["subject"].as_array_mut().unwrap();
            let run = subjects.iter().find(|it| it["name"] == "run.json").cloned();
            subjects.push(run.unwrap());
        }),
    ),
    row(
        "a subject with another digest",
        "and the run's file has the SHA-256",
        Lie::Stated(|it| it["subject"][1]["digest"]["sha256"] = json!("00".repeat(32))),
    ),
    row(
        "a subject with a weaker digest beside",
        "and the run's file has the SHA-256",
        Lie::Stated(|it| it["subject"][1]["digest"]["md5"] = json!("00".repeat(16))),
    ),
    row(
        "a file left out of the subjects",
        "its subjects leave out files of the run: [\"trace/fused-0.jsonl\"]",
        Lie::Stated(|it| drop(it["subject"].as_array_mut().unwrap().pop())),
    ),
    row(
        "no subjects",
        "its subjects leave out files of the run",
        Lie::Stated(|it| drop(it.as_object_mut().unwrap().remove("subject"))),
    ),
    row(
        "another envelope",
        "predicate.buildDefinition.externalParameters.envelope.digest.sha256 is \"0000",
        Lie::Stated(|it| {
            let parameters = &mut it["predicate"]["buildDefinition"]["externalParameters"];
            parameters["envelope"]["digest"]["sha256"] = json!("00".repeat(32));
        }),
    ),
    row(
        "another model",
        "resolvedDependencies[0].digest.sha256 is \"0000",
        Lie::Stated(|it| {
            let needs = &mut it["predicate"]["buildDefinition"]["resolvedDependencies"];
            needs[0]["digest"]["sha256"] = json!("00".repeat(32));
        }),
    ),
    row(
        "another commit",
        "resolvedDependencies[2].digest.gitCommit is \"0000",
        Lie::Stated(|it| {
            let needs = &mut it["predicate"]["buildDefinition"]["resolvedDependencies"];
            needs[2]["digest"]["gitCommit"] = json!("00".repeat(20));
        }),
    ),
    row(
        "a program that had no part in it",
        "resolvedDependencies is [",
        Lie::Stated(|it| {
            let needs = &mut it["predicate"]["buildDefinition"]["resolvedDependencies"];
            let more = json!({ "name": "llama-server", "digest": { "sha256": "00".repeat(32) } });
            needs.as_array_mut().unwrap().push(more);
        }),
    ),
    row(
        "another machine",
        "predicate.runDetails.builder.version.machine is \"faster\", and run.json gives \"c\"",
        Lie::Stated(|it| {
            it["predicate"]["runDetails"]["builder"]["version"]["machine"] = json!("faster");
        }),
    ),
    row(
        "a fact that run.json has not",
        "predicate.runDetails.byproducts is [], and run.json gives nothing there",
        Lie::Stated(|it| it["predicate"]["runDetails"]["byproducts"] = json!([])),
    ),
    row(
        "no moment",
        "predicate.runDetails.metadata.startedOn is left out",
        Lie::Stated(|it| {
            let metadata = &mut it["predicate"]["runDetails"]["metadata"];
            metadata.as_object_mut().unwrap().remove("startedOn");
        }),
    ),
    row(
        "a name that is none",
        "predicate.runDetails.metadata.invocationId is 7",
        Lie::Stated(|it| it["predicate"]["runDetails"]["metadata"]["invocationId"] = json!(7)),
    ),
    row(
        "a run made again after it was signed",
        "and the run's file has the SHA-256",
        Lie::Told(|place| {
            let mut other = crate::fixture::attested::run();
            other.set("/machine/cpu", json!("a faster one"));
            other.write(&place.run);
        }),
    ),
];
