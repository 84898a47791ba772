//! Options of a family about filters: what those of tables hold, and the compaction filter.
//!
//! As the others, these are builders only.

use super::family::FamilyOptions;
use siltdb_disk::filter_keys::PrefixExtractor;
use siltdb_tree::compaction_filter::{CompactionFilter, NamedFilter};
use std::sync::Arc;

impl FamilyOptions {
    /// Which part of a key is its prefix; the filters of tables then hold prefixes, too. Default:
    /// `None`.
    ///
    /// A walk whose bounds lie within one prefix skips tables that have no key of it, in memory
    /// alone. This holds for [`Read::prefix`](crate::Read::prefix), and for ranges and cursors with
    /// both bounds. It costs [`FamilyOptions::filter_bits_per_key`] for each prefix of a table.
    /// Keys without a prefix are found as before. Each table says by which extractor its filter was
    /// made, and is asked by that one: a change of this option never hides a key. Tables without
    /// prefixes, written before or ingested, are not skipped. In a family with a key order, keys
    /// are taken as they are encoded.
    #[must_use]
    pub fn prefix_extractor(mut self, extractor: impl Into<Option<PrefixExtractor>>) -> Self {
        self.tree.table.prefix_extractor = extractor.into();
        self
    }

    /// Whether filters hold whole keys beside prefixes. Without them a filter is smaller by its
    /// keys, and tells a lookup only whether the prefix of the key is absent. Default: true.
    /// Without a [`FamilyOptions::prefix_extractor`] filters hold whole keys in any case.
    #[must_use]
    pub fn whole_key_filter(mut self, whole: bool) -> Self {
        self.tree.table.whole_key_filter = whole;
        self
    }

    /// The filter that compactions ask about the values of the family. Only its name is stored:
    /// each opening, also the one that creates the family, registers the filter by
    /// [`Options::compaction_filter`](crate::Options::compaction_filter). One that is not
    /// registered is refused.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::{CompactionFilter, FamilyOptions, FilterDecision, FilteredEntry, Options, Read};
    /// use std::sync::Arc;
    ///
    /// /// Drops sessions that have ended.
    /// #[derive(Debug)]
    /// struct Ended;
    ///
    /// impl CompactionFilter for Ended {
    ///     fn name(&self) -> &str {
    ///         "ended sessions"
    ///     }
    ///
    ///     fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
    ///         match entry.value {
    ///             b"ended" => FilterDecision::Drop,
    ///             _ => FilterDecision::Keep,
    ///         }
    ///     }
    /// }
    ///
    /// let db = Options::new().compaction_filter(Arc::new(Ended)).open(dir.path())?;
    /// let options = FamilyOptions::new().compaction_filter(Arc::new(Ended));
    /// let sessions = db.create_family("sessions", options)?;
    /// sessions.put(b"a", b"ended")?;
    /// sessions.put(b"b", b"open")?;
    /// sessions.compact()?;
    /// assert_eq!(sessions.count(..)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Self {
        self.tree.compaction_filter = Some(NamedFilter::given(filter));
        self
    }

    /// No compaction filter, which is the default.
    #[must_use]
    pub fn without_compaction_filter(mut self) -> Self {
        self.tree.compaction_filter = None;
        self
    }
}
