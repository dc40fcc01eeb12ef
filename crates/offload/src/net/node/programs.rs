//! The programs that a memory node knows, ready to run.

use crate::node::Tenant;
use crate::program::{ProgramHash, TraversalProgram};
use crate::traversal::{ProgramEngine, TraversalStatus};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of programs that a node keeps for each tenant. The structures of this crate have ten.
const PROGRAMS_MAX: usize = 64;

/// Programs by tenant and hash: no tenant can evict another's.
#[derive(Debug)]
pub struct ProgramCache {
    engine: fn(Arc<TraversalProgram>) -> ProgramEngine,
    tenants: HashMap<Tenant, HashMap<ProgramHash, CachedProgram>>,
    uses: u64,
}

#[derive(Debug)]
struct CachedProgram {
    engine: ProgramEngine,
    last_use: u64,
}

impl ProgramCache {
    pub fn new(engine: fn(Arc<TraversalProgram>) -> ProgramEngine) -> ProgramCache {
        ProgramCache {
            engine,
            tenants: HashMap::new(),
            uses: 0,
        }
    }

    /// Returns the engine of the program with a hash; `body` is the program's bytes, or empty.
    pub fn find(
        &mut self,
        tenant: Tenant,
        hash: ProgramHash,
        body: &[u8],
    ) -> Result<&ProgramEngine, TraversalStatus> {
        self.uses += 1;
        let known = self.tenants.entry(tenant).or_default();
        if !known.contains_key(&hash) {
            if body.is_empty() {
                return Err(TraversalStatus::UnknownProgram);
            }
            let program = TraversalProgram::decode(body).ok();
            // Nodes trust the hash later, so no other program may be known by it.
            let program = program.filter(|program| program.hash() == hash);
            let program = program.ok_or(TraversalStatus::RefusedProgram)?;
            let engine = (self.engine)(program.into());
            debug_assert!(known.len() <= PROGRAMS_MAX);
            if known.len() == PROGRAMS_MAX {
                // A tenant has few programs, and evicts one only if a caller sends many. A search
                // costs less than an order that each use updates.
                let oldest = known.iter().min_by_key(|(_, known)| known.last_use);
                if let Some(oldest) = oldest.map(|(hash, _)| *hash) {
                    known.remove(&oldest);
                }
            }
            let last_use = self.uses;
            known.insert(hash, CachedProgram { engine, last_use });
        }
        let known = known
            .get_mut(&hash)
            .ok_or(TraversalStatus::UnknownProgram)?;
        debug_assert!(known.last_use <= self.uses, "uses only grow");
        known.last_use = self.uses;
        Ok(&known.engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::assemble;
    use crate::program::Declaration;

    fn program(number: usize) -> TraversalProgram {
        let code = assemble(&format!("mov r0, {number}\n exit")).expect("code");
        TraversalProgram::verify(code, Declaration::default()).expect("a program")
    }

    #[test]
    fn programs_are_known_until_others_drive_them_out_of_the_same_tenant() {
        let mut programs = ProgramCache::new(ProgramEngine::Interpreter);
        let mut find = |tenant, number, with_body: bool| {
            let program = program(number);
            let body = if with_body {
                program.encode()
            } else {
                Vec::new()
            };
            programs
                .find(Tenant(tenant), program.hash(), &body)
                .map(drop)
        };
        assert_eq!(find(1, 0, false), Err(TraversalStatus::UnknownProgram));
        assert_eq!(find(1, 0, true), Ok(()));
        assert_eq!(find(1, 0, false), Ok(()));
        assert_eq!(find(2, 0, false), Err(TraversalStatus::UnknownProgram));
        assert_eq!(find(2, 0, true), Ok(()));
        for number in 1..=PROGRAMS_MAX {
            assert_eq!(find(1, number, true), Ok(()));
        }
        assert_eq!(find(1, 0, false), Err(TraversalStatus::UnknownProgram));
        assert_eq!(find(2, 0, false), Ok(()));
    }

    #[test]
    fn bytes_with_another_hash_are_refused() {
        let mut programs = ProgramCache::new(ProgramEngine::Interpreter);
        let mut find = |body: &[u8]| {
            let found = programs.find(Tenant(1), program(1).hash(), body);
            found.map(drop)
        };
        assert_eq!(
            find(&program(2).encode()),
            Err(TraversalStatus::RefusedProgram)
        );
        assert_eq!(find(&[1, 2, 3]), Err(TraversalStatus::RefusedProgram));
        assert_eq!(find(&program(1).encode()), Ok(()));
    }
}
