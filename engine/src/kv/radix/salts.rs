//! Small numbers for the names that keep texts apart in the tree: tenants, public namespaces, single sessions.
//!
//! A number lives as long as some page of the tree is under it, so strangers' names leave nothing behind. Not here: keys
//! that outlive the tree (`key`).

use std::collections::HashMap;

use super::super::key::{Namespace, Scope};
use crate::tensor::PAGE_POSITIONS;

/// Whose text it is.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Tenant and public beginning.
    pub scope: &'a Scope,
    /// The session that keeps it to itself, if sessions share nothing.
    pub session: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Tenant(String),
    Public(String),
    Session(String, u64),
}

/// The salts of one text: those of its public pages and of the others, where they are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Salted {
    public_pages: usize,
    public: Option<u32>,
    private: Option<u32>,
}

impl Salted {
    /// Of a text that is all under one name.
    pub(super) fn only(salt: u32) -> Self {
        Self {
            public_pages: 0,
            public: None,
            private: Some(salt),
        }
    }

    /// The salt of the page at `index`.
    pub(super) fn at(self, index: usize) -> Option<u32> {
        if index < self.public_pages {
            self.public
        } else {
            self.private
        }
    }
}

/// Names in use.
#[derive(Default)]
pub(super) struct Salts {
    numbers: HashMap<Name, u32>,
    /// By number: the name, and how many pages are under it.
    used: Vec<Option<(Name, usize)>>,
    free: Vec<u32>,
}

impl Salts {
    /// The salts of a text, none for names nothing is under.
    pub(super) fn of(&self, owner: Owner<'_>) -> Salted {
        let number = |name: &Name| self.numbers.get(name).copied();
        let (private, public) = names(owner);
        Salted {
            public_pages: public_pages(owner),
            public: public.as_ref().and_then(number),
            private: number(&private),
        }
    }

    /// The salt of the page at `index` of a text, new if nothing is under it; counts a page under it.
    pub(super) fn take(&mut self, owner: Owner<'_>, index: usize) -> u32 {
        let name = match names(owner) {
            (_, Some(public)) if index < public_pages(owner) => public,
            (private, _) => private,
        };
        if let Some(&number) = self.numbers.get(&name) {
            self.count(number);
            return number;
        }
        let number = self.free.pop().unwrap_or(self.used.len() as u32);
        let entry = Some((name.clone(), 1));
        match self.used.get_mut(number as usize) {
            Some(slot) => *slot = entry,
            None => self.used.push(entry),
        }
        self.numbers.insert(name, number);
        number
    }

    /// One more page is under `number`.
    pub(super) fn count(&mut self, number: u32) {
        if let Some(Some((_, pages))) = self.used.get_mut(number as usize) {
            *pages += 1;
        }
    }

    /// One page less; at none the name is forgotten.
    pub(super) fn give_back(&mut self, number: u32) {
        let Some(slot) = self.used.get_mut(number as usize) else {
            return;
        };
        if let Some((name, pages)) = slot {
            *pages -= 1;
            if *pages == 0 {
                self.numbers.remove(name);
                *slot = None;
                self.free.push(number);
            }
        }
    }

    /// Whose text a salt is of.
    pub(super) fn namespace(&self, number: u32) -> Option<Namespace<'_>> {
        let (name, _) = self.used.get(number as usize)?.as_ref()?;
        Some(match name {
            Name::Tenant(tenant) | Name::Session(tenant, _) => Namespace::Tenant(tenant),
            Name::Public(name) => Namespace::Public(name),
        })
    }

    /// Salts of all sessions of a tenant.
    pub(super) fn sessions_of(&self, tenant: &str) -> Vec<u32> {
        let of_tenant = |(name, number): (&Name, &u32)| match name {
            Name::Session(its, _) if its == tenant => Some(*number),
            _ => None,
        };
        self.numbers.iter().filter_map(of_tenant).collect()
    }

    /// Names in use.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

fn public_pages(owner: Owner<'_>) -> usize {
    let public = owner.scope.public.as_ref();
    let pages = public.map_or(0, |public| public.positions / PAGE_POSITIONS);
    if owner.session.is_some() { 0 } else { pages }
}

fn names(owner: Owner<'_>) -> (Name, Option<Name>) {
    let Scope { tenant, public } = owner.scope;
    match owner.session {
        Some(session) => (Name::Session(tenant.clone(), session), None),
        None => (
            Name::Tenant(tenant.clone()),
            public
                .as_ref()
                .map(|public| Name::Public(public.name.clone())),
        ),
    }
}
