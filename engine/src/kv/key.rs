//! The name of a KV page: a hash of everything that decides what its keys and values are.
//!
//! A page's rows follow from all tokens up to its end, the weights, the numeric mode, the positions' rotation, the element type and the
//! layout; who may see them follows from the scope. Two pages with one key hold the same bits. Within an engine the tree
//! finds pages by comparing ids and needs no keys; tombstones and whatever outlives the process go by them.

use crate::tensor::PAGE_POSITIONS;

/// Changes whenever the numeric contract or a page's layout does.
const CONTRACT: &str = "fak.kv/2: [layers][kv_heads][K: head_dim x 64, V: 64 x head_dim]";

/// Who may share what is cached of a prompt: the tenant's own requests, and for a declared beginning everyone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Salt of every page but the public ones. Requests of different tenants never find each other's pages.
    pub tenant: String,
    /// The beginning that all tenants share, if there is one.
    pub public: Option<Public>,
}

/// A text that is no secret, as a system prompt everyone is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Public {
    /// Its namespace.
    pub name: String,
    /// How many of the prompt's first positions it has. Whole pages of them are shared; the rest of the last page is
    /// the tenant's own.
    pub positions: usize,
}

impl Scope {
    /// A tenant without a public beginning.
    pub fn tenant(name: &str) -> Self {
        Self {
            tenant: name.to_owned(),
            public: None,
        }
    }

    /// The scope of a text that parts at `start` from one of this scope: what follows is nobody else's beginning.
    #[must_use]
    pub fn parting_at(mut self, start: usize) -> Self {
        if let Some(public) = &mut self.public {
            public.positions = public.positions.min(start);
        }
        self
    }

    /// Under which name the page at `index` stands.
    pub(super) fn at(&self, index: usize) -> Namespace<'_> {
        match &self.public {
            Some(public) if index < public.positions / PAGE_POSITIONS => {
                Namespace::Public(&public.name)
            }
            _ => Namespace::Tenant(&self.tenant),
        }
    }

    /// Positions of equal text that requests of both scopes would share.
    pub fn shared_positions(&self, other: &Self) -> usize {
        let whole_pages = |scope: &Self| {
            let public = scope.public.as_ref();
            public.map_or(0, |public| public.positions / PAGE_POSITIONS)
        };
        let name = |scope: &Self| scope.public.as_ref().map(|public| public.name.clone());
        let (mine, theirs) = (whole_pages(self), whole_pages(other));
        let common = match (mine, theirs) {
            (0, 0) => 0,
            _ if name(self) == name(other) => mine.min(theirs),
            _ => return 0,
        };
        if mine == theirs && self.tenant == other.tenant {
            usize::MAX
        } else {
            common * PAGE_POSITIONS
        }
    }
}

/// The name a page stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace<'a> {
    /// A tenant's own.
    Tenant(&'a str),
    /// Everyone's.
    Public(&'a str),
}

/// A page's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageKey([u8; 32]);

impl PageKey {
    /// The key with these bytes.
    pub fn of(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What of a page's key is the same for all pages of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain(PageKey);

impl Domain {
    /// From what decides keys and values besides tokens: named parts, each in the hash with its lengths.
    pub fn new(parts: &[(&str, &str)]) -> Self {
        let mut hasher = blake3::Hasher::new();
        text(&mut hasher, CONTRACT);
        for (name, value) in parts {
            text(&mut hasher, name);
            text(&mut hasher, value);
        }
        Self(PageKey(hasher.finalize().into()))
    }

    /// What stands for the page before the first.
    pub fn root(&self) -> PageKey {
        self.0
    }

    /// The key of `tokens`, at most a page of them, under a name, after the page with the key `parent`.
    pub fn page(&self, parent: &PageKey, under: Namespace<'_>, tokens: &[u32]) -> PageKey {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0.0);
        hasher.update(&parent.0);
        let (kind, name) = match under {
            Namespace::Public(name) => ("public", name),
            Namespace::Tenant(name) => ("tenant", name),
        };
        text(&mut hasher, kind);
        text(&mut hasher, name);
        for token in tokens {
            hasher.update(&token.to_le_bytes());
        }
        PageKey(hasher.finalize().into())
    }

    /// The keys of `tokens` page by page, the last one of a partly filled page where there is one.
    pub fn chain<'a>(
        &'a self,
        scope: &'a Scope,
        tokens: &'a [u32],
    ) -> impl Iterator<Item = PageKey> + 'a {
        let pages = tokens.chunks(PAGE_POSITIONS).enumerate();
        pages.scan(self.0, move |parent, (index, tokens)| {
            *parent = self.page(parent, scope.at(index), tokens);
            Some(*parent)
        })
    }
}

/// Texts of any lengths, told apart.
fn text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain() -> Domain {
        Domain::new(&[("weights", "w"), ("kv", "f16")])
    }

    fn last(domain: &Domain, scope: &Scope, tokens: &[u32]) -> PageKey {
        domain.chain(scope, tokens).last().unwrap()
    }

    #[test]
    fn whatever_changes_keys_and_values_changes_the_key() {
        let tokens: Vec<u32> = (0..150).collect();
        let public = |name: &str, positions| Scope {
            tenant: "a".to_owned(),
            public: Some(Public {
                name: name.to_owned(),
                positions,
            }),
        };
        let (a, b) = (Scope::tenant("a"), Scope::tenant("b"));
        let other_start = [&[7], &tokens[1..]].concat();
        let keys = [
            last(&domain(), &a, &tokens),
            last(&domain(), &b, &tokens),
            last(&domain(), &public("s", 64), &tokens),
            last(&domain(), &public("s", 128), &tokens),
            last(&domain(), &public("t", 64), &tokens),
            last(&domain(), &public("a", 64), &tokens),
            last(&domain(), &a, &tokens[..149]),
            last(&domain(), &a, &other_start),
            last(
                &Domain::new(&[("weights", "w"), ("kv", "f32")]),
                &a,
                &tokens,
            ),
            last(
                &Domain::new(&[("weights", "wk"), ("v", "f16")]),
                &a,
                &tokens,
            ),
            last(&Domain::new(&[("weights", "w")]), &a, &tokens),
        ];
        for (i, key) in keys.iter().enumerate() {
            assert!(!keys[..i].contains(key), "key {i} is that of another");
        }
        assert_eq!(last(&domain(), &public("s", 63), &tokens), keys[0]);
    }

    #[test]
    fn a_public_beginning_is_one_for_all_tenants_and_what_follows_is_each_ones_own() {
        let tokens: Vec<u32> = (0..200).collect();
        let of = |tenant: &str| Scope {
            tenant: tenant.to_owned(),
            public: Some(Public {
                name: "system".to_owned(),
                positions: 130,
            }),
        };
        let keys = |tenant| domain().chain(&of(tenant), &tokens).collect::<Vec<_>>();
        let (a, b) = (keys("a"), keys("b"));
        assert_eq!(a[..2], b[..2]);
        assert!(a[2] != b[2] && a[3] != b[3]);
        assert_eq!(of("a").shared_positions(&of("b")), 128);
        assert_eq!(of("a").shared_positions(&of("a")), usize::MAX);
        assert_eq!(of("a").shared_positions(&Scope::tenant("a")), 0);
        assert_eq!(Scope::tenant("a").shared_positions(&Scope::tenant("b")), 0);
    }
}
