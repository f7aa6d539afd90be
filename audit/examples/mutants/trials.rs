//! Forged runs, each made once, audited once, and again without a check.
//!
//! Not here: which checks there are (`sites`).

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use audit::{Checks, Finding, Site, audit_index_with, audit_run_with};
use tempfile::TempDir;

use crate::attested::{self, Attested};
use crate::judge::{given_away, index_given_away, make};
use crate::replaced::{self, Replaced};
use crate::rows::{Catcher, Forgery, rows};

/// A forged run.
pub(crate) struct Trial {
    pub(crate) name: &'static str,
    /// The checks it fails.
    pub(crate) sites: Vec<Site>,
    dir: TempDir,
    lie: Lie,
}

enum Lie {
    Run(&'static Forgery),
    Index(&'static Replaced),
    Attestation(&'static Attested),
}

/// What an audit makes of a forged run without one check.
pub(crate) enum Without {
    GivenAway,
    Passes,
    Otherwise,
}

/// Every forged run that an audit must give away.
pub(crate) fn all() -> Vec<Trial> {
    let runs = rows()
        .into_iter()
        .filter(|it| it.catcher != Catcher::Replay);
    let runs = runs.map(|forgery| {
        let dir = tempfile::tempdir().unwrap();
        make(forgery, dir.path());
        Trial::new(forgery.name, dir, Lie::Run(forgery))
    });
    let indexes = replaced::ROWS.iter().map(|replaced| {
        let dir = tempfile::tempdir().unwrap();
        replaced::publish(dir.path());
        (replaced.tell)(dir.path());
        Trial::new(replaced.name, dir, Lie::Index(replaced))
    });
    let attestations = attested::ROWS.iter().map(|row| {
        let dir = tempfile::tempdir().unwrap();
        attested::make(row, dir.path());
        Trial::new(row.name, dir, Lie::Attestation(row))
    });
    runs.chain(indexes).chain(attestations).collect()
}

impl Trial {
    fn new(name: &'static str, dir: TempDir, lie: Lie) -> Self {
        let (_, findings, given_away) = lie.audited(dir.path(), Checks::default());
        assert!(given_away, "{name}: the corpus test must pass first");
        Self {
            name,
            sites: findings.into_iter().map(|it| it.site).collect(),
            dir,
            lie,
        }
    }

    /// Audits it without a check.
    pub(crate) fn without(&self, site: Site, row: &'static str) -> Without {
        let checks = Checks::muting(site, row);
        let audit = AssertUnwindSafe(|| self.lie.audited(self.dir.path(), checks));
        match panic::catch_unwind(audit) {
            Ok((_, _, true)) => Without::GivenAway,
            Ok((0 | 1, _, false)) => Without::Passes,
            _ => Without::Otherwise,
        }
    }
}

impl Lie {
    /// Exit code, findings, and whether they give the lie away as its row demands.
    fn audited(&self, dir: &Path, checks: Checks) -> (u8, Vec<Finding>, bool) {
        match self {
            Self::Run(forgery) => {
                let report = audit_run_with(dir, checks);
                let named = given_away(forgery, dir, &report);
                (report.exit_code(), report.findings, named)
            }
            Self::Index(replaced) => {
                let report = audit_index_with(dir, checks);
                let named = index_given_away(replaced, &report);
                (report.exit_code(), report.findings, named)
            }
            Self::Attestation(row) => {
                let report = attested::audited(dir, checks);
                let named = attested::given_away(row, &report);
                (report.exit_code(), report.findings, named)
            }
        }
    }
}
