//! `harness attest` and `harness audit --key`: signing a committed run, what is refused, the same bytes each time.
//!
//! Not here: forged attestations, which are the auditor's own corpus.

use std::fs;
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding};
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey, EncodePublicKey};
use serde_json::{Value, json};

use super::{Place, read_json};

const RUNS: [&str; 4] = [
    "smoke/2026-11-30-x86_64-avx512-2c-3",
    "one-agent/2026-11-30-x86_64-avx512-2c-1",
    "engine-q4_0/2026-11-30-x86_64-avx512-2c-1",
    "fleet-routing/2026-11-30-counted-1",
];

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

impl Place {
    fn keep(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.path().join("keys").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn private(&self, seed: u8) -> String {
        let pem = key(seed).to_pkcs8_pem(LineEnding::LF).unwrap();
        shown(&self.keep(&format!("private-{seed}.pem"), &pem))
    }

    fn public(&self, seed: u8) -> String {
        let pem = key(seed).verifying_key();
        let pem = pem.to_public_key_pem(LineEnding::LF).unwrap();
        shown(&self.keep(&format!("public-{seed}.pem"), &pem))
    }

    /// A copy of a committed run, where runs of one's own are.
    fn copy(&self, run: &str) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../results")
            .join(run);
        let to = self.work().join("results/local").join(run);
        fs::create_dir_all(to.join("trace")).unwrap();
        let mut folders = vec![""];
        if from.join("trace").exists() {
            folders.push("trace");
        } else {
            fs::remove_dir(to.join("trace")).unwrap();
        }
        for folder in folders {
            for entry in fs::read_dir(from.join(folder)).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_file() {
                    fs::copy(entry.path(), to.join(folder).join(entry.file_name())).unwrap();
                }
            }
        }
        to
    }
}

fn shown(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn beside(run: &Path) -> PathBuf {
    let name = run.file_name().unwrap().to_str().unwrap();
    run.with_file_name(format!("{name}.intoto.json"))
}

fn statement(attestation: &Path) -> Value {
    let envelope = read_json(attestation);
    let payload = envelope["payload"].as_str().unwrap();
    serde_json::from_slice(&Base64::decode_vec(payload).unwrap()).unwrap()
}

#[test]
fn runs_of_every_kind_are_signed_and_pass_with_the_public_key_alone() {
    let place = Place::new();
    let (private, public) = (place.private(1), place.public(1));
    for run in RUNS {
        let run = place.copy(run);
        let sums = fs::read(run.join("SHA256SUMS")).unwrap();
        let said = place.run(&["attest", &shown(&run), "--key", &private]);
        let said = said.expect(0).stdout();
        assert!(
            said.contains(".intoto.json") && said.contains("openssl pkey -in"),
            "{said}"
        );
        assert_eq!(fs::read(run.join("SHA256SUMS")).unwrap(), sums);
        let audit = place.run(&["audit", &shown(&run), "--key", &public]);
        let text = audit.expect(0).stdout();
        assert!(text.contains("It proves who says so"), "{text}");
        let json = place.run(&["audit", &shown(&run), "--key", &public, "--json"]);
        assert_eq!(json.expect(0).json()["attestation"]["holds"], true);
        let other = place.run(&["audit", &shown(&run), "--key", &place.public(2)]);
        let text = other.expect(4).stdout();
        assert!(
            text.contains("no signature is by the key that was given"),
            "{text}"
        );
    }
}

#[test]
fn the_statement_says_what_run_json_says_and_names_other_engines() {
    let place = Place::new();
    let run = place.copy(RUNS[1]);
    let record = read_json(&run.join("run.json"));
    let private = place.private(1);
    let done = place.run(&["attest", &shown(&run), "--key", &private, "--json"]);
    let done = done.expect(0).json();
    let said = statement(&beside(&run));
    assert_eq!(done["subjects"], said["subject"].as_array().unwrap().len());
    let definition = &said["predicate"]["buildDefinition"];
    assert_eq!(definition["buildType"], "urn:fak:fak.run/1");
    assert_eq!(
        definition["externalParameters"]["requested"],
        record["requested"]
    );
    let needs = definition["resolvedDependencies"].as_array().unwrap();
    let need = |name: &str| needs.iter().find(|it| it["name"] == name).unwrap();
    let program = &record["arms"]["llama-server:agent"]["server"]["program"];
    assert_eq!(need("llama-server")["digest"]["sha256"], program["sha256"]);
    assert_eq!(need("model")["digest"]["sha256"], record["model"]["sha256"]);
    assert_eq!(
        need("source")["digest"]["gitCommit"],
        record["build"]["commit"]
    );
    assert_eq!(
        need("source/engine")["digest"]["gitTree"],
        record["build"]["trees"]["engine"]
    );
    let metadata = &said["predicate"]["runDetails"]["metadata"];
    assert_eq!(metadata["invocationId"], "2026-11-30-x86_64-avx512-2c-1");
    assert!(
        metadata["startedOn"]
            .as_str()
            .unwrap()
            .starts_with("2026-11-30T")
    );
}

#[test]
fn the_same_run_and_key_give_the_same_bytes_and_a_file_is_never_overwritten() {
    let place = Place::new();
    let run = place.copy(RUNS[0]);
    let private = place.private(1);
    let attest = |out: &str| place.run(&["attest", &shown(&run), "--key", &private, "--out", out]);
    attest("one.json").expect(0);
    attest("two.json").expect(0);
    let read = |name: &str| fs::read(place.work().join(name)).unwrap();
    assert_eq!(read("one.json"), read("two.json"));
    attest("one.json")
        .expect(2)
        .complains(&["one.json", "never overwritten", "--out FILE"]);
    let within = shown(&run.join("signed.json"));
    attest(&within)
        .expect(2)
        .complains(&["lies in the run", "write-once"]);
    assert!(!run.join("signed.json").exists());
    let left: Vec<_> = fs::read_dir(place.work())
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| Path::new(name).extension().is_some_and(|it| it == "tmp")),
        "{left:?}"
    );
    let public = place.public(1);
    let arguments = [
        "audit",
        &shown(&run),
        "--key",
        &public,
        "--attestation",
        "two.json",
    ];
    place.run(&arguments).expect(0);
}

