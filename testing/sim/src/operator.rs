//! The merge operators of the simulation, for the engine and for the model.
//!
//! Both are associative, and one declines to combine some operands. Neither is meant for
//! production.

use siltdb::MergeOperator;

/// The merge operator of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Appends the operand to the value.
    Append,
    /// Adds the first eight bytes of operand and value as little-endian numbers, wrapping.
    Add,
}

impl Operator {
    /// The value after one operand.
    #[must_use]
    pub fn apply(self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        let base = base.unwrap_or(b"");
        match self {
            Self::Append => [base, operand].concat(),
            Self::Add => number(base).wrapping_add(number(operand)).to_le_bytes().to_vec(),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    let len = bytes.len().min(8);
    padded[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(padded)
}

impl MergeOperator for Operator {
    fn name(&self) -> &str {
        match self {
            Self::Append => "append",
            Self::Add => "add",
        }
    }

    fn full(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> siltdb::Result<Vec<u8>> {
        let mut value = base.map(<[u8]>::to_vec);
        for operand in operands {
            value = Some(self.apply(value.as_deref(), operand));
        }
        Ok(value.unwrap_or_default())
    }

    fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let is_declined = self == &Self::Append && !(older.len() + newer.len()).is_multiple_of(2);
        (!is_declined).then(|| self.apply(Some(older), newer))
    }
}