/// A key that cannot sign, and what is said of it.
const UNFIT: [(&str, &str, &str); 7] = [
    ("empty", "", "is empty"),
    ("no-pem", "00ff\n", "is no private key in PKCS#8"),
    (
        "openssh",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
        "it has `-----BEGIN OPENSSH PRIVATE KEY-----`",
    ),
    (
        "ec",
        "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n",
        "is no private key in PKCS#8",
    ),
    (
        "encrypted",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "is encrypted, and nothing asks for its password",
    ),
    (
        "damaged",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        "is no ed25519 private key",
    ),
    // The algorithm is x25519, which cannot sign.
    (
        "x25519",
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB\n-----END PRIVATE KEY-----\n",
        "is no ed25519 private key",
    ),
];

#[test]
fn keys_that_cannot_sign_are_refused_with_what_to_type() {
    let place = Place::new();
    let run = place.copy(RUNS[0]);
    let refused = |key: &str, words: &[&str]| {
        place
            .run(&["attest", &shown(&run), "--key", key])
            .expect(2)
            .complains(words);
        assert!(!beside(&run).exists());
    };
    for (name, text, words) in UNFIT {
        refused(&shown(&place.keep(name, text)), &[name, words, "openssl"]);
    }
    refused(
        "none.pem",
        &[
            "none.pem",
            "cannot be read",
            "openssl genpkey -algorithm ed25519",
        ],
    );
    refused(&place.public(1), &["is a public key", "audit DIR --key"]);
}

#[test]
fn only_a_sealed_run_whose_evidence_holds_is_signed() {
    let place = Place::new();
    let private = place.private(1);
    let attest = |run: &Path| place.run(&["attest", &shown(run), "--key", &private]);
    attest(&place.work().join("nothing"))
        .expect(2)
        .complains(&["no directory"]);
    let run = place.copy(RUNS[0]);
    fs::write(run.join("notes.txt"), "").unwrap();
    let said = attest(&run).expect(4).stdout();
    assert!(
        said.contains("notes.txt") && said.contains("not attested"),
        "{said}"
    );
    fs::remove_file(run.join("SHA256SUMS")).unwrap();
    attest(&run).expect(4).complains(&["is not sealed"]);
    assert!(!beside(&run).exists());
}

#[test]
fn a_run_without_an_attestation_and_a_key_beside_it_are_refused_with_what_to_type() {
    let place = Place::new();
    let run = place.copy(RUNS[0]);
    let public = place.public(1);
    let audit = |key: &str| place.run(&["audit", &shown(&run), "--key", key]);
    let text = audit(&public).expect(4).stdout();
    assert!(
        text.contains("`harness attest DIR --key KEY.pem`"),
        "{text}"
    );
    let beside = run.with_file_name("public.pem");
    fs::copy(&public, &beside).unwrap();
    audit(&shown(&beside))
        .expect(2)
        .complains(&["came with the evidence proves nothing"]);
    fs::write(place.work().join("results/INDEX"), "").unwrap();
    let below = place.work().join("public.pem");
    fs::copy(&public, &below).unwrap();
    audit("public.pem")
        .expect(2)
        .complains(&["public.pem", "published with"]);
    let private = place.private(1);
    audit(&private)
        .expect(2)
        .complains(&["is a private key", "-pubout"]);
    for arguments in [
        &["audit", "--all", "--key", &public][..],
        &["audit", "x", "--attestation", "y"],
    ] {
        place.run(arguments).expect(2);
    }
}

#[test]
fn a_signed_run_may_be_anchored_and_its_attestation_still_holds() {
    let place = Place::new();
    let run = place.sealed_run();
    let (private, public) = (place.private(1), place.public(1));
    let signed = place.work().join("signed.json");
    let out = shown(&signed);
    place
        .run(&["attest", &shown(&run), "--key", &private, "--out", &out])
        .expect(0);
    place.run(&["anchor", &shown(&run)]).expect(0);
    let index = fs::read_to_string(place.work().join("results/INDEX")).unwrap();
    let anchored = format!("results/{}", index.trim_end().split_once("  ").unwrap().1);
    let audit = place.run(&["audit", &anchored, "--key", &public, "--attestation", &out]);
    let text = audit.expect(0).stdout();
    assert!(text.contains("what the directory was called"), "{text}");
    assert_eq!(
        statement(&signed)["predicate"]["buildDefinition"]["buildType"],
        json!("urn:fak:fak.run/1")
    );
}
